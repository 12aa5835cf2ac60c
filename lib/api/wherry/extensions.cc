// The C functions of wherry.h for policies, counters, page state, device processes, and pinning.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "api/answer.h"
#include "api/entry.h"
#include "runtime/ranges.h"

using namespace wherry::impl;

namespace {

bool is_range(Runtime& runtime, CUdeviceptr first, std::size_t count) {
  return count != 0 && first + count > first && is_managed(runtime, first, first + count);
}

bool is_page_range(Runtime& runtime, CUdeviceptr first, std::size_t count) {
  return first % page_size == 0 && is_range(runtime, first, count);
}

CUresult to_result(OrdinaryUse::Result result) {
  switch (result) {
    case OrdinaryUse::Result::done:
      return CUDA_SUCCESS;
    case OrdinaryUse::Result::not_managed:
      return CUDA_ERROR_INVALID_VALUE;
    case OrdinaryUse::Result::pinned:
      return CUDA_ERROR_NOT_PERMITTED;
    case OrdinaryUse::Result::too_small:
      return CUDA_ERROR_NOT_SUPPORTED;
    case OrdinaryUse::Result::no_memory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case OrdinaryUse::Result::failed:
      return CUDA_ERROR_OPERATING_SYSTEM;
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace

CUresult wherrySetPolicy(const char* policy) {
  return Driver::set_policy(policy);
}

CUresult wherryRegisterPolicy(const char* name, unsigned version, wherry::make_policy* make) {
  return Driver::add_policy(name, version, make);
}

CUresult wherryGetStats(wherryStats* stats) {
  return enter([&](Driver& driver) {
    constexpr std::size_t smallest = offsetof(wherryStats, faults_missing) + sizeof(std::uint64_t);
    if (stats == nullptr || stats->size < smallest) return CUDA_ERROR_INVALID_VALUE;
    answer(stats, driver.runtime().inspector().stats());
    return CUDA_SUCCESS;
  });
}

CUresult wherryGetPageState(const void* address, wherryPageState* state) {
  return enter([&](Driver& driver) {
    if (state == nullptr || state->size < sizeof(wherryPageState)) return CUDA_ERROR_INVALID_VALUE;
    const auto page =
        driver.runtime().inspector().page_whereabouts(reinterpret_cast<std::uintptr_t>(address));
    if (!page) return CUDA_ERROR_INVALID_VALUE;
    wherryPageState value{};
    value.resident = page->resident;
    value.mapped_read = page->mapped;
    value.mapped_write = page->writable;
    value.node = page->node;
    answer(state, value);
    return CUDA_SUCCESS;
  });
}

CUresult wherryPinPages(CUdeviceptr devPtr, size_t count) {
  return enter([&](Driver& driver) {
    Runtime& runtime = driver.runtime();
    if (!is_range(runtime, devPtr, count)) return CUDA_ERROR_INVALID_VALUE;
    return to_result(runtime.pinning().pin(pages_touched(runtime, devPtr, count)));
  });
}
CUresult wherryUnpinPages(CUdeviceptr devPtr, size_t count) {
  return enter([&](Driver& driver) {
    Runtime& runtime = driver.runtime();
    const bool unpinned = is_range(runtime, devPtr, count) &&
                          runtime.pinning().unpin(pages_touched(runtime, devPtr, count));
    return unpinned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult wherryFreePages(CUdeviceptr ptr, size_t bytes) {
  return enter([&](Driver& driver) {
    Runtime& runtime = driver.runtime();
    if (!is_page_range(runtime, ptr, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return to_result(runtime.ordinary_use().free_pages(pages_touched(runtime, ptr, bytes)));
  });
}
CUresult wherrySavePages(CUdeviceptr ptr, size_t bytes, int fd, off_t offset) {
  return enter([&](Driver& driver) {
    Runtime& runtime = driver.runtime();
    if (!is_page_range(runtime, ptr, bytes) || offset < 0) return CUDA_ERROR_INVALID_VALUE;
    return to_result(runtime.ordinary_use().save_pages(pages_touched(runtime, ptr, bytes), fd,
                                                       static_cast<std::uint64_t>(offset)));
  });
}
CUresult wherryMakePrivate(CUdeviceptr ptr) {
  return enter([&](Driver& driver) {
    const auto result = driver.runtime().ordinary_use().make_private(ptr);
    if (result == OrdinaryUse::Result::done)
      (void)driver.memory().take(ptr, [](const MemoryRecord&) { return true; });
    return to_result(result);
  });
}

CUresult wherryGetEvictions(wherryEviction* events, size_t* count, std::uint64_t* dropped) {
  return enter([&](Driver& driver) {
    if (count == nullptr || (events == nullptr && *count != 0)) return CUDA_ERROR_INVALID_VALUE;
    Runtime& runtime = driver.runtime();
    const auto address_of = [&](PageIndex page) {
      return static_cast<CUdeviceptr>(runtime.layout().address_of(page));
    };
    const std::size_t wanted = *count;
    std::array<Eviction, 64> batch;
    *count = 0;
    while (*count < wanted) {
      const std::size_t fitting = std::min(wanted - *count, batch.size());
      const std::size_t taken = runtime.evictions().take(std::span(batch).first(fitting));
      if (taken == 0) break;
      for (const Eviction& eviction : std::span(batch).first(taken)) {
        wherryEviction& event = events[(*count)++];
        event.time_ns = eviction.time_ns;
        event.block = address_of(block_span(eviction.block).first);
        event.cause = address_of(eviction.for_page);
        event.pages_moved = eviction.moved;
        event.pages_dropped = eviction.dropped;
        event.device = eviction.from.ordinal();
        event.background = eviction.background ? 1 : 0;
      }
    }
    if (dropped != nullptr) *dropped = runtime.evictions().dropped();
    return CUDA_SUCCESS;
  });
}

CUresult wherryGetDeviceProcess(CUdevice device, pid_t* pid) {
  return enter([&](Driver& driver) {
    if (driver.device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (pid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto process = driver.runtime().devices().process(device);
    *pid = process ? process->pid() : ::getpid();
    return CUDA_SUCCESS;
  });
}
