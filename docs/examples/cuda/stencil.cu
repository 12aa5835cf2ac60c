// Three points of a line are averaged, many times over, by a block that is a cooperative group.
#include <cooperative_groups.h>

#include <cstdio>
#include <utility>
#include <vector>

namespace cg = cooperative_groups;

constexpr int points = 512, rounds = 20;
__constant__ float weights[3];

__device__ float average(const float* line, int i) {
  return weights[0] * line[i - 1] + weights[1] * line[i] + weights[2] * line[i + 1];
}

__global__ void smooth(float* line) {
  extern __shared__ float shared[];
  const cg::thread_block block = cg::this_thread_block();
  float* now = shared;
  float* next = shared + points;
  for (int i = block.thread_rank(); i < points; i += block.size()) now[i] = next[i] = line[i];
  block.sync();
  for (int round = 0; round < rounds; ++round) {
    for (int i = block.thread_rank(); i < points; i += block.size())
      if (i > 0 && i < points - 1) next[i] = average(now, i);
    block.sync();
    float* const done = next;
    next = now;
    now = done;
  }
  // The sum of each tile of 16 threads goes to its first thread.
  const auto tile = cg::tiled_partition<16>(block);
  for (int i = block.thread_rank(); i < points; i += block.size()) {
    float sum = now[i];
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) sum += tile.shfl_down(sum, offset);
    line[i] = tile.thread_rank() == 0 ? sum : now[i];
  }
}

int main() {
  float* line;
  cudaMallocManaged(&line, points * sizeof *line);
  std::vector<float> expected(points);
  for (int i = 0; i < points; ++i) expected[i] = line[i] = i * 37 % 64;
  const float host_weights[3] = {0.25f, 0.5f, 0.25f};
  cudaMemcpyToSymbol(weights, host_weights, sizeof host_weights);
  smooth<<<1, 128, 2 * points * sizeof(float)>>>(line);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return 1;
  }
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> next = expected;
    for (int i = 1; i < points - 1; ++i)
      next[i] = 0.25f * expected[i - 1] + 0.5f * expected[i] + 0.25f * expected[i + 1];
    expected = std::move(next);
  }
  int wrong = 0;
  for (int i = 0; i < points; ++i) {
    float value = expected[i];
    if (i % 16 == 0) {
      float sums[16];
      for (int j = 0; j < 16; ++j) sums[j] = expected[i + j];
      for (int offset = 8; offset > 0; offset /= 2)
        for (int j = 0; j < offset; ++j) sums[j] += sums[j + offset];
      value = sums[0];
    }
    wrong += line[i] != value;
  }
  std::printf("stencil: %d of %d points are wrong\n", wrong, points);
  return wrong != 0;
}
