/* Copies to and from __device__, __constant__ and __managed__ variables. Internal to the headers in
 * wherry/cuda. C++17.
 *
 * These variables are managed memory at one address everywhere, so a copy is a cudaMemcpy. */
#ifndef WHERRY_CUDA_VARIABLES_H
#define WHERRY_CUDA_VARIABLES_H

#include "../../cuda_runtime_api.h"

namespace wherry::kernels {

/* The byte at `offset` of the variable; null if the `bytes` bytes from there are not all in it. */
template <typename T>
char* part_of(const T& symbol, size_t bytes, size_t offset) {
  if (offset > sizeof symbol || bytes > sizeof symbol - offset) return nullptr;
  const auto* const first = static_cast<const volatile void*>(__builtin_addressof(symbol));
  return static_cast<char*>(const_cast<void*>(first)) + offset;
}

}  // namespace wherry::kernels

template <typename T>
cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = wherry::kernels::part_of(symbol, 0, 0);
  return cudaSuccess;
}
template <typename T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T& symbol) {
  if (bytes == nullptr) return cudaErrorInvalidValue;
  *bytes = sizeof symbol;
  return cudaSuccess;
}

/* Errors:
 * - cudaErrorInvalidValue: the bytes do not lie in the variable.
 * - As for cudaMemcpy and cudaMemcpyAsync. */
template <typename T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* source, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  char* const to = wherry::kernels::part_of(symbol, bytes, offset);
  return to == nullptr ? cudaErrorInvalidValue : cudaMemcpy(to, source, bytes, kind);
}
template <typename T>
cudaError_t cudaMemcpyFromSymbol(void* target, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  const char* const from = wherry::kernels::part_of(symbol, bytes, offset);
  return from == nullptr ? cudaErrorInvalidValue : cudaMemcpy(target, from, bytes, kind);
}
template <typename T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* source, size_t bytes,
                                    size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                    cudaStream_t stream = 0) {
  char* const to = wherry::kernels::part_of(symbol, bytes, offset);
  return to == nullptr ? cudaErrorInvalidValue : cudaMemcpyAsync(to, source, bytes, kind, stream);
}
template <typename T>
cudaError_t cudaMemcpyFromSymbolAsync(void* target, const T& symbol, size_t bytes,
                                      size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                      cudaStream_t stream = 0) {
  const char* const from = wherry::kernels::part_of(symbol, bytes, offset);
  return from == nullptr ? cudaErrorInvalidValue
                         : cudaMemcpyAsync(target, from, bytes, kind, stream);
}

#endif
