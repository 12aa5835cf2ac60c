// The language of kernels, feature by feature. Prints the name of each check that fails, and a
// count.
#include <assert.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace cg = cooperative_groups;

static int checks = 0, failures = 0;
#define EXPECT(condition)                                           \
  do {                                                              \
    ++checks;                                                       \
    if (!(condition)) {                                             \
      ++failures;                                                   \
      std::printf("line %d: %s is not so\n", __LINE__, #condition); \
    }                                                               \
  } while (0)
#define FINISH() EXPECT(cudaDeviceSynchronize() == cudaSuccess)

template <typename T>
T* managed(std::size_t count) {
  T* memory = nullptr;
  if (cudaMallocManaged(&memory, count * sizeof(T)) != cudaSuccess) std::exit(1);
  std::memset(memory, 0, count * sizeof(T));
  return memory;
}

// ---- Launches ----

template <typename A, typename B>
struct Pair {
  A first;
  B second;
};
template <typename T, int number>
__global__ void fill(T* out, T value) {
  out[threadIdx.x] = value + number;
}
template <typename... Numbers>
__global__ void add_all(int* out, Numbers... numbers) {
  *out = (0 + ... + numbers);
}
template <typename P>
__global__ void use_pair(int* out, P pair) {
  *out = pair.first + static_cast<int>(pair.second);
}
__global__ void unnamed(int* out, int, float*) {
  *out = 9;
}
__global__ void converted(double* out, double value, dim3 size) {
  *out = value * size.x;
}
namespace scope {
__global__ void inside(int* out) {
  *out = 11;
}
}  // namespace scope
extern "C" __global__ void c_linkage(int* out) {
  *out = 12;
}
template <typename T, bool>
__global__ void restricted(T* __restrict__ out, const T* __restrict__ in) {
  *out = *in;
}
__global__ void declared_first(int* out);
#define LAUNCH(kernel, ...) kernel<<<1, 1>>>(__VA_ARGS__)
#define KERNEL_OF(name, value)     \
  __global__ void name(int* out) { \
    *out = value;                  \
  }
KERNEL_OF(from_macro, 13)

void test_launches() {
  int* out = managed<int>(64);
  fill<int, (3 > 2) ? 5 : 6><<<dim3(1), dim3(8, 1)>>>(out, 1);
  FINISH();
  EXPECT(out[7] == 6 && out[8] == 0);
  add_all<<<1, 1, 0, 0>>>(out, 1, 2, 3);
  FINISH();
  EXPECT(*out == 6);
  use_pair<Pair<int, float>><<<1, 1>>>(out, Pair<int, float>{1, 2.5f});
  FINISH();
  EXPECT(*out == 3);
  unnamed<<<1, 1>>>(out, 0, nullptr);
  FINISH();
  EXPECT(*out == 9);
  double* number = managed<double>(1);
  converted<<<1, 1>>>(number, 2, 3);
  FINISH();
  EXPECT(*number == 6);
  scope::inside<<<1, 1>>>(out);
  FINISH();
  EXPECT(*out == 11);
  if (*out == 11) c_linkage<<<1, 1>>>(out);
  FINISH();
  EXPECT(*out == 12);
  LAUNCH(from_macro, out);
  FINISH();
  EXPECT(*out == 13);
  declared_first<<<1, 1>>>(out);
  FINISH();
  EXPECT(*out == 14);
  // clang-format off
  fill<int, 2> << < dim3(1), 4 >> > (out, 1);
  // clang-format on
  FINISH();
  EXPECT(out[3] == 3 && INT_MAX > 0);
  restricted<int, true><<<1, 1>>>(out, out + 3);
  FINISH();
  EXPECT(out[0] == 3);
  void (*pointer)(int*) = scope::inside;
  pointer<<<1, 1>>>(out);
  FINISH();
  EXPECT(*out == 11);
  const char* text = "kernel<<<1, 1>>>(nothing) in a string";
  EXPECT(std::string(text).find("<<<") == 6);
  std::vector<std::vector<std::vector<int>>> nested(1);
  EXPECT((nested.size() << 1 >> 1) == 1);
  from_macro<<<1, 2000>>>(out);
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  from_macro<<<0, 1>>>(out);
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  EXPECT(cudaGetLastError() == cudaSuccess);
}
__global__ void declared_first(int* out) {
  *out = 14;
}

// ---- Kernels by their address ----

void test_addresses() {
  int* out = managed<int>(1);
  void* arguments[] = {&out};
  EXPECT(cudaLaunchKernel((void*)scope::inside, 1, 1, arguments, 0, 0) == cudaSuccess);
  FINISH();
  EXPECT(*out == 11);
  cudaFuncAttributes attributes;
  EXPECT(cudaFuncGetAttributes(&attributes, fill<float, 1>) == cudaSuccess);
  EXPECT(attributes.maxThreadsPerBlock == 1024);
  const char* name = nullptr;
  EXPECT(cudaFuncGetName(&name, (const void*)scope::inside) == cudaSuccess);
  EXPECT(name != nullptr && std::string(name) == "_ZN5scope6insideEPi");
  int grid = 0, block = 0;
  EXPECT(cudaOccupancyMaxPotentialBlockSize(&grid, &block, scope::inside) == cudaSuccess);
  EXPECT(block == 1024 && grid >= 1);
  EXPECT(cudaFuncSetCacheConfig(scope::inside, cudaFuncCachePreferL1) == cudaSuccess);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = 1;
  *out = 0;
  EXPECT(cudaLaunchKernelEx(&config, scope::inside, out) == cudaSuccess);
  FINISH();
  EXPECT(*out == 11);
}

// ---- Parameters ----

struct Owner {
  int* data;
  explicit Owner(int* its) : data(its) {}
  Owner(const Owner& other) : data(other.data) { ++copies; }
  ~Owner() { ++ends; }
  static int copies, ends;
};
int Owner::copies = 0, Owner::ends = 0;
__global__ void write_through(Owner owner, int n) {
  if (threadIdx.x < n) owner.data[threadIdx.x] = 7;
}
__global__ void change_parameters(int* out, int n) {
  out += threadIdx.x;
  n *= 2;
  __syncthreads();
  *out = n;
  __syncthreads();
  n += 1;
  out[blockDim.x] = n;
}

template <int bytes>
struct Large {
  int numbers[bytes / 4];
};
template <int bytes>
__global__ void ends_of(const __grid_constant__ Large<bytes> large, int more, int* out) {
  *out = large.numbers[0] + large.numbers[bytes / 4 - 1] + more;
}

void test_parameters() {
  int* out = managed<int>(64);
  {
    Owner owner(out);
    write_through<<<1, 16>>>(owner, 8);
    FINISH();
  }
  EXPECT(out[7] == 7 && out[8] == 0);
  EXPECT(Owner::ends == Owner::copies + 1);
  change_parameters<<<1, 8>>>(out, 5);
  FINISH();
  EXPECT(out[0] == 10 && out[7] == 10 && out[8] == 11 && out[15] == 11 && out[16] == 0);
  // Parameters of as many bytes as CUDA permits, and of more, which are refused.
  static Large<32764 - 12> large;
  large.numbers[0] = 3, large.numbers[(32764 - 12) / 4 - 1] = 4;
  ends_of<<<1, 1>>>(large, 5, out);
  FINISH();
  EXPECT(out[0] == 12);
  static Large<32764 - 8> too_large;
  ends_of<<<1, 1>>>(too_large, 5, out);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
}

// ---- Variables ----

__device__ int counter = 5;
__device__ const int table[] = {1, 2, 3};
__constant__ float factors[4];
__managed__ int both[2] = {20, 30};
static __device__ volatile int hidden;
__device__ int (*operation)(int);

__device__ int twice(int x) {
  return 2 * x;
}
__global__ void use_variables(float* out) {
  counter += table[2];
  hidden = 4;
  both[1] += both[0];
  operation = twice;
  *out = factors[3] * operation(hidden);
}

void test_variables() {
  float* out = managed<float>(1);
  const float values[4] = {0, 0, 0, 2.5f};
  EXPECT(cudaMemcpyToSymbol(factors, values, sizeof values) == cudaSuccess);
  use_variables<<<1, 1>>>(out);
  FINISH();
  int value = 0;
  EXPECT(cudaMemcpyFromSymbol(&value, counter, sizeof value) == cudaSuccess);
  EXPECT(value == 8 && both[1] == 50 && *out == 20);
  const float one = 1;
  EXPECT(cudaMemcpyToSymbol(factors, &one, sizeof one, 3 * sizeof one) == cudaSuccess);
  float back = 0;
  EXPECT(cudaMemcpyFromSymbol(&back, factors, sizeof back, 3 * sizeof back) == cudaSuccess);
  EXPECT(back == 1);
  EXPECT(cudaMemcpyToSymbol(factors, values, sizeof values, 4) == cudaErrorInvalidValue);
  void* address = nullptr;
  std::size_t bytes = 0;
  EXPECT(cudaGetSymbolAddress(&address, counter) == cudaSuccess && address == &counter);
  EXPECT(cudaGetSymbolSize(&bytes, factors) == cudaSuccess && bytes == sizeof values);
}

// ---- Barriers ----

__global__ void rotate(int* numbers) {
  extern __shared__ int shared[];
  shared[threadIdx.x] = numbers[threadIdx.x];
  __syncthreads();
  numbers[threadIdx.x] = shared[(threadIdx.x + 1) % blockDim.x];
}
// A barrier in a loop whose end depends on memory, and threads that end before it.
__global__ void scan(int* numbers, const int* rounds) {
  __shared__ int sums[1024];
  const unsigned t = threadIdx.x;
  sums[t] = numbers[t];
  __syncthreads();
  for (int distance = 1; distance < *rounds; distance *= 2) {
    int other = 0;
    if (t >= distance) other = sums[t - distance];
    __syncthreads();
    sums[t] += other;
    __syncthreads();
  }
  numbers[t] = sums[t];
}
__device__ void barrier_inside(int* shared, int value) {
  shared[threadIdx.x] = value;
  __syncthreads();
}
__global__ void through_function(int* out) {
  __shared__ int shared[64];
  if (threadIdx.x == 63) return;
  barrier_inside(shared, threadIdx.x);
  out[threadIdx.x] = shared[62 - threadIdx.x];
}
__global__ void counted(int* out) {
  const int n = __syncthreads_count(threadIdx.x % 3 == 0);
  const int all = __syncthreads_and(threadIdx.x < 1000);
  const int some = __syncthreads_or(threadIdx.x == 5);
  const int none = __syncthreads_or(threadIdx.x > 5000);
  if (threadIdx.x == 0) out[0] = n, out[1] = all, out[2] = some, out[3] = none;
}
template <typename T>
__global__ void reduce_block(const T* in, T* out, int n) {
  __shared__ T partial[128];
  int tid = threadIdx.x;
  T mine = 0;
  for (int i = blockIdx.x * blockDim.x + tid; i < n; i += blockDim.x * gridDim.x) mine += in[i];
  partial[tid] = mine;
  __syncthreads();
#pragma unroll
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) {
      partial[tid] += partial[tid + s];
    }
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = partial[0];
}
__global__ void cube(int* out) {
  __shared__ int shared[4][4][4];
  const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
  shared[z][y][x] = x + 10 * y + 100 * z;
  __syncthreads();
  if (x == y && y == z) return;
  out[(z * 4 + y) * 4 + x] = shared[x][y][z];
}

__global__ void shifted(int* __restrict__ out, const int* __restrict__ in, const int bits) {
  __shared__ int shared[32];
  const int half = threadIdx.x >> 1, twice = threadIdx.x << bits;
  shared[threadIdx.x] = in[half] + twice;
  __syncthreads();
  out += 1;
  out[half] = shared[2 * half] + shared[2 * half + 1];
}

void test_barriers() {
  int* out = managed<int>(1024);
  int* rounds = managed<int>(1);
  for (int i = 0; i < 1024; ++i) out[i] = i;
  rotate<<<1, 1000, 1000 * sizeof(int)>>>(out);
  FINISH();
  EXPECT(out[0] == 1 && out[998] == 999 && out[999] == 0);
  for (int i = 0; i < 1024; ++i) out[i] = 1;
  *rounds = 1024;
  scan<<<1, 1024>>>(out, rounds);
  FINISH();
  EXPECT(out[0] == 1 && out[511] == 512 && out[1023] == 1024);
  through_function<<<1, 64>>>(out);
  FINISH();
  EXPECT(out[0] == 62 && out[62] == 0 && out[63] == 64);
  counted<<<2, 100>>>(out);
  FINISH();
  EXPECT(out[0] == 34 && out[1] == 1 && out[2] == 1 && out[3] == 0);
  double *in = managed<double>(1000), *sums = managed<double>(2);
  for (int i = 0; i < 1000; ++i) in[i] = i;
  reduce_block<<<2, 128>>>(in, sums, 1000);
  FINISH();
  EXPECT(sums[0] + sums[1] == 499500);
  std::memset(out, 0, 64 * sizeof *out);
  cube<<<1, dim3(4, 4, 4)>>>(out);
  FINISH();
  EXPECT(out[1] == 100 && out[4] == 10 && out[16] == 1 && out[21] == 0);
  int* halves = managed<int>(16);
  for (int i = 0; i < 16; ++i) halves[i] = i;
  shifted<<<1, (64 >> 1)>>>(out, halves, 1);
  FINISH();
  EXPECT(out[1] == 2 && out[16] == 30 + 60 + 62);
}

// ---- Warps ----

__global__ void lanes(unsigned* out) {
  const unsigned lane = threadIdx.x % warpSize;
  unsigned value = threadIdx.x;
  value = __shfl_xor_sync(0xffffffff, value, 1);
  out[threadIdx.x] = value;
  out[64 + threadIdx.x] = __ballot_sync(0xffffffff, lane % 4 == 0);
  out[128 + threadIdx.x] = __shfl_up_sync(0xffffffff, lane, 2, 8);
  const int any = __any_sync(0xffffffff, threadIdx.x == 40),
            all = __all_sync(0xffffffff, lane < 32);
  out[192 + threadIdx.x] = any * 2 + all;
  if (lane < 8) {
    out[256 + threadIdx.x] = __activemask();
    __syncwarp(0xff);
  }
  out[320 + threadIdx.x] = __match_any_sync(0xffffffff, lane / 16);
  out[384 + threadIdx.x] = __reduce_add_sync(0xffffffff, lane);
  const double real = __shfl_sync(0xffffffff, lane * 0.5, 3);
  out[448 + threadIdx.x] = real == 1.5;
}
__global__ void groups(int* out) {
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  out[block.thread_rank()] = cg::reduce(tile, 1, cg::plus<int>());
  if (tile.thread_rank() % 2 == 1) {
    const auto active = cg::coalesced_threads();
    out[64 + threadIdx.x] = active.size() * 100 + active.thread_rank();
  }
  cg::this_grid().sync();
  out[128 + threadIdx.x] = tile.any(tile.thread_rank() == 3) + tile.meta_group_rank() * 10;
}
__device__ int add_once_for_active_lanes(int* count) {
  const unsigned mask = __activemask();
  const int leader = __ffs(mask) - 1;
  int old = 0;
  if (threadIdx.x % 32 == leader) old = atomicAdd(count, __popc(mask));
  return __shfl_sync(mask, old, leader) + __popc(mask & ((1u << threadIdx.x % 32) - 1));
}
__global__ void keep_even(const int* numbers, int* kept, int* count) {
  const int number = numbers[threadIdx.x];
  if (number % 2 == 0) kept[add_once_for_active_lanes(count)] = number;
}

void test_warps() {
  unsigned* out = managed<unsigned>(512);
  lanes<<<1, 64>>>(out);
  FINISH();
  EXPECT(out[0] == 1 && out[1] == 0 && out[63] == 62);
  EXPECT(out[64] == 0x11111111 && out[127] == 0x11111111);
  EXPECT(out[128] == 0 && out[129] == 1 && out[130] == 0 && out[137] == 9 && out[138] == 8);
  EXPECT(out[192] == 1 && out[255] == 3);
  EXPECT(out[256] == 0xff && out[256 + 39] == 0xff && out[256 + 8] == 0);
  EXPECT(out[320] == 0xffff && out[320 + 31] == 0xffff0000);
  EXPECT(out[384] == 496 && out[447] == 496 && out[448] == 1 && out[511] == 1);
  int* numbers = managed<int>(256);
  groups<<<1, 64>>>(numbers);
  FINISH();
  EXPECT(numbers[0] == 8 && numbers[63] == 8);
  EXPECT(numbers[64] == 0 && numbers[65] == 1600 && numbers[64 + 31] == 1615);
  EXPECT(numbers[128] == 1 && numbers[128 + 63] == 71);
  int *kept = managed<int>(64), *count = managed<int>(1);
  for (int i = 0; i < 64; ++i) numbers[i] = i * 7;
  keep_even<<<1, 64>>>(numbers, kept, count);
  FINISH();
  std::sort(kept, kept + 32);
  EXPECT(*count == 32 && kept[0] == 0 && kept[31] == 62 * 7);
}

// Each tile, of several warps, computes a sum and a maximum, reads one thread's number, and votes.
template <unsigned size>
__global__ void use_tiles(double* out, unsigned threads) {
  __shared__ cg::block_tile_memory<1024> memory;
  const auto tile = cg::tiled_partition<size>(cg::this_thread_block(memory));
  if (threadIdx.x >= threads) return;
  const int sum = cg::reduce(tile, static_cast<int>(threadIdx.x), cg::plus<int>());
  const unsigned most = cg::reduce(tile, threadIdx.x, cg::greater<unsigned>());
  const double fifth = tile.shfl(threadIdx.x * 0.5, 5);
  const bool has_70 = tile.any(threadIdx.x == 70), is_first = tile.all(threadIdx.x < size);
  tile.sync();
  out[threadIdx.x] = sum + most + fifth + (has_70 ? 0.25 : 0) + (is_first ? 0.125 : 0) +
                     1e6 * tile.meta_group_rank() + 1e7 * tile.meta_group_size();
}
template <unsigned size>
void test_tiles_of(double* out, unsigned block, unsigned threads) {
  use_tiles<size><<<2, block>>>(out, threads);
  FINISH();
  int wrong = 0;
  for (unsigned i = 0; i < threads; ++i) {
    const unsigned first = i / size * size, end = std::min(first + size, threads);
    double expected = end - 1 + (first + 5) * 0.5 + 1e6 * (i / size) +
                      1e7 * ((block + size - 1) / size) + (first == 0 ? 0.125 : 0);
    for (unsigned each = first; each < end; ++each) expected += each;
    if (first <= 70 && 70 < end) expected += 0.25;
    wrong += out[i] != expected;
  }
  EXPECT(wrong == 0);
}
void test_tiles() {
  double* out = managed<double>(1024);
  test_tiles_of<64>(out, 1024, 1024);
  test_tiles_of<512>(out, 768, 704);  // whole warps end before they use the tile
  test_tiles_of<1024>(out, 96, 96);
}

// ---- Rounding ----

constexpr int singles = 30, doubles = 27;
struct Numbers {
  float f[3];
  double d[3];
  long long whole;
  float single[singles];
  double real[doubles];
};
#define ROUND_IN(suffix)                                                                 \
  *f++ = __fadd_##suffix(a, b), *f++ = __fsub_##suffix(a, b);                            \
  *f++ = __fmul_##suffix(a, b), *f++ = __fdiv_##suffix(a, b);                            \
  *f++ = __fsqrt_##suffix(c), *f++ = __frcp_##suffix(a);                                 \
  *f++ = __fmaf_##suffix(a, b, c), *f++ = __double2float_##suffix(x);                    \
  *f++ = __ll2float_##suffix(n.whole), *f++ = __uint2float_##suffix(unsigned(n.whole));  \
  *d++ = __dadd_##suffix(x, y), *d++ = __dsub_##suffix(x, y);                            \
  *d++ = __dmul_##suffix(x, y), *d++ = __ddiv_##suffix(x, y);                            \
  *d++ = __dsqrt_##suffix(z), *d++ = __drcp_##suffix(x), *d++ = __fma_##suffix(x, y, z); \
  *d++ = __ll2double_##suffix(n.whole), *d++ = __ull2double_##suffix(~0ull - n.whole);
__global__ void round_all(Numbers* numbers, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  Numbers& n = numbers[i];
  const float a = n.f[0], b = n.f[1], c = n.f[2];
  const double x = n.d[0], y = n.d[1], z = n.d[2];
  float* f = n.single;
  double* d = n.real;
  ROUND_IN(rd)
  ROUND_IN(ru)
  ROUND_IN(rz)
}
// Computes in the rounding mode that is set in the C library. `volatile` keeps the compiler from
// computing the results itself.
template <typename T>
void compute_on_host(const T (&numbers)[3], T*& to) {
  const volatile T a = numbers[0], b = numbers[1], c = numbers[2];
  volatile T results[] = {a + b, a - b, a * b, a / b, std::sqrt(c), 1 / a, std::fma(a, b, c)};
  for (volatile T& each : results) *to++ = each;
}
__attribute__((noinline)) void round_on_host(const Numbers& n, float* f, double* d) {
  const volatile double x = n.d[0];
  const volatile long long whole = n.whole;
  for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    compute_on_host(n.f, f);
    compute_on_host(n.d, d);
    volatile float single[] = {float(x), float(whole), float(unsigned(whole))};
    volatile double real[] = {double(whole), double(~0ull - whole)};
    for (volatile float& each : single) *f++ = each;
    for (volatile double& each : real) *d++ = each;
    std::fesetround(FE_TONEAREST);
  }
}
void test_rounding() {
  constexpr int count = 1000;
  Numbers* numbers = managed<Numbers>(count);
  const double special[] = {0, -0.0, 1, -1, 1e-320, 1e308, -1e308, 5e-324, 1e-45, 3e38};
  unsigned long long state = 1;
  const auto next = [&] { return state = state * 6364136223846793005ull + 1442695040888963407ull; };
  for (int i = 0; i < count; ++i) {
    for (double& each : numbers[i].d)
      each = next() >> 60 == 0 ? special[next() >> 33 & 7]
                               : std::ldexp(1 + (next() >> 11) * 0x1p-53, int(next() >> 58) - 32);
    for (float& each : numbers[i].f)
      each = next() >> 60 == 0 ? float(special[(next() >> 33) % 10])
                               : std::ldexp(1 - (next() >> 40) * 0x1p-23f, int(next() >> 58) - 32);
    numbers[i].f[2] = std::fabs(numbers[i].f[2]), numbers[i].d[2] = std::fabs(numbers[i].d[2]);
    numbers[i].whole = static_cast<long long>(next());
  }
  round_all<<<8, 128>>>(numbers, count);
  FINISH();
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    float single[singles];
    double real[doubles];
    round_on_host(numbers[i], single, real);
    const auto differs = [](auto a, auto b) {
      return a != b && (a == a || b == b) ? 1 : std::signbit(a) != std::signbit(b) && a == a;
    };
    for (int k = 0; k < singles; ++k) wrong += differs(numbers[i].single[k], single[k]);
    for (int k = 0; k < doubles; ++k) wrong += differs(numbers[i].real[k], real[k]);
  }
  EXPECT(wrong == 0);
  EXPECT(std::fegetround() == FE_TONEAREST);
}

// ---- Atomics ----

__global__ void atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  atomicAdd(i, 1);
  atomicSub_block(i + 1, 2);
  atomicMax(i + 2, static_cast<int>(threadIdx.x));
  atomicMin_system(i + 3, -static_cast<int>(threadIdx.x));
  atomicInc(u, 9);
  atomicDec(u + 1, 9);
  atomicOr(u + 2, 1u << threadIdx.x % 32);
  atomicXor(u + 3, threadIdx.x);
  atomicAnd(u + 4, ~(1u << threadIdx.x % 32));
  atomicAdd(l, 1ull << 33);
  atomicMax(l + 1, static_cast<unsigned long long>(threadIdx.x));
  atomicAdd(f, 0.5f);
  atomicAdd_system(d, 0.25);
  atomicExch(f + 1, 3.0f);
  unsigned long long old = l[2], assumed;
  do {
    assumed = old;
    old = atomicCAS(l + 2, assumed, assumed + 2);
  } while (assumed != old);
}

void test_atomics() {
  int* i = managed<int>(4);
  unsigned* u = managed<unsigned>(5);
  unsigned long long* l = managed<unsigned long long>(3);
  float* f = managed<float>(2);
  double* d = managed<double>(1);
  u[4] = ~0u;
  atomics<<<4, 64>>>(i, u, l, f, d);
  FINISH();
  EXPECT(i[0] == 256 && i[1] == -512 && i[2] == 63 && i[3] == -63);
  EXPECT(u[0] == 6 && u[1] == 4 && u[2] == ~0u && u[3] == 0 && u[4] == 0);
  EXPECT(l[0] == 256ull << 33 && l[1] == 63 && l[2] == 512);
  EXPECT(f[0] == 128 && f[1] == 3 && d[0] == 64);
}

// ---- Functions, loops, lambdas ----

__device__ int factorial(int n) {
  return n <= 1 ? 1 : n * factorial(n - 1);
}
__host__ __device__ inline float half_of(float x) {
  return x / 2;
}
__device__ int index_in_function() {
  return blockIdx.x * blockDim.x + threadIdx.x;
}
struct Scale {
  float factor;
  __device__ float operator()(float x) const { return factor * x + threadIdx.x; }
};
template <typename F>
__global__ void transform(float* x, int n, F f) {
  for (int i = index_in_function(); i < n; i += gridDim.x * blockDim.x) x[i] = f(x[i]);
}
__global__ void various(int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto own = [=](int x) { return x + i; };
  const auto other = [](int x) { return x + static_cast<int>(threadIdx.x); };
  switch (i % 3) {
    case 0:
      out[i] = factorial(5);
      break;
    case 1:
      out[i] = own(1);
      break;
    default:
      out[i] = other(100);
  }
}
__global__ void odd_only(int* out, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n && i % 2 == 1) {
    for (int k = 0; k < 3; ++k) out[i] += k;
  }
}
__global__ void numbers(double* out) {
  out[0] = rsqrtf(4.0f);
  out[1] = __popc(0xff) + __clz(1) + __ffs(8) + __brev(1u << 31);
  out[2] = min(3, 4u) + max(2.5f, 1.0);
  out[3] = __float_as_int(1.0f);
  out[4] = __fdividef(1, 4) + __saturatef(2) + __mul24(3, 4);
  const long long start = clock64();
  out[5] = clock64() >= start && clock() >= 0;
  const float4 v = make_float4(1, 2, 3, 4);
  out[6] = v.x + v.w + __ldg(&out[3]) * 0;
  out[7] = isnan(nanf("")) + fmaf(2, 3, 4) + hypot(3.0, 4.0);
}

// Kernels whose own loops go around the loop over the threads, because neighbouring threads use
// neighbouring elements in them.
__global__ void product(const float* a, const float* b, float* c, int n) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n || j >= n) return;
  float sum = 1;
  for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
  c[i * n + j] = sum;
}
__global__ void columns(const float* a, float* sums, int n, int first) {
  int j = threadIdx.x + blockDim.x * blockIdx.x;
  first += 1;
  if (j % 3 != 1 && j < n) {
    for (int i = first; i < n; i++) {
      for (int k = 0; k < 2; k++) sums[j] += a[i * n + j] * k;
    }
    sums[j] += first;
  }
}

void test_rows() {
  constexpr int n = 21;
  float *a = managed<float>(n * n), *b = managed<float>(n * n), *c = managed<float>(n * n);
  for (int i = 0; i < n * n; ++i) a[i] = i % 7, b[i] = i % 5;
  product<<<dim3(3, 6), dim3(8, 4)>>>(a, b, c, n);
  FINISH();
  int wrong = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 1;
      for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
      wrong += c[i * n + j] != sum;
    }
  EXPECT(wrong == 0);
  std::memset(c, 0, n * sizeof *c);
  columns<<<3, 8>>>(a, c, n, 2);
  FINISH();
  wrong = 0;
  for (int j = 0; j < n; ++j) {
    float sum = 0;
    for (int i = 3; i < n && j % 3 != 1; ++i) sum += a[i * n + j];
    wrong += c[j] != sum + (j % 3 != 1 ? 3 : 0);
  }
  EXPECT(wrong == 0);
}

void test_functions() {
  float* x = managed<float>(100);
  for (int i = 0; i < 100; ++i) x[i] = i;
  const float added = 0.5f;
  transform<<<2, 16>>>(x, 100, [=] __device__(float y) { return half_of(y) + added; });
  FINISH();
  EXPECT(x[99] == 50 && half_of(3) == 1.5f);
  transform<<<1, 4>>>(x, 4, Scale{2});
  FINISH();
  EXPECT(x[0] == 1 && x[3] == 7);
  int* out = managed<int>(100);
  various<<<2, 64>>>(out, 90);
  FINISH();
  EXPECT(out[0] == 120 && out[1] == 2 && out[2] == 102 && out[65] == 101 && out[90] == 0);
  odd_only<<<1, 50>>>(out + 90, 7);
  FINISH();
  EXPECT(out[90] == 0 && out[91] == 3 && out[95] == 3 && out[96] == 0 && out[97] == 0);
  double* real = managed<double>(8);
  numbers<<<1, 1>>>(real);
  FINISH();
  EXPECT(real[0] == 0.5 && real[1] == 8 + 31 + 4 + 1 && real[2] == 5.5 && real[3] == 0x3f800000);
  EXPECT(real[4] == 13.25 && real[5] == 1 && real[6] == 5 && real[7] == 1 + 10 + 5);
}

__global__ void speak() {
  printf("block %u says %s\n", blockIdx.x, "hello");
}

int main() {
  test_launches();
  EXPECT(nvtxRangePushA("tests") == 0);
  test_addresses();
  test_parameters();
  test_variables();
  test_barriers();
  test_warps();
  test_tiles();
  test_rounding();
  test_atomics();
  test_rows();
  test_functions();
  speak<<<1, 1>>>();
  FINISH();
  EXPECT(nvtxRangePop() == 0);
  std::printf("%d of %d checks failed\n", failures, checks);
  return failures != 0;
}
