#include "trap/attached_threads.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/patience.h"
#include "os/files/fd.h"
#include "os/process/current_cpu.h"
#include "os/process/futex.h"
#include "os/process/thread.h"
#include "os/process/thread_end.h"

namespace wherry::impl {
namespace {

// A role is the index of a device's processor, or one of these.
constexpr std::uint32_t role_detached = 0;
constexpr std::uint32_t role_by_cpu = 0xff;
static_assert(max_processors <= role_by_cpu);

// No thread has the ids in these words (0 and 2^32 - 1), so they mark slots without an entry.
constexpr std::uint64_t free_word = 0;
constexpr std::uint64_t removed = std::uint64_t{0xffff'ffff} << 32 | role_detached;

constexpr std::uint64_t word_of(pid_t thread, std::uint32_t role) {
  return std::uint64_t{static_cast<std::uint32_t>(thread)} << 32 | role;
}
constexpr std::uint32_t thread_in(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}
constexpr std::uint32_t role_in(std::uint64_t word) {
  return static_cast<std::uint32_t>(word);
}
constexpr bool is_usable(std::uint64_t word) {
  return word == free_word || word == removed;
}

// Set when the thread's end has detached it. Trivial, so that it can be read after that.
thread_local bool thread_ends = false;

pid_t own_id() {
  return static_cast<pid_t>(this_thread_id());
}

}  // namespace

struct AttachedThreads::Mine {
  AttachedThreads* table = nullptr;  // null: the thread is not attached
  pid_t thread = 0;
};

thread_local AttachedThreads::Mine AttachedThreads::mine_;

void AttachedThreads::end(void*) {
  thread_ends = true;
  if (mine_.table != nullptr && mine_.table->mark_.is_here()) mine_.table->leave(mine_.thread);
}

AttachedThreads::AttachedThreads(std::vector<Processor> by_cpu, std::size_t threads_max)
    : by_cpu_(std::move(by_cpu)),
      has_cpus_(std::ranges::any_of(by_cpu_, [](Processor p) { return !p.is_host(); })),
      threads_max_(threads_max),
      slot_count_(std::bit_ceil(2 * threads_max)),
      memory_(slot_count_ * sizeof(Slot)),
      slots_(reinterpret_cast<Slot*>(memory_.data())) {
  // Lookups may read any slot, so all slots are committed. Linux provides the pages at their first
  // use.
  if (const int error = memory_.commit(0, memory_.size()); error != 0)
    throw_errno(error, "the table of attached threads");
}

Processor AttachedThreads::processor_of(pid_t thread) const noexcept {
  return any() ? processor_at(find(thread)) : Processor::host();
}

AttachedThreads::Attachment AttachedThreads::mine() const noexcept {
  if (!any()) return {};
  const Found found = find(own_id());
  return {processor_at(found), role_in(found.word) == role_by_cpu};
}

// Neighbouring ids are spread (Fibonacci hashing): threads that start together attach together, and
// would fill one long run of slots.
std::size_t AttachedThreads::first_slot(pid_t thread) const noexcept {
  const std::uint32_t hash = static_cast<std::uint32_t>(thread) * std::uint32_t{2654435769};
  return (hash >> 8) & (slot_count_ - 1);
}

AttachedThreads::Found AttachedThreads::find(pid_t thread) const noexcept {
  std::size_t at = first_slot(thread);
  for (std::size_t looked_at = 0; looked_at < slot_count_; ++looked_at, at = after(at)) {
    const std::uint64_t word = slots_[at].word.load(std::memory_order_acquire);
    if (word == free_word) break;
    if (thread_in(word) == static_cast<std::uint32_t>(thread)) return {&slots_[at], word};
  }
  return {};
}

Processor AttachedThreads::processor_at(const Found& found) const noexcept {
  std::uint64_t word = found.word;
  if (role_in(word) == role_by_cpu) {
    // The order is sequentially consistent, as in leave(): either this thread sees that the entry
    // has changed, or the thread that leaves sees this reader, and its memory stays until the
    // reader has left.
    found.slot->readers.fetch_add(1);
    word = found.slot->word.load();
    const Processor there = word == found.word ? on_cpu(*found.slot) : Processor::host();
    found.slot->readers.fetch_sub(1);
    if (word == found.word) return there;
    // The entry has changed meanwhile. Either the thread counts as one device now, or is detached,
    // or the slot is another thread's.
    if (thread_in(word) != thread_in(found.word)) return Processor::host();
  }
  return {static_cast<int>(role_in(word))};
}

Processor AttachedThreads::on_cpu(const Slot& slot) const noexcept {
  const auto cpu = static_cast<std::size_t>(read_cpu(slot.cpu.load(std::memory_order_relaxed)));
  return cpu < by_cpu_.size() ? by_cpu_[cpu] : Processor::host();
}

int AttachedThreads::attach(Processor device) {
  WHERRY_CHECK(!device.is_host() && device.index < max_processors, "processor {}", device.index);
  return enter(static_cast<std::uint32_t>(device.index), nullptr);
}

int AttachedThreads::attach_by_cpu() {
  if (!has_cpus_) return ENODEV;
  const std::uint32_t* cpu = current_cpu_word();
  if (cpu == nullptr) return ENOTSUP;
  return enter(role_by_cpu, cpu);
}

int AttachedThreads::enter(std::uint32_t role, const std::uint32_t* cpu) {
  if (!mark_.is_here()) return EPERM;
  if (thread_ends) return ESRCH;
  static const AtThreadEnd at_end(end);
  at_end.arm(&mine_);
  WHERRY_CHECK(mine_.table == nullptr || mine_.table == this, "attached to another table");
  const pid_t thread = own_id();
  const LockGuard guard(lock_);
  Slot* slot = find(thread).slot;
  if (slot == nullptr) {
    if (attached_.load(std::memory_order_relaxed) == threads_max_) return EAGAIN;
    slot = &usable_slot(thread);
    attached_.fetch_add(1, std::memory_order_relaxed);
  }
  // Other threads may still read the old pointer, which stays valid until this thread leaves.
  if (cpu != nullptr) slot->cpu.store(cpu, std::memory_order_relaxed);
  slot->word.store(word_of(thread, role));
  mark_phase();
  mine_.table = this;
  mine_.thread = thread;
  return 0;
}

int AttachedThreads::detach() {
  if (thread_ends || mine_.table != this || !mark_.is_here()) return EINVAL;
  mine_.table = nullptr;
  leave(mine_.thread);
  return 0;
}

void AttachedThreads::leave(pid_t thread) {
  // Needs no lock: only this thread changes its entry.
  Slot& slot = *find(thread).slot;
  slot.word.store(word_of(thread, role_detached));
  // A reader takes a few instructions, but may have lost its CPU to this thread, which may have a
  // higher priority. So this thread sleeps. The limit is for a reader that never goes on, because a
  // signal handler of the program has interrupted it and left by siglongjmp().
  constexpr std::uint64_t limit_ns = 10'000'000'000;
  constexpr std::chrono::microseconds between_looks{100};
  Patience patience(limit_ns, AtLimit::goes_on);
  for (;;) {
    const std::uint32_t readers = slot.readers.load();
    if (readers == 0 || patience.is_over()) break;
    futex_wait_ns(slot.readers, readers, between_looks);
    patience.note_wait();
  }
  const LockGuard guard(lock_);
  remove(slot);
  attached_.fetch_sub(1, std::memory_order_relaxed);
  mark_phase();
}

AttachedThreads::Slot& AttachedThreads::usable_slot(pid_t thread) {
  std::size_t at = first_slot(thread);
  while (!is_usable(slots_[at].word.load(std::memory_order_relaxed))) at = after(at);
  return slots_[at];
}

// A removed slot must not end the search for entries behind it. If there are none, it becomes free,
// and so do the removed slots before it: otherwise all slots would be used up in time, and lookups
// of threads that are not attached would look at every slot.
void AttachedThreads::remove(Slot& slot) {
  slot.word.store(removed, std::memory_order_relaxed);
  auto at = static_cast<std::size_t>(&slot - slots_);
  if (slots_[after(at)].word.load(std::memory_order_relaxed) != free_word) return;
  for (; slots_[at].word.load(std::memory_order_relaxed) == removed; at = before(at))
    slots_[at].word.store(free_word, std::memory_order_relaxed);
}

}  // namespace wherry::impl
