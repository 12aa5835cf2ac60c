#include "streams/shared_event.h"

#include <climits>
#include <thread>

#include "os/files/range_mark.h"
#include "os/process/futex.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// How long a process may take to publish a moment that it has begun, and how often a waiting thread
// checks whether that process still lives.
constexpr std::uint64_t begin_limit_ns = 1'000'000'000;
constexpr int look_ms = 100;

std::atomic<std::uint64_t> next_serial = 1;

enum : std::uint32_t {
  is_pending,
  is_over,
  is_failed,
};

}  // namespace

struct SharedEvent::Moment {
  std::atomic<std::uint64_t> number;  // written last (release)
  // the last failed moment of those that had this slot before
  std::atomic<std::uint64_t> last_failed;
  std::atomic<std::uint32_t> recorder;
  std::atomic<std::uint32_t> end;
};

struct SharedEvent::State {
  std::atomic<std::uint32_t> changes;  // futex on which waiting threads sleep
  std::atomic<std::uint32_t> opened;   // how often the file was opened; numbers the recorders
  std::atomic<std::uint64_t> last;     // the moment that the event stands for
  Moment moments[moments_max];
};

std::size_t SharedEvent::bytes() {
  return sizeof(State);
}

SharedEvent::SharedEvent() : SharedEvent(SealedMemory("wherry-event", sizeof(State))) {}

SharedEvent::SharedEvent(SealedMemory memory)
    : memory_(std::move(memory)),
      recorder_(state().opened.fetch_add(1) + 1),
      serial_(next_serial.fetch_add(1)) {
  // The byte at the offset `recorder_` stands for this opener.
  if (const int error = mark_range(memory_.fd(), recorder_, 1))
    throw_errno(error, "cannot mark an event as open");
  memory_.reopen();
}

std::shared_ptr<SharedEvent> SharedEvent::of(Fd file) {
  SealedMemory memory = SealedMemory::of(std::move(file), sizeof(State));
  return memory ? std::shared_ptr<SharedEvent>(new SharedEvent(std::move(memory))) : nullptr;
}

SharedEvent::Moment& SharedEvent::slot_of(std::uint64_t moment) const {
  return state().moments[moment % moments_max];
}

void SharedEvent::changed() const {
  state().changes.fetch_add(1);
  futex_wake(state().changes, INT_MAX);
}

std::shared_ptr<SharedEvent::Pending> SharedEvent::begin() {
  // Allocated before the event stands for the new moment: if the allocation failed afterwards, no
  // thread would ever finish that moment.
  const auto pending = std::make_shared<Pending>();
  std::uint64_t last = state().last.load();
  std::uint64_t before = 0;  // the moment that had the slot before
  std::optional<WorkStatus> end;
  do {
    before = slot_of(last + 1).number.load();
    end = before == 0 ? WorkStatus::ok : query(before);
    if (!end) return nullptr;
  } while (!state().last.compare_exchange_weak(last, last + 1));
  Moment& slot = slot_of(last + 1);
  if (*end != WorkStatus::ok) slot.last_failed.store(before);
  slot.recorder.store(recorder_);
  slot.end.store(is_pending);
  slot.number.store(last + 1, std::memory_order_release);
  pending->event_ = shared_from_this();
  pending->moment_ = last + 1;
  return pending;
}

void SharedEvent::Pending::finish(WorkStatus status) {
  if (!event_) return;
  event_->slot_of(moment_).end.store(status == WorkStatus::ok ? is_over : is_failed);
  event_->changed();
  event_ = nullptr;
}

std::uint64_t SharedEvent::last() const {
  return state().last.load();
}

std::optional<WorkStatus> SharedEvent::query(std::uint64_t moment) const {
  const Moment& slot = slot_of(moment);
  const std::uint64_t number = slot.number.load(std::memory_order_acquire);
  if (number < moment) return std::nullopt;
  const std::uint32_t end = slot.end.load();
  const std::uint32_t recorder = slot.recorder.load();
  // The slot is in use by a later moment, perhaps since this function read it, so this moment is
  // over.
  if (slot.number.load() != moment)
    return slot.last_failed.load() == moment ? WorkStatus::launch_failed : WorkStatus::ok;
  if (end == is_over) return WorkStatus::ok;
  if (end == is_failed) return WorkStatus::launch_failed;
  if (recorder == recorder_ || is_range_marked(memory_.fd(), recorder, 1)) return std::nullopt;
  // The recorder may have finished the moment just before it ended.
  return slot.end.load() == is_over ? WorkStatus::ok : WorkStatus::launch_failed;
}

std::optional<WorkStatus> SharedEvent::query(std::uint64_t moment, Patience& patience) const {
  const auto end = query(moment);
  patience.note_wait();
  if (end || slot_of(moment).number.load() == moment || !patience.is_over()) return end;
  return WorkStatus::launch_failed;
}

WorkStatus SharedEvent::wait(std::uint64_t moment) const {
  check_wait();
  Patience patience(begin_limit_ns);
  for (;;) {
    const std::uint32_t seen = state().changes.load();
    if (const auto end = query(moment, patience)) return *end;
    futex_wait(state().changes, seen, look_ms);
  }
}

void SharedEvent::tell(std::uint64_t moment, std::shared_ptr<Recording> recording) {
  const LockGuard guard(lock_);
  waiters_.push_back({moment, Patience(begin_limit_ns), std::move(recording)});
  if (serving_) return changed();
  const SignalBlock block;
  std::thread([self = shared_from_this()] { self->serve_all(); }).detach();
  serving_ = true;
}

bool SharedEvent::serve() {
  std::vector<std::pair<std::shared_ptr<Recording>, WorkStatus>> over;
  bool some_left = false;
  {
    const LockGuard guard(lock_);
    std::erase_if(waiters_, [&](Waiter& waiter) {
      const auto end = query(waiter.moment, waiter.patience);
      if (end) over.emplace_back(waiter.recording, *end);
      return end.has_value();
    });
    serving_ = some_left = !waiters_.empty();
  }
  for (const auto& [recording, status] : over) recording->finish(status);
  return some_left;
}

void SharedEvent::serve_all() {
  name_this_thread("wherry-event");
  for (;;) {
    const std::uint32_t seen = state().changes.load();
    if (!serve()) return;
    futex_wait(state().changes, seen, look_ms);
  }
}

}  // namespace wherry::impl
