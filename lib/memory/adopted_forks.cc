// What AdoptedRanges does when the program forks.
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "base/page.h"
#include "base/patience.h"
#include "memory/adopted_ranges.h"
#include "os/memory/mapping.h"
#include "os/memory/write_freeze.h"
#include "os/process/other_stack.h"
#include "os/process/poll.h"

namespace wherry::impl {
namespace {

// A parent waits at most this long for its child's copies.
constexpr std::uint64_t copy_limit_ns = 10'000'000'000;

}  // namespace

void AdoptedRanges::lend(const Run& owner, std::uintptr_t page, std::byte* before) {
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
  for (const auto& [address, run] : runs_)
    if (run.shared) count += run.pages.size() / page_size;
  if (count == 0) return;
  before_.emplace(count * page_size, -1, 0);
  lent_.reserve(count);
  OtherStack().run([&]() WHERRY_TSA(no_thread_safety_analysis) {  // under lock_
    std::byte* before = before_->data();
    for (const auto& [address, run] : runs_) {
      if (!run.shared) continue;
      for (std::uintptr_t page = address; page < run.pages.end; page += page_size) {
        lend(run, page, before);
        before += page_size;
      }
    }
  });
}

// A child that ran no fork handler keeps its end of the old pipe open until it exits. A new pipe
// lets the parent wait for the next child only.
void AdoptedRanges::renew_pipe() {
  copying_.reset();
  copied_.reset();
  try {
    // This needs no further descriptors: the two that were closed above can be used again.
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
  if (runs_.empty()) return;
  renew_pipe();
  try {
    lend_all();
  } catch (const std::system_error& error) {
    log_line("fork: registered memory cannot be prepared: {}", error.what());
  }
}

std::vector<AddressRange> AdoptedRanges::unshared_pages() const {
  std::vector<AddressRange> pages;
  for (const auto& [address, run] : runs_)
    if (!run.shared) pages.push_back(run.pages);
  return pages;
}

void AdoptedRanges::take_all_back() {
  const auto take = [&](const Lent& lent) {
    try {
      return take_back(lent);
    } catch (const std::system_error& refused) {
      return refused.code().value();
    }
  };
  const auto take_all = [&]() WHERRY_TSA(no_thread_safety_analysis) {  // under lock_
    for (const Lent& lent : lent_)
      if (take(lent) != 0)
        log_line("fork: devices no longer see the program's writes to registered memory at {:#x}",
                 lent.page);
  };
  try {
    if (!lent_.empty()) OtherStack().run(take_all);
  } catch (const std::system_error& refused) {
    log_line("fork: devices no longer see the program's writes to registered memory: {}",
             refused.what());
  }
  lent_.clear();
  before_.reset();
}

void AdoptedRanges::after_fork(bool child_copies) {
  pollfd ended{-1, POLLIN, 0};
  {
    const LockGuard guard(lock_);
    // This fork was not recorded, because another thread's fork took too long.
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
    // This needs no further descriptors: those that were closed above can be used again.
    if (!runs_.empty()) get_ready();
  } catch (const std::system_error&) {
    // The next fork tries again.
  }
  forker_.reset();
  fork_over_.notify_all();
}

void AdoptedRanges::after_fork_in_child() {
  const auto copy = [&](std::uintptr_t address, const Run& run) {
    const std::size_t bytes = run.pages.size();
    try {
      Substitute own(bytes, -1, 0);
      return file_.read(run.offset, {own.data(), bytes}) &&
             own.move_to(address, bytes, run.writable ? Access::write : Access::read) == 0;
    } catch (const std::system_error&) {
      return false;
    }
  };
  // A fork() that has succeeded cannot report an error any more.
  for (const auto& [address, run] : runs_)
    if (!run.shared && !copy(address, run))
      log_line(
          "fork: no memory for a copy: this child shares registered memory at {:#x} with its "
          "parent, and each sees what the other writes",
          address);
  runs_.clear();
  lent_.clear();
  before_.reset();
  let_go_of_descriptors();
  forker_.reset();
}

}  // namespace wherry::impl
