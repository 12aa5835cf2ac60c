#include "streams/device_engine.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "os/process/poll.h"
#include "os/process/thread.h"
#include "trace/recorder.h"

namespace wherry::impl {

DeviceEngine::DeviceEngine(int ordinal)
    : ordinal_(ordinal),
      wake_(make_eventfd()),
      leader_wake_(make_eventfd()),
      host_functions_("wherry-host" + std::to_string(ordinal)) {
  const SignalBlock no_signals;
  thread_ = std::thread([this] { run(); });
}

DeviceEngine::~DeviceEngine() {
  {
    const LockGuard guard(lock_);
    stopping_ = true;
    for (const auto& context : contexts_) throw_away_work(*context, Running::is_lost);
  }
  completions_->close();
  signal_eventfd(wake_);
  thread_.join();
}

// ---- contexts and streams

std::shared_ptr<WorkContext> DeviceEngine::create_context() {
  const auto context = std::make_shared<WorkContext>();
  const auto stream = std::make_shared<Stream>(context, StreamKind::context_default, 0);
  const LockGuard guard(lock_);
  context->default_stream_ = stream;
  context->streams_.push_back(stream);
  if (dead_) context->status_ = WorkStatus::launch_failed;
  contexts_.push_back(context);
  return context;
}

std::shared_ptr<Stream> DeviceEngine::create_stream(const std::shared_ptr<WorkContext>& context,
                                                    StreamKind kind, int priority) {
  const auto stream = std::make_shared<Stream>(context, kind, priority);
  const LockGuard guard(lock_);
  context->streams_.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> DeviceEngine::default_stream(const WorkContext& context) const {
  const LockGuard guard(lock_);
  return context.default_stream_;
}

WorkStatus DeviceEngine::status(const WorkContext& context) const {
  return context.status_;
}

void DeviceEngine::destroy_stream(const std::shared_ptr<Stream>& stream) {
  const LockGuard guard(lock_);
  stream->destroyed_ = true;
  const auto context = stream->context_.lock();
  if (context && stream->queue_.empty()) std::erase(context->streams_, stream);
}

void DeviceEngine::destroy_context(const std::shared_ptr<WorkContext>& context) {
  const LockGuard guard(lock_);
  context->closing_ = true;
  wait_until([&, last = context->last_ticket_]()
                 REQUIRES(lock_) { return is_done(*context, last); });
  throw_away_work(*context, Running::is_lost);
  context->status_ = WorkStatus::context_destroyed;
  std::erase(contexts_, context);
  changed();
}

// ---- adding work to streams

WorkStatus DeviceEngine::launch(const std::shared_ptr<Stream>& stream, KernelFunction kernel,
                                std::vector<std::byte> args, std::size_t items,
                                KernelFunction subject) {
  // The target that was last asked to load the kernel's module.
  std::shared_ptr<LaunchTarget> asked;
  int error = 0;
  for (;;) {
    {
      const LockGuard guard(lock_);
      // Between detach() and attach() there is no target. That lasts until running operations have
      // ended and a new process has started.
      while (!target_ && !dead_) changed_.wait_for(lock_, std::chrono::milliseconds(wait_step_ms));
      const auto context = stream->context_.lock();
      if (!context) return WorkStatus::context_destroyed;
      if (context->status_ != WorkStatus::ok) return context->status_;
      if (!target_) return WorkStatus::launch_failed;
      if (!target_->has_credentials_of_caller()) return refuse_credentials();
      if (const auto address = target_->resolve(kernel)) {
        if (items == 0) return WorkStatus::ok;
        stream->prefetch_epoch_ = 0;
        return enqueue(stream, {0, KernelWork{subject != nullptr ? subject : kernel, *address,
                                              std::move(args), items}});
      }
      if (error == ENOEXEC) return WorkStatus::unknown_kernel;
      if (error != 0 && asked == target_) return WorkStatus::launch_failed;
      asked = target_;
    }
    // Called without the lock, because load() takes as long as the module's constructors.
    error = asked->load(kernel);
  }
}

WorkStatus DeviceEngine::refuse_credentials() {
  if (std::exchange(refused_pid_, target_->pid()) != target_->pid())
    log_line(
        "device {}: launch refused: the program has changed its user, groups or capabilities, and "
        "process {} still has the earlier ones; cuDevicePrimaryCtxReset starts a process with the "
        "new ones",
        ordinal_, target_->pid());
  return WorkStatus::other_credentials;
}

WorkStatus DeviceEngine::launch_host(const std::shared_ptr<Stream>& stream, HostFunction function,
                                     void* data) {
  const LockGuard guard(lock_);
  stream->prefetch_epoch_ = 0;
  return enqueue(stream, {0, HostWork{[function, data](WorkStatus) { function(data); }, false}});
}

WorkStatus DeviceEngine::add_callback(const std::shared_ptr<Stream>& stream,
                                      std::function<void(WorkStatus)> call) {
  const LockGuard guard(lock_);
  stream->prefetch_epoch_ = 0;
  return enqueue(stream, {0, HostWork{std::move(call), true}});
}

WorkStatus DeviceEngine::enqueue_operation(const std::shared_ptr<Stream>& stream, Operation start) {
  const LockGuard guard(lock_);
  return enqueue(stream, {0, std::move(start)});
}

WorkStatus DeviceEngine::run_inline(const std::shared_ptr<Stream>& stream,
                                    const std::function<void()>& do_it) {
  const auto turn = std::make_shared<std::atomic<bool>>(false);
  std::uint64_t ticket = 0;
  {
    const LockGuard guard(lock_);
    const std::uint64_t epoch = stream->epoch_;
    const WorkStatus status =
        enqueue(stream, {0, Operation([turn](const Completion&) { *turn = true; })});
    if (status != WorkStatus::ok) return status;
    const auto context = stream->context_.lock();
    ticket = context->last_ticket_;
    wait_until([&]() REQUIRES(lock_) { return *turn || stream->epoch_ != epoch; },
               context->wait_spin_ns_);
    // Work that has been dropped never begins; work that has begun is waited for.
    if (!*turn)
      return context->status_ != WorkStatus::ok ? context->status_.load()
                                                : WorkStatus::launch_failed;
  }
  do_it();
  const LockGuard guard(lock_);
  finish_inline(stream, ticket, WorkStatus::ok);
  return WorkStatus::ok;
}

WorkStatus DeviceEngine::run_inline_or_enqueue(const std::shared_ptr<Stream>& stream,
                                               const std::function<WorkStatus()>& do_it,
                                               Operation start) {
  struct Turn {
    bool now = true;  // true: start would be called by the calling thread, inside enqueue()
    bool came = false;
  };
  const auto turn = std::make_shared<Turn>();
  std::uint64_t ticket = 0;
  {
    const LockGuard guard(lock_);
    const WorkStatus status =
        enqueue(stream, {0, Operation([turn, start = std::move(start)](Completion done) {
                           if (turn->now)
                             turn->came = true;
                           else
                             start(std::move(done));
                         })});
    turn->now = false;
    if (status != WorkStatus::ok || !turn->came) return status;
    ticket = stream->queue_.empty() ? 0 : stream->queue_.front().ticket;
  }
  const WorkStatus done = do_it();
  const LockGuard guard(lock_);
  finish_inline(stream, ticket, done);
  return WorkStatus::ok;
}

void DeviceEngine::finish_inline(const std::shared_ptr<Stream>& stream, std::uint64_t ticket,
                                 WorkStatus status) {
  if (!is_running(*stream, ticket)) return;
  finish_front(stream);
  if (status != WorkStatus::ok) operation_failed(stream, status);
  settle();
  watch_completions_if_needed();
}

WorkStatus DeviceEngine::record(const std::shared_ptr<Stream>& stream,
                                std::shared_ptr<Recording> recording) {
  static std::atomic<std::uint64_t> last = 0;
  const LockGuard guard(lock_);
  recording->moment = {stream->id(), ++last};
  recording->order = stream->order_;
  return enqueue(stream, {0, RecordWork{std::move(recording)}});
}

WorkStatus DeviceEngine::wait_for(const std::shared_ptr<Stream>& stream,
                                  std::shared_ptr<Recording> recording) {
  const LockGuard guard(lock_);
  stream->prefetch_epoch_ = 0;
  const StreamOrder::Moment moment = recording->moment;
  auto order = moment.number != 0 ? StreamOrder::extended(stream->order_, moment, recording->order)
                                  : stream->order_;
  const WorkStatus status = enqueue(stream, {0, WaitWork{std::move(recording)}});
  if (status == WorkStatus::ok) stream->order_ = std::move(order);
  return status;
}

std::shared_ptr<const StreamOrder> DeviceEngine::order_of(const Stream& stream) const {
  const LockGuard guard(lock_);
  return stream.order_;
}

std::uint32_t DeviceEngine::prefetch_epoch(const std::shared_ptr<Stream>& stream) {
  static std::atomic<std::uint32_t> last = 0;
  const LockGuard guard(lock_);
  while (stream->prefetch_epoch_ == 0) stream->prefetch_epoch_ = ++last;
  return stream->prefetch_epoch_;
}

WorkStatus DeviceEngine::enqueue(const std::shared_ptr<Stream>& stream, Work work) {
  const auto context = stream->context_.lock();
  if (!context || context->closing_) return WorkStatus::context_destroyed;
  if (context->status_ != WorkStatus::ok) return context->status_;
  // The stream's front may have finished, with its completion not taken yet.
  if (stream->running_) take_events();
  if (context->status_ != WorkStatus::ok) return context->status_;
  work.ticket = ++context->last_ticket_;
  // Another thread has destroyed the stream since the caller found it, and the context has
  // forgotten it. Remember it again, or no thread would wait for its work.
  if (stream->destroyed_ && stream->queue_.empty()) context->streams_.push_back(stream);
  stream->queue_.push_back(std::move(work));
  ready_.push_back(stream);
  settle();
  watch_completions_if_needed();
  return WorkStatus::ok;
}

// ---- running work

// Takes completions of other threads, and begins work that is ready, until neither makes more work
// ready. It is a loop and not a recursion, because thousands of streams and pieces of work may
// become ready one after the other.
void DeviceEngine::settle() {
  while (true) {
    for (const auto& [stream, ticket, status] : completions_->take()) {
      if (!is_running(*stream, ticket)) continue;  // the work was dropped
      const bool waited = std::holds_alternative<WaitWork>(stream->queue_.front().what);
      finish_front(stream);
      if (status == WorkStatus::ok) continue;
      if (waited)
        wait_failed(stream, status);
      else
        operation_failed(stream, status);
    }
    if (ready_.empty()) return;
    const auto stream = std::move(ready_.front());
    ready_.pop_front();
    start_if_ready(stream);
  }
}

bool DeviceEngine::is_running(const Stream& stream, std::uint64_t ticket) const {
  return stream.running_ && !stream.queue_.empty() && stream.queue_.front().ticket == ticket;
}

void DeviceEngine::start_if_ready(const std::shared_ptr<Stream>& stream) {
  if (stream->running_ || stream->starved_ || stream->queue_.empty()) return;
  const auto context = stream->context_.lock();
  if (!context) return;
  if (stands_behind_others(*context, *stream, stream->queue_.front().ticket)) return;
  std::visit([&](const auto& what) REQUIRES(lock_) { begin(stream, what); },
             stream->queue_.front().what);
}

// Whether the stream's work with this ticket must wait for unfinished work of other streams.
bool DeviceEngine::stands_behind_others(const WorkContext& context, const Stream& stream,
                                        std::uint64_t ticket) const {
  const auto has_earlier_work = [ticket](const Stream& other) {
    return !other.queue_.empty() && other.queue_.front().ticket < ticket;
  };
  switch (stream.kind_) {
    case StreamKind::context_default:
      return std::any_of(context.streams_.begin(), context.streams_.end(), [&](const auto& other) {
        return other->kind_ == StreamKind::blocking && has_earlier_work(*other);
      });
    case StreamKind::blocking:
      return has_earlier_work(*context.default_stream_);
    case StreamKind::non_blocking:
      break;
  }
  return false;
}

void DeviceEngine::begin(const std::shared_ptr<Stream>& stream, const KernelWork&) {
  if (!starved_.empty() || !post_front(stream)) stand_in_line(stream);
}

void DeviceEngine::begin(const std::shared_ptr<Stream>& stream, const HostWork& work) {
  stream->running_ = true;
  post_to_host(stream, stream->queue_.front().ticket, work);
}

void DeviceEngine::begin(const std::shared_ptr<Stream>& stream, const Operation& start) {
  stream->running_ = true;
  start(Completion([completions = completions_, stream,
                    ticket = stream->queue_.front().ticket](WorkStatus status) {
    completions->add({stream, ticket, status});
  }));
}

void DeviceEngine::begin(const std::shared_ptr<Stream>& stream, const RecordWork& work) {
  work.recording->finish(WorkStatus::ok);
  finish_front(stream);
}

void DeviceEngine::begin(const std::shared_ptr<Stream>& stream, const WaitWork& work) {
  if (const auto outcome = work.recording->outcome()) {
    finish_front(stream);
    if (outcome->status != WorkStatus::ok) wait_failed(stream, outcome->status);
    return;
  }
  stream->running_ = true;
  work.recording->tell(completions_, {stream, stream->queue_.front().ticket, WorkStatus::ok});
}

void DeviceEngine::post_to_host(const std::shared_ptr<Stream>& stream, std::uint64_t ticket,
                                const HostWork& work) {
  host_functions_.post([this, stream, ticket, work] {
    WorkStatus fate;
    {
      const LockGuard guard(lock_);
      fate = fate_of(*stream, ticket);
    }
    if (fate == WorkStatus::ok || work.even_if_failed) work.call(fate);
    const LockGuard guard(lock_);
    if (!is_running(*stream, ticket)) return;
    finish_front(stream);
    settle();
    watch_completions_if_needed();
  });
}

// The status to pass to host work that is about to be called.
WorkStatus DeviceEngine::fate_of(const Stream& stream, std::uint64_t ticket) const {
  const auto context = stream.context_.lock();
  if (!context) return WorkStatus::context_destroyed;
  if (context->status_ != WorkStatus::ok || is_running(stream, ticket)) return context->status_;
  return WorkStatus::launch_failed;  // dropped by a reset, after which the context works again
}

void DeviceEngine::stand_in_line(const std::shared_ptr<Stream>& stream) {
  stream->starved_ = true;
  const auto place = std::upper_bound(
      starved_.begin(), starved_.end(), stream,
      [](const auto& one, const auto& other) { return one->priority_ < other->priority_; });
  starved_.insert(place, stream);
}

bool DeviceEngine::post_front(const std::shared_ptr<Stream>& stream) {
  if (!target_) return false;
  const auto& work = std::get<KernelWork>(stream->queue_.front().what);
  LaunchRequest request;
  request.id = next_id_;
  request.address = work.address;
  request.args = work.args.data();
  request.args_size = work.args.size();
  request.items = work.items;
  request.priority = stream->priority_;
  // Taken before try_post(), because the device may fault before that returns.
  const std::uint64_t begun_ns = is_recorded(EventKind::launch_begin) ? now_ns() : 0;
  if (!target_->try_post(request)) return false;
  if (begun_ns != 0) record_begin(begun_ns, request, work.kernel);
  ++next_id_;
  in_flight_.emplace(request.id, InFlight{stream, work.kernel});
  stream->running_ = true;
  return true;
}

void DeviceEngine::record_begin(std::uint64_t begun_ns, const LaunchRequest& request,
                                KernelFunction kernel) const {
  record_event({.time_ns = begun_ns,
                .address = reinterpret_cast<std::uintptr_t>(kernel),
                .bytes = request.items,
                .value = static_cast<std::uint32_t>(request.id),
                .kind = EventKind::launch_begin,
                .destination = index_of(Processor::device(ordinal_))});
}

void DeviceEngine::record_end(std::uint64_t id, const InFlight& launch, LaunchDetail how) const {
  if (!is_recorded(EventKind::launch_end)) return;
  record_event({.time_ns = now_ns(),
                .address = reinterpret_cast<std::uintptr_t>(launch.kernel),
                .value = static_cast<std::uint32_t>(id),
                .kind = EventKind::launch_end,
                .detail = code_of(how),
                .destination = index_of(Processor::device(ordinal_))});
}

void DeviceEngine::finish_front(const std::shared_ptr<Stream>& stream) {
  stream->queue_.pop_front();
  stream->running_ = false;
  ready_.push_back(stream);
  look_at_ordered_after(*stream);
  if (stream->destroyed_ && stream->queue_.empty()) {
    if (const auto context = stream->context_.lock()) std::erase(context->streams_, stream);
  }
  changed();
}

// Marks as ready the streams of the context that may have waited for work of this one.
void DeviceEngine::look_at_ordered_after(const Stream& finished) {
  const auto context = finished.context_.lock();
  if (!context) return;
  if (finished.kind_ == StreamKind::blocking) ready_.push_back(context->default_stream_);
  if (finished.kind_ == StreamKind::context_default) {
    for (const auto& other : context->streams_) {
      if (other->kind_ == StreamKind::blocking) ready_.push_back(other);
    }
  }
}

void DeviceEngine::serve_starved() {
  while (!starved_.empty()) {
    const auto stream = starved_.front();
    if (!post_front(stream)) return;
    stream->starved_ = false;
    starved_.pop_front();
  }
}

void DeviceEngine::changed() {
  changed_.notify_all();
  if (has_leader_) signal_eventfd(leader_wake_);
}

}  // namespace wherry::impl
