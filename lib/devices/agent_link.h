// The host's end of the socket to a device's agent: sends commands, one at a time, and waits for
// the answers. No wait is without a limit.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/lock.h"
#include "base/patience.h"
#include "devices/agent_commands.h"
#include "os/files/fd.h"
#include "os/process/socket.h"

namespace wherry::impl {

class AgentLink {
 public:
  struct Failure {
    std::uint32_t command = 0;  // its number among the alternatives of Command
    int error = 0;              // errno
  };

  // `limit_ns`: how long send() waits for an answer.
  explicit AgentLink(std::uint64_t limit_ns) : AgentLink(limit_ns, make_socket_pair()) {}

  // The other end of the socket, for the agent.
  Fd& agent_end() { return agent_end_; }
  // Call it once, before any command. `agent`: the device process, whose first thread is the agent.
  void start(pid_t agent) { agent_ = agent; }
  const Fd& socket() const { return socket_; }

  // Sends a command, with the descriptor `passed` unless that is -1, and waits for the answer until
  // the limit, or up to 30 s longer while Linux delays the agent. Returns the agent's errno (0: it
  // succeeded), or ESRCH (the process has ended) or ETIMEDOUT. Stores the answer's value in *value
  // unless that is null. Any thread.
  int send(const CommandMessage& command, int passed = -1, std::uint64_t* value = nullptr)
      EXCLUDES(lock_);
  // Sends a command whose failure does no harm: waits a second at most, and not at all for an
  // overdue process. Returns as send(). Any thread.
  int send_briefly(const CommandMessage& command) EXCLUDES(lock_);
  // Tells the agent to end its process. Does not wait: a thread with a command in progress gets
  // ESRCH. Returns 0 or an errno.
  int ask_to_quit() const;
  // Whether the agent did not answer the last command within a second, nor since. Any thread.
  bool is_overdue() EXCLUDES(lock_);
  // The last failure of send().
  Failure last_failure() const { return {failed_command_.load(), failed_with_.load()}; }

 private:
  enum class Answer {
    welcome,  // the host waits a second at most
    needed,   // the host waits until the limit
  };

  AgentLink(std::uint64_t limit_ns, std::pair<Fd, Fd> ends)
      : limit_ns_(limit_ns), socket_(std::move(ends.first)), agent_end_(std::move(ends.second)) {}

  int send_locked(CommandMessage command, Answer answer, int passed, std::uint64_t* value)
      REQUIRES(lock_);
  // Receives the answer to the last command. Returns 0, ETIMEDOUT or ESRCH, or another errno of
  // the socket.
  int receive_reply(Patience patience, Reply& reply) REQUIRES(lock_);
  // receive_reply(), but waits beyond the limit while Linux delays the agent.
  int receive_late_reply(std::uint64_t limit_ns, Reply& reply) REQUIRES(lock_);
  // Locks lock_. Returns false, without the lock, if the process is overdue.
  bool try_lock() WHERRY_TSA(try_acquire_capability(true, lock_));

  const std::uint64_t limit_ns_;
  const Fd socket_;
  Fd agent_end_;
  pid_t agent_ = 0;
  Mutex lock_{LockOrder::agent};
  std::uint32_t last_number_ GUARDED_BY(lock_) = 0;
  std::atomic<bool> overdue_{false};  // written under lock_
  std::atomic<std::uint32_t> failed_command_{0};
  std::atomic<int> failed_with_{0};
};

}  // namespace wherry::impl
