/* Reductions of cooperative groups: of lanes of a warp, and of tiles. C++17. */
#ifndef _CG_REDUCE_H_
#define _CG_REDUCE_H_

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <typename T>
struct plus {
  T operator()(T a, T b) const { return a + b; }
};
template <typename T>
struct less {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <typename T>
struct greater {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <typename T>
struct bit_and {
  T operator()(T a, T b) const { return a & b; }
};
template <typename T>
struct bit_or {
  T operator()(T a, T b) const { return a | b; }
};
template <typename T>
struct bit_xor {
  T operator()(T a, T b) const { return a ^ b; }
};

/* Every thread of the group gets the result. */
template <typename Group, typename T, typename Fold>
__device__ T reduce(const Group& group, T value, Fold fold) {
  return ::wherry::kernels::reduce(group.lanes(), value, fold);
}
template <unsigned Size, typename Parent, typename T, typename Fold>
__device__ T reduce(const thread_block_tile<Size, Parent>& tile, T value, Fold fold) {
  if constexpr (Size <= 32)
    return ::wherry::kernels::reduce(tile.lanes(), value, fold);
  else
    return tile.fold(value, fold);
}

}  // namespace cooperative_groups

#endif
