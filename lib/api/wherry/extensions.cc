// The C functions of wherry.h for policies, counters, page state, device processes, and pinning.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>

#include "api/answer.h"
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/ranges.h"
#include "objects/start.h"

using namespace wherry::impl;

namespace {

bool is_range(Runtime& runtime, CUdeviceptr first, std::size_t count) {
  return count != 0 && first + count > first && is_managed(runtime, first, first + count);
}

bool is_page_range(Runtime& runtime, CUdeviceptr first, std::size_t count) {
  return first % page_size == 0 && is_range(runtime, first, count);
}

CUresult to_result(OrdinaryUse::Result result, CUdeviceptr ptr) {
  switch (result) {
    case OrdinaryUse::Result::done:
      return CUDA_SUCCESS;
    case OrdinaryUse::Result::not_managed:
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "no managed allocation is at {:#x}; pass memory of cuMemAllocManaged", ptr);
    case OrdinaryUse::Result::pinned:
      return fail(CUDA_ERROR_NOT_PERMITTED,
                  "pages at {:#x} are pinned; unpin them with wherryUnpinPages first", ptr);
    case OrdinaryUse::Result::too_small:
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "the allocation at {:#x} is smaller than 2 MiB; allocate at least that much",
                  ptr);
    case OrdinaryUse::Result::no_memory:
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "Linux has no memory for a private copy of the allocation at {:#x}; free some",
                  ptr);
    case OrdinaryUse::Result::failed:
      return fail(CUDA_ERROR_OPERATING_SYSTEM,
                  "Linux did not write all pages: errno {}; is the disk full?", errno);
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult refuse_page_range(Runtime& runtime, CUdeviceptr first, std::size_t count) {
  if (first % page_size == 0) return refuse_range(runtime, first, count);
  return fail(CUDA_ERROR_INVALID_VALUE, "{:#x} is no multiple of {}; pass the start of a page",
              first, page_size);
}

}  // namespace

CUresult wherrySetPolicy(const char* policy) {
  return with_message([&] { return set_policy(policy); });
}

CUresult wherryRegisterPolicy(const char* name, unsigned version, wherry::make_policy* make) {
  return with_message([&] { return add_policy(name, version, make); });
}

CUresult wherryGetStats(wherryStats* stats) {
  return enter([&](Driver& driver) {
    constexpr std::size_t smallest = offsetof(wherryStats, faults_missing) + sizeof(std::uint64_t);
    if (stats == nullptr) return refuse_null("stats");
    if (stats->size < smallest) return refuse_size(stats->size);
    answer(stats, driver.runtime().inspector().stats());
    return CUDA_SUCCESS;
  });
}

CUresult wherryGetPageState(const void* address, wherryPageState* state) {
  return enter([&](Driver& driver) {
    if (state == nullptr) return refuse_null("state");
    if (state->size < sizeof(wherryPageState)) return refuse_size(state->size);
    const auto page =
        driver.runtime().inspector().page_whereabouts(reinterpret_cast<std::uintptr_t>(address));
    if (!page)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "{:#x} is in no live managed or device allocation (was it freed?)",
                  reinterpret_cast<std::uintptr_t>(address));
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
    if (!is_range(runtime, devPtr, count)) return refuse_range(runtime, devPtr, count);
    return to_result(runtime.pinning().pin(pages_touched(runtime, devPtr, count)));
  });
}
CUresult wherryUnpinPages(CUdeviceptr devPtr, size_t count) {
  return enter([&](Driver& driver) {
    Runtime& runtime = driver.runtime();
    const bool unpinned = is_range(runtime, devPtr, count) &&
                          runtime.pinning().unpin(pages_touched(runtime, devPtr, count));
    return unpinned ? CUDA_SUCCESS : refuse_range(runtime, devPtr, count);
  });
}

CUresult wherryFreePages(CUdeviceptr ptr, size_t bytes) {
  return enter([&](Driver& driver) {
    Runtime& runtime = driver.runtime();
    if (!is_page_range(runtime, ptr, bytes)) return refuse_page_range(runtime, ptr, bytes);
    return to_result(runtime.ordinary_use().free_pages(pages_touched(runtime, ptr, bytes)), ptr);
  });
}
CUresult wherrySavePages(CUdeviceptr ptr, size_t bytes, int fd, off_t offset) {
  return enter([&](Driver& driver) {
    Runtime& runtime = driver.runtime();
    if (!is_page_range(runtime, ptr, bytes)) return refuse_page_range(runtime, ptr, bytes);
    if (offset < 0)
      return fail(CUDA_ERROR_INVALID_VALUE, "offset is {}; pass 0 or more",
                  static_cast<long long>(offset));
    return to_result(runtime.ordinary_use().save_pages(pages_touched(runtime, ptr, bytes), fd,
                                                       static_cast<std::uint64_t>(offset)),
                     ptr);
  });
}
CUresult wherryMakePrivate(CUdeviceptr ptr) {
  return enter([&](Driver& driver) {
    const auto result = driver.runtime().ordinary_use().make_private(ptr);
    if (result == OrdinaryUse::Result::done)
      (void)driver.memory().take(ptr, [](const MemoryRecord&) { return true; });
    return to_result(result, ptr);
  });
}

CUresult wherryGetEvictions(wherryEviction* events, size_t* count, std::uint64_t* dropped) {
  return enter([&](Driver& driver) {
    if (count == nullptr) return refuse_null("count");
    if (events == nullptr && *count != 0) return refuse_null("events");
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
    if (driver.device(device) == nullptr) return refuse_device(driver.runtime(), device);
    if (pid == nullptr) return refuse_null("pid");
    const auto process = driver.runtime().devices().process(device);
    *pid = process ? process->pid() : ::getpid();
    return CUDA_SUCCESS;
  });
}
