// The engine's functions for the device process: its reports, its end, and its replacement.
#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "os/process/poll.h"
#include "os/process/thread.h"
#include "streams/device_engine.h"
#include "streams/failure_text.h"

namespace wherry::impl {

namespace {

bool is_readable(int fd) {
  std::array<pollfd, 1> descriptor{{{fd, POLLIN, 0}}};
  return poll_descriptors(descriptor, 0) > 0;
}

// The new status of the context whose kernel ended the process.
WorkStatus status_after(DeviceFailure::Kind failure) {
  switch (failure) {
    case DeviceFailure::Kind::illegal_address:
      return WorkStatus::illegal_address;
    case DeviceFailure::Kind::assertion:
      return WorkStatus::assertion_failed;
    default:
      return WorkStatus::launch_failed;
  }
}

}  // namespace

// Takes finished work, and notices the end of the process. Called by waiting threads and by the
// engine's thread.
void DeviceEngine::take_events() {
  if (target_) take_from_target();
  settle();
}

void DeviceEngine::take_from_target() {
  // Read before the completions, so that work that finished before the process ended counts as
  // finished.
  const bool ended = is_readable(target_->exit_fd());
  const std::vector<std::uint64_t> completed = target_->take_completed();
  // Each completion frees a launch slot. Streams that wait for a slot get it before the next work
  // of the stream that finished.
  if (!completed.empty()) serve_starved();
  for (const std::uint64_t id : completed) {
    const auto found = in_flight_.find(id);
    if (found == in_flight_.end()) continue;
    record_end(id, found->second, LaunchDetail::finished);
    const auto stream = std::move(found->second.stream);
    in_flight_.erase(found);
    finish_front(stream);
  }
  if (ended) target_ended();
}

void DeviceEngine::target_ended() {
  const DeviceFailure failure = target_->failure();
  const auto culprit = in_flight_.find(failure.launch_id);
  std::shared_ptr<WorkContext> culprit_context;
  std::uintptr_t kernel = failure.kernel;
  if (culprit != in_flight_.end()) {
    culprit_context = culprit->second.stream->context_.lock();
    kernel = reinterpret_cast<std::uintptr_t>(culprit->second.kernel);
  }
  if (!program_ends_.load())
    log_error("{}", describe_failure(ordinal_, target_->pid(), failure, kernel));

  dead_ = true;
  target_.reset();
  for (const auto& context : contexts_) {
    if (context->status_ == WorkStatus::ok)
      context->status_ =
          context == culprit_context ? status_after(failure.kind) : WorkStatus::launch_failed;
    throw_away_work(*context, Running::loses_kernels);
  }
  changed();
}

// Fails the stream's context: the stream waited for an event of a context that has failed.
void DeviceEngine::wait_failed(const std::shared_ptr<Stream>& stream, WorkStatus status) {
  const auto context = stream->context_.lock();
  if (!context || context->status_ != WorkStatus::ok) return;
  log_error(
      "device {}: a stream waited for an event of a failed context, so its own context fails, too",
      ordinal_);
  context->status_ = status == WorkStatus::illegal_address ? status : WorkStatus::launch_failed;
  throw_away_work(*context, Running::ends);
  changed();
}

// Fails the stream's context, because no call waits for the operation's result.
void DeviceEngine::operation_failed(const std::shared_ptr<Stream>& stream, WorkStatus status) {
  const auto context = stream->context_.lock();
  if (!context || context->status_ != WorkStatus::ok) return;
  context->status_ = status;
  throw_away_work(*context, Running::ends);
  changed();
}

// Drops the context's work. A later completion of such work is ignored, because its ticket is not
// at the front of the stream.
void DeviceEngine::throw_away_work(WorkContext& context, Running running) {
  const WorkStatus status = context.status_;
  const WorkStatus why = status == WorkStatus::ok ? WorkStatus::launch_failed : status;
  for (const auto& stream : context.streams_) throw_away_work(stream, why, running);
  std::erase_if(context.streams_,
                [](const auto& stream) { return stream->destroyed_ && stream->queue_.empty(); });
}

void DeviceEngine::throw_away_work(const std::shared_ptr<Stream>& stream, WorkStatus why,
                                   Running running) {
  const bool front_runs = stream->running_;
  std::deque<Work> thrown;
  thrown.swap(stream->queue_);
  const bool front_ends = front_runs && (running == Running::ends ||
                                         (running == Running::loses_kernels &&
                                          std::holds_alternative<Operation>(thrown.front().what)));
  ++stream->epoch_;
  std::erase(starved_, stream);
  stream->starved_ = false;
  if (front_ends) {
    stream->queue_.push_back(std::move(thrown.front()));
  } else {
    stream->running_ = false;
    std::erase_if(in_flight_, [&](const auto& entry) {
      if (entry.second.stream != stream) return false;
      record_end(entry.first, entry.second, LaunchDetail::lost);
      return true;
    });
  }
  // Skips running work: host work has been posted, and asks for its status itself.
  if (front_runs) thrown.pop_front();
  for (const auto& [ticket, what] : thrown) {
    if (const auto* record = std::get_if<RecordWork>(&what)) record->recording->finish(why);
    if (const auto* host = std::get_if<HostWork>(&what); host != nullptr && host->even_if_failed) {
      post_to_host(stream, ticket, *host);
    }
  }
}

void DeviceEngine::detach(const std::shared_ptr<WorkContext>& renewed) {
  const LockGuard guard(lock_);
  target_.reset();
  dead_ = false;
  for (const auto& context : contexts_) {
    if (context == renewed) {
      context->status_ = WorkStatus::ok;
    } else if (context->status_ == WorkStatus::ok && has_unfinished_work(*context)) {
      context->status_ = WorkStatus::launch_failed;
    }
    throw_away_work(*context, Running::loses_kernels);
  }
  changed();
  signal_eventfd(wake_);
  // Work that still runs may concern memory that the program will use for other purposes.
  wait_for_given();
}

void DeviceEngine::attach(std::shared_ptr<LaunchTarget> target) {
  const LockGuard guard(lock_);
  target_ = std::move(target);
  dead_ = target_ == nullptr;
  if (dead_) {
    for (const auto& context : contexts_) {
      if (context->status_ == WorkStatus::ok) context->status_ = WorkStatus::launch_failed;
      throw_away_work(*context, Running::loses_kernels);
    }
  }
  changed();
  signal_eventfd(wake_);
}

// Makes the engine's thread take completions if work waits for them and no waiting thread does.
void DeviceEngine::watch_completions_if_needed() {
  if (watching_ || has_leader_ || in_flight_.empty()) return;
  const bool needed = std::any_of(contexts_.begin(), contexts_.end(), [](const auto& context) {
    return std::any_of(context->streams_.begin(), context->streams_.end(), [](const auto& stream) {
      return stream->queue_.size() > 1 || (!stream->queue_.empty() && !stream->running_);
    });
  });
  if (!needed) return;
  watching_ = true;
  signal_eventfd(wake_);
}

void DeviceEngine::run() {
  name_this_thread("wherry-eng" + std::to_string(ordinal_));
  std::array<pollfd, 4> descriptors{};
  while (true) {
    std::size_t used = 0;
    descriptors[used++] = {wake_.get(), POLLIN, 0};
    descriptors[used++] = {completions_->fd(), POLLIN, 0};
    {
      const LockGuard guard(lock_);
      if (stopping_) return;
      if (target_) {
        descriptors[used++] = {target_->exit_fd(), POLLIN, 0};
        if (watching_) descriptors[used++] = {target_->completion_fd(), POLLIN, 0};
      }
    }
    // No time limit, because every event that concerns this thread makes one of these readable.
    poll_descriptors({descriptors.data(), used}, -1);
    drain_eventfd(wake_);
    const LockGuard guard(lock_);
    take_events();
    if (!has_leader_) {
      watching_ = false;
      watch_completions_if_needed();
    }
  }
}

}  // namespace wherry::impl
