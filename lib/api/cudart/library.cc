// The runtime API's functions of libraries.
#include <cstdint>

#include "api/cudart/entry.h"
#include "api/exports.h"

using namespace wherry::impl;

namespace {

// Calls find(address) with an address of the driver API's type, and stores it as a pointer.
template <typename Find>
CUresult find_pointer(void** pointer, const Find& find) {
  CUdeviceptr address = 0;
  const CUresult result = find(pointer == nullptr ? nullptr : &address);
  if (result == CUDA_SUCCESS && pointer != nullptr)
    *pointer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  return result;
}

}  // namespace

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* fileName,
                                    cudaJitOption* jitOptions, void** jitOptionsValues,
                                    unsigned int numJitOptions, cudaLibraryOption* libraryOptions,
                                    void** libraryOptionValues, unsigned int numLibraryOptions) {
  return with_library([&] {
    return cuLibraryLoadFromFile(library, fileName, reinterpret_cast<CUjit_option*>(jitOptions),
                                 jitOptionsValues, numJitOptions,
                                 reinterpret_cast<CUlibraryOption*>(libraryOptions),
                                 libraryOptionValues, numLibraryOptions);
  });
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* jitOptions,
                                void** jitOptionsValues, unsigned int numJitOptions,
                                cudaLibraryOption* libraryOptions, void** libraryOptionValues,
                                unsigned int numLibraryOptions) {
  return with_library([&] {
    return cuLibraryLoadData(
        library, code, reinterpret_cast<CUjit_option*>(jitOptions), jitOptionsValues, numJitOptions,
        reinterpret_cast<CUlibraryOption*>(libraryOptions), libraryOptionValues, numLibraryOptions);
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return with_library([&] { return cuLibraryUnload(library); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* pKernel, cudaLibrary_t library, const char* name) {
  return with_library([&] { return cuLibraryGetKernel(pKernel, library, name); });
}

cudaError_t cudaLibraryGetGlobal(void** dptr, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  return with_context([&] {
    return find_pointer(dptr, [&](CUdeviceptr* address) {
      return cuLibraryGetGlobal(address, bytes, library, name);
    });
  });
}
cudaError_t cudaLibraryGetManaged(void** dptr, size_t* bytes, cudaLibrary_t library,
                                  const char* name) {
  return with_library([&] {
    return find_pointer(dptr, [&](CUdeviceptr* address) {
      return cuLibraryGetManaged(address, bytes, library, name);
    });
  });
}

cudaError_t cudaLibraryGetUnifiedFunction(void** fptr, cudaLibrary_t library, const char* symbol) {
  return with_library([&] { return cuLibraryGetUnifiedFunction(fptr, library, symbol); });
}
