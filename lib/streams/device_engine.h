// The launch engine of one device: streams of kernels, host functions, operations and events. Work
// runs in order within a stream, and concurrently between streams.
//
// Work is begun by the thread that makes it ready: the caller if its stream is idle, otherwise the
// thread that takes the previous completion. If a thread is waiting, it takes the completions;
// otherwise the engine's own thread does, which also notices the end of the process. When the
// process ends, unfinished work is dropped, and every context of the device fails for good.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/lock.h"
#include "os/files/fd.h"
#include "os/process/condition.h"
#include "streams/completions.h"
#include "streams/host_functions.h"
#include "streams/launch_target.h"
#include "streams/recording.h"
#include "streams/stream.h"
#include "trace/event.h"

namespace wherry::impl {

enum class StreamState {
  idle,
  busy,
};

class DeviceEngine {
 public:
  // The engine begins without a target (the device's process or threads), and launches wait for the
  // first attach().
  explicit DeviceEngine(int ordinal);
  // Requires: no thread waits any more. Drops work that has not been posted.
  ~DeviceEngine();

  DeviceEngine(const DeviceEngine&) = delete;
  DeviceEngine& operator=(const DeviceEngine&) = delete;

  // If the device process is dead, the new context has failed already.
  std::shared_ptr<WorkContext> create_context() EXCLUDES(lock_);
  std::shared_ptr<Stream> create_stream(const std::shared_ptr<WorkContext>& context,
                                        StreamKind kind, int priority = 0) EXCLUDES(lock_);
  std::shared_ptr<Stream> default_stream(const WorkContext& context) const EXCLUDES(lock_);
  WorkStatus status(const WorkContext& context) const;

  // The stream still finishes its work, and work from threads that found it before this call.
  void destroy_stream(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);
  // From this call on the context takes no more work and answers context_destroyed. Waits until its
  // work has finished or failed, and then forgets the context.
  void destroy_context(const std::shared_ptr<WorkContext>& context) EXCLUDES(lock_);

  // `subject`: the code that log lines name instead of the kernel; null: they name the kernel.
  WorkStatus launch(const std::shared_ptr<Stream>& stream, KernelFunction kernel,
                    std::vector<std::byte> args, std::size_t items,
                    KernelFunction subject = nullptr) EXCLUDES(lock_);
  WorkStatus launch_host(const std::shared_ptr<Stream>& stream, HostFunction function, void* data)
      EXCLUDES(lock_);
  // Calls call(status) as a host function. If the context fails first, calls it with that error.
  WorkStatus add_callback(const std::shared_ptr<Stream>& stream,
                          std::function<void(WorkStatus)> call) EXCLUDES(lock_);
  // Calls start(done) when the operation's turn has come; the stream continues after done(). An
  // operation that has begun is never interrupted: it is waited for, also when the context fails or
  // the device is replaced.
  WorkStatus enqueue_operation(const std::shared_ptr<Stream>& stream, Operation start)
      EXCLUDES(lock_);
  // Runs do_it() in the calling thread as work of the stream: waits for its turn, then calls it.
  // Returns ok if do_it() was called.
  WorkStatus run_inline(const std::shared_ptr<Stream>& stream, const std::function<void()>& do_it)
      EXCLUDES(lock_);
  // If the stream has nothing to do, runs do_it() in the calling thread. Otherwise the stream gets
  // an operation that begins with start(done) later. If do_it() returns another status than ok, the
  // context fails.
  WorkStatus run_inline_or_enqueue(const std::shared_ptr<Stream>& stream,
                                   const std::function<WorkStatus()>& do_it, Operation start)
      EXCLUDES(lock_);
  // A number, never 0, that no other stream has. It changes when the stream gets a kernel, a host
  // function or a wait for an event, or when a thread waits for the stream.
  std::uint32_t prefetch_epoch(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);

  // The recording is finished when all earlier work of the stream has finished.
  WorkStatus record(const std::shared_ptr<Stream>& stream, std::shared_ptr<Recording> recording)
      EXCLUDES(lock_);
  // Later work of the stream waits for the recording, which may be of any engine. If the recording
  // ends with an error, the stream's context fails, because what its work needs does not exist.
  WorkStatus wait_for(const std::shared_ptr<Stream>& stream, std::shared_ptr<Recording> recording)
      EXCLUDES(lock_);

  // The moments of other streams that the stream's later work comes after; null if none is known.
  std::shared_ptr<const StreamOrder> order_of(const Stream& stream) const EXCLUDES(lock_);

  // Busy while the stream has unfinished work. A context's default stream is also busy while a
  // blocking stream of the context is.
  StreamState query(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);
  // Whether work that is given to the stream now would begin at once.
  bool is_ready(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);
  // How a recording of this engine ended; nullopt if it is not finished.
  std::optional<Recording::Outcome> query(const Recording& recording) EXCLUDES(lock_);
  // Whether the context has no work queued or running.
  bool is_idle(const WorkContext& context) EXCLUDES(lock_);
  // wait() and wait_all() wait for work that was given before the call. They return the context's
  // status if it fails first. A wait for a context's default stream includes the work of the
  // context's blocking streams.
  WorkStatus wait(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);
  // `spin_ns`: how long the thread looks for the end before it sleeps; see WorkContext.
  WorkStatus wait(const Recording& recording, std::uint64_t spin_ns = usual_spin_ns)
      EXCLUDES(lock_);
  WorkStatus wait_all(const std::shared_ptr<WorkContext>& context) EXCLUDES(lock_);

  // Waits until all contexts have finished the work that they have now, or have failed.
  void wait_for_device() EXCLUDES(lock_);

  // Replaces the device process in two steps. After detach() the engine no longer uses the old
  // process, and contexts with unfinished work have failed; detach() returns when operations that
  // had begun are over. After attach() work goes to the new process; if `target` is null, every
  // context fails. `renewed` is the context whose error and streams end with the old process.
  void detach(const std::shared_ptr<WorkContext>& renewed) EXCLUDES(lock_);
  void attach(std::shared_ptr<LaunchTarget> target) EXCLUDES(lock_);
  // The program is ending, and its device with it, so the log does not report the device's end.
  // Takes no lock.
  void program_ends() { program_ends_.store(true); }

 private:
  // What happens to running work when a context's work is dropped.
  enum class Running {
    ends,           // it cannot be stopped, and is waited for
    loses_kernels,  // the device is gone; operations continue, and are waited for
    is_lost,        // no thread waits for it any more
  };

  // How long a waiting thread sleeps at most before it checks the condition itself.
  static constexpr int wait_step_ms = 100;

  struct InFlight {
    std::shared_ptr<Stream> stream;
    KernelFunction kernel = nullptr;
  };

  void run() EXCLUDES(lock_);
  void take_events() REQUIRES(lock_);
  void take_from_target() REQUIRES(lock_);
  void finish_front(const std::shared_ptr<Stream>& stream) REQUIRES(lock_);
  void target_ended() REQUIRES(lock_);

  WorkStatus refuse_credentials() REQUIRES(lock_);
  WorkStatus enqueue(const std::shared_ptr<Stream>& stream, Work work) REQUIRES(lock_);
  void settle() REQUIRES(lock_);
  void start_if_ready(const std::shared_ptr<Stream>& stream) REQUIRES(lock_);
  bool stands_behind_others(const WorkContext& context, const Stream& stream,
                            std::uint64_t ticket) const REQUIRES(lock_);
  bool is_busy(const Stream& stream) const REQUIRES(lock_);
  void look_at_ordered_after(const Stream& finished) REQUIRES(lock_);
  void serve_starved() REQUIRES(lock_);
  bool post_front(const std::shared_ptr<Stream>& stream) REQUIRES(lock_);
  void record_begin(std::uint64_t begun_ns, const LaunchRequest& request,
                    KernelFunction kernel) const;
  void record_end(std::uint64_t id, const InFlight& launch, LaunchDetail how) const;
  void begin(const std::shared_ptr<Stream>& stream, const KernelWork& work) REQUIRES(lock_);
  void begin(const std::shared_ptr<Stream>& stream, const HostWork& work) REQUIRES(lock_);
  void begin(const std::shared_ptr<Stream>& stream, const Operation& start) REQUIRES(lock_);
  void begin(const std::shared_ptr<Stream>& stream, const RecordWork& work) REQUIRES(lock_);
  void begin(const std::shared_ptr<Stream>& stream, const WaitWork& work) REQUIRES(lock_);
  void stand_in_line(const std::shared_ptr<Stream>& stream) REQUIRES(lock_);
  void post_to_host(const std::shared_ptr<Stream>& stream, std::uint64_t ticket,
                    const HostWork& work) REQUIRES(lock_);
  WorkStatus fate_of(const Stream& stream, std::uint64_t ticket) const REQUIRES(lock_);
  bool is_running(const Stream& stream, std::uint64_t ticket) const REQUIRES(lock_);
  void wait_failed(const std::shared_ptr<Stream>& stream, WorkStatus status) REQUIRES(lock_);
  void finish_inline(const std::shared_ptr<Stream>& stream, std::uint64_t ticket, WorkStatus status)
      REQUIRES(lock_);
  void operation_failed(const std::shared_ptr<Stream>& stream, WorkStatus status) REQUIRES(lock_);

  // Returns once done() returns true. The first waiting thread spins for `spin_ns` before it
  // sleeps.
  void wait_until(const std::function<bool()>& done, std::uint64_t spin_ns = usual_spin_ns)
      REQUIRES(lock_);
  void wait_for_given() REQUIRES(lock_);
  bool is_done(const Stream& stream, std::uint64_t last_ticket) const REQUIRES(lock_);
  bool is_done(const WorkContext& context, std::uint64_t last_ticket) const REQUIRES(lock_);
  void throw_away_work(WorkContext& context, Running running) REQUIRES(lock_);
  void throw_away_work(const std::shared_ptr<Stream>& stream, WorkStatus why, Running running)
      REQUIRES(lock_);
  bool has_unfinished_work(const WorkContext& context) const REQUIRES(lock_);
  void watch_completions_if_needed() REQUIRES(lock_);
  void changed() REQUIRES(lock_);

  const int ordinal_;
  std::atomic<bool> program_ends_{false};
  const Fd wake_;         // eventfd: the engine's thread must check again
  const Fd leader_wake_;  // eventfd: the leader must check again
  const std::shared_ptr<Completions> completions_ = std::make_shared<Completions>();

  mutable Mutex lock_{LockOrder::engine};
  Condition changed_;  // something finished or failed, or the leader left
  std::shared_ptr<LaunchTarget> target_ GUARDED_BY(lock_);
  bool dead_ GUARDED_BY(lock_) = false;  // the process has ended and has not been replaced yet
  bool stopping_ GUARDED_BY(lock_) = false;
  // The process of which the log already says that its credentials are outdated.
  pid_t refused_pid_ GUARDED_BY(lock_) = 0;
  bool watching_ GUARDED_BY(lock_) = false;    // true: the engine's thread takes completions
  bool has_leader_ GUARDED_BY(lock_) = false;  // true: a waiting thread takes completions
  std::uint64_t next_id_ GUARDED_BY(lock_) = 1;
  std::unordered_map<std::uint64_t, InFlight> in_flight_ GUARDED_BY(lock_);
  // Streams whose front found no free launch slot, in the order in which they get one: by priority,
  // then first come, first served.
  std::deque<std::shared_ptr<Stream>> starved_ GUARDED_BY(lock_);
  // Streams whose front may have become ready. Empty whenever lock_ is free.
  std::deque<std::shared_ptr<Stream>> ready_ GUARDED_BY(lock_);
  std::vector<std::shared_ptr<WorkContext>> contexts_ GUARDED_BY(lock_);

  HostFunctionThread host_functions_;
  std::thread thread_;
};

}  // namespace wherry::impl
