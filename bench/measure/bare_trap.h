// Baselines for the library: Linux's calls without bookkeeping.
//
// BareTrap handles the events of several userfaultfds with one handler thread per CPU. Each thread
// is pinned, and all of them poll and read the same descriptors, as the library's handlers do.
// BarePool is a memfd with a mapping at a chosen address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace wherry::bench {

// One write for each `stride` of [memory, memory + bytes). Returns nanoseconds.
double timed_touch(std::byte* memory, std::size_t bytes, std::size_t stride);

// Whether open_userfaultfd() succeeds in this process. Requires: the process has one thread.
bool userfaultfd_permitted();
// A new userfaultfd of the calling process, with missing, minor and write-protect events of shared
// memory.
int open_userfaultfd();
// The UFFDIO_API handshake for a descriptor that another process opened.
void enable_userfaultfd(int uffd);
int open_raw_userfaultfd();
void register_range(int uffd, void* start, std::size_t bytes);

// Each throws std::system_error unless it succeeds. The first two create pages and wake the waiting
// threads. If the pages are there already, they only wake: Linux may report a fault twice.
void zero_pages(int uffd, std::uintptr_t start, std::size_t bytes);
void copy_pages(int uffd, std::uintptr_t start, const void* source, std::size_t bytes);
// Returns false if the pages are there already.
bool copy_write_protected(int uffd, std::uintptr_t start, const void* source, std::size_t bytes);
void set_write_protection(int uffd, std::uintptr_t start, std::size_t bytes, bool protect);
void wake(int uffd, std::uintptr_t start, std::size_t bytes);

// A memfd and its mapping; the destructor frees both.
class BarePool {
 public:
  explicit BarePool(std::size_t bytes);
  ~BarePool();
  BarePool(const BarePool&) = delete;
  BarePool& operator=(const BarePool&) = delete;

  // Maps the whole pool once more, aligned to 2 MiB. The mapping stays until the process ends.
  std::byte* map() const;
  // Maps the whole pool at `place`, over any existing mapping.
  void map_over(std::byte* place) const;
  void punch(std::size_t offset, std::size_t bytes) const;
  std::size_t bytes() const { return bytes_; }

 private:
  int fd_;
  std::size_t bytes_;
};

class BareTrap {
 public:
  // source: index of the descriptor that the event came from.
  using Resolve = std::function<void(std::size_t source, std::uintptr_t address)>;

  BareTrap(std::vector<int> descriptors, Resolve resolve);
  ~BareTrap();
  BareTrap(const BareTrap&) = delete;
  BareTrap& operator=(const BareTrap&) = delete;

 private:
  void serve(int cpu_index);

  std::vector<int> descriptors_;
  Resolve resolve_;
  int stop_;
  std::vector<std::thread> handlers_;
};

}  // namespace wherry::bench
