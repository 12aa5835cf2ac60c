// One io_uring whose operations one kernel thread executes: copies between files and memory, and
// holes punched after them. No thread of the library waits for a single operation. Only one thread
// may use a ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace wherry::impl {

class IoRing {
 public:
  // Creates a ring for up to `operations` at a time. Returns null if Linux or a sandbox does
  // not permit io_uring. Call it in the thread that uses the ring: the kernel thread belongs to
  // that thread, and runs on the CPUs that the thread may use now.
  static std::unique_ptr<IoRing> create(unsigned operations);
  virtual ~IoRing() = default;

  // Whether the next operation waits for this one.
  enum class Link {
    none,
    next,   // it waits, and is cancelled unless this one completes fully
    after,  // it waits, and runs whatever the result of this one is
  };
  // Operations start with submit(). Requires: fewer than `operations` are prepared or in progress.
  virtual void read(int fd, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag,
                    Link link) = 0;
  virtual void write(int fd, std::uint64_t offset, std::span<const std::byte> from,
                     std::uint64_t tag, Link link) = 0;
  virtual void punch(int fd, std::uint64_t offset, std::size_t bytes, std::uint64_t tag) = 0;
  // Creates the pages of this mapping, zeroed.
  virtual void populate(std::span<std::byte> pages, std::uint64_t tag) = 0;
  // Faults the memory in. Fails with -ENOMEM or -EFAULT if there is no such memory.
  virtual void fetch(std::span<const std::byte> memory, std::uint64_t tag, Link link) = 0;
  // Returns false if Linux accepts nothing at the moment, usually for lack of memory. The caller
  // may then call submit() again, or discard(). Linux may accept part of a chain; the rest then
  // completes with an error.
  [[nodiscard]] virtual bool submit() = 0;
  // Drops the operations that were not submitted. They do not happen, and wait() does not report
  // them.
  virtual void discard() = 0;

  struct Done {
    std::uint64_t tag;
    int result;  // number of bytes, or 0; otherwise -errno
  };
  // Waits for one completion. Requires: an operation is in progress.
  virtual Done wait() = 0;
};

}  // namespace wherry::impl
