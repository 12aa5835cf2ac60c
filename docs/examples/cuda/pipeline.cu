// Parts of a vector go through three steps in several streams: prefetch, kernel, prefetch back.
// Events order the last step after all parts.
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                       \
  do {                                                                                    \
    const cudaError_t error = (call);                                                     \
    if (error != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (0)

template <typename Function>
__global__ void apply(float* numbers, int n, Function function) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) numbers[i] = function(numbers[i]);
}

__global__ void add_up(const float* numbers, int n, double* sum) {
  for (int i = 0; i < n; ++i) *sum += numbers[i];
}

int main() {
  constexpr int streams = 4, part = 1 << 15, n = streams * part;
  float* numbers;
  double* sum;
  CHECK(cudaMallocManaged(&numbers, n * sizeof *numbers));
  CHECK(cudaMallocManaged(&sum, sizeof *sum));
  for (int i = 0; i < n; ++i) numbers[i] = i % 10;
  int device;
  CHECK(cudaGetDevice(&device));
  cudaStream_t stream[streams], last;
  cudaEvent_t done[streams];
  CHECK(cudaStreamCreateWithFlags(&last, cudaStreamNonBlocking));
  for (int s = 0; s < streams; ++s) {
    CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
    float* const mine = numbers + s * part;
    const float factor = s + 1;
    CHECK(cudaMemPrefetchAsync(mine, part * sizeof *mine, device, stream[s]));
    apply<<<part / 256, 256, 0, stream[s]>>>(mine, part,
                                             [=] __device__(float x) { return factor * x; });
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(done[s], stream[s]));
    CHECK(cudaStreamWaitEvent(last, done[s]));
  }
  add_up<<<1, 1, 0, last>>>(numbers, n, sum);
  CHECK(cudaMemPrefetchAsync(sum, sizeof *sum, cudaCpuDeviceId, last));
  CHECK(cudaStreamSynchronize(last));
  double expected = 0;
  for (int s = 0; s < streams; ++s)
    for (int i = s * part; i < (s + 1) * part; ++i) expected += (s + 1) * (i % 10);
  std::printf("pipeline: %.0f, expected %.0f\n", *sum, expected);
  return *sum != expected;
}
