// The launch engine of one device: streams of kernels, host functions, operations and events, run
// in order within a stream and at the same time between streams.
//
// Work is begun by whoever makes it ready: the caller when its stream is idle, else the thread that
// takes the completion before it. Completions are taken by a thread that waits for one if there is
// such a thread, else by the engine's own, which also notices the end of the process. When the
// process ends, unfinished work is thrown away and every context of the device fails for good.
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
  // Without a target every launch waits for the first attach().
  explicit DeviceEngine(int ordinal);
  // Nobody waits any more. Work that has not been posted is dropped.
  ~DeviceEngine();

  DeviceEngine(const DeviceEngine&) = delete;
  DeviceEngine& operator=(const DeviceEngine&) = delete;

  // A context is born failed when the device process is dead.
  std::shared_ptr<WorkContext> create_context() EXCLUDES(lock_);
  std::shared_ptr<Stream> create_stream(const std::shared_ptr<WorkContext>& context,
                                        StreamKind kind, int priority = 0) EXCLUDES(lock_);
  std::shared_ptr<Stream> default_stream(const WorkContext& context) const EXCLUDES(lock_);
  WorkStatus status(const WorkContext& context) const;

  // What the stream has still runs, and what it is given by who found it before.
  void destroy_stream(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);
  // From the call on the context takes no more work: context_destroyed. Waits for what it has, or
  // its failure, and forgets it.
  void destroy_context(const std::shared_ptr<WorkContext>& context) EXCLUDES(lock_);

  // `subject`: the code that log lines name in place of the kernel; null: the kernel itself.
  WorkStatus launch(const std::shared_ptr<Stream>& stream, KernelFunction kernel,
                    std::vector<std::byte> args, std::size_t items,
                    KernelFunction subject = nullptr) EXCLUDES(lock_);
  WorkStatus launch_host(const std::shared_ptr<Stream>& stream, HostFunction function, void* data)
      EXCLUDES(lock_);
  // Calls call(status) as a host function; also when the context fails first, then with its error.
  WorkStatus add_callback(const std::shared_ptr<Stream>& stream,
                          std::function<void(WorkStatus)> call) EXCLUDES(lock_);
  // Calls start(done) when its turn has come; the stream goes on after done(). Nobody stops it once
  // it has begun: it is waited for, also when the context fails or the device is replaced.
  WorkStatus enqueue_operation(const std::shared_ptr<Stream>& stream, Operation start)
      EXCLUDES(lock_);
  // The same where the calling thread does it: waits until the stream's turn has come, then for
  // do_it(). ok: it was called.
  WorkStatus carry_out(const std::shared_ptr<Stream>& stream, const std::function<void()>& do_it)
      EXCLUDES(lock_);
  // The same where the stream has nothing to do; else it becomes the stream's operation and is
  // begun by start(done) later. Where do_it() answers another status than ok the context fails.
  WorkStatus carry_out_or_enqueue(const std::shared_ptr<Stream>& stream,
                                  const std::function<WorkStatus()>& do_it, Operation start)
      EXCLUDES(lock_);
  // A number, never 0, that two questions agree on if no kernel was launched into the stream
  // between them, and no other stream answers.
  std::uint32_t prefetch_epoch(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);

  // The recording is over when what was given to the stream before has finished.
  WorkStatus record(const std::shared_ptr<Stream>& stream, std::shared_ptr<Recording> recording)
      EXCLUDES(lock_);
  // What is given to the stream from now on waits for the recording, of any engine. Where that ends
  // with an error the stream's context fails: what its work needed does not exist.
  WorkStatus wait_for(const std::shared_ptr<Stream>& stream, std::shared_ptr<Recording> recording)
      EXCLUDES(lock_);

  // Busy while work of the stream is unfinished; a context's default stream also while work of a
  // blocking stream of the context is.
  StreamState query(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);
  // Whether work that the stream gets now begins at once.
  bool is_ready(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);
  // Of a recording of this engine. Nothing: it is not over.
  std::optional<Recording::Outcome> query(const Recording& recording) EXCLUDES(lock_);
  // Whether nothing of the context's work is queued or running.
  bool is_idle(const WorkContext& context) EXCLUDES(lock_);
  // Wait for what was given before the call. The context's status if it fails first. A wait for a
  // context's default stream includes the work of the context's blocking streams.
  WorkStatus wait(const std::shared_ptr<Stream>& stream) EXCLUDES(lock_);
  WorkStatus wait(const Recording& recording) EXCLUDES(lock_);
  WorkStatus wait_all(const std::shared_ptr<WorkContext>& context) EXCLUDES(lock_);

  // Waits until no context has work that the device has still to finish, or they have failed.
  void wait_for_device() EXCLUDES(lock_);

  // A fresh device process, in two steps. detach(): the old one is not touched any more; contexts
  // with unfinished work fail; returns when operations that had begun are over. attach(): work goes
  // to the new one; null: there is none, every context fails. `renewed` is the context whose error
  // and streams end with the old process.
  void detach(const std::shared_ptr<WorkContext>& renewed) EXCLUDES(lock_);
  void attach(std::shared_ptr<LaunchTarget> target) EXCLUDES(lock_);
  // The program ends, and its device with it: the log does not mention that. Takes no lock.
  void program_ends() { program_ends_.store(true); }

 private:
  // What becomes of work that runs when a context's work is thrown away.
  enum class Running {
    ends,           // nobody stops it, and it is waited for
    loses_kernels,  // the device is gone; operations go on, and are waited for
    is_lost,        // nobody waits any more
  };

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
  void finish_carried(const std::shared_ptr<Stream>& stream, std::uint64_t ticket,
                      WorkStatus status) REQUIRES(lock_);
  void operation_failed(const std::shared_ptr<Stream>& stream, WorkStatus status) REQUIRES(lock_);

  void wait_until(const std::function<bool()>& done) REQUIRES(lock_);
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
  const Fd wake_;         // eventfd: the engine's thread must look again
  const Fd leader_wake_;  // eventfd: the leader must look again
  const std::shared_ptr<Completions> completions_ = std::make_shared<Completions>();

  mutable Mutex lock_{LockOrder::engine};
  Condition changed_;  // something finished or failed, or the leader left
  std::shared_ptr<LaunchTarget> target_ GUARDED_BY(lock_);
  bool dead_ GUARDED_BY(lock_) = false;  // the process has ended and nobody replaces it yet
  bool stopping_ GUARDED_BY(lock_) = false;
  pid_t refused_pid_ GUARDED_BY(lock_) = 0;    // whose old credentials the log has told of
  bool watching_ GUARDED_BY(lock_) = false;    // the engine's thread takes completions
  bool has_leader_ GUARDED_BY(lock_) = false;  // a waiting thread takes completions
  std::uint64_t next_id_ GUARDED_BY(lock_) = 1;
  std::unordered_map<std::uint64_t, InFlight> in_flight_ GUARDED_BY(lock_);
  // Streams whose front found no free slot, in the order in which they will get one: by priority,
  // and among equals as they came.
  std::deque<std::shared_ptr<Stream>> starved_ GUARDED_BY(lock_);
  // Streams whose front may have become ready; empty whenever the lock is free.
  std::deque<std::shared_ptr<Stream>> ready_ GUARDED_BY(lock_);
  std::vector<std::shared_ptr<WorkContext>> contexts_ GUARDED_BY(lock_);

  HostFunctionThread host_functions_;
  std::thread thread_;
};

}  // namespace wherry::impl
