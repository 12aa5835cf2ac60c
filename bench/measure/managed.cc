#include "measure/managed.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace wherry::bench {

void require(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "unknown error";
  throw std::runtime_error(std::string(what) + ": " + name);
}

void move_single_regions(std::size_t bytes) {
  ::setenv("WHERRY_POLICY", "migrate-always", 1);
  ::setenv("WHERRY_FAULT_REGION", (std::to_string(bytes >> 10) + "K").c_str(), 1);
}

void init_cuda() {
  require(cuInit(0), "cuInit");
  use_device(0);
}

void use_device(int ordinal) {
  CUcontext context = nullptr;
  require(cuDevicePrimaryCtxRetain(&context, ordinal), "cuDevicePrimaryCtxRetain");
  require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

std::byte* alloc_managed(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  require(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  return reinterpret_cast<std::byte*>(pointer);
}

void free_managed(std::byte* memory) {
  require(cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), "cuMemFree");
}

void advise(std::byte* memory, std::size_t bytes, CUmem_advise advice, CUmemLocation where) {
  require(cuMemAdvise(reinterpret_cast<CUdeviceptr>(memory), bytes, advice, where), "cuMemAdvise");
}

wherryStats stats() {
  wherryStats result{};
  result.size = sizeof result;
  require(wherryGetStats(&result), "wherryGetStats");
  return result;
}

std::uint64_t fault_count(const wherryProcessorStats& processor) {
  return processor.faults_missing + processor.faults_minor + processor.faults_write_protect;
}

}  // namespace wherry::bench
