/* Barriers, fences, votes and shuffles. Internal to the headers in wherry/cuda. C++17.
 *
 * A mask may name lanes that the block does not have, or that have ended. A lane whose source has
 * no value in the group gets its own, as on a GPU. */
#ifndef WHERRY_CUDA_SYNCHRONIZATION_H
#define WHERRY_CUDA_SYNCHRONIZATION_H

#include <string.h>
#include <time.h>

#include <string>
#include <type_traits>

#include "cpu.h"
#include "threads.h"

/* ---- The block ---- */

__device__ inline void __syncthreads() {
  wherryBlockBarrier(0, nullptr);
}
__device__ inline int __syncthreads_count(int predicate) {
  return static_cast<int>(wherryBlockBarrier(predicate, nullptr));
}
__device__ inline int __syncthreads_and(int predicate) {
  int all = 0;
  wherryBlockBarrier(predicate, &all);
  return all;
}
__device__ inline int __syncthreads_or(int predicate) {
  return wherryBlockBarrier(predicate, nullptr) != 0 ? 1 : 0;
}

/* ---- Memory: a compiler and a processor keep the order of accesses across them ---- */

inline void __threadfence_block() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- The warp ---- */

#define __FULL_MASK 0xffffffffu

namespace wherry::kernels {

__device__ inline unsigned lane() {
  return ::wherry::kernels::thread_rank() % 32;
}

/* A value of at most 8 bytes as lanes exchange it. */
template <typename T>
unsigned long long to_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(unsigned long long),
                "a shuffle moves a number of at most 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T from_bits(unsigned long long bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The value of lane `source`, or the caller's own. */
template <typename T>
__device__ T shuffle(unsigned mask, T value, unsigned source) {
  static_assert(std::is_trivially_copyable_v<T>, "a shuffle copies bytes");
  const bool is_there = source < 32 && (mask >> source & 1) != 0;
  for (size_t done = 0; done < sizeof value; done += sizeof(unsigned long long)) {
    unsigned long long part = 0;
    const size_t rest = sizeof value - done;
    const size_t bytes = rest < sizeof part ? rest : sizeof part;
    memcpy(&part, reinterpret_cast<const char*>(&value) + done, bytes);
    const unsigned long long* const values = wherryWarpExchange(mask, part);
    if (is_there) part = values[source];
    wherryWarpBarrier(mask);
    memcpy(reinterpret_cast<char*>(&value) + done, &part, bytes);
  }
  return value;
}

/* Folds the values of the lanes in `mask` that have not ended. */
template <typename Fold>
__device__ unsigned long long fold_lanes(unsigned mask, unsigned long long value, Fold fold) {
  const unsigned present = mask & ::wherry::kernels::lanes_of_warp();
  const unsigned long long* const values = wherryWarpExchange(mask, value);
  unsigned long long result = value;
  for (unsigned lanes = present & ~(1u << ::wherry::kernels::lane()); lanes != 0;
       lanes &= lanes - 1)
    result = fold(result, values[__builtin_ctz(lanes)]);
  wherryWarpBarrier(mask);
  return result;
}

__device__ inline unsigned ballot(unsigned mask, bool predicate) {
  const unsigned own = predicate ? 1u << ::wherry::kernels::lane() : 0;
  return static_cast<unsigned>(::wherry::kernels::fold_lanes(
      mask, own, [](unsigned long long a, unsigned long long b) { return a | b; }));
}

template <typename T, typename Fold>
__device__ T reduce(unsigned mask, T value, Fold fold) {
  return ::wherry::kernels::from_bits<T>(::wherry::kernels::fold_lanes(
      mask, ::wherry::kernels::to_bits(value), [&](unsigned long long a, unsigned long long b) {
        return ::wherry::kernels::to_bits<T>(
            fold(::wherry::kernels::from_bits<T>(a), ::wherry::kernels::from_bits<T>(b)));
      }));
}

}  // namespace wherry::kernels

__device__ inline void __syncwarp(unsigned mask = __FULL_MASK) {
  wherryWarpBarrier(mask);
}
/* Returns the lanes that ask at the same place while all others of the warp wait or have ended. */
__device__ __attribute__((noinline)) inline unsigned __activemask() {
  return wherryActiveLanes(__builtin_return_address(0));
}

/* `width` lanes (2, 4, 8, 16 or 32) form a group; `source` and `delta` count its lanes. */
template <typename T>
__device__ T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned size = static_cast<unsigned>(width);
  const unsigned first = ::wherry::kernels::lane() & ~(size - 1);
  return ::wherry::kernels::shuffle(mask, value,
                                    first + (static_cast<unsigned>(source) & (size - 1)));
}
template <typename T>
__device__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = ::wherry::kernels::lane();
  const unsigned place = lane & (static_cast<unsigned>(width) - 1);
  return ::wherry::kernels::shuffle(mask, value, place >= delta ? lane - delta : lane);
}
template <typename T>
__device__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = ::wherry::kernels::lane();
  const unsigned place = lane & (static_cast<unsigned>(width) - 1);
  const bool is_inside = place + delta < static_cast<unsigned>(width);
  return ::wherry::kernels::shuffle(mask, value, is_inside ? lane + delta : lane);
}
template <typename T>
__device__ T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const unsigned lane = ::wherry::kernels::lane();
  const unsigned source = lane ^ static_cast<unsigned>(lanes);
  const unsigned end = (lane & ~(static_cast<unsigned>(width) - 1)) + static_cast<unsigned>(width);
  return ::wherry::kernels::shuffle(mask, value, source < end ? source : lane);
}

__device__ inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return ::wherry::kernels::ballot(mask, predicate != 0);
}
__device__ inline int __any_sync(unsigned mask, int predicate) {
  return ::wherry::kernels::ballot(mask, predicate != 0) != 0 ? 1 : 0;
}
__device__ inline int __all_sync(unsigned mask, int predicate) {
  return ::wherry::kernels::ballot(mask, predicate == 0) == 0 ? 1 : 0;
}
template <typename T>
__device__ unsigned __match_any_sync(unsigned mask, T value) {
  const unsigned present = mask & ::wherry::kernels::lanes_of_warp();
  const unsigned long long own = ::wherry::kernels::to_bits(value);
  const unsigned long long* const values = wherryWarpExchange(mask, own);
  unsigned same = 0;
  for (unsigned lanes = present; lanes != 0; lanes &= lanes - 1)
    if (values[__builtin_ctz(lanes)] == own) same |= lanes & -lanes;
  wherryWarpBarrier(mask);
  return same;
}
template <typename T>
__device__ unsigned __match_all_sync(unsigned mask, T value, int* are_all) {
  const unsigned same = __match_any_sync(mask, value);
  const bool all = same == (mask & ::wherry::kernels::lanes_of_warp());
  *are_all = all ? 1 : 0;
  return all ? mask : 0;
}

__device__ inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return ::wherry::kernels::reduce(mask, value, [](unsigned a, unsigned b) { return a + b; });
}
__device__ inline int __reduce_add_sync(unsigned mask, int value) {
  return ::wherry::kernels::reduce(mask, value, [](int a, int b) { return a + b; });
}
__device__ inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return ::wherry::kernels::reduce(mask, value,
                                   [](unsigned a, unsigned b) { return b < a ? b : a; });
}
__device__ inline int __reduce_min_sync(unsigned mask, int value) {
  return ::wherry::kernels::reduce(mask, value, [](int a, int b) { return b < a ? b : a; });
}
__device__ inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return ::wherry::kernels::reduce(mask, value,
                                   [](unsigned a, unsigned b) { return a < b ? b : a; });
}
__device__ inline int __reduce_max_sync(unsigned mask, int value) {
  return ::wherry::kernels::reduce(mask, value, [](int a, int b) { return a < b ? b : a; });
}
__device__ inline unsigned __reduce_and_sync(unsigned mask, unsigned value) {
  return ::wherry::kernels::reduce(mask, value, [](unsigned a, unsigned b) { return a & b; });
}
__device__ inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return ::wherry::kernels::reduce(mask, value, [](unsigned a, unsigned b) { return a | b; });
}
__device__ inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
  return ::wherry::kernels::reduce(mask, value, [](unsigned a, unsigned b) { return a ^ b; });
}

/* ---- Time ---- */

/* Ticks of the CPU's counter, whose rate is about that of cudaDevAttrClockRate. */
inline long long clock64() {
  return ::wherry::kernels::ticks();
}
inline unsigned long long globaltimer() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<unsigned long long>(now.tv_sec) * 1000000000ull +
         static_cast<unsigned long long>(now.tv_nsec);
}
inline void __nanosleep(unsigned) {
  ::wherry::kernels::pause();
}
[[noreturn]] inline void __trap() {
  wherryKernelFailed(
      (std::string("kernel ") + wherryThisBlock->kernel + " called __trap()").c_str());
}
inline void __brkpt() {}

#endif
