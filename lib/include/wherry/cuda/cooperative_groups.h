/* Cooperative groups: the block, tiles of a warp, the active lanes, and a grid. C++17.
 */
#ifndef _COOPERATIVE_GROUPS_H_
#define _COOPERATIVE_GROUPS_H_

#include "cuda_runtime.h"
#include "detail/synchronization.h"

namespace cooperative_groups {

/* The threads of the block. */
class thread_block {
 public:
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
};

/* All threads of the launch. They can wait for each other if the launch is cooperative, or of one
 * block. */
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
  /* The bits of the group's lanes, side by side. */
  unsigned ranks_of(unsigned lanes) const {
    unsigned ranks = 0, rank = 0;
    for (unsigned rest = mask_; rest != 0; rest &= rest - 1, ++rank)
      if ((lanes & rest & -rest) != 0) ranks |= 1u << rank;
    return ranks;
  }

  unsigned mask_;
};

/* `Size` neighbouring lanes of a warp: a power of two, at most 32. */
template <unsigned Size, typename Parent = void>
class thread_block_tile : public coalesced_group {
  static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0,
                "a tile has 1, 2, 4, 8, 16 or 32 threads on Wherry");

 public:
  __device__ explicit thread_block_tile(unsigned rank_of_block)
      : coalesced_group(mask_of(rank_of_block % 32)),
        rank_(rank_of_block % Size),
        tile_(rank_of_block / Size) {}

  /* A tile is the same whatever it was made from. */
  template <typename Other>
  thread_block_tile(const thread_block_tile<Size, Other>& other)
      : coalesced_group(other), rank_(other.thread_rank()), tile_(other.meta_group_rank()) {}

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
inline grid_group this_grid() {
  return {};
}
__device__ inline coalesced_group coalesced_threads() {
  return coalesced_group(__activemask());
}

template <unsigned Size, typename Group>
__device__ thread_block_tile<Size, Group> tiled_partition(const Group&) {
  return thread_block_tile<Size, Group>(::wherry::kernels::thread_rank());
}
template <typename Group>
__device__ coalesced_group tiled_partition(const Group&, unsigned size) {
  const unsigned lane = ::wherry::kernels::lane();
  const unsigned ones = size >= 32 ? ~0u : (1u << size) - 1;
  return coalesced_group(ones << lane / size * size);
}
/* The lanes of the group that give the same predicate or label. */
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
