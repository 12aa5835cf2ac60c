// A page that stays absent until the test opens it. A system call that comes to it waits there, and
// holds the pages that it has looked up before: a test knows then that the call holds them, and for
// how long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::test {

// One gate per process. The page belongs to a userfaultfd of the test, which must answer faults
// inside system calls.
class Gate {
 public:
  static constexpr std::size_t bytes = 4096;

  // The gate of this process, made at the first call. Call it before the process gives up the
  // privilege to make one. Throws std::runtime_error (Linux refuses such a userfaultfd).
  static Gate& of_process();
  // From now on of_process() throws instead. For places where Linux ends a process that tries.
  static void forbid() { is_forbidden = true; }

  std::byte* page() const { return page_; }
  // Makes the page absent. Requires: nothing waits at it.
  void close();
  // Waits until a thread comes to the page, at most `limit_ms`. Returns whether one came.
  bool wait_for_arrival(int limit_ms) const;
  // Whether a thread has come. Does not wait.
  bool has_arrival() const { return wait_for_arrival(0); }
  // Makes the page present with these contents, and lets the waiting thread go on.
  void open(std::span<const std::byte, bytes> contents);
  void open();  // with zeros

 private:
  Gate();

  static inline bool is_forbidden = false;
  std::byte* page_ = nullptr;
  int fd_ = -1;
  bool is_open_ = false;
};

}  // namespace wherry::test
