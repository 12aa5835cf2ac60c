#include "support/session.h"

#include <cstdlib>
#include <stdexcept>

namespace wherry::test {

std::string name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS
             ? name
             : "unknown error " + std::to_string(static_cast<int>(result));
}

void check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(std::string{what} + ": " + name_of(result));
}

void expect(bool condition, const std::string& message) {
  if (!condition) throw std::runtime_error(message);
}

Session::Session(const char* devices) {
  ::setenv("WHERRY_DEVICES", devices, 1);
  WHERRY_TRY(cuInit(0));
  int count = 0;
  WHERRY_TRY(cuDeviceGetCount(&count));
  contexts_.resize(static_cast<std::size_t>(count));
  streams_.resize(contexts_.size());
  for (int device = count - 1; device >= 0; --device) {
    const auto index = static_cast<std::size_t>(device);
    WHERRY_TRY(cuDevicePrimaryCtxRetain(&contexts_[index], device));
    renew_stream(device);
  }
}

void Session::renew_stream(int device) {
  const auto index = static_cast<std::size_t>(device);
  WHERRY_TRY(cuCtxSetCurrent(contexts_[index]));
  WHERRY_TRY(cuStreamCreate(&streams_[index], CU_STREAM_NON_BLOCKING));
  WHERRY_TRY(cuCtxSetCurrent(contexts_[0]));
}

void Session::reset(int device) {
  WHERRY_TRY(cuDevicePrimaryCtxReset(device));
  renew_stream(device);
}

wherryPageState page_state(const void* address) {
  wherryPageState state{};
  state.size = sizeof state;
  WHERRY_TRY(wherryGetPageState(address, &state));
  return state;
}

wherryStats read_stats() {
  wherryStats stats{};
  stats.size = sizeof stats;
  WHERRY_TRY(wherryGetStats(&stats));
  return stats;
}

std::size_t free_memory() {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  WHERRY_TRY(cuMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

pid_t device_process(int device) {
  pid_t pid = -1;
  WHERRY_TRY(wherryGetDeviceProcess(device, &pid));
  return pid;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  WHERRY_TRY(cuCtxGetCurrent(&context));
  return context;
}

std::vector<wherryEvent> read_events(std::size_t most) {
  std::vector<wherryEvent> events(most);
  events[0].size = sizeof(wherryEvent);
  std::size_t read = 0;
  WHERRY_TRY(wherryReadEvents(events.data(), events.size(), &read));
  events.resize(read);
  return events;
}

}  // namespace wherry::test
