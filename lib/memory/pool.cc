#include "memory/pool.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/patience.h"
#include "memory/zero_block.h"
#include "os/files/fd.h"
#include "os/files/file_io.h"
#include "os/memory/folio_split.h"
#include "os/memory/numa.h"
#include "os/process/resource_limits.h"
#include "trap/pool_view.h"

namespace wherry::impl {

namespace {

std::optional<Userfaultfd> make_filler(std::optional<UffdAccess> access) {
  if (!access) return std::nullopt;
  return Userfaultfd(Userfaultfd::create(*access), /*raises_sigbus=*/true);
}

// Returns nullopt if Linux has no memory for a whole block, or cannot read a source page: there may
// be memory for some of the block's pages.
std::optional<OpResult> unless_short_of_memory(const OpResult& result) {
  return result.status == OpStatus::no_memory ? std::nullopt : std::optional(result);
}

// Mappings may permit huge pages everywhere only if a userfaultfd tracks the file's holes.
HugePages possible(HugePages wanted, std::optional<UffdAccess> access) {
  return wanted == HugePages::if_possible && !access ? HugePages::where_whole : wanted;
}

}  // namespace

SparsePoolFile::SparsePoolFile(const std::string& name, std::size_t arena_bytes, HugePages wanted,
                               std::optional<UffdAccess> access, const Stripes& stripes)
    : file_(name, arena_bytes, possible(wanted, access), stripes),
      alias_(Mapping::file_alias(file_.fd_at(0), arena_bytes, block_size,
                                 access ? Access::read : Access::write)),
      filler_(make_filler(access)),
      folio_map_(arena_bytes),
      writers_(stripes.files()) {
  if (views_permit_huge_pages())
    block_alias_ = Mapping::file_alias(file_.fd_at(0), arena_bytes, block_size, Access::write,
                                       /*huge_pages=*/true);
  else if (maps_huge_pages())
    merge_window_.emplace(block_size);
  if (!filler_) return;
  if (const int error = filler_->register_missing(alias_.address(), alias_.size()))
    throw_errno(error, "cannot register " + name + " with userfaultfd");
}

int SparsePoolFile::open(PageSpan pages) {
  const PoolFiles files = file_.descriptors();
  if (files.stripes.are_in_first_file(pages)) return 0;
  const auto open_in = [&](const Mapping& alias, Access access, bool huge_pages) {
    const std::uint64_t offset = pages.offset();
    const int error = map_pool_closed(alias.address() + offset, pages, files, huge_pages);
    return error != 0 ? error : alias.open_alias(offset, pages.bytes(), access);
  };
  int error = open_in(alias_, alias_access(), /*huge_pages=*/false);
  if (error == 0 && filler_)
    error = filler_->register_missing(alias_.address() + pages.offset(), pages.bytes());
  if (error == 0 && has_block_alias())
    error = open_in(block_alias_, Access::write, /*huge_pages=*/true);
  return error;
}

int SparsePoolFile::punch(PageSpan span) {
  const int error = file_.punch(span.offset(), span.bytes());
  if (error == 0) folio_map_.separated(span);
  return error;
}

int SparsePoolFile::punch_from_full_block(PageSpan span) {
  if (!maps_huge_pages()) return punch(span);
  // If Linux has just merged the block, the punch clears the part in place. No holder sees that, as
  // Linux merges no held pages, and removes all entries for what it merges. But Linux cannot split
  // a huge page while it makes it: then the part stays in the file until a later punch.
  constexpr int attempts_max = 1000;
  int error = file_.punch(span.offset(), span.bytes());
  for (int attempt = 1; error == 0 && attempt < attempts_max && !holds_none(span); ++attempt)
    error = file_.punch(span.offset(), span.bytes());
  if (error != 0) return error;
  // Since 6.16 a punch leaves the rest of a huge page in folios that are as large as possible. The
  // largest contains the block's second or last page, so these two pages show whether there is one.
  const PageSpan block = block_span(block_of(span.first));
  for (const PageIndex page : {block.first + 1, block.end() - 1})
    if (!span.contains(page) &&
        place_of(page).value_or(PageFrames::Place::alone) != PageFrames::Place::alone)
      folio_map_.created(block);
  if (holds_none(span)) folio_map_.separated(span);
  return 0;
}

// ---- folios

Folios SparsePoolFile::folios(PageSpan span, const PageMask& resident) {
  if (span.count == pages_per_block || !file_.has_huge_pages()) return Folios::apart;
  const PageSpan block = block_span(block_of(span.first));
  const bool is_full = resident == ~PageMask{};
  if (!folio_map_.may_share(span)) {
    // Where a userfaultfd tracks the holes, Linux merges a block in the background only if no page
    // is missing. Otherwise it does so only where mappings permit huge pages.
    if (!is_full || !views_permit_huge_pages()) return Folios::apart;
    if (place_of(span.first) == PageFrames::Place::alone || !is_huge_now(block))
      return Folios::apart;
    folio_map_.created(block);
    return Folios::huge_page;
  }
  // A page shares no folio with an absent page.
  const auto continues = [&](PageIndex page) -> std::optional<bool> {
    const bool is_inside = page != block.first && page != block.end();
    if (!is_inside || !resident.test(page_in_block(page))) return false;
    const auto place = place_of(page);
    return place ? std::optional(*place == PageFrames::Place::further) : std::nullopt;
  };
  const auto first = continues(span.first);
  const auto end = continues(span.end());
  if (first && end && !*first && !*end) return Folios::apart;
  if (!is_full || !is_huge_now(block)) return Folios::unknown;
  // The pages may have been merged since they shared a smaller folio.
  folio_map_.created(block);
  return Folios::huge_page;
}

std::optional<PageFrames::Place> SparsePoolFile::place_of(PageIndex page) const {
  const std::byte* const seen = alias(page);
  (void)*const_cast<const volatile std::byte*>(seen);
  return frames_.place_of(reinterpret_cast<std::uintptr_t>(seen));
}

bool SparsePoolFile::is_huge_now(PageSpan block) {
  // Folios are aligned: only one of 2 MiB crosses the middle of the block.
  constexpr std::uint64_t middle = pages_per_block / 2;
  if (const auto place = place_of(block.first + middle))
    return *place == PageFrames::Place::further;
  // Without the privilege to ask Linux: in a mapping that permits huge entries, an access to the
  // first page enters the middle page only if the block is a huge page.
  const LockGuard guard(folios_lock_);
  try {
    if (!look_window_) look_window_.emplace(block_size);
  } catch (const std::system_error&) {
    return true;
  }
  if (look_window_->show(file_.fd_at(block.offset()), block.offset(), block.bytes(),
                         FileWindow::Use::creating_huge_pages) != 0)
    return true;
  const std::byte* const seen = look_window_->shown().data();
  (void)*const_cast<const volatile std::byte*>(seen);
  const auto is_huge =
      frames_.page_table().is_mapped(reinterpret_cast<std::uintptr_t>(seen) + middle * page_size);
  look_window_->hide();
  return is_huge.value_or(true);
}

void SparsePoolFile::remove_own_entries(PageSpan block) {
  (void)remove_entries(address(block), block.bytes());
  if (has_block_alias())
    (void)remove_entries(block_alias_.address() + block.offset(), block.bytes());
}

OpStatus SparsePoolFile::split(PageSpan span) {
  // Several attempts, because the library's copies, and Linux itself, may hold a page for a moment.
  constexpr int attempts_max = 3;
  const PageSpan block = block_span(block_of(span.first));
  remove_own_entries(block);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    // Linux splits only through a page table that has an entry, which this read makes.
    (void)*const_cast<const volatile std::byte*>(alias(span.first));
    if (split_folios(0, address(span), span.bytes()) != 0) return OpStatus::unsupported;
    const auto mapped = frames_.page_table().is_mapped(address(span));
    if (!mapped) return OpStatus::unsupported;
    // The entry also goes, for a moment, when Linux tries to move or to reclaim the huge page,
    // which fails if somebody holds it. So is_huge_now() looks whether the page was split.
    if (*mapped || is_huge_now(block)) continue;
    was_split(block);
    return OpStatus::ok;
  }
  remove_own_entries(block);
  return OpStatus::held;
}

OpStatus SparsePoolFile::rebuild(PageSpan span, const PageMask& resident) {
  const LockGuard guard(folios_lock_);
  try {
    if (!contents_) contents_ = Mapping::zeroed(block_size);
  } catch (const std::system_error&) {
    return OpStatus::no_memory;
  }
  // All contents are copied before the first page leaves, so that a lack of memory does no harm.
  const std::span<std::byte> contents{contents_->data(), span.bytes()};
  if (read_at(file_.fd_at(span.offset()), span.offset(), contents) !=
      static_cast<int>(span.bytes()))
    return OpStatus::no_memory;
  const bool is_part_of_full = span.count < pages_per_block && resident == ~PageMask{};
  const int error = is_part_of_full ? punch_from_full_block(span) : punch(span);
  WHERRY_CHECK(error == 0, "a part of a pool cannot be freed: errno {}", error);
  const BlockIndex block = block_of(span.first);
  for (const PageRun run : runs_of(resident & PageMask::of(run_in_block(block, span)))) {
    const PageSpan part = span_of(block, run);
    fill_small(part, contents.data() + (part.first - span.first) * page_size);
  }
  return OpStatus::ok;
}

void SparsePoolFile::fill_small(PageSpan span, const std::byte* source) {
  // This must not fail: the contents exist only in `source`. The punch has freed as many pages as
  // are created here, unless somebody holds them.
  constexpr std::uint64_t limit_ns = 10'000'000'000;
  constexpr std::chrono::milliseconds pause{1};
  std::uint64_t done = 0;
  for (Patience patience(limit_ns, AtLimit::goes_on); done < span.count;) {
    const PageSpan rest{span.first + done, span.count - done};
    const std::byte* const from = source + done * page_size;
    OpResult result;
    if (filler_) {
      result = filler_->copy(address(rest), from, rest.bytes(), /*write_protected=*/false);
    } else {
      result = fill_zero_small(rest);
      std::memcpy(alias_.data() + rest.offset(), from, result.bytes);
    }
    done += result.bytes / page_size;
    if (result || result.bytes != 0) continue;
    // A page of zeros is there. Somebody has read the hole through a mapping that does not trap
    // (page protection does not keep forced reads out), or holds the page, so that Linux has
    // cleared it instead of freeing it. It gets the contents, and stays.
    const std::uint64_t offset = rest.offset();
    if (result.status == OpStatus::occupied &&
        write_at(file_.fd_at(offset), offset, {from, page_size}) == static_cast<int>(page_size)) {
      folio_map_.created(block_span(block_of(rest.first)));
      ++done;
      continue;
    }
    WHERRY_CHECK(!patience.is_over(), "no memory for pages that a huge page had: {}",
                 to_string(result.status));
    patience.note_wait();
    std::this_thread::sleep_for(pause);
  }
}

bool SparsePoolFile::is_huge_page(PageSpan span) const {
  return span.count == pages_per_block && page_in_block(span.first) == 0 && maps_huge_pages();
}

// One thread at a time uses write(2): Linux need not clear the pages first, but locks the file.
// Other threads create pages in another way instead of waiting for the lock.
std::optional<OpResult> SparsePoolFile::try_write(PageSpan span, const std::byte* source) {
  const auto turn = begin_write(span, 1);
  if (!turn) return std::nullopt;
  const PageRun run{page_in_block(span.first), static_cast<unsigned>(span.count)};
  const BlockIndex block = block_of(span.first);
  const auto holds_none_of = [&](PageRun other) { return holds_none(span_of(block, other)); };
  return may_be_written(run, holds_none_of) ? write(span, source) : std::nullopt;
}

std::optional<WriteTurn> SparsePoolFile::begin_write(PageSpan span, unsigned writers_max) const {
  std::atomic<unsigned>& writers = writers_[file_.stripes().file_of(span.offset())];
  unsigned others = writers.load(std::memory_order_relaxed);
  do {
    if (others >= writers_max) return std::nullopt;
  } while (!writers.compare_exchange_weak(others, others + 1, std::memory_order_acquire));
  return WriteTurn(writers);
}

// Looks through the block alias if there is one: SEEK_DATA would wait for a write to the file.
bool SparsePoolFile::is_absent_block(PageSpan span) const {
  return has_block_alias() ? is_absent(block_alias(span)) : holds_none(span);
}

bool SparsePoolFile::holds_none(PageSpan span) const {
  const std::uint64_t end = span.offset() + span.bytes();
  return file_.first_data(span.offset(), end) == end;
}

std::optional<OpResult> SparsePoolFile::write(PageSpan span, const std::byte* source) {
  if (!may_write_to(span.offset() + span.bytes())) return std::nullopt;
  may_become_folio(span);
  const int result = write_at(file_.fd_at(span.offset()), span.offset(), {source, span.bytes()});
  return unless_short_of_memory(outcome_of(span, result, span.bytes()));
}

// While another thread writes, this one lets Linux create the page and copies into it, which takes
// up to twice the time of a write.
std::optional<OpResult> SparsePoolFile::fill_huge_page(PageSpan span, const std::byte* source) {
  const std::byte* const contents = source != nullptr ? source : zero_block().data();
  if (!has_block_alias()) return write(span, contents);
  if (const auto written = try_write(span, contents)) return written;
  may_become_folio(span);
  auto created = unless_short_of_memory(outcome_of(span, populate(block_alias(span)), 0));
  if (!created || !*created || source == nullptr) return created;
  const int result = copy_memory(block_alias(span), {source, span.bytes()});
  return unless_short_of_memory(outcome_of(span, result, span.bytes()));
}

// If Linux failed, it may have created some of the pages, and the caller accounts for none.
OpResult SparsePoolFile::outcome_of(PageSpan span, int result, std::size_t expected) {
  if (result == static_cast<int>(expected)) return {OpStatus::ok, span.bytes()};
  WHERRY_CHECK(punch(span) == 0, "a part of a pool cannot be freed");
  return {result == -EINTR || result == -EAGAIN ? OpStatus::incomplete : OpStatus::no_memory, 0};
}

OpResult SparsePoolFile::fill(PageSpan span, const std::byte* source) {
  if (is_huge_page(span)) {
    if (const auto filled = fill_huge_page(span, source)) return *filled;  // else small pages
  } else if (maps_huge_pages()) {
    if (const auto written = try_write(span, source)) return *written;
  }
  if (filler_) return filler_->copy(address(span), source, span.bytes(), /*write_protected=*/false);
  const OpResult created = fill_zero(span);
  std::memcpy(alias_.data() + span.offset(), source, created.bytes);
  return created;
}

OpResult SparsePoolFile::fill_zero(PageSpan span) {
  // Small pages follow if there is no memory for a huge one, or if a page is there already, which
  // fill_zero_small() reports.
  if (is_huge_page(span) && is_absent_block(span))
    if (const auto filled = fill_huge_page(span, nullptr)) return *filled;
  return fill_zero_small(span);
}

OpResult SparsePoolFile::fill_zero_small(PageSpan span) {
  if (filler_) return filler_->zero(address(span), span.bytes());
  const std::uint64_t start = span.offset();
  const std::uint64_t bytes = file_.first_data(start, start + span.bytes()) - start;
  if (bytes == 0) return {OpStatus::occupied, 0};
  const PageSpan absent{span.first, bytes / page_size};
  OpResult created = outcome_of(absent, populate({alias_.data() + start, bytes}), 0);
  if (created && bytes != span.bytes()) created.status = OpStatus::occupied;
  return created;
}

int SparsePoolFile::merge(PageSpan block) {
  may_become_folio(block);
  const auto merge_in = [this](std::span<std::byte> pages) {
    // Linux 6.1 merges only where a page table exists, so access a page. That may fill a hole.
    if (!filler_) fetch(pages.first(page_size));
    return -merge_pages(pages);
  };
  if (has_block_alias()) return merge_in(block_alias(block));
  int error = merge_window_->show(file_.fd_at(block.offset()), block.offset(), block.bytes(),
                                  FileWindow::Use::creating_huge_pages);
  if (error == 0) error = merge_in(merge_window_->shown());
  merge_window_->hide();
  return error;
}

void SparsePoolFile::move_to_node(PageSpan span, int node) {
  // Linux moves only pages that this process maps, so read each page through the alias first.
  for (PageIndex page = span.first; page < span.end(); ++page)
    (void)*const_cast<const volatile std::byte*>(alias(page));
  impl::move_to_node(alias(span.first), span.count, page_size, node);
}

}  // namespace wherry::impl
