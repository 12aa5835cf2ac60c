#include "objects/grid_arguments.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

#include "base/page.h"
#include "devices/launch_board.h"
#include "kernels/grid_barrier.h"
#include "os/memory/own_memory.h"

namespace wherry::impl {
namespace {

constexpr unsigned missing = ~0u;
constexpr std::size_t alignment = 16;
// The most bytes of a kernel's parameters (CUDA C++ Programming Guide, "__global__ function
// argument processing"), and of their padded values in an argument block.
constexpr std::size_t parameters_max = 32764;
constexpr std::size_t data_max = parameters_max + WHERRY_MAX_PARAMS * alignment;
// How many parameters, and how many bytes of each, are copied if the kernel declares nothing.
constexpr std::size_t undeclared_count = 16;
constexpr std::size_t undeclared_size = 64;

// An argument block begins with this. The parameters' offsets follow, then their values.
struct Head {
  wherryGridKernel kernel = nullptr;
  wherryLaunchInfo info{};
  unsigned count = 0;
  unsigned data_offset = 0;
  bool is_cooperative = false;
  alignas(GridBarrier) std::byte barrier[sizeof(GridBarrier)];  // if is_cooperative
};
static_assert(sizeof(Head) + WHERRY_MAX_PARAMS * sizeof(unsigned) + alignment + data_max <=
              launch_args_limit);

// Returns the memory at the address up to where managed memory begins: a read of managed memory
// would migrate it to the host.
MemoryPart unmanaged_part(Runtime& runtime, std::uintptr_t address, std::span<std::byte> into) {
  const auto is_managed = [&](std::uintptr_t at) {
    return runtime.heap().offset_of(at).has_value();
  };
  const std::size_t to_page_end = page_size - address % page_size;
  std::size_t bytes = address == 0 || is_managed(address) ? 0 : into.size();
  if (bytes > to_page_end && is_managed(address + to_page_end)) bytes = to_page_end;
  return {address, into.first(bytes)};
}

Head head_of(const std::byte* block) {
  Head head;
  std::memcpy(&head, block, sizeof head);
  return head;
}

// Returns where the parameters are in the block; null for one that is missing.
std::array<void*, WHERRY_MAX_PARAMS> params_of(const std::byte* block, const Head& head) {
  std::array<void*, WHERRY_MAX_PARAMS> params{};
  for (unsigned i = 0; i < std::min(head.count, WHERRY_MAX_PARAMS + 0u); ++i) {
    unsigned offset = 0;
    std::memcpy(&offset, block + sizeof head + i * sizeof offset, sizeof offset);
    if (offset != missing) params[i] = const_cast<std::byte*>(block + head.data_offset + offset);
  }
  return params;
}

// Returns the first offset from `offset` on that is aligned for a parameter of this size.
std::size_t packed_place(std::size_t offset, std::size_t bytes) {
  const std::size_t unit = bytes % alignment == 0 ? alignment : bytes & -bytes;
  return round_up(offset, std::max<std::size_t>(unit, 1));
}

}  // namespace

std::size_t packed_offset(const DeclaredParams& declared, std::size_t index) {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < index; ++i)
    offset = packed_place(offset, declared.sizes[i]) + declared.sizes[i];
  return packed_place(offset, declared.sizes[index]);
}

GridArguments::GridArguments(wherryGridKernel kernel, const wherryLaunchInfo& info,
                             std::uint32_t waiting_blocks)
    : block_(sizeof(Head)) {
  Head head{kernel, info, 0, 0, waiting_blocks != 0, {}};
  new (head.barrier) GridBarrier(waiting_blocks);
  std::memcpy(block_.data(), &head, sizeof head);
}

bool GridArguments::append(const void* bytes, std::size_t size) {
  offsets_.push_back(static_cast<unsigned>(data_.size()));
  const auto* start = static_cast<const std::byte*>(bytes);
  data_.insert(data_.end(), start, start + size);
  data_.resize(round_up(data_.size(), alignment));
  bytes_ += size;
  return bytes_ <= parameters_max;
}

bool GridArguments::add(void** pointers, const DeclaredParams& declared, Runtime& runtime) {
  if (declared.sizes != nullptr) {
    if ((pointers == nullptr && declared.count != 0) || declared.count > WHERRY_MAX_PARAMS)
      return false;
    for (std::size_t i = 0; i < declared.count; ++i)
      if (!append(pointers[i], declared.sizes[i])) return false;
    return true;
  }
  std::array<std::uintptr_t, undeclared_count> found{};
  MemoryPart list = unmanaged_part(runtime, reinterpret_cast<std::uintptr_t>(pointers),
                                   std::as_writable_bytes(std::span(found)));
  read_readable({&list, 1});
  const std::size_t count = list.read / sizeof found[0];
  std::array<std::array<std::byte, undeclared_size>, undeclared_count> values;
  std::array<MemoryPart, undeclared_count> parts;
  for (std::size_t i = 0; i < count; ++i) parts[i] = unmanaged_part(runtime, found[i], values[i]);
  read_readable(std::span(parts).first(count));
  for (std::size_t i = 0; i < count; ++i) {
    if (parts[i].read == 0)
      offsets_.push_back(missing);
    else
      (void)append(values[i].data(), parts[i].read);
  }
  return true;
}

bool GridArguments::add_packed(void** extra, const DeclaredParams& declared) {
  if (declared.count > WHERRY_MAX_PARAMS) return false;
  const std::byte* buffer = nullptr;
  std::size_t size = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = static_cast<const std::byte*>(extra[1]);
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      std::memcpy(&size, extra[1], sizeof size);
    else
      return false;
  }
  std::size_t offset = 0;
  for (std::size_t i = 0; i < declared.count; ++i) {
    const std::size_t bytes = declared.sizes[i];
    offset = packed_place(offset, bytes);
    if (buffer == nullptr || offset + bytes > size || !append(buffer + offset, bytes)) return false;
    offset += bytes;
  }
  return true;
}

std::vector<std::byte> GridArguments::take() {
  Head head;
  std::memcpy(&head, block_.data(), sizeof head);
  head.count = static_cast<unsigned>(offsets_.size());
  const auto offsets = std::as_bytes(std::span(offsets_));
  block_.insert(block_.end(), offsets.begin(), offsets.end());
  block_.resize(round_up(block_.size(), alignment));
  head.data_offset = static_cast<unsigned>(block_.size());
  std::memcpy(block_.data(), &head, sizeof head);
  block_.insert(block_.end(), data_.begin(), data_.end());
  return std::move(block_);
}

void run_grid(const void* args, std::size_t begin, std::size_t end) {
  const auto* block = static_cast<const std::byte*>(args);
  Head head = head_of(block);
  auto params = params_of(block, head);
  const unsigned(&block_dim)[3] = head.info.blockDim;
  const std::size_t block_threads = std::size_t{block_dim[0]} * block_dim[1] * block_dim[2];
  head.info.begin = begin * block_threads;
  head.info.end = end * block_threads;
  if (!head.is_cooperative) return head.kernel(&head.info, params.data());
  // The barrier in the argument block, which all workers share; `head` is this worker's copy.
  auto* const barrier = std::launder(
      reinterpret_cast<GridBarrier*>(const_cast<std::byte*>(block + offsetof(Head, barrier))));
  grid_barrier_of_this_thread() = barrier;
  head.kernel(&head.info, params.data());
  grid_barrier_of_this_thread() = nullptr;
  barrier->leave();
}

std::vector<void*> grid_params(const std::vector<std::byte>& arguments) {
  const Head head = head_of(arguments.data());
  const auto params = params_of(arguments.data(), head);
  return {params.begin(), params.begin() + std::min(head.count, WHERRY_MAX_PARAMS + 0u)};
}

}  // namespace wherry::impl
