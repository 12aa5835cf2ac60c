// Pages that a program traps by itself with mprotect(2) and a handler for SIGSEGV, instead of using
// the library: the handler copies the page from another buffer and permits access.
#pragma once

#include <csignal>
#include <cstddef>

#include "measure/plain_memory.h"

namespace wherry::bench {

// There may be one object at a time. Any number of threads may access its memory.
class SegvPages {
 public:
  explicit SegvPages(std::size_t bytes);
  ~SegvPages();
  SegvPages(const SegvPages&) = delete;
  SegvPages& operator=(const SegvPages&) = delete;

  // Removes access to all pages.
  void protect();
  std::byte* memory() const { return near_.data(); }
  std::size_t bytes() const { return near_.size(); }

 private:
  static void on_fault(int signal, siginfo_t* info, void* context);
  bool bring(std::byte* address);

  PlainMemory near_;
  PlainMemory far_;
  struct sigaction before_ {};
};

}  // namespace wherry::bench
