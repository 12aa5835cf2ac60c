// Breadth-first search, level by level, in a graph in managed memory.
#include <cstdio>
#include <vector>

struct Graph {
  int nodes;
  const int* first;  // first[i] to first[i + 1]: the edges of node i
  const int* targets;
};

__global__ void visit(Graph graph, int level, int* levels, bool* is_changed) {
  const int node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node >= graph.nodes || levels[node] != level) return;
  for (int edge = graph.first[node]; edge < graph.first[node + 1]; ++edge)
    if (atomicCAS(&levels[graph.targets[edge]], -1, level + 1) == -1) *is_changed = true;
}

int main() {
  const int nodes = 20000, degree = 4;
  int *first, *targets, *levels;
  bool* is_changed;
  cudaMallocManaged(&first, (nodes + 1) * sizeof *first);
  cudaMallocManaged(&targets, nodes * degree * sizeof *targets);
  cudaMallocManaged(&levels, nodes * sizeof *levels);
  cudaMallocManaged(&is_changed, sizeof *is_changed);
  unsigned random = 1;
  for (int i = 0; i <= nodes; ++i) first[i] = i * degree;
  for (int i = 0; i < nodes * degree; ++i) {
    random = random * 1664525u + 1013904223u;
    targets[i] = random % 8 == 0 ? random / 8 % nodes : (i / degree + 1 + random % 16) % nodes;
  }
  for (int i = 0; i < nodes; ++i) levels[i] = i == 0 ? 0 : -1;

  int level = 0;
  do {
    *is_changed = false;
    visit<<<(nodes + 127) / 128, 128>>>({nodes, first, targets}, level++, levels, is_changed);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
      std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
      return 1;
    }
  } while (*is_changed);

  std::vector<int> expected(nodes, -1), queue{0};
  expected[0] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (int edge = first[queue[i]]; edge < first[queue[i] + 1]; ++edge)
      if (expected[targets[edge]] == -1) {
        expected[targets[edge]] = expected[queue[i]] + 1;
        queue.push_back(targets[edge]);
      }
  int wrong = 0;
  for (int i = 0; i < nodes; ++i) wrong += levels[i] != expected[i];
  std::printf("bfs: %d of %d levels are wrong\n", wrong, nodes);
  return wrong != 0;
}
