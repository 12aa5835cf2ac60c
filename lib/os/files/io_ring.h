// One io_uring whose operations are carried out by one kernel thread: copies between files and
// memory, and holes punched after them, without a thread of ours waiting on each. One thread's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace wherry::impl {

class IoRing {
 public:
  // For up to `operations` at a time. Null: the kernel, or the sandbox, does not permit io_uring.
  // To be called by the thread that uses it: the kernel thread is that thread's, and runs where
  // that one may run now.
  static std::unique_ptr<IoRing> create(unsigned operations);
  virtual ~IoRing() = default;

  // Whether what comes next waits for this.
  enum class Link {
    none,
    next,   // it does, and is cancelled unless this has done all that was asked
    after,  // it does, and goes ahead whatever became of this
  };
  // Each begins with submit(). Requires: less than `operations` are under way.
  virtual void read(int fd, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag,
                    Link link) = 0;
  virtual void write(int fd, std::uint64_t offset, std::span<const std::byte> from,
                     std::uint64_t tag, Link link) = 0;
  virtual void punch(int fd, std::uint64_t offset, std::size_t bytes, std::uint64_t tag) = 0;
  // Creates the pages of this mapping, zeroed.
  virtual void populate(std::span<std::byte> pages, std::uint64_t tag) = 0;
  // Has Linux bring the memory, from wherever it is. Fails with -ENOMEM or -EFAULT where there is
  // none.
  virtual void fetch(std::span<const std::byte> memory, std::uint64_t tag, Link link) = 0;
  // False: the kernel takes nothing more at the moment, for want of memory as a rule, and of what
  // is begun nothing happens: it has been forgotten. Of a chain it may take a part; then the rest
  // is done with an error.
  [[nodiscard]] virtual bool submit() = 0;

  struct Done {
    std::uint64_t tag;
    int result;  // bytes or 0, else -errno
  };
  // Waits for one. Requires: one is under way.
  virtual Done wait() = 0;
};

}  // namespace wherry::impl
