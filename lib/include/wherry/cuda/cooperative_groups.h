/* Cooperative groups: the block, tiles of it, the active lanes, and a grid. C++17. */
#ifndef _COOPERATIVE_GROUPS_H_
#define _COOPERATIVE_GROUPS_H_

#include <type_traits>

#include "cuda_runtime.h"
#include "detail/synchronization.h"

namespace cooperative_groups {

/* Shared memory by which tiles of several warps exchange values, for a block of at most
 * `MaxBlockSize` threads. */
template <unsigned MaxBlockSize = 1024>
struct block_tile_memory {
  static constexpr unsigned bytes_of_warp = 16;
  alignas(bytes_of_warp) unsigned char bytes[(MaxBlockSize + 31) / 32 * bytes_of_warp];
};

/* The threads of the block. */
class thread_block {
 public:
  thread_block() = default;
  explicit thread_block(void* memory) : memory_(memory) {}

  __device__ static void sync() { __syncthreads(); }
  __device__ void barrier_arrive() const {}
  __device__ void barrier_wait() const { __syncthreads(); }
  __device__ static unsigned thread_rank() { return ::wherry::kernels::thread_rank(); }
  static unsigned size() {
    const dim3 size = ::wherry::kernels::block_dim();
    return size.x * size.y * size.z;
  }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return ::wherry::kernels::block_index(); }
  __device__ static dim3 thread_index() { return ::wherry::kernels::thread_index(); }
  static dim3 group_dim() { return ::wherry::kernels::block_dim(); }
  static dim3 dim_threads() { return ::wherry::kernels::block_dim(); }
  /* The memory of a block_tile_memory; null if the group has none. */
  void* memory() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

/* All threads of the launch. They can wait for each other if the launch is cooperative, or has only
 * one block. */
class grid_group {
 public:
  static bool is_valid() { return wherryGridCanWait() != 0; }
  __device__ static void sync() { wherryGridBarrier(); }
  static unsigned long long size() {
    const dim3 blocks = ::wherry::kernels::grid_dim();
    return static_cast<unsigned long long>(blocks.x) * blocks.y * blocks.z * thread_block::size();
  }
  static unsigned long long num_threads() { return size(); }
  static dim3 group_dim() { return ::wherry::kernels::grid_dim(); }
  static dim3 dim_blocks() { return ::wherry::kernels::grid_dim(); }
  static unsigned long long num_blocks() {
    const dim3 blocks = ::wherry::kernels::grid_dim();
    return static_cast<unsigned long long>(blocks.x) * blocks.y * blocks.z;
  }
  static unsigned long long block_rank() {
    const dim3 blocks = ::wherry::kernels::grid_dim();
    const uint3 index = ::wherry::kernels::block_index();
    return (static_cast<unsigned long long>(index.z) * blocks.y + index.y) * blocks.x + index.x;
  }
  __device__ static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + ::wherry::kernels::thread_rank();
  }
};

/* Some lanes of a warp. */
class coalesced_group {
 public:
  explicit coalesced_group(unsigned mask) : mask_(mask) {}

  __device__ void sync() const { __syncwarp(mask_); }
  unsigned size() const { return static_cast<unsigned>(__builtin_popcount(mask_)); }
  unsigned num_threads() const { return size(); }
  __device__ unsigned thread_rank() const {
    const unsigned before = (1u << ::wherry::kernels::lane()) - 1;
    return static_cast<unsigned>(__builtin_popcount(mask_ & before));
  }
  unsigned meta_group_size() const { return 1; }
  unsigned meta_group_rank() const { return 0; }

  /* `rank` counts the lanes of the group. */
  template <typename T>
  __device__ T shfl(T value, unsigned rank) const {
    return ::wherry::kernels::shuffle(mask_, value, lane_of(rank % size()));
  }
  template <typename T>
  __device__ T shfl_up(T value, unsigned delta) const {
    const unsigned rank = thread_rank();
    return ::wherry::kernels::shuffle(mask_, value, lane_of(rank >= delta ? rank - delta : rank));
  }
  template <typename T>
  __device__ T shfl_down(T value, unsigned delta) const {
    const unsigned rank = thread_rank();
    return ::wherry::kernels::shuffle(mask_, value,
                                      lane_of(rank + delta < size() ? rank + delta : rank));
  }
  template <typename T>
  __device__ T shfl_xor(T value, unsigned bits) const {
    const unsigned rank = thread_rank() ^ bits;
    return ::wherry::kernels::shuffle(mask_, value, lane_of(rank < size() ? rank : thread_rank()));
  }
  __device__ int any(int predicate) const { return __any_sync(mask_, predicate); }
  __device__ int all(int predicate) const { return __all_sync(mask_, predicate); }
  __device__ unsigned ballot(int predicate) const {
    return ranks_of(__ballot_sync(mask_, predicate));
  }
  template <typename T>
  __device__ unsigned match_any(T value) const {
    return ranks_of(__match_any_sync(mask_, value));
  }

  unsigned lanes() const { return mask_; }

 private:
  unsigned lane_of(unsigned rank) const {
    unsigned rest = mask_;
    for (; rank > 0; --rank) rest &= rest - 1;
    return rest == 0 ? 32 : static_cast<unsigned>(__builtin_ctz(rest));
  }
  /* Returns the bits of the group's lanes, packed side by side. */
  unsigned ranks_of(unsigned lanes) const {
    unsigned ranks = 0, rank = 0;
    for (unsigned rest = mask_; rest != 0; rest &= rest - 1, ++rank)
      if ((lanes & rest & -rest) != 0) ranks |= 1u << rank;
    return ranks;
  }

  unsigned mask_;
};

/* `Size` neighbouring lanes of a warp. */
template <unsigned Size>
class warp_tile : public coalesced_group {
 public:
  __device__ warp_tile(unsigned rank_of_block, void*)
      : coalesced_group(mask_of(rank_of_block % 32)),
        rank_(rank_of_block % Size),
        tile_(rank_of_block / Size) {}

  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  unsigned thread_rank() const { return rank_; }
  unsigned meta_group_size() const { return (thread_block::size() + Size - 1) / Size; }
  unsigned meta_group_rank() const { return tile_; }

  template <typename T>
  __device__ T shfl(T value, unsigned rank) const {
    return __shfl_sync(lanes(), value, static_cast<int>(rank), Size);
  }
  template <typename T>
  __device__ T shfl_up(T value, unsigned delta) const {
    return __shfl_up_sync(lanes(), value, delta, Size);
  }
  template <typename T>
  __device__ T shfl_down(T value, unsigned delta) const {
    return __shfl_down_sync(lanes(), value, delta, Size);
  }
  template <typename T>
  __device__ T shfl_xor(T value, unsigned bits) const {
    return __shfl_xor_sync(lanes(), value, static_cast<int>(bits), Size);
  }

 private:
  static constexpr unsigned mask_of(unsigned lane) {
    const unsigned ones = Size == 32 ? ~0u : (1u << Size) - 1;
    return ones << lane / Size * Size;
  }

  unsigned rank_;
  unsigned tile_;
};

/* `Size` neighbouring threads of a block: several warps. They exchange values of at most 16 bytes
 * through the memory that their block was made with. */
template <unsigned Size>
class block_tile {
 public:
  __device__ block_tile(unsigned rank_of_block, void* memory)
      : rank_(rank_of_block % Size), tile_(rank_of_block / Size) {
    if (memory == nullptr)
      wherryKernelFailed(
          "a tile of more than 32 threads needs this_thread_block(memory), with a __shared__ "
          "block_tile_memory");
    slots_ = static_cast<unsigned char*>(memory) + tile_ * warps * slot_bytes;
  }

  __device__ void sync() const { wherryTileBarrier(Size); }
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  unsigned thread_rank() const { return rank_; }
  unsigned meta_group_size() const { return (thread_block::size() + Size - 1) / Size; }
  unsigned meta_group_rank() const { return tile_; }

  template <typename T>
  __device__ T shfl(T value, unsigned rank) const {
    if (rank_ == rank % Size) store(0, value);
    sync();
    load(0, value);
    sync();
    return value;
  }
  /* Folds first in each warp, then the results of the warps. */
  template <typename T, typename Fold>
  __device__ T fold(T value, Fold fold_two) const {
    T result = ::wherry::kernels::reduce(~0u, value, fold_two);
    if (rank_ % 32 == 0) store(rank_ / 32, result);
    sync();
    load(0, result);
    const unsigned before = tile_ * Size;
    const unsigned there = thread_block::size() - before;
    for (unsigned warp = 1; warp < warps && warp * 32 < there; ++warp) {
      load(warp, value);
      result = fold_two(result, value);
    }
    sync();
    return result;
  }
  __device__ int any(int predicate) const {
    return fold(predicate != 0 ? 1 : 0, [](int a, int b) { return a | b; });
  }
  __device__ int all(int predicate) const {
    return fold(predicate != 0 ? 1 : 0, [](int a, int b) { return a & b; });
  }

 private:
  static constexpr unsigned warps = Size / 32;
  static constexpr unsigned slot_bytes = block_tile_memory<>::bytes_of_warp;

  template <typename T>
  void store(unsigned warp, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= slot_bytes,
                  "a tile of several warps exchanges values of at most 16 bytes");
    memcpy(slots_ + warp * slot_bytes, &value, sizeof value);
  }
  template <typename T>
  void load(unsigned warp, T& value) const {
    memcpy(&value, slots_ + warp * slot_bytes, sizeof value);
  }

  unsigned rank_;
  unsigned tile_;
  unsigned char* slots_;
};

/* `Size` neighbouring threads of a block. */
template <unsigned Size, typename Parent = void>
class thread_block_tile
    : public std::conditional_t<(Size <= 32), warp_tile<Size>, block_tile<Size>> {
  static_assert(Size >= 1 && Size <= 1024 && (Size & (Size - 1)) == 0,
                "the size of a tile is a power of two, at most 1024");
  using Tile = std::conditional_t<(Size <= 32), warp_tile<Size>, block_tile<Size>>;

 public:
  using Tile::Tile;
  /* A tile is the same whatever group it was made from. */
  template <typename Other>
  thread_block_tile(const thread_block_tile<Size, Other>& other) : Tile(other) {}
};

/* Any of these groups but the grid. */
class thread_group {
 public:
  thread_group(const thread_block&) : lanes_(0), is_block_(true) {}
  thread_group(const coalesced_group& group) : lanes_(group), is_block_(false) {}

  __device__ void sync() const {
    if (is_block_)
      __syncthreads();
    else
      lanes_.sync();
  }
  unsigned size() const { return is_block_ ? thread_block::size() : lanes_.size(); }
  unsigned num_threads() const { return size(); }
  __device__ unsigned thread_rank() const {
    return is_block_ ? ::wherry::kernels::thread_rank() : lanes_.thread_rank();
  }

 private:
  coalesced_group lanes_;
  bool is_block_;
};

inline thread_block this_thread_block() {
  return {};
}
template <unsigned MaxBlockSize>
thread_block this_thread_block(block_tile_memory<MaxBlockSize>& memory) {
  return thread_block(memory.bytes);
}
inline grid_group this_grid() {
  return {};
}
__device__ inline coalesced_group coalesced_threads() {
  return coalesced_group(__activemask());
}

template <unsigned Size, typename Group>
__device__ thread_block_tile<Size, Group> tiled_partition(const Group& group) {
  void* memory = nullptr;
  if constexpr (std::is_same_v<Group, thread_block>) memory = group.memory();
  return thread_block_tile<Size, Group>(::wherry::kernels::thread_rank(), memory);
}
template <typename Group>
__device__ coalesced_group tiled_partition(const Group&, unsigned size) {
  const unsigned lane = ::wherry::kernels::lane();
  const unsigned ones = size >= 32 ? ~0u : (1u << size) - 1;
  return coalesced_group(ones << lane / size * size);
}
/* Returns the lanes of the group with the caller's predicate or label. */
template <typename Group>
__device__ coalesced_group binary_partition(const Group& group, bool predicate) {
  const unsigned lanes = __ballot_sync(group.lanes(), predicate);
  return coalesced_group(predicate ? lanes : group.lanes() & ~lanes);
}
template <typename Group>
__device__ coalesced_group labeled_partition(const Group& group, unsigned label) {
  return coalesced_group(__match_any_sync(group.lanes(), label));
}

template <typename Group>
__device__ void sync(const Group& group) {
  group.sync();
}

}  // namespace cooperative_groups

#endif
