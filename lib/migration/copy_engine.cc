#include "migration/copy_engine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "base/page.h"
#include "base/patience.h"
#include "memory/zero_block.h"
#include "migration/creation.h"

namespace wherry::impl {
namespace {

// Fewer bytes are copied by the thread itself: waking the ring's kernel thread takes longer.
constexpr std::uint64_t ring_bytes_min = 64 << 10;
// How much of a job with small pieces one copier does before another job's turn.
constexpr std::uint64_t task_bytes = 1 << 20;
constexpr auto pause = std::chrono::microseconds(20);
// How long a piece waits for other operations: transfers, and pages that are reserved for faults.
constexpr std::uint64_t task_wait_limit_ns = 10'000'000'000;
// After how many failed transfers in a row the copy fails.
constexpr int task_failures_max = 3;

bool is_managed(const CopyRequest::Side& side) {
  return side.memory == CopyRequest::Memory::managed;
}
bool is_of_arena(const CopyRequest::Side& side) {
  return is_managed(side) || side.memory == CopyRequest::Memory::device;
}

// Requires: the side is of files, and contains the address.
const FileMapping& mapping_at(const CopyRequest::Side& side, std::uint64_t address) {
  const auto past = std::ranges::upper_bound(*side.mappings, address, {}, &FileMapping::start);
  return *std::prev(past);
}

// How many bytes from `place` on are consecutive in one block of the pool or file.
std::uint64_t bytes_together(const CopyRequest::Side& side, std::uint64_t place) {
  if (side.memory == CopyRequest::Memory::host) return block_size;
  if (side.memory != CopyRequest::Memory::files) return block_size - place % block_size;
  const FileMapping& mapping = mapping_at(side, place);
  return std::min(mapping.end() - place, block_size - mapping.offset_of(place) % block_size);
}

ByteTransfer::Place place_of(const CopyRequest::Side& side, std::uint64_t where) {
  if (side.memory == CopyRequest::Memory::host) return reinterpret_cast<std::byte*>(where);
  if (side.memory != CopyRequest::Memory::files) return ByteTransfer::InPool{side.owner, where};
  const FileMapping& mapping = mapping_at(side, where);
  return ByteTransfer::InFile{mapping.file->get(), mapping.offset_of(where)};
}

// The same request with as few rows as possible.
CopyRequest flattened(CopyRequest request) {
  const auto fits = [&](std::uint64_t CopyRequest::Side::*stride, std::uint64_t bytes) {
    return request.to.*stride == bytes && (request.pattern || request.from.*stride == bytes);
  };
  if (request.rows == 1 || fits(&CopyRequest::Side::pitch, request.width)) {
    request.width *= request.rows;
    request.rows = request.layers;
    request.layers = 1;
    request.to.pitch = request.to.layer;
    request.from.pitch = request.from.layer;
    if (request.rows == 1 || fits(&CopyRequest::Side::pitch, request.width)) {
      request.width *= request.rows;
      request.rows = 1;
    }
  }
  return request;
}

}  // namespace

struct CopyEngine::Pages {
  CopyRequest::Side& side;
  Piece& piece;
  std::uint64_t where;  // of the piece, from the arena's base
  bool written;
  // The pool of the pages; nullopt: they do not exist, and are read as zeros.
  std::optional<Processor> owner = {};

  PageIndex page() const { return page_at_offset(where); }
  BlockIndex block() const { return block_of(page()); }
  PageRun run() const {
    const PageIndex end = page_at_offset(round_up(where + piece.bytes, page_size));
    return run_in_block(block(), {page(), end - page()});
  }
  PageSpan span() const { return span_of(block(), run()); }
  // Cuts the piece to its bytes in the kept pages, which are its first pages.
  void cut_to(PageRun kept) {
    piece.bytes =
        std::min(piece.bytes, span_of(block(), kept).offset() + kept.count * page_size - where);
  }
};

// A part of a request, between two positions that count its bytes without gaps between rows.
class CopyEngine::CopyTask final : public Copiers::Task {
 public:
  CopyTask(CopyEngine& engine, const CopyRequest& what, std::uint64_t begin, std::uint64_t its_end)
      : request(what), position(begin), end(its_end), engine_(engine) {}

  Copiers::TaskState advance(Copiers::AnyTransfer& next) override {
    if (position == end || status != OpStatus::ok) return Copiers::TaskState::done;
    ByteTransfer transfer;
    switch (engine_.prepare(*this, transfer)) {
      case Readiness::ready:
        break;
      case Readiness::retry:
        return Copiers::TaskState::runnable;
      case Readiness::wait:
        return Copiers::TaskState::waits;
      case Readiness::failed:
        return Copiers::TaskState::done;
    }
    if (transfer.bytes >= ring_bytes_min && !has_no_ring) {
      next = transfer;
      return Copiers::TaskState::transfers;
    }
    if (auto backend = engine_.backends_.borrow()) {
      backend->begin(0, transfer);
      engine_.end(*this, backend->next().status);
      engine_.backends_.give_back(std::move(backend));
    } else {
      engine_.end(*this, OpStatus::no_memory);
    }
    return Copiers::TaskState::runnable;
  }
  void complete_transfer(const TransferResult& outcome) override {
    engine_.end(*this, outcome.status);
  }
  void cancel_transfer() override {
    engine_.end(*this, OpStatus::incomplete);
    has_no_ring = true;
  }

  const CopyRequest& request;  // the job's, or the caller's
  std::uint64_t position;
  const std::uint64_t end;
  OpStatus status = OpStatus::ok;
  bool has_no_ring = false;                    // the copier has no copy backend
  std::uint64_t bytes_in_flight = 0;           // of the piece that is being copied
  std::array<std::uint64_t, 2> allocations{};  // ids of those in use; 0: none
  std::array<std::optional<BlockPages>, 2> in_flight;
  std::array<PageSpan, 2> device_pages{};  // device memory that is being copied
  Reservation reservation;
  bool at_home = true;  // false: the pool where pages should be created is full
  int failures = 0;
  std::optional<Patience> patience = {};  // since the piece first had to wait

 private:
  CopyEngine& engine_;
};

class CopyEngine::CopyJob final : public Copiers::Job {
 public:
  CopyJob(CopyEngine& engine, CopyRequest request, std::function<void(OpStatus)> done)
      : engine_(engine), request_(flattened(std::move(request))), done_(std::move(done)) {}

  std::unique_ptr<Copiers::Task> next_task() override {
    if (!has_more()) return nullptr;
    const std::uint64_t begin = position_;
    const std::uint64_t bytes = request_.width >= ring_bytes_min
                                    ? piece_at(request_, begin).bytes
                                    : std::min(task_bytes, request_.bytes() - begin);
    position_ += bytes;
    return std::make_unique<CopyTask>(engine_, request_, begin, position_);
  }
  bool has_more() const override { return status_ == OpStatus::ok && position_ < request_.bytes(); }
  void finish(Copiers::Task& task) override {
    if (status_ == OpStatus::ok) status_ = static_cast<CopyTask&>(task).status;
  }
  void done() override { done_(status_); }

 private:
  CopyEngine& engine_;
  const CopyRequest request_;
  const std::function<void(OpStatus)> done_;
  std::uint64_t position_ = 0;  // of the next task
  OpStatus status_ = OpStatus::ok;
};

OpStatus CopyEngine::copy(const CopyRequest& request) {
  auto backend = backends_.borrow();
  if (!backend) return OpStatus::no_memory;
  const CopyRequest flat = flattened(request);
  CopyTask task(*this, flat, 0, flat.bytes());
  while (task.position != task.end && task.status == OpStatus::ok) {
    ByteTransfer transfer;
    switch (prepare(task, transfer)) {
      case Readiness::ready:
        backend->begin(0, transfer);
        end(task, backend->next().status);
        break;
      case Readiness::wait:
        std::this_thread::sleep_for(pause);
        break;
      case Readiness::retry:
      case Readiness::failed:
        break;
    }
  }
  backends_.give_back(std::move(backend));
  return task.status;
}

void CopyEngine::submit(CopyRequest request, std::function<void(OpStatus)> done) {
  parts_.copiers.submit(std::make_shared<CopyJob>(*this, std::move(request), std::move(done)));
}

CopyEngine::Piece CopyEngine::piece_at(const CopyRequest& request, std::uint64_t position) {
  const std::uint64_t row = position / request.width;
  const std::uint64_t in_row = position % request.width;
  const auto place = [&](const CopyRequest::Side& side) {
    return side.start + row / request.rows * side.layer + row % request.rows * side.pitch + in_row;
  };
  Piece piece{place(request.to), place(request.from), request.width - in_row};
  piece.bytes = std::min(piece.bytes, bytes_together(request.to, piece.to));
  if (request.pattern) {
    piece.from = reinterpret_cast<std::uint64_t>(request.pattern->data());
    piece.bytes = std::min<std::uint64_t>(piece.bytes, request.pattern->size());
  } else {
    piece.bytes = std::min(piece.bytes, bytes_together(request.from, piece.from));
  }
  return piece;
}

bool CopyEngine::use_allocations(CopyTask& task) {
  std::uint64_t* used = task.allocations.data();
  for (const CopyRequest::Side* side : {&task.request.to, &task.request.from}) {
    if (!is_of_arena(*side)) continue;
    if (!parts_.address_space.begin_use(side->start, side->allocation)) {
      release(task);
      task.status = OpStatus::bad_address;
      return false;
    }
    *used++ = side->allocation;
  }
  return true;
}

CopyEngine::Readiness CopyEngine::prepare(CopyTask& task, ByteTransfer& transfer) {
  if (!use_allocations(task)) return Readiness::failed;
  Piece piece = piece_at(task.request, task.position);
  piece.bytes = std::min(piece.bytes, task.end - task.position);
  CopyRequest::Side to_side = task.request.to;
  CopyRequest::Side from_side = task.request.pattern ? CopyRequest::Side() : task.request.from;
  Pages to{to_side, piece, piece.to, true};
  Pages from{from_side, piece, piece.from, false};

  Readiness readiness = is_managed(to_side) ? create(task, to) : Readiness::ready;
  if (readiness == Readiness::ready)
    readiness = begin_byte_transfer(task, is_managed(to_side) ? &to : nullptr,
                                    is_managed(from_side) ? &from : nullptr);
  if (readiness != Readiness::ready) release(task);
  if (readiness == Readiness::wait) {
    // There is no limit for a live transfer: it ends, however slow its source is.
    if (!task.patience || is_in_live_transfer(to) || is_in_live_transfer(from))
      task.patience.emplace(task_wait_limit_ns);
    task.patience->note_wait();
    if (task.patience->is_over()) readiness = give_up(task);
  }
  if (readiness != Readiness::ready) return readiness;
  task.patience.reset();
  // Device memory never moves: it is enough that its allocation is in use.
  for (const Pages* pages : {&to, &from}) {
    if (pages->side.memory != CopyRequest::Memory::device) continue;
    const PageSpan span = pages->span();
    parts_.engine.transfers().begun(span);
    (task.device_pages[0].empty() ? task.device_pages[0] : task.device_pages[1]) = span;
  }
  task.reservation = Reservation();
  task.bytes_in_flight = piece.bytes;
  if (is_managed(to_side)) to_side.owner = *to.owner;
  if (is_managed(from_side)) {
    if (from.owner) {
      from_side.owner = *from.owner;
    } else {
      from_side.memory = CopyRequest::Memory::host;
      piece.from = reinterpret_cast<std::uint64_t>(zero_block().data());
    }
  }
  transfer = {place_of(to_side, piece.to), place_of(from_side, piece.from), piece.bytes};
  return Readiness::ready;
}

// Looks at the whole block: while some pages of a huge page are in flight, none of it can leave.
bool CopyEngine::is_in_live_transfer(const Pages& pages) const {
  return is_of_arena(pages.side) && parts_.engine.transfers().is_live(block_span(pages.block()));
}

void CopyEngine::end(CopyTask& task, OpStatus status) {
  release(task);
  if (status == OpStatus::ok) {
    task.position += task.bytes_in_flight;
    task.failures = 0;
  } else if (status != OpStatus::incomplete) {
    task.status = status;
  } else if (++task.failures == task_failures_max) {
    // A copy to or from the program's memory that stays incomplete has reached the memory's end.
    const bool at_host = task.request.to.memory == CopyRequest::Memory::host ||
                         task.request.from.memory == CopyRequest::Memory::host;
    task.status = at_host ? OpStatus::bad_address : OpStatus::no_memory;
  }
}

CopyEngine::Readiness CopyEngine::create(CopyTask& task, Pages& pages) {
  std::uint64_t absent = 0;
  {
    const LockedBlock block(pages.block(), parts_.blocks.at(pages.block()));
    absent = (PageMask::of(pages.run()) & block.state.absent()).count();
  }
  if (absent == 0) {
    // Other operations can use the reserved pages while this one waits.
    task.reservation.release();
    return Readiness::ready;
  }
  const auto advice = parts_.effects.advice_at(pages.page());
  pages.cut_to(run_in_block(pages.block(), advice.span));
  const Location preferred = advice.value.preferred;
  Processor home = preferred.is_none() ? task.request.home : preferred.processor();
  if (!task.at_home) {
    const auto found = find_other_home(task, pages, absent);
    if (!found) return give_up(task);
    home = *found;
  }
  switch (create_pages(parts_.engine, parts_.evictor, parts_.blocks, pages.block(), pages.run(),
                       home, task.reservation)) {
    case OpStatus::ok:
      return Readiness::ready;
    case OpStatus::incomplete:
      return Readiness::wait;
    default:
      break;
  }
  // Space in the other pool was reserved, so this failure means that Linux has no memory.
  if (!task.at_home) return give_up(task);
  task.at_home = false;
  return Readiness::retry;
}

std::optional<Processor> CopyEngine::find_other_home(CopyTask& task, Pages& pages,
                                                     std::uint64_t absent) {
  if (const auto all = reserve_anywhere(parts_.engine, absent, task.reservation)) return all;
  pages.cut_to({pages.run().first, 1});
  return reserve_anywhere(parts_.engine, 1, task.reservation);
}

CopyEngine::Readiness CopyEngine::give_up(CopyTask& task) {
  task.status = OpStatus::no_memory;
  return Readiness::failed;
}

CopyEngine::Readiness CopyEngine::locate(const CopyRequest& request, Pages& pages,
                                         const LockedBlock& block) {
  const PageRun run = pages.run();
  if (!(PageMask::of(run) & block.state.in_flight()).none()) return Readiness::wait;
  const ProcessorMask residents = block.state.residents(run.first);
  if (residents == 0) {
    if (pages.written) return Readiness::retry;
    pages.cut_to(block.state.absent().run_around(run.first));
    pages.owner.reset();
    return Readiness::ready;
  }
  Processor owner{std::countr_zero(residents)};
  if (pages.written && std::popcount(residents) > 1) {
    const Location preferred = parts_.effects.advice_at(pages.page()).value.preferred;
    if (!preferred.is_none() && (residents & preferred.processor().bit()) != 0)
      owner = preferred.processor();
    else if ((residents & request.home.bit()) != 0)
      owner = request.home;
  }
  const PageMask& here = block.state.at(owner).resident;
  pages.cut_to(here.run_around(run.first));
  if (pages.written) {
    for (const PageRun part :
         runs_of(PageMask::of(pages.run()) & block.state.resident_beside(owner)))
      parts_.engine.collapse(block, part, owner, MoveCause::copy);
    // Retry if collapse() kept another copy; wait if another copy cannot leave now.
    if (!here.test(run.first)) return Readiness::retry;
    const PageMask alone = here - block.state.resident_beside(owner);
    if (!alone.test(run.first)) return Readiness::wait;
    pages.cut_to(alone.run_around(run.first));
  }
  parts_.engine.note_access(block, owner);
  pages.owner = owner;
  return Readiness::ready;
}

// Begins the transfer in one block. `together`: further pages of the block, which are only read.
CopyEngine::Readiness CopyEngine::begin_in_block(CopyTask& task, Pages& pages, Pages* together) {
  const LockedBlock block(pages.block(), parts_.blocks.at(pages.block()));
  Readiness readiness = locate(task.request, pages, block);
  if (readiness == Readiness::ready && together != nullptr)
    readiness = locate(task.request, *together, block);
  if (readiness != Readiness::ready) return readiness;
  BlockPages begun{pages.block(), {}};
  for (const Pages* side : {&pages, together})
    if (side != nullptr && side->owner) begun.pages |= PageMask::of(side->run());
  parts_.engine.begin_byte_transfer(block, begun.pages);
  (task.in_flight[0] ? task.in_flight[1] : task.in_flight[0]) = begun;
  return Readiness::ready;
}

// A task that has begun the transfer of one block does not wait for the other block, so the order
// of the two does not matter.
CopyEngine::Readiness CopyEngine::begin_byte_transfer(CopyTask& task, Pages* to, Pages* from) {
  const bool together = to != nullptr && from != nullptr && to->block() == from->block();
  Readiness readiness = Readiness::ready;
  if (to != nullptr) readiness = begin_in_block(task, *to, together ? from : nullptr);
  if (from != nullptr && !together && readiness == Readiness::ready)
    readiness = begin_in_block(task, *from, nullptr);
  return readiness;
}

void CopyEngine::release(CopyTask& task) {
  for (auto& begun : task.in_flight) {
    if (!begun) continue;
    {
      const LockedBlock block(begun->block, parts_.blocks.at(begun->block));
      parts_.engine.end_byte_transfer(block, begun->pages);
    }
    begun.reset();
  }
  for (PageSpan& span : task.device_pages)
    if (!span.empty()) parts_.engine.transfers().ended(std::exchange(span, {}));
  for (std::uint64_t& allocation : task.allocations)
    if (const std::uint64_t used = std::exchange(allocation, 0)) parts_.address_space.end_use(used);
  parts_.engine.transfers().announce();
}

}  // namespace wherry::impl
