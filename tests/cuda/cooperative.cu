// Launches whose blocks wait for each other. Prints which checks fail, and a count.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <cstdio>

#include "checks.cuh"

namespace cg = cooperative_groups;

constexpr int rounds = 50;

// Each round, every block adds what the one before it wrote in the round before.
__global__ void pass_on(int* values, int* wrong) {
  cg::grid_group grid = cg::this_grid();
  __shared__ int mine;
  const int block = blockIdx.x;
  const int before = (block + gridDim.x - 1) % gridDim.x;
  if (!grid.is_valid() && threadIdx.x == 0) atomicAdd(wrong, 1);
  for (int round = 0; round < rounds; ++round) {
    const int* from = values + round % 2 * gridDim.x;
    int* to = values + (round + 1) % 2 * gridDim.x;
    if (threadIdx.x == 0) mine = from[before] + 1;
    __syncthreads();
    // No other block may have changed this block's shared variable.
    if (mine != round + 1) atomicAdd(wrong, 1);
    if (threadIdx.x == blockDim.x - 1) to[block] = mine;
    cg::sync(grid);
  }
}
// Half of the threads of the first block, and all other blocks but the last, end early.
__global__ void some_end(int* count) {
  cg::grid_group grid = cg::this_grid();
  if (blockIdx.x == 0 && threadIdx.x % 2 == 1) return;
  if (blockIdx.x != 0 && blockIdx.x + 1 != gridDim.x) return;
  atomicAdd(count, 1);
  grid.sync();
  atomicAdd(count, 1);
  grid.sync();
  if (grid.thread_rank() == 0) *count += 1000;
}
__global__ void ask(int* can_wait) {
  if (threadIdx.x == 0) can_wait[blockIdx.x] = cg::this_grid().is_valid();
}

int main() {
  int at_once = 0, processors = 0, can = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, pass_on, 64, 0));
  OK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  OK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
  CHECK(can == 1);
  const int blocks = at_once * processors;
  int *values, *wrong;
  OK(cudaMalloc(&values, 2 * blocks * sizeof(int)));
  OK(cudaMallocManaged(&wrong, 64 * sizeof(int)));
  void* arguments[] = {&values, &wrong};
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) OK(cudaStreamCreate(&stream));

  *wrong = 0;
  OK(cudaMemset(values, 0, 2 * blocks * sizeof(int)));
  OK(cudaLaunchCooperativeKernel((void*)pass_on, dim3(blocks), dim3(64), arguments, 0, streams[0]));
  OK(cudaDeviceSynchronize());
  CHECK(*wrong == 0);
  int* host = new int[blocks];
  OK(cudaMemcpy(host, values, blocks * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < blocks; ++i) CHECK(host[i] == rounds);

  // Cooperative launches of two streams: if they ran at once, both would need all workers.
  int* others[2];
  for (int*& each : others) {
    OK(cudaMalloc(&each, 2 * blocks * sizeof(int)));
    OK(cudaMemset(each, 0, 2 * blocks * sizeof(int)));
  }
  for (int i = 0; i < 20; ++i) {
    void* its[] = {&others[i % 2], &wrong};
    OK(cudaMemsetAsync(others[i % 2], 0, 2 * blocks * sizeof(int), streams[i % 2]));
    OK(cudaLaunchCooperativeKernel(pass_on, dim3(blocks), dim3(32), its, 0, streams[i % 2]));
    ask<<<blocks, 32, 0, streams[i % 2]>>>(wrong + 1);
  }
  OK(cudaDeviceSynchronize());
  CHECK(*wrong == 0);
  CHECK(wrong[1] == (blocks == 1));

  *wrong = 0;
  void* count[] = {&wrong};
  OK(cudaLaunchCooperativeKernel(some_end, dim3(blocks), dim3(64), count));
  OK(cudaDeviceSynchronize());
  CHECK(*wrong == 1000 + 2 * (32 + (blocks > 1 ? 64 : 0)));

  CHECK(cudaLaunchCooperativeKernel(pass_on, dim3(blocks + 1), dim3(64), arguments) ==
        cudaErrorCooperativeLaunchTooLarge);
  CHECK(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
  // Cooperative launches in a graph, and by a launch attribute.
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(64);
  config.stream = streams[0];
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  OK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
  OK(cudaLaunchKernelEx(&config, some_end, wrong));
  OK(cudaStreamEndCapture(streams[0], &graph));
  OK(cudaGraphInstantiate(&exec, graph));
  *wrong = 0;
  for (int i = 0; i < 3; ++i) OK(cudaGraphLaunch(exec, streams[i % 2]));
  OK(cudaDeviceSynchronize());
  CHECK(*wrong == 3 * (1000 + 2 * (32 + (blocks > 1 ? 64 : 0))));
  std::printf("%d checks failed\n", failed);
}
