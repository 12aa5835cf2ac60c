// Graphs of compiled kernels: captured from streams, built node by node, and updated. Prints which
// checks fail, and a count.
#include <cuda_runtime.h>
#include <cstdio>
#include <vector>

#include "checks.cuh"

constexpr int n = 5000;

__global__ void fill(int* out, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value + i;
}
template <typename T>
__global__ void add(T* out, const T* a, const T* b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
// A block's sum, with a barrier.
__global__ void sum(long long* total, const int* values) {
  __shared__ long long part[128];
  part[threadIdx.x] = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) part[threadIdx.x] += values[i];
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 0; i < 128; ++i) *total += part[i];
}

static void CUDART_CB count(void* calls) {
  ++*static_cast<int*>(calls);
}

static long long expected(int first, int second) {
  long long total = 0;
  for (int i = 0; i < n; ++i) total += first + second + 2 * i;
  return total;
}

int main() {
  int *a, *b, *c;
  long long* total;
  long long result = 0;
  int calls = 0;
  OK(cudaMalloc(&a, n * sizeof(int)));
  OK(cudaMalloc(&b, n * sizeof(int)));
  OK(cudaMallocManaged(&c, n * sizeof(int)));
  OK(cudaMalloc(&total, sizeof *total));
  const dim3 grid((n + 255) / 256);

  // A graph that is captured from streams, with a fork and a join.
  cudaStream_t stream, other;
  cudaEvent_t forked, joined;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&other));
  OK(cudaEventCreate(&forked));
  OK(cudaEventCreate(&joined));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  const auto capture = [&](int first, int second) {
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(forked, stream));
    OK(cudaStreamWaitEvent(other, forked, 0));
    OK(cudaMemsetAsync(total, 0, sizeof *total, other));
    fill<<<grid, 256, 0, other>>>(b, second);
    OK(cudaEventRecord(joined, other));
    fill<<<grid, 256, 0, stream>>>(a, first);
    OK(cudaStreamWaitEvent(stream, joined, 0));
    OK(cudaMemPrefetchAsync(c, n * sizeof(int), 0, stream));
    add<int><<<grid, 256, 0, stream>>>(c, a, b);
    sum<<<1, 128, 0, stream>>>(total, c);
    OK(cudaMemcpyAsync(&result, total, sizeof result, cudaMemcpyDeviceToHost, stream));
    OK(cudaLaunchHostFunc(stream, count, &calls));
    OK(cudaStreamEndCapture(stream, &graph));
  };
  capture(1, 2);
  OK(cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(cudaGraphDestroy(graph));
  CHECK(calls == 0);
  for (int i = 0; i < 3; ++i) {
    result = 0;
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(result == expected(1, 2));
  }
  CHECK(calls == 3);

  // The executable graph is updated: its kernels get other parameters.
  capture(10, 20);
  cudaGraphExecUpdateResult updated;
  OK(cudaGraphExecUpdate(exec, graph, nullptr, &updated));
  CHECK(updated == cudaGraphExecUpdateSuccess);
  OK(cudaGraphDestroy(graph));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(result == expected(10, 20));
  OK(cudaGraphExecDestroy(exec));

  // A graph that is built node by node.
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t nodes[3];
  int value = 7;
  void* arguments[] = {&a, &value};
  cudaKernelNodeParams kernel = {};
  kernel.func = (void*)fill;
  kernel.gridDim = grid;
  kernel.blockDim = dim3(256);
  kernel.kernelParams = arguments;
  OK(cudaGraphAddKernelNode(&nodes[0], graph, nullptr, 0, &kernel));
  value = 100;  // the node has its own copy
  std::vector<int> back(n);
  OK(cudaGraphAddMemcpyNode1D(&nodes[1], graph, &nodes[0], 1, back.data(), a, n * sizeof(int),
                              cudaMemcpyDeviceToHost));
  cudaMemsetParams zeros = {};
  zeros.dst = a;
  zeros.elementSize = 4;
  zeros.width = n;
  zeros.height = 1;
  OK(cudaGraphAddMemsetNode(&nodes[2], graph, &nodes[1], 1, &zeros));
  cudaKernelNodeParams told;
  OK(cudaGraphKernelNodeGetParams(nodes[0], &told));
  CHECK(told.func == (void*)fill);
  CHECK(*(int*)told.kernelParams[1] == 7);
  size_t edges = 0;
  OK(cudaGraphGetEdges(graph, nullptr, nullptr, &edges));
  CHECK(edges == 2);
  OK(cudaGraphInstantiate(&exec, graph));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(back[0] == 7 && back[n - 1] == 7 + n - 1);
  OK(cudaGraphExecKernelNodeSetParams(exec, nodes[0], &kernel));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(back[0] == 100 && back[n - 1] == 100 + n - 1);
  int first = -1;
  OK(cudaMemcpy(&first, a, sizeof first, cudaMemcpyDeviceToHost));
  CHECK(first == 0);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));

  // A call that waits ends the capture.
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  fill<<<grid, 256, 0, stream>>>(a, 1);
  CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
  fill<<<grid, 256, 0, stream>>>(a, 1);
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  cudaGetLastError();
  OK(cudaDeviceSynchronize());
  std::printf("%d checks failed\n", failed);
}
