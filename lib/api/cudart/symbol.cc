// The runtime API's functions of variables that compiler-generated code of a program has
// registered.
#include <cstdint>

#include "api/compiler_exports.h"
#include "api/cudart/entry.h"
#include "api/entry.h"
#include "api/exports.h"
#include "api/registered_code.h"

using namespace wherry::impl;

namespace {

// Calls body(variable) for a managed variable. Other variables exist only in GPU images.
template <typename Body>
cudaError_t with_variable(const void* symbol, const Body& body,
                          const char* call = __builtin_FUNCTION()) {
  const auto variable = RegisteredCode::of_process().find_variable(symbol);
  if (!variable)
    return finish_instead(
        fail(CUDA_ERROR_INVALID_VALUE,
             "{:#x} is no variable of the program for devices; pass the address of a __managed__ "
             "variable",
             reinterpret_cast<std::uintptr_t>(symbol)),
        cudaErrorInvalidSymbol, call);
  if (variable->memory == nullptr)
    return finish_instead(
        fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
             "the variable exists only in GPU code; declare it __managed__, or compile the program "
             "with wherry nvcc"),
        cudaErrorNoKernelImageForDevice, call);
  return body(*variable);
}

// Calls copy(address) with the address inside the variable that the arguments name.
template <typename Copy>
cudaError_t copy_part(const void* symbol, std::size_t count, std::size_t offset,
                      cudaMemcpyKind kind, cudaMemcpyKind other_way, const Copy& copy,
                      const char* call = __builtin_FUNCTION()) {
  return with_variable(
      symbol,
      [&](const RegisteredCode::Variable& variable) {
        if (kind == cudaMemcpyHostToHost || kind == other_way) return refuse_kind(kind, call);
        if (offset > variable.bytes || count > variable.bytes - offset)
          return finish(fail(CUDA_ERROR_INVALID_VALUE,
                             "{} bytes from byte {} on are not in the variable, which has {} "
                             "bytes; check count and offset",
                             count, offset, variable.bytes),
                        call);
        return copy(static_cast<char*>(variable.memory) + offset);
      },
      call);
}

template <typename Copy>
cudaError_t copy_to(const void* symbol, std::size_t count, std::size_t offset, cudaMemcpyKind kind,
                    const Copy& copy, const char* call = __builtin_FUNCTION()) {
  return copy_part(symbol, count, offset, kind, cudaMemcpyDeviceToHost, copy, call);
}
template <typename Copy>
cudaError_t copy_from(const void* symbol, std::size_t count, std::size_t offset,
                      cudaMemcpyKind kind, const Copy& copy,
                      const char* call = __builtin_FUNCTION()) {
  return copy_part(symbol, count, offset, kind, cudaMemcpyHostToDevice, copy, call);
}

}  // namespace

cudaError_t cudaGetSymbolAddress(void** devPtr, const void* symbol) {
  return with_variable(symbol, [&](const RegisteredCode::Variable& variable) {
    if (devPtr == nullptr) return finish(refuse_null("devPtr"), "cudaGetSymbolAddress");
    *devPtr = variable.memory;
    return cudaSuccess;
  });
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return with_variable(symbol, [&](const RegisteredCode::Variable& variable) {
    if (size == nullptr) return finish(refuse_null("size"), "cudaGetSymbolSize");
    *size = variable.bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t count, size_t offset,
                               cudaMemcpyKind kind) {
  return copy_to(symbol, count, offset, kind,
                 [&](void* address) { return cudaMemcpy(address, src, count, kind); });
}
cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* src, size_t count,
                                    size_t offset, cudaMemcpyKind kind) {
  return copy_to(symbol, count, offset, kind,
                 [&](void* address) { return cudaMemcpy_ptds(address, src, count, kind); });
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t count,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to(symbol, count, offset, kind,
                 [&](void* address) { return cudaMemcpyAsync(address, src, count, kind, stream); });
}
cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void* symbol, const void* src, size_t count,
                                         size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyToSymbolAsync(symbol, src, count, offset, kind, per_thread(stream));
}

cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t count, size_t offset,
                                 cudaMemcpyKind kind) {
  return copy_from(symbol, count, offset, kind,
                   [&](const void* address) { return cudaMemcpy(dst, address, count, kind); });
}
cudaError_t cudaMemcpyFromSymbol_ptds(void* dst, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind) {
  return copy_from(symbol, count, offset, kind,
                   [&](const void* address) { return cudaMemcpy_ptds(dst, address, count, kind); });
}
cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_from(symbol, count, offset, kind, [&](const void* address) {
    return cudaMemcpyAsync(dst, address, count, kind, stream);
  });
}
cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void* dst, const void* symbol, size_t count,
                                           size_t offset, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return cudaMemcpyFromSymbolAsync(dst, symbol, count, offset, kind, per_thread(stream));
}
