#include "faults/fault_daemon.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "faults/postponed_faults.h"
#include "os/process/poll.h"
#include "os/process/spin.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

constexpr std::size_t handlers_max = 32;
constexpr std::size_t cpus_where_all_wait = 2;
// How long a watcher looks for the next fault before it waits in Linux. A thread that has got its
// page often faults on the next one soon.
constexpr std::uint64_t spin_ns = 100'000;

using Moment = std::optional<std::uint64_t>;
Moment earlier(Moment a, Moment b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

// Waits until `until`, a time of now_ns(), or without a limit if it is nullopt.
int wait_for_any(std::span<pollfd> descriptors, Moment until) {
  if (!until) return poll_descriptors(descriptors, -1);
  const std::uint64_t now = now_ns();
  return poll_descriptors_ns(descriptors, *until > now ? *until - now : 0);
}

// The descriptors that one handler polls.
class Polled {
 public:
  explicit Polled(const Fd& kick) { descriptors_[0] = {kick.get(), POLLIN, 0}; }

  void set_sources(const FaultSources& sources) {
    used_ = 1;
    for (int p = 0; p < max_processors; ++p) {
      const auto& source = sources[static_cast<unsigned>(p)];
      if (!source) continue;
      owners_[used_] = Processor{p};
      descriptors_[used_++] = {source->fd(), POLLIN, 0};
    }
  }

  // Looks for events until `end_ns`, without sleeping. Returns how many descriptors are ready.
  int look_until(std::uint64_t end_ns) {
    const std::uint64_t now = now_ns();
    for (Spin spin(end_ns > now ? end_ns - now : 0);;)
      if (const int ready = look(); ready > 0 || !spin.goes_on()) return ready;
  }
  int look() { return poll_descriptors(all(), 0); }
  int wait(Moment until) { return wait_for_any(all(), until); }
  int wait_for_kick(Moment until) { return wait_for_any(std::span(descriptors_).first(1), until); }

  bool is_kicked() const { return (descriptors_[0].revents & POLLIN) != 0; }
  // Calls visit(processor) for each processor that may have an event.
  template <typename Visit>
  void for_each_ready(const Visit& visit) const {
    for (unsigned i = 1; i < used_; ++i)
      if ((descriptors_[i].revents & POLLIN) != 0) visit(owners_[i]);
  }

 private:
  std::span<pollfd> all() { return {descriptors_.data(), used_}; }

  std::array<pollfd, max_processors + 1> descriptors_{};  // the first is the kick
  std::array<Processor, max_processors + 1> owners_{};
  unsigned used_ = 1;
};

}  // namespace

FaultDaemon::Placement FaultDaemon::place_handlers(const std::vector<int>& cpus) {
  const std::size_t handlers = std::min(cpus.size(), handlers_max);
  // On few CPUs all handlers wait in Linux: the one on the faulting thread's CPU wakes first, and
  // at once, while a handler that spins would take the message on another CPU. On many CPUs, waking
  // all handlers at each fault would cost more than that saves.
  const bool all_wait = cpus.size() <= cpus_where_all_wait;
  Placement placement{.waiting_max = all_wait ? static_cast<int>(handlers) : 1,
                      .spin_ns = all_wait ? 0 : spin_ns,
                      .cpus = {}};
  for (std::size_t i = 0; i < handlers; ++i)
    placement.cpus.push_back(all_wait ? std::vector{cpus[i]} : cpus);
  return placement;
}

FaultDaemon::FaultDaemon(FaultService& service, const std::vector<int>& cpus)
    : service_(service),
      placement_(place_handlers(cpus)),
      watchers_(placement_.cpus.size(), placement_.waiting_max) {
  threads_.reserve(placement_.cpus.size() + 1);
  const SignalBlock no_signals;
  try {
    threads_.emplace_back([this] { guard(); });
    // Each thread's list of postponed faults is allocated here, so that a lack of memory shows at
    // the start.
    for (std::size_t i = 0; i < placement_.cpus.size(); ++i)
      threads_.emplace_back(
          [this, i, postponed = PostponedFaults()]() mutable { handle(i, postponed); });
  } catch (...) {
    end_threads();
    throw;
  }
}

FaultDaemon::~FaultDaemon() {
  end_threads();
}

void FaultDaemon::end_threads() {
  stopping_.store(true);
  watchers_.tell_all();
  for (std::thread& thread : threads_) thread.join();
}

void FaultDaemon::listen(Processor p, std::shared_ptr<const FaultSource> source) {
  {
    const LockGuard guard(lock_);
    sources_[static_cast<unsigned>(p.index)] = std::move(source);
  }
  generation_.fetch_add(1);
  watchers_.tell_all();
}

FaultSources FaultDaemon::sources() const {
  const LockGuard guard(lock_);
  return sources_;
}

void FaultDaemon::guard() {
  name_this_thread("wherry-guard");
  thread_gets_no_signals();
  while (!stopping_.load()) {
    pollfd timer{watchers_.guard().get(), POLLIN, 0};
    poll_descriptors({&timer, 1}, -1);
    drain_eventfd(watchers_.guard());
    watchers_.look();
  }
}

void FaultDaemon::handle(std::size_t handler, PostponedFaults& postponed) {
  name_this_thread("wherry-fault" + std::to_string(handler));
  thread_gets_no_signals();
  pin_this_thread(placement_.cpus[handler]);  // failure (CPUs not permitted) only costs time
  wait_precisely();

  const Fd& kick = watchers_.kick(handler);
  Polled polled(kick);
  FaultSources current;
  std::uint64_t seen = 0;
  bool watches = true;
  std::uint64_t spin_end_ns = 0;  // 0: does not spin
  const auto look_for_a_while = [&] {
    if (placement_.spin_ns != 0) spin_end_ns = now_ns() + placement_.spin_ns;
  };
  const auto answer = [&](Fault fault) {
    if (watches) watchers_.begin_answer();
    const FaultSource& source = *fault.source;
    fault.waiter = source.attend(fault.message);
    const auto due = service_.resolve(fault);
    if (!due || !postponed.put(*due, fault)) {
      // Without memory to postpone the fault, its thread wakes and accesses the page again.
      if (due) service_.let_try_again(fault);
      source.answered(fault.message, fault.refused);
    }
    if (watches) watchers_.end_answer();
    look_for_a_while();
  };
  while (!stopping_.load()) {
    // The generation is read before the sources, so that a change in between is noticed the next
    // time round.
    if (const std::uint64_t now = generation_.load(); now != seen) {
      seen = now;
      current = sources();
      polled.set_sources(current);
    }
    if (!watches && watchers_.is_called_up(handler)) {
      watches = true;
      look_for_a_while();
    }
    TemporaryPins& pins = service_.temporary_pins();
    const auto pins_wake = pins.wake_time();
    const auto due = earlier(postponed.next_due(), pins_wake);
    int ready = 0;
    if (watches && spin_end_ns != 0) {
      ready = polled.look();
      // A fault has been waiting: faults come faster than this handler answers them.
      if (ready > 0) watchers_.share_work();
      if (ready == 0) ready = polled.look_until(std::min(spin_end_ns, due.value_or(spin_end_ns)));
      if (ready == 0) spin_end_ns = 0;
    }
    if (ready == 0) {
      if (watches) watches = !watchers_.try_rest(handler);
      ready = watches ? polled.wait(due) : polled.wait_for_kick(due);
    }
    pins.woke(pins_wake);
    if (ready > 0) {
      if (polled.is_kicked()) drain_eventfd(kick);
      if (watches)
        polled.for_each_ready([&](Processor p) {
          const auto& source = current[static_cast<unsigned>(p.index)];
          const MemoryChanges before = service_.changes();
          if (const auto message = source->read_message()) {
            Fault fault = service_.take(p, *message, before);
            fault.source = source;
            answer(std::move(fault));
          }
        });
    }
    // Tries each postponed fault once per round, and then reads messages again: the faults may
    // depend on a fault whose message no handler has read yet.
    const std::uint64_t now = now_ns();
    while (auto fault = postponed.take_due(now)) answer(std::move(*fault));
    const auto pins_end = pins.next_end();
    if (!pins_end || *pins_end > now) continue;
    // Ending pins may wait for the locks of blocks, so it counts as an answer for the guard.
    if (watches) watchers_.begin_answer();
    pins.end_due(now);
    if (watches) watchers_.end_answer();
  }
}

}  // namespace wherry::impl
