#include "objects/imported_memory.h"

#include <cerrno>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/page.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"
#include "os/files/range_mark.h"

namespace wherry::impl {
namespace {

ProcessorMask bit_of(int device) {
  return Processor::device(device).bit();
}

void log_refusal(const OfferHandle& handle) {
  log_line(
      "process {} has offered what this process may not open: run both as the same user, "
      "and "
      "dumpable (PR_SET_DUMPABLE), or give this one CAP_SYS_PTRACE",
      handle.pid);
}

CUresult refuse_unknown() {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the handle names no object of this kind that a process shares; has its process "
              "ended, or destroyed the object?");
}

CUresult to_result(ForeignOffer::Verdict verdict, const OfferHandle& handle) {
  switch (verdict) {
    case ForeignOffer::Verdict::found:
      return CUDA_SUCCESS;
    case ForeignOffer::Verdict::unknown:
      return refuse_unknown();
    case ForeignOffer::Verdict::own:
      return fail(CUDA_ERROR_INVALID_CONTEXT,
                  "the handle is of this process; pass it to another one, and use the object "
                  "itself here");
    case ForeignOffer::Verdict::refused:
      log_refusal(handle);
      return fail(CUDA_ERROR_MAP_FAILED,
                  "Linux does not let this process open what process {} shares; run both as the "
                  "same user, and dumpable (PR_SET_DUMPABLE)",
                  handle.pid);
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult refuse_mapping(CUresult code, int error) {
  return fail(code,
              "a device cannot map the memory of the other process: errno {} of Linux; free other "
              "memory and try again",
              error);
}

CUresult refuse_other_pool() {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the memory is not of this pool; import the pool that it was allocated from");
}

}  // namespace

CUresult find_offer(const OfferHandle& handle, OfferKind kind, ForeignOffer& found) {
  return to_result(ForeignOffer::find(handle, kind, found), handle);
}

CUresult open_offer(const OfferHandle& handle, const ForeignOffer& offer, Fd& file) {
  return to_result(offer.open_file(file), handle);
}

CUresult ImportedMemory::find_file(const OfferHandle& handle, OfferKind kind, Import& piece,
                                   Offer& what) {
  ForeignOffer offer;
  const CUresult found = find_offer(handle, kind, offer);
  if (found != CUDA_SUCCESS) return found;
  what = offer.offer();
  Fd file;
  const CUresult opened = open_offer(handle, offer, file);
  if (opened != CUDA_SUCCESS) return opened;
  if (mark_range(file.get(), what.offset, round_up(what.bytes, page_size)) != 0)
    return fail(CUDA_ERROR_MAP_FAILED,
                "another program has locked the memory that process {} shares; end that program",
                handle.pid);
  // If the offer still stands now, after the mark, the other process sees the mark when it frees
  // the memory, and keeps the pages.
  if (!offer.stands()) return refuse_unknown();
  piece.handle = handle;
  piece.file = std::make_shared<Fd>(std::move(file));
  piece.offset = what.offset;
  piece.record.bytes = what.bytes;
  return CUDA_SUCCESS;
}

Annex::Window ImportedMemory::window_of(const Import& piece) {
  return {{piece.record.base, round_up(piece.record.bytes, page_size), piece.file, piece.offset},
          Access::write};
}

CUresult ImportedMemory::place(Import& piece) {
  Annex& annex = runtime_.annex();
  // A large piece has the same offset in its block (2 MiB) as in the file, so that Linux can map
  // huge pages.
  const std::size_t lead = piece.record.bytes < block_size ? 0 : piece.offset % block_size;
  const auto place = annex.reserve(lead + piece.record.bytes);
  if (!place) return refuse_addresses(lead + piece.record.bytes);
  piece.place = *place;
  piece.record.base = piece.record.device_base = *place + lead;
  // CUDA's driver maps whole blocks, so a pointer query reports whole blocks.
  piece.record.mapping_pages = round_up(piece.record.bytes, block_size) / page_size;
  piece.record.kind = MemoryKind::imported;
  if (const int error = annex.show(window_of(piece), piece.shown_to)) {
    annex.release(*place);
    return refuse_mapping(error == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_MAP_FAILED,
                          error);
  }
  try {
    remember(piece);
  } catch (...) {
    end(piece);
    throw;
  }
  return CUDA_SUCCESS;
}

void ImportedMemory::remember(const Import& piece) {
  const auto entry = imports_.emplace(piece.record.base, piece).first;
  try {
    entry->second.record.id = *runtime_.memory().insert(piece.record);
  } catch (...) {
    imports_.erase(entry);
    throw;
  }
}

CUresult ImportedMemory::open(const OfferHandle& handle, CUcontext context, int device,
                              CUdeviceptr& address) {
  const LockGuard guard(lock_);
  for (auto& [base, known] : imports_) {
    if (known.handle != handle || known.opened_for != device) continue;
    ++known.users;
    address = base;
    return CUDA_SUCCESS;
  }
  Import piece;
  Offer what;
  const CUresult found = find_file(handle, OfferKind::memory, piece, what);
  if (found != CUDA_SUCCESS) return found;
  // If this process does not see the memory's own device, the context's device represents it.
  piece.record.device =
      static_cast<std::uint8_t>(runtime_.ordinal_of(what.device).value_or(device));
  piece.record.context = context;
  piece.opened_for = device;
  piece.shown_to = bit_of(device) | bit_of(piece.record.device);
  const CUresult placed = place(piece);
  if (placed == CUDA_SUCCESS) address = piece.record.base;
  return placed;
}

std::optional<ImportedMemory::Import> ImportedMemory::take(Imports::iterator piece) {
  runtime_.memory().take(piece->first, [](const MemoryRecord&) { return true; });
  Import taken = std::move(piece->second);
  runtime_.status().forget_names(taken.record.base, taken.record.bytes);
  imports_.erase(piece);
  return taken;
}

CUresult ImportedMemory::close(std::uintptr_t address, std::optional<Import>& last) {
  const LockGuard guard(lock_);
  const auto piece = imports_.find(address);
  if (piece == imports_.end() || piece->second.record.pool != nullptr)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "no memory of cuIpcOpenMemHandle begins at {:#x}; was it closed before?", address);
  if (--piece->second.users == 0) last = take(piece);
  return CUDA_SUCCESS;
}

CUresult ImportedMemory::open_pooled(const OfferHandle& handle, const ImportedMemoryPool& pool,
                                     CUdeviceptr& address) {
  const LockGuard guard(lock_);
  // An offer's ticket is unique on its board only, so both handles must name the same board.
  if (handle.process() != pool.offer.process() || handle.board_file != pool.offer.board_file)
    return refuse_other_pool();
  Import piece;
  Offer what;
  const CUresult found = find_file(handle, OfferKind::pooled, piece, what);
  if (found != CUDA_SUCCESS) return found;
  if (what.pool != pool.offer.ticket) return refuse_other_pool();
  piece.record.pool = pool.handle;
  piece.record.device = static_cast<std::uint8_t>(pool.device);
  piece.opened_for = pool.device;
  piece.shown_to = pool.accessible;
  const CUresult placed = place(piece);
  if (placed == CUDA_SUCCESS) address = piece.record.base;
  return placed;
}

std::optional<ImportedMemory::Import> ImportedMemory::take_pooled(std::uintptr_t address) {
  const LockGuard guard(lock_);
  const auto piece = imports_.find(address);
  if (piece == imports_.end() || piece->second.record.pool == nullptr) return std::nullopt;
  return take(piece);
}

CUresult ImportedMemory::open_pool(const OfferHandle& handle, int otherwise,
                                   ImportedMemoryPool& pool) {
  ForeignOffer offer;
  const CUresult found = find_offer(handle, OfferKind::pool, offer);
  if (found != CUDA_SUCCESS) return found;
  pool.offer = handle;
  pool.device = runtime_.ordinal_of(offer.offer().device).value_or(otherwise);
  pool.accessible = bit_of(pool.device);
  return CUDA_SUCCESS;
}

bool ImportedMemory::is_accessible(const ImportedMemoryPool& pool, int device) {
  const LockGuard guard(lock_);
  return (pool.accessible & bit_of(device)) != 0;
}

CUresult ImportedMemory::set_access(ImportedMemoryPool& pool, int device, bool accessible) {
  const LockGuard guard(lock_);
  const ProcessorMask bit = bit_of(device);
  if (((pool.accessible & bit) != 0) == accessible) return CUDA_SUCCESS;
  std::vector<Import*> changed;  // also the one that fails, which may have changed in part
  changed.reserve(imports_.size());
  int error = 0;
  for (auto& [base, piece] : imports_) {
    if (error != 0 || piece.record.pool != pool.handle) continue;
    changed.push_back(&piece);
    error = show_or_hide(piece, bit, accessible);
  }
  if (error == 0) {
    pool.accessible ^= bit;
    return CUDA_SUCCESS;
  }
  // Undoes the changes. Errors are ignored: a device that does not answer is ended soon.
  for (Import* piece : changed) static_cast<void>(show_or_hide(*piece, bit, !accessible));
  return refuse_mapping(CUDA_ERROR_MAP_FAILED, error);
}

int ImportedMemory::show_or_hide(Import& piece, ProcessorMask bit, bool show) {
  const Annex::Window window = window_of(piece);
  const int error = show ? runtime_.annex().show(window, bit)
                         : runtime_.annex().hide(window.start, window.bytes, bit);
  if (error == 0) piece.shown_to = show ? piece.shown_to | bit : piece.shown_to & ~bit;
  return error;
}

void ImportedMemory::end(const Import& piece) {
  Annex& annex = runtime_.annex();
  const Annex::Window window = window_of(piece);
  // If a device does not answer it may still map the memory: its addresses are not used again.
  if (annex.hide(window.start, window.bytes, piece.shown_to) == 0) annex.release(piece.place);
}

}  // namespace wherry::impl
