// Compares kernels of CUDA sources with the same loops written by hand for parallel_for on the same
// workers: PolyBench's 2DCONV, ATAX, GEMM and GESUMMV, which have no barriers, and a matrix product
// by tiles, which has barriers. Prints the median time of each, and the median of the ratios of
// neighbouring runs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <wherry/wherry.hpp>

#define CHECK(call)                                                                       \
  do {                                                                                    \
    const cudaError_t error = (call);                                                     \
    if (error != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (0)

constexpr float alpha = 3, beta = 2;

__global__ void convolution(const float* a, float* b, int rows, int columns) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  if ((i < rows - 1) && (j < columns - 1) && (i > 0) && (j > 0)) {
    b[i * columns + j] = 0.2f * a[(i - 1) * columns + (j - 1)] + 0.5f * a[(i - 1) * columns + j] -
                         0.8f * a[(i - 1) * columns + (j + 1)] - 0.3f * a[i * columns + (j - 1)] +
                         0.6f * a[i * columns + j] - 0.9f * a[i * columns + (j + 1)] +
                         0.4f * a[(i + 1) * columns + (j - 1)] + 0.7f * a[(i + 1) * columns + j] +
                         0.1f * a[(i + 1) * columns + (j + 1)];
  }
}

__global__ void atax_1(const float* a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    for (int j = 0; j < n; j++) y[i] += a[i * n + j] * x[j];
}
__global__ void atax_2(const float* a, float* y, const float* x, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < n)
    for (int i = 0; i < n; i++) y[j] += a[i * n + j] * x[i];
}

__global__ void gemm(const float* a, const float* b, float* c, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  if ((i < n) && (j < n)) {
    c[i * n + j] *= beta;
    for (int k = 0; k < n; k++) c[i * n + j] += alpha * a[i * n + k] * b[k * n + j];
  }
}

__global__ void gesummv(const float* a, const float* b, const float* x, float* y, float* t, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    for (int j = 0; j < n; j++) {
      t[i] += a[i * n + j] * x[j];
      y[i] += b[i * n + j] * x[j];
    }
    y[i] = alpha * t[i] + beta * y[i];
  }
}

constexpr int tile = 16;
__global__ void tiled_product(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[tile][tile];
  __shared__ float tile_b[tile][tile];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * tile + ty, column = blockIdx.x * tile + tx;
  float sum = 0;
  for (int m = 0; m < n / tile; ++m) {
    tile_a[ty][tx] = a[row * n + m * tile + tx];
    tile_b[ty][tx] = b[(m * tile + ty) * n + column];
    __syncthreads();
    for (int k = 0; k < tile; ++k) sum += tile_a[ty][k] * tile_b[k][tx];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

using Span = float*;

void convolution_by_hand(wherry::stream& stream, const float* a, float* b, int rows, int columns) {
  stream.parallel_for(rows - 2, [=](std::size_t begin, std::size_t end) {
    for (int i = static_cast<int>(begin) + 1; i < static_cast<int>(end) + 1; ++i)
      for (int j = 1; j < columns - 1; ++j)
        b[i * columns + j] =
            0.2f * a[(i - 1) * columns + (j - 1)] + 0.5f * a[(i - 1) * columns + j] -
            0.8f * a[(i - 1) * columns + (j + 1)] - 0.3f * a[i * columns + (j - 1)] +
            0.6f * a[i * columns + j] - 0.9f * a[i * columns + (j + 1)] +
            0.4f * a[(i + 1) * columns + (j - 1)] + 0.7f * a[(i + 1) * columns + j] +
            0.1f * a[(i + 1) * columns + (j + 1)];
  });
}

void atax_by_hand(wherry::stream& stream, const float* a, const float* x, float* t, float* y,
                  int n) {
  stream.parallel_for(n, [=](std::size_t i) {
    for (int j = 0; j < n; ++j) t[i] += a[i * n + j] * x[j];
  });
  stream.parallel_for(n, [=](std::size_t begin, std::size_t end) {
    for (int i = 0; i < n; ++i)
      for (std::size_t j = begin; j < end; ++j)
        y[j] += a[static_cast<std::size_t>(i) * n + j] * t[i];
  });
}

void gemm_by_hand(wherry::stream& stream, const float* a, const float* b, float* c, int n) {
  stream.parallel_for(n, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      for (int j = 0; j < n; ++j) c[i * n + j] *= beta;
      for (int k = 0; k < n; ++k)
        for (int j = 0; j < n; ++j) c[i * n + j] += alpha * a[i * n + k] * b[k * n + j];
    }
  });
}

void gesummv_by_hand(wherry::stream& stream, const float* a, const float* b, const float* x,
                     float* y, float* t, int n) {
  stream.parallel_for(n, [=](std::size_t i) {
    for (int j = 0; j < n; ++j) {
      t[i] += a[i * n + j] * x[j];
      y[i] += b[i * n + j] * x[j];
    }
    y[i] = alpha * t[i] + beta * y[i];
  });
}

void tiled_product_by_hand(wherry::stream& stream, const float* a, const float* b, float* c,
                           int n) {
  const std::size_t tiles = n / tile;
  stream.parallel_for(tiles * tiles, [=](std::size_t index) {
    const int row = static_cast<int>(index / tiles) * tile;
    const int column = static_cast<int>(index % tiles) * tile;
    float tile_a[tile][tile], tile_b[tile][tile], sums[tile][tile] = {};
    for (int m = 0; m < n; m += tile) {
      for (int y = 0; y < tile; ++y)
        for (int x = 0; x < tile; ++x) {
          tile_a[y][x] = a[(row + y) * n + m + x];
          tile_b[y][x] = b[(m + y) * n + column + x];
        }
      for (int y = 0; y < tile; ++y)
        for (int k = 0; k < tile; ++k)
          for (int x = 0; x < tile; ++x) sums[y][x] += tile_a[y][k] * tile_b[k][x];
    }
    for (int y = 0; y < tile; ++y)
      for (int x = 0; x < tile; ++x) c[(row + y) * n + column + x] = sums[y][x];
  });
}

double milliseconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Runs `kernel` and `by_hand` by turns, on the same pages of the same device, and prints a row.
// `limit`: the goal for the ratio of their times.
void compare(const char* name, double limit, const auto& kernel, const auto& by_hand) {
  constexpr int rounds = 15;
  std::vector<double> kernels, hands, ratios;
  kernel();
  by_hand();
  for (int round = 0; round < rounds; ++round) {
    kernels.push_back(milliseconds(kernel));
    hands.push_back(milliseconds(by_hand));
    ratios.push_back(kernels.back() / hands.back());
  }
  std::printf("%-16s %10.3f %10.3f %8.2f %8.1f\n", name, median(kernels), median(hands),
              median(ratios), limit);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1024;
  wherry::runtime runtime;
  wherry::stream stream(runtime.device(0));
  cudaStream_t on = stream.handle();
  float *a, *b, *c, *d, *x, *y, *t;
  for (float** each : {&a, &b, &c, &d}) CHECK(cudaMallocManaged(each, sizeof(float) * n * n));
  for (float** each : {&x, &y, &t}) CHECK(cudaMallocManaged(each, sizeof(float) * n));
  for (int i = 0; i < n * n; ++i) a[i] = b[i] = i % 16 * 0.001f;
  for (int i = 0; i < n; ++i) x[i] = y[i] = t[i] = i % 8 * 0.001f;

  const auto finish = [&] { CHECK(cudaStreamSynchronize(on)); };
  const dim3 block(32, 8), grid((n + 31) / 32, (n + 7) / 8);
  const dim3 line(256), lines((n + 255) / 256);
  std::printf("%-16s %10s %10s %8s %8s\n", "", "kernel ms", "by hand", "ratio", "at most");
  compare(
      "2DCONV", 1.2, [&] { convolution<<<grid, block, 0, on>>>(a, c, n, n), finish(); },
      [&] { convolution_by_hand(stream, a, c, n, n), finish(); });
  compare(
      "ATAX", 1.2,
      [&] {
        atax_1<<<lines, line, 0, on>>>(a, x, t, n);
        atax_2<<<lines, line, 0, on>>>(a, y, t, n);
        finish();
      },
      [&] { atax_by_hand(stream, a, x, t, y, n), finish(); });
  compare(
      "GESUMMV", 1.2, [&] { gesummv<<<lines, line, 0, on>>>(a, b, x, y, t, n), finish(); },
      [&] { gesummv_by_hand(stream, a, b, x, y, t, n), finish(); });
  const int m = n / 2;
  const dim3 grid_m((m + 31) / 32, (m + 7) / 8);
  compare(
      "GEMM", 1.2, [&] { gemm<<<grid_m, block, 0, on>>>(a, b, c, m), finish(); },
      [&] { gemm_by_hand(stream, a, b, c, m), finish(); });
  compare(
      "tiled product", 3,
      [&] {
        tiled_product<<<dim3(m / tile, m / tile), dim3(tile, tile), 0, on>>>(a, b, d, m);
        finish();
      },
      [&] { tiled_product_by_hand(stream, a, b, d, m), finish(); });
  return 0;
}
