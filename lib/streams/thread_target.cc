#include "streams/thread_target.h"

#include <fmt/core.h>

#include "base/check.h"
#include "os/process/poll.h"
#include "os/process/process.h"
#include "os/process/thread.h"
#include "streams/serving_thread.h"

namespace wherry::impl {
namespace {

// An exception must not unwind the worker, whose launch would then never end.
void call_kernel(const LaunchPiece& piece) noexcept {
  reinterpret_cast<KernelFunction>(piece.kernel)(piece.args, piece.begin, piece.end);
}

}  // namespace

ThreadTarget::ThreadTarget(AttachedThreads& attached, const WorkerOptions& options)
    : attached_(attached),
      poster_(*board_, options.count),
      completion_(make_eventfd()),
      never_(make_eventfd()),
      starting_(options.count) {
  try {
    start(options);
  } catch (...) {
    stop();
    throw;
  }
}

ThreadTarget::~ThreadTarget() {
  stop();
}

void ThreadTarget::start(const WorkerOptions& options) {
  {
    const SignalBlock no_signals;
    for (int i = 0; i < options.count; ++i) {
      workers_.emplace_back([this, i, ordinal = options.ordinal, cpus = options.cpus] {
        name_this_thread(fmt::format("wherry-dev{}-{}", ordinal, i));
        // A worker may run on any of these CPUs. A failure is not fatal, see devices/worker.cc.
        if (!cpus.empty()) pin_this_thread(cpus);
        this_thread_serves_streams();
        const int error = attached_.attach(Processor::device(ordinal));
        if (error != 0) error_.store(error);
        starting_.count_down();
        if (error == 0) run(static_cast<unsigned>(i));
      });
    }
  }
  starting_.wait();
  if (const int error = error_.load(); error != 0)
    throw_errno(error, fmt::format("cannot attach a worker to device {}", options.ordinal));
}

void ThreadTarget::stop() {
  stop_workers(*board_, stopping_);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTarget::run(unsigned worker) {
  while (const auto piece = take_piece(*board_, worker, stopping_)) {
    call_kernel(*piece);
    if (finish_piece(*board_, *piece)) signal_eventfd(completion_);
  }
}

pid_t ThreadTarget::pid() const {
  return own_pid();
}

bool ThreadTarget::try_post(const LaunchRequest& request) {
  if (!poster_.try_post(request)) return false;
  attached_.mark_phase();
  if (request.items == 0) signal_eventfd(completion_);
  return true;
}

std::vector<std::uint64_t> ThreadTarget::take_completed() {
  // Drain first: a launch that finishes after this signals again.
  drain_eventfd(completion_);
  return poster_.take_completed();
}

DeviceFailure ThreadTarget::failure() const {
  WHERRY_FAIL("threads of this process have not ended");
}

}  // namespace wherry::impl
