// The engine's queries, and its functions for threads that wait.
#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "os/process/poll.h"
#include "os/process/spin.h"
#include "streams/device_engine.h"

namespace wherry::impl {

std::optional<Recording::Outcome> DeviceEngine::query(const Recording& recording) {
  if (const auto outcome = recording.outcome()) return outcome;
  const LockGuard guard(lock_);
  take_events();
  watch_completions_if_needed();
  return recording.outcome();
}

StreamState DeviceEngine::query(const std::shared_ptr<Stream>& stream) {
  const LockGuard guard(lock_);
  if (is_busy(*stream)) {
    take_events();
    watch_completions_if_needed();
  }
  return is_busy(*stream) ? StreamState::busy : StreamState::idle;
}

bool DeviceEngine::is_busy(const Stream& stream) const {
  if (!stream.queue_.empty()) return true;
  if (stream.kind_ != StreamKind::context_default) return false;
  const auto context = stream.context_.lock();
  return context && stands_behind_others(*context, stream, context->last_ticket_ + 1);
}

bool DeviceEngine::is_ready(const std::shared_ptr<Stream>& stream) {
  const LockGuard guard(lock_);
  take_events();
  const auto context = stream->context_.lock();
  return stream->queue_.empty() &&
         !(context && stands_behind_others(*context, *stream, context->last_ticket_ + 1));
}

WorkStatus DeviceEngine::wait(const std::shared_ptr<Stream>& stream) {
  const LockGuard guard(lock_);
  const auto context = stream->context_.lock();
  if (!context) return WorkStatus::context_destroyed;
  struct Position {
    std::shared_ptr<Stream> stream;
    std::uint64_t last_ticket = 0;
    std::uint64_t epoch = 0;
  };
  std::vector<Position> positions;
  const auto add = [&](const std::shared_ptr<Stream>& one) REQUIRES(lock_) {
    positions.push_back({one, one->queue_.empty() ? 0 : one->queue_.back().ticket, one->epoch_});
  };
  add(stream);
  if (stream->kind_ == StreamKind::context_default) {
    for (const auto& other : context->streams_)
      if (other->kind_ == StreamKind::blocking) add(other);
  }
  const auto all_done = [&]() REQUIRES(lock_) {
    return std::all_of(positions.begin(), positions.end(),
                       [&](const Position& position) REQUIRES(lock_) {
                         return is_done(*position.stream, position.last_ticket);
                       });
  };
  wait_until(all_done, context->wait_spin_ns_);
  for (const auto& position : positions) position.stream->prefetch_epoch_ = 0;
  const bool is_lost =
      std::any_of(positions.begin(), positions.end(), [](const Position& position) {
        return position.last_ticket != 0 && position.stream->epoch_ != position.epoch;
      });
  // A reset of the device dropped the work, and the context works again.
  if (context->status_ == WorkStatus::ok && is_lost) return WorkStatus::launch_failed;
  return context->status_;
}

WorkStatus DeviceEngine::wait(const Recording& recording, std::uint64_t spin_ns) {
  const LockGuard guard(lock_);
  wait_until([&] { return recording.outcome().has_value(); }, spin_ns);
  return recording.outcome()->status;
}

WorkStatus DeviceEngine::wait_all(const std::shared_ptr<WorkContext>& context) {
  const LockGuard guard(lock_);
  const std::uint64_t last = context->last_ticket_;
  wait_until([&]() REQUIRES(lock_) { return is_done(*context, last); }, context->wait_spin_ns_);
  for (const auto& stream : context->streams_) stream->prefetch_epoch_ = 0;
  return context->status_;
}

void DeviceEngine::wait_for_device() {
  const LockGuard guard(lock_);
  wait_for_given();
}

// Waits for all work that was given to any context before the call.
void DeviceEngine::wait_for_given() {
  std::vector<std::pair<std::shared_ptr<WorkContext>, std::uint64_t>> given;
  for (const auto& context : contexts_) given.emplace_back(context, context->last_ticket_);
  wait_until([&]() REQUIRES(lock_) {
    return std::all_of(given.begin(), given.end(), [&](const auto& entry) REQUIRES(lock_) {
      return is_done(*entry.first, entry.second);
    });
  });
}

// Dropped work counts as done, too.
bool DeviceEngine::is_done(const Stream& stream, std::uint64_t last_ticket) const {
  return stream.queue_.empty() || stream.queue_.front().ticket > last_ticket;
}

bool DeviceEngine::is_done(const WorkContext& context, std::uint64_t last_ticket) const {
  return std::all_of(context.streams_.begin(), context.streams_.end(),
                     [&](const auto& stream)
                         REQUIRES(lock_) { return is_done(*stream, last_ticket); });
}

// One of the waiting threads is the leader: it sleeps on the device's descriptors and takes the
// events. This saves the detour through the engine's thread. The other waiting threads sleep until
// the leader has taken them.
void DeviceEngine::wait_until(const std::function<bool()>& done, std::uint64_t spin_ns) {
  while (!done()) {
    if (has_leader_ || !target_) {
      changed_.wait_for(lock_, std::chrono::milliseconds(wait_step_ms));
      continue;
    }
    has_leader_ = true;
    watching_ = false;
    std::array<pollfd, 4> descriptors{{{target_->completion_fd(), POLLIN, 0},
                                       {target_->exit_fd(), POLLIN, 0},
                                       {completions_->fd(), POLLIN, 0},
                                       {leader_wake_.get(), POLLIN, 0}}};
    check_wait_without(lock_.order());
    const std::shared_ptr<const LaunchTarget> target = target_;
    lock_.unlock();
    for (Spin spin(spin_ns); !target->has_completed() && poll_descriptors(descriptors, 0) == 0;) {
      if (spin.goes_on()) continue;
      poll_descriptors(descriptors, wait_step_ms);
      break;
    }
    lock_.lock();
    has_leader_ = false;
    drain_eventfd(leader_wake_);
    take_events();
  }
  watch_completions_if_needed();
  changed_.notify_all();  // another waiting thread may become the leader now
}

bool DeviceEngine::is_idle(const WorkContext& context) {
  const LockGuard guard(lock_);
  return !has_unfinished_work(context);
}

bool DeviceEngine::has_unfinished_work(const WorkContext& context) const {
  return std::any_of(context.streams_.begin(), context.streams_.end(),
                     [](const auto& stream) { return !stream->queue_.empty(); });
}

}  // namespace wherry::impl
