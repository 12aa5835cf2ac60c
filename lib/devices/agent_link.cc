#include "devices/agent_link.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <thread>

#include "os/process/other_process.h"
#include "os/process/socket.h"

namespace wherry::impl {
namespace {

// A device that has not answered a command within this time is overdue.
constexpr std::uint64_t overdue_ns = 1'000'000'000;
// The host ends a device that does not answer in time, but not while Linux delays it, because a
// device's memory is lost with it. Where CPUs are busy, one call of Linux has held a process's
// mapping lock for 20 s (MADV_COLLAPSE, which waits in lru_add_drain_all() for each CPU).
constexpr std::uint64_t delay_limit_ns = 30'000'000'000;
constexpr std::uint64_t delay_check_ns = 100'000'000;
// The pause before the host looks again whether it may send a command.
constexpr std::chrono::microseconds agent_pause{50};
// The pause before the host tries again to receive an answer.
constexpr std::chrono::milliseconds receive_pause{1};

}  // namespace

int AgentLink::send(const CommandMessage& command, int passed, std::uint64_t* value) {
  const LockGuard guard(lock_);
  check_wait();
  const int error = send_locked(command, Answer::needed, passed, value);
  if (error != 0) {
    failed_command_ = command.kind();
    failed_with_ = error;
  }
  return error;
}

int AgentLink::send_briefly(const CommandMessage& command) {
  if (!try_lock()) return ETIMEDOUT;
  const AdoptGuard guard(lock_);
  check_wait();
  return send_locked(command, Answer::welcome, -1, nullptr);
}

bool AgentLink::try_lock() {
  while (!is_overdue()) {
    if (lock_.try_lock()) return true;
    std::this_thread::sleep_for(agent_pause);  // another command is under way
  }
  return false;
}

int AgentLink::send_locked(CommandMessage command, Answer answer, int passed,
                           std::uint64_t* value) {
  command.set_number(++last_number_);
  if (const int error = send_message(socket_, command.bytes(), passed))
    return error == EPIPE ? ESRCH : error;
  Reply reply;
  const std::uint64_t brief_ns = std::min(overdue_ns, limit_ns_);
  int error = receive_reply(Patience(brief_ns, AtLimit::goes_on), reply);
  if (error == ETIMEDOUT) overdue_.store(true);
  if (error == ETIMEDOUT && answer == Answer::needed)
    error = receive_late_reply(limit_ns_ - brief_ns, reply);
  if (error != 0) return error;
  overdue_.store(false);
  // The agent's error is an errno. Any other value means that the memory was overwritten.
  constexpr int errno_max = 4095;
  if (reply.error < 0 || reply.error > errno_max) return EPROTO;
  if (value != nullptr) *value = reply.value;
  return reply.error;
}

int AgentLink::receive_late_reply(std::uint64_t limit_ns, Reply& reply) {
  int error = receive_reply(Patience(limit_ns), reply);
  for (Patience delay(delay_limit_ns);
       error == ETIMEDOUT && !delay.is_over() && is_delayed_by_linux(agent_); delay.note_wait())
    error = receive_reply(Patience(delay_check_ns, AtLimit::goes_on), reply);
  return error;
}

int AgentLink::receive_reply(Patience patience, Reply& reply) {
  for (;;) {
    const int error =
        receive_message(socket_, std::as_writable_bytes(std::span(&reply, 1)), patience).error;
    // Other numbers belong to late answers to commands that timed out.
    if (error == 0 && reply.number == last_number_) return 0;
    if (error == 0) continue;
    // The device has received the command. If this process lacks memory, the answer still arrives.
    const bool is_transient = error == ENOMEM || error == ENOBUFS || error == EAGAIN;
    if (!is_transient && error != ETIMEDOUT) return error == EPIPE ? ESRCH : error;
    if (!is_transient || patience.is_over()) return ETIMEDOUT;
    std::this_thread::sleep_for(receive_pause);
    patience.note_wait();
  }
}

int AgentLink::ask_to_quit() const {
  return send_message(socket_, CommandMessage(command::Quit{}).bytes());
}

bool AgentLink::is_overdue() {
  // While another thread waits for the answer, it holds lock_ and notices the answer.
  if (!overdue_.load() || !lock_.try_lock()) return overdue_.load();
  const AdoptGuard guard(lock_);
  Reply reply;
  while (overdue_.load() && receive_message(socket_, std::as_writable_bytes(std::span(&reply, 1))))
    if (reply.number == last_number_) overdue_.store(false);
  return overdue_.load();
}

}  // namespace wherry::impl
