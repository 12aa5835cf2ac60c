#include "faults/fault_daemon.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "faults/postponed_faults.h"
#include "os/process/poll.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// `until`: as now_ns() counts; nothing: for as long as it takes.
int wait_for_any(std::span<pollfd> descriptors, std::optional<std::uint64_t> until) {
  if (!until) return poll_descriptors(descriptors, -1);
  const std::uint64_t now = now_ns();
  return poll_descriptors_ns(descriptors, *until > now ? *until - now : 0);
}

using Moment = std::optional<std::uint64_t>;
Moment earlier(Moment a, Moment b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

}  // namespace

std::vector<std::vector<int>> divide_among_handlers(const std::vector<int>& cpus) {
  const std::size_t handlers = std::min(cpus.size(), handlers_max);
  std::vector<std::vector<int>> groups(handlers);
  for (std::size_t i = 0; i < cpus.size(); ++i)
    groups[i * handlers / cpus.size()].push_back(cpus[i]);
  return groups;
}

FaultDaemon::FaultDaemon(FaultService& service, const std::vector<int>& cpus) : service_(service) {
  const auto groups = divide_among_handlers(cpus);
  handlers_.reserve(groups.size());  // threads keep references to their kicks
  const SignalBlock no_signals;
  try {
    for (const std::vector<int>& group : groups) {
      Handler& handler = handlers_.emplace_back(Handler{make_eventfd(), {}});
      // Memory for the postponed faults here, where a lack of it refuses the start.
      handler.thread =
          std::thread([this, group, &kick = handler.kick, postponed = PostponedFaults()]() mutable {
            handle(group, kick, postponed);
          });
    }
  } catch (...) {
    end_handlers();
    throw;
  }
}

FaultDaemon::~FaultDaemon() {
  end_handlers();
}

void FaultDaemon::end_handlers() {
  stopping_.store(true);
  for (Handler& handler : handlers_) signal_eventfd(handler.kick);
  for (Handler& handler : handlers_)
    if (handler.thread.joinable()) handler.thread.join();
}

void FaultDaemon::listen(Processor p, std::shared_ptr<const FaultSource> source) {
  {
    const LockGuard guard(lock_);
    sources_[static_cast<unsigned>(p.index)] = std::move(source);
  }
  generation_.fetch_add(1);
  for (const Handler& handler : handlers_) signal_eventfd(handler.kick);
}

FaultDaemon::Sources FaultDaemon::sources() const {
  const LockGuard guard(lock_);
  return sources_;
}

void FaultDaemon::handle(const std::vector<int>& cpus, const Fd& kick, PostponedFaults& postponed) {
  name_this_thread("wherry-fault" + std::to_string(cpus.front()));
  thread_gets_no_signals();
  pin_this_thread(cpus);  // failure (CPUs that are no longer permitted) only costs time
  wait_precisely();

  std::uint64_t seen = 0;
  Sources current;
  std::array<pollfd, max_processors + 1> descriptors{};
  std::array<Processor, max_processors + 1> owners{};
  unsigned used = 0;
  const auto answer = [&](Fault fault) {
    const FaultSource& source = *fault.source;
    fault.waiter = source.attend(fault.message);
    const auto due = service_.resolve(fault);
    if (due && postponed.put(*due, fault)) return;
    // No memory to postpone the fault: its thread wakes and accesses the page again.
    if (due) service_.let_try_again(fault);
    source.answered(fault.message, fault.refused);
  };
  while (!stopping_.load()) {
    // The generation is read before the sources, so that a change in between is noticed the next
    // time round.
    if (const std::uint64_t now = generation_.load(); now != seen) {
      seen = now;
      current = sources();
      used = 0;
      for (int p = 0; p < max_processors; ++p) {
        const auto& source = current[static_cast<unsigned>(p)];
        if (!source) continue;
        owners[used] = Processor{p};
        descriptors[used++] = {source->fd(), POLLIN, 0};
      }
    }
    descriptors[used] = {kick.get(), POLLIN, 0};
    const auto due = earlier(postponed.next_due(), service_.temporary_pins().next_end());
    if (wait_for_any({descriptors.data(), used + 1}, due) > 0) {
      if ((descriptors[used].revents & POLLIN) != 0) drain_eventfd(kick);
      for (unsigned i = 0; i < used; ++i) {
        if ((descriptors[i].revents & POLLIN) == 0) continue;
        const auto& source = current[static_cast<unsigned>(owners[i].index)];
        if (const auto message = source->read_message()) {
          Fault fault = service_.take(owners[i], *message);
          fault.source = source;
          answer(std::move(fault));
        }
      }
    }
    // Tries each postponed fault once per round, and then reads messages again: the faults may
    // depend on a fault whose message no handler has read yet.
    const std::uint64_t now = now_ns();
    while (auto fault = postponed.take_due(now)) answer(std::move(*fault));
    service_.temporary_pins().end_due(now);
  }
}

}  // namespace wherry::impl
