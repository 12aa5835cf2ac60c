#include "measure/touches.h"

#include <algorithm>
#include <barrier>
#include <thread>

#include "measure/bare_trap.h"
#include "measure/managed.h"
#include "measure/timing.h"

namespace wherry::bench {
namespace {

struct DeviceTouch {
  std::byte* memory;
  std::size_t bytes;
  std::size_t stride;
  DeviceToucher::Access access;
  double* elapsed_ns;
};

double timed_read(const std::byte* memory, std::size_t bytes, std::size_t stride) {
  return ns_of([&] {
    for (std::size_t offset = 0; offset < bytes; offset += stride) {
      [[maybe_unused]] const auto value = *const_cast<const volatile std::byte*>(memory + offset);
    }
  });
}

void touch_kernel(const void* args, std::size_t, std::size_t) {
  const auto& [memory, bytes, stride, access, elapsed_ns] = *static_cast<const DeviceTouch*>(args);
  pin_to_allowed_cpu(0);
  *elapsed_ns = access == DeviceToucher::Access::write ? timed_touch(memory, bytes, stride)
                                                       : timed_read(memory, bytes, stride);
}

}  // namespace

std::vector<double> timed_touches(std::byte* memory, std::size_t count, std::size_t stride) {
  std::vector<double> latencies(count);
  for (std::size_t i = 0; i < count; ++i) {
    volatile std::byte* const place = memory + i * stride;
    const double start = now_ns();
    *place = std::byte{1};
    latencies[i] = now_ns() - start;
  }
  return latencies;
}

double ns_of_threads(int threads, const std::function<void(int)>& work) {
  struct Interval {
    double begin, end;
  };
  // The threads read the clock themselves: with as many threads as CPUs the calling thread may not
  // run before they have ended.
  std::vector<Interval> intervals(static_cast<std::size_t>(threads));
  std::barrier start{threads};
  std::vector<std::thread> working;
  for (int number = 0; number < threads; ++number) {
    working.emplace_back([&, number] {
      start.arrive_and_wait();
      Interval& interval = intervals[static_cast<std::size_t>(number)];
      interval.begin = now_ns();
      work(number);
      interval.end = now_ns();
    });
  }
  for (std::thread& thread : working) thread.join();
  return std::ranges::max_element(intervals, {}, &Interval::end)->end -
         std::ranges::min_element(intervals, {}, &Interval::begin)->begin;
}

double touch_by_threads(std::byte* memory, std::size_t bytes, std::size_t stride, int threads) {
  const std::size_t part = bytes / stride / static_cast<std::size_t>(threads) * stride;
  return ns_of_threads(threads, [&](int number) {
    timed_touch(memory + static_cast<std::size_t>(number) * part, part, stride);
  });
}

DeviceToucher::DeviceToucher()
    : elapsed_ns_(reinterpret_cast<double*>(alloc_managed(sizeof(double)))) {}

DeviceToucher::~DeviceToucher() {
  // The result is ignored: it fails only after a failed kernel, which has thrown an exception.
  (void)cuMemFree(reinterpret_cast<CUdeviceptr>(elapsed_ns_));
}

double DeviceToucher::touch(std::byte* memory, std::size_t bytes, std::size_t stride,
                            Access access) const {
  run_on_device(touch_kernel, DeviceTouch{memory, bytes, stride, access, elapsed_ns_});
  return *elapsed_ns_;
}

}  // namespace wherry::bench
