#include "memory/adopted_ranges.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <tuple>

#include "base/log.h"
#include "base/page.h"
#include "base/patience.h"
#include "os/memory/mapping.h"
#include "os/memory/pinned_buffers.h"
#include "os/memory/raw_copy.h"
#include "os/memory/write_freeze.h"
#include "os/process/poll.h"
#include "os/process/thread_stacks.h"

namespace wherry::impl {
namespace {

// Writers are frozen for at most the time that copying this many bytes takes.
constexpr std::size_t step = block_size;
// The part of the calling thread's stack that may be in use: this many bytes on either side of the
// current frame.
constexpr std::size_t own_frames = 64 << 10;
// A parent waits at most this long for its child's copies.
constexpr std::uint64_t copy_limit_ns = 10'000'000'000;

bool overlap(AddressRange a, AddressRange b) {
  return a.start < b.end && b.start < a.end;
}

AddressRange intersection(AddressRange a, AddressRange b) {
  return {std::max(a.start, b.start), std::min(a.end, b.end)};
}

AddressRange whole_pages(AddressRange bytes) {
  return {round_down(bytes.start, page_size), round_up(bytes.end, page_size)};
}

Access access_to(const MappedRange& mapping) {
  if (mapping.writable) return Access::write;
  return mapping.readable ? Access::read : Access::none;
}

// Calls f(part) for consecutive parts of at most one step. Stops at the first error and returns it.
template <typename F>
int in_steps(AddressRange range, F f) {
  while (!range.empty()) {
    const std::uintptr_t end = std::min(range.end, round_down(range.start, step) + step);
    if (const int error = f(AddressRange{range.start, end})) return error;
    range.start = end;
  }
  return 0;
}

// The pages that `bytes` covers only in part, so that they may hold other data as well.
std::vector<std::uintptr_t> shared_pages(AddressRange bytes) {
  std::vector<std::uintptr_t> pages;
  const std::uintptr_t first = round_down(bytes.start, page_size);
  const std::uintptr_t last = round_down(bytes.end - 1, page_size);
  const bool ends_inside = bytes.end % page_size != 0;
  if (bytes.start != first || (last == first && ends_inside)) pages.push_back(first);
  if (last != first && ends_inside) pages.push_back(last);
  return pages;
}

}  // namespace

AddressRange AdoptedRanges::Adopted::pages() const {
  return whole_pages(bytes);
}

AddressRange AdoptedRanges::Adopted::unshared() const {
  return {round_up(bytes.start, page_size),
          std::max(round_up(bytes.start, page_size), round_down(bytes.end, page_size))};
}

std::uint64_t AdoptedRanges::Adopted::offset_of(std::uintptr_t address) const {
  return offset + (address - pages().start);
}

std::optional<AdoptedRanges::Verdict> AdoptedRanges::why_not(std::string_view map,
                                                             AddressRange pages, bool read_only,
                                                             bool& writable) const {
  for (const AddressRange& stack : thread_stacks(map))
    if (overlap(stack, pages)) return Verdict::unsuitable;
  // The program may have made this stack itself, so that thread_stacks() does not know it. The
  // thread must not freeze writes to its own stack: it would wait for itself.
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (overlap({here - own_frames, here + own_frames}, pages)) return Verdict::unsuitable;
  for (const AddressRange& buffer : pinned_buffers())
    if (overlap(buffer, pages)) return Verdict::unsuitable;
  std::uintptr_t covered = pages.start;
  writable = true;
  while (const auto mapping = next_mapping(map)) {
    if (!overlap(mapping->range, pages)) continue;
    if (mapping->range.start > covered || !mapping->readable) return Verdict::absent;
    const bool anonymous =
        !mapping->shared && mapping->inode == 0 &&
        (mapping->name.empty() || mapping->name == "[heap]" || mapping->name.starts_with("[anon:"));
    if (!anonymous || mapping->executable) return Verdict::unsuitable;
    if (!mapping->writable && !read_only) return Verdict::absent;
    // One mapping replaces all of them, so they must have the same access rights.
    if (covered != pages.start && mapping->writable != writable) return Verdict::unsuitable;
    writable = mapping->writable;
    covered = mapping->range.end;
  }
  if (covered < pages.end) return Verdict::absent;
  if (is_locked(pages.start, pages.size())) return Verdict::unsuitable;
  return std::nullopt;
}

// After the freeze begins, this function may write only to its own stack. Any other memory,
// malloc's included, could be in `part`.
int AdoptedRanges::move_into_file(const Adopted& range, AddressRange part,
                                  Substitute& shared) const {
  if (const int error = file_.allocate(range.offset_of(part.start), part.size())) return error;
  std::optional<WriteFreeze> freeze;
  if (range.writable) freeze.emplace(part, trap());
  if (freeze && freeze->error() != 0) return freeze->error();
  copy_raw(shared.data(), reinterpret_cast<const void*>(part.start), part.size());
  return shared.move_to(part.start, part.size(), range.writable ? Access::write : Access::read);
}

int AdoptedRanges::move_out_of_file(const Adopted& range, const MappedRange& part,
                                    Substitute& own) const {
  std::optional<WriteFreeze> freeze;
  if (part.writable) freeze.emplace(part.range, trap());
  if (freeze && freeze->error() != 0) return freeze->error();
  const std::size_t bytes = part.range.size();
  if (!file_.read(range.offset_of(part.range.start), {own.data(), bytes})) return EIO;
  return own.move_to(part.range.start, bytes, access_to(part));
}

int AdoptedRanges::restore(const Adopted& range) const {
  const std::string text = read_address_map();
  std::string_view map = text;
  const AddressRange pages = range.pages();
  Substitute own(pages.size(), -1, 0);
  std::uintptr_t next = pages.start;
  while (auto mapping = next_mapping(map)) {
    if (!overlap(mapping->range, pages) || !file_.is_shown_by(*mapping)) continue;
    const AddressRange here = intersection(mapping->range, pages);
    if (here.start > next) own.skip(here.start - next);
    const int error = in_steps(here, [&](AddressRange part) {
      mapping->range = part;
      return move_out_of_file(range, *mapping, own);
    });
    if (error != 0) return error;
    next = here.end;
  }
  return 0;
}

AdoptedRanges::Verdict AdoptedRanges::adopt(AddressRange bytes, std::uint64_t offset,
                                            bool read_only) {
  Adopted range{bytes, offset};
  const AddressRange pages = range.pages();
  const LockGuard guard(lock_);
  if (!wait_for_fork_locked()) return Verdict::forking;
  ranges_.reserve(ranges_.size() + 1);
  if (const auto verdict = why_not(read_address_map(), pages, read_only, range.writable))
    return *verdict;
  try {
    get_ready();
  } catch (const std::system_error& refused) {
    log_line("memory at {:#x} cannot be registered: {}", bytes.start, refused.what());
    return Verdict::no_space;
  }
  Substitute shared(pages.size(), file_.fd(), offset);
  const int error =
      in_steps(pages, [&](AddressRange part) { return move_into_file(range, part, shared); });
  if (error == 0) {
    ranges_.push_back(range);
    // Without permission for mlock, Linux may swap this memory, as it may swap any other.
    if (range.writable) static_cast<void>(lock_in_memory(pages.start, pages.size()));
    return Verdict::adopted;
  }
  if (restore(range) != 0)
    log_line("memory at {:#x} stays shared memory: it could not be registered", bytes.start);
  else
    static_cast<void>(file_.punch(offset, pages.size()));
  if (ranges_.empty()) let_go_of_descriptors();
  return error == ENOSPC || error == ENOMEM ? Verdict::no_space : Verdict::unsuitable;
}

bool AdoptedRanges::give_back(AddressRange bytes) {
  const LockGuard guard(lock_);
  if (!wait_for_fork_locked()) return false;
  const auto found = std::ranges::find(ranges_, bytes, &Adopted::bytes);
  if (found == ranges_.end()) return true;
  const Adopted range = *found;
  if (restore(range) != 0) return false;
  ranges_.erase(found);
  static_cast<void>(file_.punch(range.offset, range.pages().size()));
  if (ranges_.empty()) let_go_of_descriptors();
  return true;
}

void AdoptedRanges::lend(const Adopted& owner, std::uintptr_t page, std::byte* before) {
  if (!owner.writable) return;
  MappedRange part;
  part.range = {page, page + page_size};
  part.readable = part.writable = true;
  Substitute own(page_size, -1, 0);
  const std::byte* contents = own.data();
  std::optional<WriteFreeze> freeze(std::in_place, part.range, trap());
  if (freeze->error() != 0 || !file_.read(owner.offset_of(page), {own.data(), page_size})) return;
  std::memcpy(before, contents, page_size);
  if (own.move_to(page, page_size, Access::write) != 0) return;
  freeze.reset();
  lent_.push_back({&owner, page, before});
}

// Not instrumented by the address sanitizer: the page also contains the redzones between the
// program's objects.
[[gnu::no_sanitize_address]] int AdoptedRanges::take_back(const Lent& lent) const {
  Substitute shared(page_size, file_.fd(), lent.owner->offset_of(lent.page));
  const WriteFreeze freeze({lent.page, lent.page + page_size}, trap());
  if (freeze.error() != 0) return freeze.error();
  const auto* now = reinterpret_cast<const std::byte*>(lent.page);
  // Only bytes that the program changed are written, because a device may have written to the
  // others.
  volatile std::byte* to = shared.data();
  for (std::size_t i = 0; i < page_size; ++i)
    if (now[i] != lent.before[i]) to[i] = now[i];
  return shared.move_to(lent.page, page_size, Access::write);
}

// ---- fork

bool AdoptedRanges::wait_for_fork() {
  const LockGuard guard(lock_);
  return wait_for_fork_locked();
}

bool AdoptedRanges::wait_for_fork_locked() {
  Patience patience(static_cast<std::uint64_t>(std::chrono::nanoseconds(fork_limit_).count()));
  for (; forker_; patience.note_wait()) {
    if (patience.is_over()) {
      log_line(
          "a fork() has not finished after {} ms: does a pthread_atfork handler wait for a lock "
          "that another thread holds while it registers memory?",
          fork_limit_.count());
      return false;
    }
    fork_over_.wait_for(lock_, patience.next_slice());
  }
  return true;
}

void AdoptedRanges::get_ready() {
  if (!trap_ && access_) trap_.emplace(Userfaultfd::create(*access_));
  if (!copied_) std::tie(copied_, copying_) = make_pipe();
}

void AdoptedRanges::let_go_of_descriptors() {
  copying_.reset();
  copied_.reset();
  trap_.reset();
}

void AdoptedRanges::lend_all() {
  std::size_t count = 0;
  for (const Adopted& range : ranges_) count += shared_pages(range.bytes).size();
  if (count == 0) return;
  before_.emplace(count * page_size, -1, 0);
  lent_.reserve(count);
  std::byte* before = before_->data();
  for (const Adopted& range : ranges_)
    for (const std::uintptr_t page : shared_pages(range.bytes)) {
      lend(range, page, before);
      before += page_size;
    }
}

// A child that ran no fork handler keeps its end of the old pipe open until it exits. A new pipe
// lets the parent wait for the next child only.
void AdoptedRanges::renew_pipe() {
  copying_.reset();
  copied_.reset();
  try {
    // The two descriptors that were closed above can be used again.
    get_ready();
  } catch (const std::system_error& error) {
    log_line("fork: the parent does not wait for the child's copies of registered memory: {}",
             error.what());
  }
}

void AdoptedRanges::before_fork() {
  const LockGuard guard(lock_);
  if (!wait_for_fork_locked()) return;
  forker_ = std::this_thread::get_id();
  if (ranges_.empty()) return;
  renew_pipe();
  try {
    lend_all();
  } catch (const std::system_error& error) {
    log_line("fork: registered memory cannot be prepared: {}", error.what());
  }
}

std::vector<AddressRange> AdoptedRanges::unshared_pages() const {
  std::vector<AddressRange> pages;
  for (const Adopted& range : ranges_)
    if (!range.unshared().empty()) pages.push_back(range.unshared());
  return pages;
}

void AdoptedRanges::take_all_back() {
  for (const Lent& lent : lent_) {
    int error = 0;
    try {
      error = take_back(lent);
    } catch (const std::system_error& refused) {
      error = refused.code().value();
    }
    if (error != 0)
      log_line("fork: devices no longer see the program's writes to registered memory at {:#x}",
               lent.page);
  }
  lent_.clear();
  before_.reset();
}

void AdoptedRanges::after_fork(bool child_copies) {
  pollfd ended{-1, POLLIN, 0};
  {
    const LockGuard guard(lock_);
    // another thread's fork took too long; this one was not recorded
    if (forker_ != std::this_thread::get_id()) return;
    take_all_back();
    copying_.reset();
    if (copied_ && child_copies && !unshared_pages().empty()) ended.fd = copied_.get();
  }
  // No other thread closes copied_ while forker_ is set.
  Patience patience(copy_limit_ns, AtLimit::goes_on);
  if (ended.fd >= 0) poll_descriptors({&ended, 1}, patience);
  const LockGuard guard(lock_);
  copied_.reset();
  try {
    // The descriptors that were closed above can be used again.
    if (!ranges_.empty()) get_ready();
  } catch (const std::system_error&) {
    // The next fork tries again.
  }
  forker_.reset();
  fork_over_.notify_all();
}

void AdoptedRanges::after_fork_in_child() {
  for (const Adopted& range : ranges_) {
    const AddressRange pages = range.unshared();
    if (pages.empty()) continue;
    try {
      Substitute own(pages.size(), -1, 0);
      if (file_.read(range.offset_of(pages.start), {own.data(), pages.size()}))
        static_cast<void>(
            own.move_to(pages.start, pages.size(), range.writable ? Access::write : Access::read));
    } catch (const std::system_error&) {
      // There is no better answer than to keep sharing the memory with the parent.
    }
  }
  ranges_.clear();
  lent_.clear();
  before_.reset();
  let_go_of_descriptors();
  forker_.reset();
}

}  // namespace wherry::impl
