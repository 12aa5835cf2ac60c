// Times writes to pages, one after the other, and so their faults: by a thread of the host, by
// several, or by a device.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace wherry::bench {

// Nanoseconds of each of `count` writes, `stride` bytes apart.
std::vector<double> timed_touches(std::byte* memory, std::size_t count, std::size_t stride);

// Runs work(0) to work(threads - 1), each in a thread of its own, which start together. Returns the
// nanoseconds from when the first one begins until the last one has ended. An exception in a thread
// ends the program.
double ns_of_threads(int threads, const std::function<void(int)>& work);

// One write to each `stride` of the memory; each thread writes to a part of its own. Returns
// nanoseconds. Leaves out the rest if `bytes` is no multiple of threads * stride.
double touch_by_threads(std::byte* memory, std::size_t bytes, std::size_t stride, int threads);

// Touches by one worker of the current context's device, timed inside the kernel, so that the
// launch is not included.
class DeviceToucher {
 public:
  enum class Access {
    write,
    read,
  };

  DeviceToucher();
  ~DeviceToucher();
  DeviceToucher(const DeviceToucher&) = delete;
  DeviceToucher& operator=(const DeviceToucher&) = delete;

  // One access for each `stride`. Returns nanoseconds. The worker is pinned to the first of the
  // allowed CPUs.
  double touch(std::byte* memory, std::size_t bytes, std::size_t stride,
               Access access = Access::write) const;

 private:
  double* elapsed_ns_;  // managed memory
};

}  // namespace wherry::bench
