// A bare device: a forked process that maps its own pool at the host's address, registered with a
// userfaultfd that the host answers. It touches the memory on request, and does nothing else.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "measure/bare_trap.h"

namespace wherry::bench {

class BareDevice {
 public:
  // `memory`: where the host maps its own pool. touch() writes in steps of `stride`.
  BareDevice(std::byte* memory, std::size_t bytes, std::size_t stride);
  ~BareDevice();
  BareDevice(const BareDevice&) = delete;
  BareDevice& operator=(const BareDevice&) = delete;

  // The userfaultfd of the device process, with which the memory is registered.
  int uffd() const { return uffd_; }
  const BarePool& pool() const { return pool_; }
  // The host's mapping of the pool, from which copies are read.
  std::byte* alias() const { return alias_; }

  // One write for each stride, in the device process. Returns nanoseconds.
  double touch() const;

 private:
  // noexcept: the forked process must not return into the caller's code.
  [[noreturn]] void serve(int socket, std::byte* memory, std::size_t stride) const noexcept;

  BarePool pool_;
  std::byte* alias_;
  int socket_ = -1;
  pid_t process_ = -1;
  int uffd_ = -1;
};

}  // namespace wherry::bench
