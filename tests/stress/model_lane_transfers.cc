// A lane's copies, fills, advice, prefetches, discards and pins, and the child processes that it
// forks.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "stress/model_advice.h"
#include "stress/model_lane.h"
#include "support/capabilities.h"

namespace wherry::test {
namespace {

bool is_host_memory(Memory memory) {
  return memory == Memory::host || memory == Memory::write_combined ||
         memory == Memory::registered || memory == Memory::pageable;
}

bool is_device_memory(Memory memory) {
  return memory == Memory::device || memory == Memory::pool || memory == Memory::mapped;
}

// One side of a copy of rows: the address in the form that the API expects for this kind of memory.
struct Side {
  CUmemorytype type = CU_MEMORYTYPE_DEVICE;
  void* host = nullptr;
  CUdeviceptr device = 0;

  Side(const Slot& slot, std::size_t offset, unsigned variant) {
    const bool unified = slot.memory() == Memory::managed && variant % 3 == 0;
    if (slot.for_host() != nullptr && !unified &&
        (variant % 2 == 0 || slot.memory() == Memory::pageable)) {
      type = CU_MEMORYTYPE_HOST;
      host = slot.for_host() + offset;
    } else {
      type = unified ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
      device = slot.known(offset);
    }
  }
};

// Gives both views the same shape. A row of bytes is divided into the other view's rows.
void match(View& from, View& to) {
  const auto rows_of_bytes = [](View& bytes, const View& rows) {
    bytes.height = std::min(rows.height, bytes.width / rows.width);
    if (bytes.height < 2) {
      bytes.height = 1;
      return;
    }
    bytes.pitch = bytes.width = rows.width;
  };
  if (from.height == 1 && to.height > 1) rows_of_bytes(from, to);
  if (to.height == 1 && from.height > 1) rows_of_bytes(to, from);
  from.width = to.width = std::min(from.width, to.width);
  from.height = to.height = std::min(from.height, to.height);
}

bool is_killed_by_segv(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGSEGV;
}

bool exits_well(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

void Lane::copy(const Operation& operation) {
  if (operation.slot == counter_slot || operation.other == counter_slot) return;
  if (!may_use(operation.other)) return;
  Slot& source = slot(operation.slot);
  Slot& target = slot(operation.other);
  auto from = view_of(operation, 1);
  auto to = target.view(number_, operation.at, operation.count, 1);
  if (!from || !to) return;
  match(*from, *to);
  if (operation.slot == operation.other && from->offset < to->end() && to->offset < from->end())
    return;

  const bool asynchronous = operation.variant % 2 == 0;
  unsigned stream = stream_of(operation);
  if (!asynchronous) stream -= stream % streams_per_device;
  const Use read{operation.slot, *from, false};
  const Use written{operation.other, *to, true};
  // The call itself reads pageable memory, before earlier work of the stream has ended.
  if (asynchronous && source.memory() == Memory::pageable)
    order_here(read, operation.variant / 64);
  else
    order_in(stream, read, operation.variant / 64);
  order_in(stream, written, operation.variant / 64);
  make_current(device_of(stream));
  if (from->height > 1)
    call(copy_rows(operation, stream, *from, *to), "a copy of rows");
  else
    call(copy_bytes(operation, stream, *from, *to), "a copy");
  target.copy_from(source, *from, *to);
  touched(operation.other, *to);

  // cuda_copies.h documents which copies have finished when the call returns.
  if (!asynchronous) {
    if (!is_device_memory(source.memory()) || !is_device_memory(target.memory())) return;
  } else if (target.memory() == Memory::pageable ||
             (is_host_memory(source.memory()) && is_host_memory(target.memory()))) {
    return;
  }
  if (source.memory() != Memory::pageable) is_pending(stream, read);
  is_pending(stream, written);
}

CUresult Lane::copy_bytes(const Operation& operation, unsigned stream, const View& from,
                          const View& to) {
  const Slot& source = slot(operation.slot);
  const Slot& target = slot(operation.other);
  const CUstream handle = streams_[stream].handle;
  const bool asynchronous = operation.variant % 2 == 0;
  const std::size_t bytes = from.width;
  const CUdeviceptr src = source.known(from.offset), dst = target.known(to.offset);
  const bool known_source = source.memory() != Memory::pageable;
  const bool known_target = target.memory() != Memory::pageable;
  switch (operation.variant / 2 % 4) {
    case 0:
      if (source.for_host() == nullptr || !known_target) break;
      return asynchronous ? cuMemcpyHtoDAsync(dst, source.for_host() + from.offset, bytes, handle)
                          : cuMemcpyHtoD(dst, source.for_host() + from.offset, bytes);
    case 1:
      if (target.for_host() == nullptr || !known_source) break;
      return asynchronous ? cuMemcpyDtoHAsync(target.for_host() + to.offset, src, bytes, handle)
                          : cuMemcpyDtoH(target.for_host() + to.offset, src, bytes);
    case 2:
      if (!known_source || !known_target) break;
      if (operation.variant / 8 % 2 == 0)
        return asynchronous ? cuMemcpyDtoDAsync(dst, src, bytes, handle)
                            : cuMemcpyDtoD(dst, src, bytes);
      {
        const CUcontext to_context = world_.session().context(target.device());
        const CUcontext from_context = world_.session().context(source.device());
        return asynchronous ? cuMemcpyPeerAsync(dst, to_context, src, from_context, bytes, handle)
                            : cuMemcpyPeer(dst, to_context, src, from_context, bytes);
      }
    default:
      break;
  }
  return asynchronous ? cuMemcpyAsync(dst, src, bytes, handle) : cuMemcpy(dst, src, bytes);
}

CUresult Lane::copy_rows(const Operation& operation, unsigned stream, const View& from,
                         const View& to) {
  const CUstream handle = streams_[stream].handle;
  const bool asynchronous = operation.variant % 2 == 0;
  const Side source{slot(operation.slot), from.offset, operation.variant / 4};
  const Side target{slot(operation.other), to.offset, operation.variant / 8};
  if (operation.variant / 2 % 2 == 0) {
    CUDA_MEMCPY2D rows{};
    rows.srcMemoryType = source.type;
    rows.srcHost = source.host;
    rows.srcDevice = source.type == CU_MEMORYTYPE_HOST ? 0 : source.device;
    rows.srcPitch = from.pitch;
    rows.dstMemoryType = target.type;
    rows.dstHost = target.host;
    rows.dstDevice = target.type == CU_MEMORYTYPE_HOST ? 0 : target.device;
    rows.dstPitch = to.pitch;
    rows.WidthInBytes = from.width;
    rows.Height = from.height;
    return asynchronous ? cuMemcpy2DAsync(&rows, handle) : cuMemcpy2D(&rows);
  }
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = source.type;
  box.srcHost = source.host;
  box.srcDevice = source.type == CU_MEMORYTYPE_HOST ? 0 : source.device;
  box.srcPitch = from.pitch;
  box.srcHeight = 1;
  box.dstMemoryType = target.type;
  box.dstHost = target.host;
  box.dstDevice = target.type == CU_MEMORYTYPE_HOST ? 0 : target.device;
  box.dstPitch = to.pitch;
  box.dstHeight = 1;
  box.WidthInBytes = from.width;
  box.Height = 1;
  box.Depth = from.height;
  return asynchronous ? cuMemcpy3DAsync(&box, handle) : cuMemcpy3D(&box);
}

void Lane::fill(const Operation& operation) {
  if (operation.slot == counter_slot) return;
  Slot& used = slot(operation.slot);
  const std::size_t size = std::size_t{1} << operation.variant / 2 % 3;
  const auto view = view_of(operation, size);
  if (!view || used.memory() == Memory::pageable) return;
  const bool asynchronous = operation.variant % 2 == 0;
  unsigned stream = stream_of(operation);
  if (!asynchronous) stream -= stream % streams_per_device;
  const Use use{operation.slot, *view, true};
  order_in(stream, use, operation.variant / 64);
  make_current(device_of(stream));

  const std::uint32_t value = operation.variant * 2654435761u;
  const auto byte = static_cast<unsigned char>(value);
  const auto half = static_cast<unsigned short>(value);
  const CUstream handle = streams_[stream].handle;
  const CUdeviceptr at = used.known(view->offset);
  const std::size_t width = view->width / size, height = view->height, pitch = view->pitch;
  if (height == 1 && size == 1)
    LANE_TRY(asynchronous ? cuMemsetD8Async(at, byte, width, handle) : cuMemsetD8(at, byte, width));
  else if (height == 1 && size == 2)
    LANE_TRY(asynchronous ? cuMemsetD16Async(at, half, width, handle)
                          : cuMemsetD16(at, half, width));
  else if (height == 1)
    LANE_TRY(asynchronous ? cuMemsetD32Async(at, value, width, handle)
                          : cuMemsetD32(at, value, width));
  else if (size == 1)
    LANE_TRY(asynchronous ? cuMemsetD2D8Async(at, pitch, byte, width, height, handle)
                          : cuMemsetD2D8(at, pitch, byte, width, height));
  else if (size == 2)
    LANE_TRY(asynchronous ? cuMemsetD2D16Async(at, pitch, half, width, height, handle)
                          : cuMemsetD2D16(at, pitch, half, width, height));
  else
    LANE_TRY(asynchronous ? cuMemsetD2D32Async(at, pitch, value, width, height, handle)
                          : cuMemsetD2D32(at, pitch, value, width, height));
  used.fill(*view, &value, size);
  touched(operation.slot, *view);
  if (asynchronous || is_device_memory(used.memory())) is_pending(stream, use);
}

void Lane::advise(const Operation& operation) {
  Slot& used = slot(operation.slot);
  const auto view = view_of(operation, 1);
  if (!view || used.memory() != Memory::managed) return;
  const DrawnAdvice drawn{operation};
  make_current(static_cast<int>(operation.stream));
  LANE_TRY(cuMemAdvise(used.known(view->offset), view->end() - view->offset, drawn.advice,
                       drawn.location));
  if (!used.is_shared()) note_advice(used, *view, drawn);
}

void Lane::query(const Operation& operation) {
  Slot& used = slot(operation.slot);
  const auto view = view_of(operation, 1);
  if (!view || used.memory() != Memory::managed || used.is_shared()) return;
  order_here({operation.slot, {0, used.bytes(), 1, 0}, true}, operation.variant);
  make_current(static_cast<int>(operation.stream));
  check_attributes(world_, used, *view, current_);
}

void Lane::prefetch(const Operation& operation) {
  Slot& used = slot(operation.slot);
  const auto view = view_of(operation, 1);
  if (!view || used.memory() != Memory::managed) return;
  const unsigned stream = stream_of(operation);
  make_current(device_of(stream));
  CUdeviceptr address = used.known(view->offset);
  std::size_t bytes = view->end() - view->offset;
  CUmemLocation location = location_of(operation.device);
  const CUstream handle = streams_[stream].handle;
  if (operation.variant % 4 != 0 || handle == nullptr) {
    LANE_TRY(cuMemPrefetchAsync(address, bytes, location, 0, handle));
    return;
  }
  std::size_t index = 0;
  LANE_TRY(cuMemPrefetchBatchAsync(&address, &bytes, 1, &location, &index, 1, 0, handle));
}

void Lane::discard(const Operation& operation) {
  if (operation.slot == counter_slot) return;
  Slot& used = slot(operation.slot);
  const auto view = view_of(operation, 1);
  const unsigned stream = stream_of(operation);
  const CUstream handle = streams_[stream].handle;
  if (!view || used.memory() != Memory::managed || view->height > 1 || handle == nullptr) return;
  const Use use{operation.slot, *view, true};
  order_in(stream, use, operation.variant / 64);
  make_current(device_of(stream));
  CUdeviceptr address = used.known(view->offset);
  std::size_t bytes = view->width;
  CUmemLocation location = location_of(operation.device);
  std::size_t index = 0;
  if (operation.variant % 2 == 0)
    LANE_TRY(cuMemDiscardBatchAsync(&address, &bytes, 1, 0, handle));
  else
    LANE_TRY(
        cuMemDiscardAndPrefetchBatchAsync(&address, &bytes, 1, &location, &index, 1, 0, handle));
  // Discarded bytes are undefined, so writes them again.
  const auto byte = static_cast<unsigned char>(operation.variant / 128);
  LANE_TRY(cuMemsetD8Async(address, byte, bytes, handle));
  used.fill(*view, &byte, 1);
  is_pending(stream, use);
  touched(operation.slot, *view);
}

void Lane::pin(const Operation& operation) {
  Slot& used = slot(operation.slot);
  const auto view = view_of(operation, 1);
  if (!view || used.memory() != Memory::managed) return;
  const CUdeviceptr address = used.known(view->offset);
  const std::size_t bytes = view->end() - view->offset;
  if (operation.kind == OperationKind::unpin) {
    LANE_TRY(wherryUnpinPages(address, bytes));
    return;
  }
  const CUresult result = wherryPinPages(address, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return world_.board().count();
  LANE_TRY(result);
}

void Lane::system_calls(const Operation& operation) {
  constexpr std::size_t bytes_max = 16384;  // fits into a pipe
  constexpr int attempts_max = 100'000;
  if (operation.slot == counter_slot || operation.other == counter_slot ||
      !may_use(operation.other))
    return;
  Slot& source = slot(operation.slot);
  Slot& target = slot(operation.other);
  auto from = view_of(operation, 1);
  auto to = target.view(number_, operation.at, operation.count, 1);
  if (!from || !to || source.for_host() == nullptr || target.for_host() == nullptr) return;
  from->height = to->height = 1;
  from->width = to->width = std::min({from->width, to->width, bytes_max});
  if (operation.slot == operation.other && from->offset < to->end() && to->offset < from->end())
    return;
  order_here({operation.slot, *from, false}, operation.variant);
  order_here({operation.other, *to, true}, operation.variant);

  int ends[2] = {};
  if (::pipe(ends) != 0) fail(world_.board(), current_, "no pipe can be made");
  // Where the library cannot answer faults inside system calls, a prepared call may fail again
  // because another lane moved the page.
  const auto all_bytes = [&](std::byte* at, unsigned access, const auto& transfer) {
    int attempts = 0;
    for (std::size_t done = 0; done < from->width;) {
      const ssize_t bytes = transfer(at + done, from->width - done);
      world_.board().count();
      if (bytes > 0) {
        done += static_cast<std::size_t>(bytes);
        continue;
      }
      if (bytes == 0 || errno != EFAULT || serves_system_calls() || ++attempts == attempts_max)
        fail(world_.board(), current_, "a system call with memory of the library failed");
      LANE_TRY(wherryTouchPages(at + done, from->width - done, access));
    }
  };
  all_bytes(source.for_host() + from->offset, WHERRY_TOUCH_READ,
            [&](const void* at, std::size_t bytes) { return ::write(ends[1], at, bytes); });
  all_bytes(target.for_host() + to->offset, WHERRY_TOUCH_WRITE,
            [&](void* at, std::size_t bytes) { return ::read(ends[0], at, bytes); });
  ::close(ends[0]);
  ::close(ends[1]);
  target.copy_from(source, *from, *to);
  touched(operation.slot, *from);
  touched(operation.other, *to);
}

void Lane::fork_child(const Operation& operation) {
  // The child has a copy of ordinary memory, registered or not. It cannot access other memory of
  // the library.
  std::vector<unsigned> copied;
  for (unsigned n = 0; n < private_slots; ++n) {
    const unsigned number = shared_slots + number_ * private_slots + n;
    const Memory memory = slot(number).memory();
    if (memory != Memory::pageable && memory != Memory::registered) continue;
    order_here({number, {0, slot(number).bytes(), 1, 0}, true}, operation.variant);
    copied.push_back(number);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    std::size_t free = 0, total = 0;
    CUdeviceptr address = 0;
    bool good =
        cuMemGetInfo(&free, &total) == CUDA_ERROR_NOT_INITIALIZED &&
        cuMemAllocManaged(&address, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_NOT_INITIALIZED &&
        cuStreamSynchronize(streams_[1].handle) == CUDA_ERROR_NOT_INITIALIZED;
    for (const unsigned number : copied)
      good = good &&
             std::memcmp(slot(number).for_host(), slot(number).model(), slot(number).bytes()) == 0;
    ::_exit(good ? 0 : 1);
  }
  if (child < 0) fail(world_.board(), current_, "fork failed");
  world_.board().count();
  if (!exits_well(child))
    fail(world_.board(), current_, "a forked child has wrong results or wrong memory contents");

  const Slot& shared = slot(0);
  if (!shared.exists() || operation.variant % 4 != 0) return;
  const pid_t faulting_processor = ::fork();
  if (faulting_processor == 0) {
    const auto* const first = reinterpret_cast<const volatile char*>(shared.for_host());
    ::_exit(first[0]);
  }
  world_.board().count();
  if (faulting_processor < 0 || !is_killed_by_segv(faulting_processor))
    fail(world_.board(), current_, "a forked child could touch managed memory");
}

}  // namespace wherry::test
