/* Launches of kernels that `wherry nvcc` has compiled, and the loops that run their threads.
 * Internal to the headers in wherry/cuda. C++17.
 *
 * The rewritten kernel `void k(float* a) {...}` is
 *
 *     void k(float* a) {
 *       struct wherry_kernel {
 *         enum { mode = loop };
 *         static const char* name();
 *         static void thread(bool inside, uint3 threadIdx, uint3 blockIdx, dim3 blockDim,
 *                            dim3 gridDim, float* a) {...}
 *       };
 *       launch<wherry_kernel, static_cast<void (*)(float*)>(&k)>(a);
 *     }
 */
#ifndef WHERRY_CUDA_LAUNCH_H
#define WHERRY_CUDA_LAUNCH_H

#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "../../cuda_runtime_api.h"
#include "../../detail/kernel_code.h"
#include "threads.h"

extern "C" {
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem,
                                       void* stream);
}

namespace wherry::kernels {

/* How the threads of a block run. */
enum Mode {
  loop,         /* in a loop that the compiler can vectorize */
  guarded_loop, /* a loop, too; guard() says which threads of a row do something */
  rows,         /* the loop over the threads of a row is inside other loops of the kernel */
  indexed,      /* in a loop; functions that the kernel calls ask for the index */
  fibers,       /* each on a stack of its own, because they may wait for each other */
  phases,       /* in a loop for each part of the kernel between barriers */
};

/* Values of a block that are the same for all of its threads. */
struct BlockShape {
  explicit BlockShape(const wherryKernelBlock& of)
      : index{of.blockIdx[0], of.blockIdx[1], of.blockIdx[2]},
        block(of.blockDim[0], of.blockDim[1], of.blockDim[2]),
        grid(of.gridDim[0], of.gridDim[1], of.gridDim[2]) {}

  uint3 index;
  dim3 block;
  dim3 grid;
};

/* The type without const, volatile and __restrict__. */
template <typename T>
struct Plain {
  using Type = T;
};
template <typename T>
struct Plain<T* __restrict__> {
  using Type = T*;
};
template <typename T>
using Unqualified = typename Plain<std::remove_cv_t<T>>::Type;

/* How a parameter reaches the thread's function: by a copy of its bytes for each thread, or by
 * reference if its type has a copy constructor or destructor, which must run on the host only. */
template <typename P>
using Passed = std::conditional_t<std::is_trivially_copy_constructible_v<P> &&
                                      std::is_trivially_move_constructible_v<P> &&
                                      std::is_trivially_destructible_v<P>,
                                  P, P&>;

template <typename K, typename... P>
__attribute__((always_inline)) inline void call_thread(bool inside, const uint3 thread,
                                                       const BlockShape& shape,
                                                       Passed<P>... parameters) {
  if constexpr ((std::is_same_v<P, Passed<P>> && ...)) {
    K::thread(inside, thread, shape.index, shape.block, shape.grid, parameters...);
  } else {
    /* By the rules for calls of the Itanium C++ ABI, an argument whose type has a copy constructor
     * or destructor is passed by its address, and the caller copies and destroys it. */
    using Function = void (*)(bool, uint3, uint3, dim3, dim3, Passed<P>...);
    void (*const by_value)(bool, uint3, uint3, dim3, dim3, P...) = &K::thread;
    reinterpret_cast<Function>(by_value)(inside, thread, shape.index, shape.block, shape.grid,
                                         parameters...);
  }
}

/* Within these limits, blockIdx.x * blockDim.x + threadIdx.x and the like cannot overflow, and so
 * the compiler can see that neighbouring threads use neighbouring elements. */
constexpr unsigned small_block_limit = 1u << 21;
__attribute__((always_inline)) inline bool is_small(const BlockShape& shape) {
  return shape.index.x < small_block_limit && shape.index.y < small_block_limit &&
         shape.index.z < small_block_limit;
}
__attribute__((always_inline)) inline void assume_small(const BlockShape& shape) {
  const auto is_size = [](unsigned size) { return size >= 1 && size <= 1024; };
  if (!is_small(shape) || !is_size(shape.block.x) || !is_size(shape.block.y) ||
      !is_size(shape.block.z))
    __builtin_unreachable();
}

/* The number of a thread in its row of the grid: block * size + thread. */
inline unsigned global_index(unsigned block, unsigned size, unsigned thread) {
  if (block < small_block_limit && size <= 1024)
    return static_cast<unsigned>(static_cast<int>(block * size) + static_cast<int>(thread));
  return block * size + thread;
}

/* Threads of kernels without barriers have no order, so the compiler may run several at once. */
#if defined(__clang__)
#define WHERRY_THREADS_AT_ONCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define WHERRY_THREADS_AT_ONCE _Pragma("GCC ivdep")
#endif

/* Runs the threads [begin, end) of a row. */
template <typename K, typename... P>
__attribute__((always_inline)) inline void run_row(bool inside, int begin, int end, unsigned y,
                                                   unsigned z, const BlockShape& shape,
                                                   Passed<P>... parameters) {
  WHERRY_THREADS_AT_ONCE
  for (int x = begin; x < end; ++x)
    call_thread<K, P...>(inside, uint3{static_cast<unsigned>(x), y, z}, shape, parameters...);
}
/* Runs the threads [begin, end) of a row with a kernel that contains the loop over them. */
template <typename K, typename... P>
__attribute__((always_inline)) inline void call_row(int begin, int end, unsigned y, unsigned z,
                                                    const BlockShape& shape,
                                                    Passed<P>... parameters) {
  const uint3 first{static_cast<unsigned>(begin), y, z};
  if constexpr ((std::is_same_v<P, Passed<P>> && ...)) {
    K::row(begin, end, first, shape.index, shape.block, shape.grid, parameters...);
  } else {
    using Function = void (*)(int, int, uint3, uint3, dim3, dim3, Passed<P>...);
    void (*const by_value)(int, int, uint3, uint3, dim3, dim3, P...) = &K::row;
    reinterpret_cast<Function>(by_value)(begin, end, first, shape.index, shape.block, shape.grid,
                                         parameters...);
  }
}
/* Runs only the threads for which the guard holds, so that the loop has no condition. */
template <typename K, typename... P>
__attribute__((always_inline)) inline void run_guarded_row(unsigned y, unsigned z,
                                                           const BlockShape& shape,
                                                           Passed<P>... parameters) {
  const auto guard = [&](int x) __attribute__((always_inline)) {
    return K::guard(uint3{static_cast<unsigned>(x), y, z}, shape.index, shape.block, shape.grid,
                    parameters...);
  };
  int begin = 0;
  int end = static_cast<int>(shape.block.x);
  while (begin < end && !guard(begin)) ++begin;
  while (begin < end && !guard(end - 1)) --end;
  int count = 0;
  for (int x = begin; x < end; ++x) count += guard(x) ? 1 : 0;
  if (count == end - begin) {
    if constexpr (K::mode == rows)
      call_row<K, P...>(begin, end, y, z, shape, parameters...);
    else
      run_row<K, P...>(true, begin, end, y, z, shape, parameters...);
    return;
  }
  for (int x = begin; x < end; ++x) {
    if (!guard(x)) continue;
    if constexpr (K::mode == rows)
      call_row<K, P...>(x, x + 1, y, z, shape, parameters...);
    else
      call_thread<K, P...>(true, uint3{static_cast<unsigned>(x), y, z}, shape, parameters...);
  }
}
template <typename K, typename... P>
__attribute__((noinline)) void run_plain_loop(const BlockShape shape, Passed<P>... parameters) {
  for (unsigned z = 0; z < shape.block.z; ++z)
    for (unsigned y = 0; y < shape.block.y; ++y)
      if constexpr (K::mode == rows)
        run_guarded_row<K, P...>(y, z, shape, parameters...);
      else
        for (unsigned x = 0; x < shape.block.x; ++x)
          call_thread<K, P...>(false, uint3{x, y, z}, shape, parameters...);
}

/* AVX2 has loads and stores under a mask, which kernels with conditions need. */
template <typename K, typename... P>
__attribute__((noinline, target("avx2"))) void run_vector_loop(const BlockShape shape,
                                                               Passed<P>... parameters) {
  assume_small(shape);
  for (unsigned z = 0; z < shape.block.z; ++z)
    for (unsigned y = 0; y < shape.block.y; ++y)
      if constexpr (K::mode == guarded_loop || K::mode == rows)
        run_guarded_row<K, P...>(y, z, shape, parameters...);
      else
        run_row<K, P...>(false, 0, static_cast<int>(shape.block.x), y, z, shape, parameters...);
}

template <typename K, typename... P>
void run_indexed_loop(const wherryKernelBlock& block, Passed<P>... parameters) {
  const BlockShape shape(block);
  wherryKernelThread thread{{0, 0, 0}, 0, &block};
  wherryThisThread = &thread;
  for (unsigned z = 0; z < shape.block.z; ++z)
    for (unsigned y = 0; y < shape.block.y; ++y)
      for (unsigned x = 0; x < shape.block.x; ++x) {
        thread.threadIdx[0] = x;
        thread.threadIdx[1] = y;
        thread.threadIdx[2] = z;
        call_thread<K, P...>(false, uint3{x, y, z}, shape, parameters...);
        ++thread.rank;
      }
  wherryThisThread = nullptr;
}

template <typename K, typename... P>
void run_fibers(const wherryKernelBlock& block, Passed<P>... parameters) {
  std::tuple<const BlockShape, std::add_pointer_t<P>...> closure(BlockShape(block), &parameters...);
  const auto run = [](void* argument) {
    std::apply(
        [](const BlockShape& shape, std::add_pointer_t<P>... pointers) {
          const unsigned(&index)[3] = wherryThisThread->threadIdx;
          call_thread<K, P...>(false, uint3{index[0], index[1], index[2]}, shape, *pointers...);
        },
        *static_cast<decltype(closure)*>(argument));
  };
  wherryRunBlock(&block, run, &closure);
}

/* A variable of a kernel that has an element for each thread of the block. */
template <typename T>
class PerThread {
 public:
  using Element = Unqualified<T>;

  PerThread() {}
  /* Gives the element of each thread this value. */
  PerThread(Element value, const dim3& block) {
    for (unsigned i = 0; i < block.x * block.y * block.z; ++i) values_[i] = value;
  }
  Element& operator[](unsigned rank) { return values_[rank]; }

 private:
  static constexpr unsigned threads_max = 1024;
  Element values_[threads_max];
};

/* Runs one part of a kernel, for the threads [begin, end) of a row. `rank` is the number, in
 * PerThread, of the element of the row's thread 0. */
template <typename Body>
__attribute__((always_inline)) inline void for_row(int begin, int end, const uint3& row,
                                                   const Body& body, int rank = 0) {
  WHERRY_THREADS_AT_ONCE
  for (int x = begin; x < end; ++x)
    body(uint3{static_cast<unsigned>(x), row.y, row.z}, static_cast<unsigned>(rank + x));
}
/* Runs one part of a kernel between barriers, for all threads. */
template <typename Body>
__attribute__((always_inline)) inline void for_threads(const dim3& block, const Body& body) {
  for (unsigned z = 0; z < block.z; ++z)
    for (unsigned y = 0; y < block.y; ++y)
      for_row(0, static_cast<int>(block.x), uint3{0, y, z}, body,
              static_cast<int>((z * block.y + y) * block.x));
}

template <typename K, typename... P>
__attribute__((always_inline)) inline void call_block(const BlockShape& shape,
                                                      Passed<P>... parameters) {
  if constexpr ((std::is_same_v<P, Passed<P>> && ...)) {
    K::block(shape.index, shape.block, shape.grid, parameters...);
  } else {
    using Function = void (*)(uint3, dim3, dim3, Passed<P>...);
    void (*const by_value)(uint3, dim3, dim3, P...) = &K::block;
    reinterpret_cast<Function>(by_value)(shape.index, shape.block, shape.grid, parameters...);
  }
}
template <typename K, typename... P>
__attribute__((noinline)) void run_plain_phases(const BlockShape shape, Passed<P>... parameters) {
  call_block<K, P...>(shape, parameters...);
}
template <typename K, typename... P>
__attribute__((noinline, target("avx2"))) void run_vector_phases(const BlockShape shape,
                                                                 Passed<P>... parameters) {
  assume_small(shape);
  call_block<K, P...>(shape, parameters...);
}

template <typename K, typename... P>
void run_block(const wherryKernelBlock& block, Passed<P>... parameters) {
  if constexpr (K::mode == fibers) {
    run_fibers<K, P...>(block, parameters...);
  } else if constexpr (K::mode == indexed) {
    run_indexed_loop<K, P...>(block, parameters...);
  } else if constexpr (K::mode == phases) {
    const BlockShape shape(block);
    if (__builtin_cpu_supports("avx2") && is_small(shape))
      run_vector_phases<K, P...>(shape, parameters...);
    else
      run_plain_phases<K, P...>(shape, parameters...);
  } else {
    const BlockShape shape(block);
    if (__builtin_cpu_supports("avx2") && is_small(shape))
      run_vector_loop<K, P...>(shape, parameters...);
    else
      run_plain_loop<K, P...>(shape, parameters...);
  }
}

/* Runs the blocks of one call, see wherryGridKernel. */
template <typename K, typename... P, std::size_t... I>
void run_blocks(const wherryLaunchInfo& info, void** parameters, std::index_sequence<I...>) {
  wherryKernelBlock block{{0, 0, 0},
                          {info.blockDim[0], info.blockDim[1], info.blockDim[2]},
                          {info.gridDim[0], info.gridDim[1], info.gridDim[2]},
                          info.sharedMemBytes,
                          nullptr,
                          K::name()};
  if (info.sharedMemBytes != 0) {
    block.shared = wherrySharedMemory(info.sharedMemBytes);
    if (block.shared == nullptr) wherryKernelFailed("no memory for dynamic shared memory");
  }
  const std::size_t threads = std::size_t{info.blockDim[0]} * info.blockDim[1] * info.blockDim[2];
  wherryThisBlock = &block;
  for (std::size_t first = info.begin; first < info.end; first += threads) {
    const std::size_t number = first / threads;
    block.blockIdx[0] = static_cast<unsigned>(number % info.gridDim[0]);
    block.blockIdx[1] = static_cast<unsigned>(number / info.gridDim[0] % info.gridDim[1]);
    block.blockIdx[2] = static_cast<unsigned>(number / info.gridDim[0] / info.gridDim[1]);
    run_block<K, P...>(block, *static_cast<P*>(parameters[I])...);
  }
  wherryThisBlock = nullptr;
  static_cast<void>(parameters);
}
template <typename K, typename... P>
void run_grid(const wherryLaunchInfo* info, void** parameters) {
  run_blocks<K, P...>(*info, parameters, std::index_sequence_for<P...>());
}

template <typename... P>
struct Sizes {
  static constexpr unsigned values[sizeof...(P) + 1] = {static_cast<unsigned>(sizeof(P))..., 0};
};

/* The kernel's name as nvcc has it: the mangled name of the function whose local class K is. */
template <typename K>
const char* symbol_name() {
#if defined(__GXX_RTTI) || defined(__cpp_rtti)
  static const std::string* const name = [] {
    std::string of_class = typeid(K).name();
    constexpr const char* suffix = "E13wherry_kernel";
    const std::size_t end = of_class.rfind(suffix);
    std::string symbol = K::name();
    if (of_class[0] == 'Z' && end != std::string::npos) symbol = "_Z" + of_class.substr(1, end - 1);
    return new std::string(symbol);
  }();
  return name->c_str();
#else
  return K::name();
#endif
}

template <typename K, typename... P>
bool register_kernel(const void* stub) {
  wherryRegisterKernel(stub, symbol_name<K>(), &run_grid<K, P...>, Sizes<P...>::values,
                       sizeof...(P));
  return true;
}
/* Registers the kernel before main(), so that functions that take a kernel's address know it. */
template <typename K, auto Stub, typename... P>
inline const bool is_registered = register_kernel<K, P...>(reinterpret_cast<const void*>(Stub));

/* Called by the function that stands for the kernel: launches as configure() said before. */
template <typename K, auto Stub, typename... P>
void launch(P&... parameters) {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  if (__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream) != cudaSuccess) return;
  const auto* const stub = reinterpret_cast<const void*>(Stub);
  /* In constructors of other files the kernel may not be registered yet. */
  if (!is_registered<K, Stub, Unqualified<P>...>) register_kernel<K, Unqualified<P>...>(stub);
  void* pointers[] = {(void*)__builtin_addressof(parameters)..., nullptr};
  cudaLaunchKernel(stub, grid, block, pointers, shared_bytes, stream);
}

/* Stores the configuration of the launch that follows. Returns 0. */
inline unsigned configure(dim3 grid, dim3 block, std::size_t shared_bytes = 0,
                          cudaStream_t stream = nullptr) {
  return __cudaPushCallConfiguration(grid, block, shared_bytes, stream);
}

}  // namespace wherry::kernels

#endif
