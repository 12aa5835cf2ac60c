// The C functions of libraries and their kernels.
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/kernel_attributes.h"
#include "objects/shared_objects.h"

using namespace wherry::impl;

namespace {

// Options are passed as a list of option numbers and a list of values.
struct Options {
  const void* names;
  const void* values;
  unsigned count;

  bool are_lists() const { return count == 0 || (names != nullptr && values != nullptr); }
};

// Calls load(runtime, loaded), and creates a library from the result.
template <typename Load>
CUresult make_library(CUlibrary* library, const void* source, const Options& compiling,
                      const Options& loading, const Load& load,
                      const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (library == nullptr || source == nullptr || !compiling.are_lists() || !loading.are_lists())
      return refuse_null("the library, its source or a list of options");
    NewObject loaded;
    const CUresult result = load(driver.runtime(), loaded);
    if (result == CUDA_SUCCESS)
      *library = driver.libraries().add(loaded.name, std::move(loaded.object));
    return result;
  });
}

// Runs body(driver, library) if the library exists.
template <typename Body>
CUresult enter_library(CUlibrary handle, const Body& body,
                       const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const auto library = driver.libraries().find(handle);
    return library ? body(driver, library) : refuse_handle(handle);
  });
}

template <typename Body>
CUresult enter_kernel(CUkernel handle, const Body& body, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const auto kernel = driver.libraries().find_kernel(handle);
    return kernel ? body(driver, *kernel) : refuse_handle(handle);
  });
}

// Like enter_kernel(handle, body), but fails if the device does not exist.
template <typename Body>
CUresult enter_kernel(CUkernel handle, CUdevice device, const Body& body,
                      const char* call = __builtin_FUNCTION()) {
  return enter_kernel(
      handle,
      [&](Driver& driver, const Kernel&) {
        return driver.device(device) == nullptr ? refuse_device(driver.runtime(), device)
                                                : body(driver);
      },
      call);
}

// The error if a library has no module in a context: one of the two has ended meanwhile.
CUresult why_gone(Driver& driver, const Library& library) {
  return driver.libraries().find(library.handle) ? refuse_status(WorkStatus::context_destroyed)
                                                 : refuse_handle(library.handle);
}

CUresult find_variable_of(Driver& driver, const Library& library, const char* name,
                          CUdeviceptr* address, std::size_t* bytes) {
  if (name == nullptr || (address == nullptr && bytes == nullptr))
    return refuse_null("name, or both of dptr and bytes,");
  ExportedSymbol variable;
  const CUresult found =
      find_managed(driver.runtime(), library.object, library.name, name, variable);
  if (found != CUDA_SUCCESS) return found;
  if (address != nullptr) *address = variable.address;
  if (bytes != nullptr) *bytes = variable.bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                               void** jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption* libraryOptions, void** libraryOptionValues,
                               unsigned int numLibraryOptions) {
  return make_library(
      library, fileName, {jitOptions, jitOptionsValues, numJitOptions},
      {libraryOptions, libraryOptionValues, numLibraryOptions},
      [&](Runtime& runtime, NewObject& loaded) { return load_file(runtime, fileName, loaded); });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                           void** jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
  return make_library(
      library, code, {jitOptions, jitOptionsValues, numJitOptions},
      {libraryOptions, libraryOptionValues, numLibraryOptions},
      [&](Runtime& runtime, NewObject& loaded) { return load_image(runtime, code, loaded); });
}

CUresult cuLibraryUnload(CUlibrary library) {
  return enter([&](Driver& driver) {
    return driver.destroy_library(library) ? CUDA_SUCCESS : refuse_handle(library);
  });
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  return enter_library(library, [&](Driver& driver, const std::shared_ptr<Library>& found) {
    if (pKernel == nullptr || name == nullptr) return refuse_null("pKernel or name");
    const KernelCode code = find_kernel(found->object, name);
    if (code.entry == nullptr) return refuse_kernel(found->name, name);
    const CUkernel kernel = driver.libraries().kernel_of(found, code);
    if (kernel == nullptr) return refuse_handle(library);
    *pKernel = kernel;
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  return enter_library(library, [&](Driver& driver, const std::shared_ptr<Library>& found) {
    if (pMod == nullptr) return refuse_null("pMod");
    std::shared_ptr<Context> context;
    const CUresult working = find_working(driver, context);
    if (working != CUDA_SUCCESS) return working;
    const CUmodule module = driver.module_of(found, context);
    if (module == nullptr) return why_gone(driver, *found);
    *pMod = module;
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return enter_library(library, [&](Driver& driver, const std::shared_ptr<Library>& found) {
    const CUresult working = check_working(driver);
    return working == CUDA_SUCCESS ? find_variable_of(driver, *found, name, dptr, bytes) : working;
  });
}
CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                             const char* name) {
  return enter_library(library, [&](Driver& driver, const std::shared_ptr<Library>& found) {
    return find_variable_of(driver, *found, name, dptr, bytes);
  });
}

CUresult cuLibraryGetUnifiedFunction(void** fptr, CUlibrary library, const char* symbol) {
  return enter_library(library, [&](Driver&, const std::shared_ptr<Library>& found) {
    if (fptr == nullptr) return refuse_null("fptr");
    if (symbol == nullptr) return refuse_null("symbol");
    const ExportedSymbol function = find_function(found->object, symbol);
    if (function.address == 0)
      return fail(CUDA_ERROR_NOT_FOUND,
                  "{} exports no function {}; declare it extern \"C\", not static", found->name,
                  symbol);
    *fptr = reinterpret_cast<void*>(function.address);
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  return enter_kernel(kernel, [&](Driver& driver, const Kernel& found) {
    if (pFunc == nullptr) return refuse_null("pFunc");
    std::shared_ptr<Context> context;
    const CUresult working = find_working(driver, context);
    if (working != CUDA_SUCCESS) return working;
    const auto module = driver.find_module(driver.module_of(found.library, context));
    const CUfunction function = module ? driver.function_of(module, found.code) : nullptr;
    if (function == nullptr) return why_gone(driver, *found.library);
    *pFunc = function;
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  return enter_kernel(kernel, [&](Driver&, const Kernel& found) {
    if (pLib == nullptr) return refuse_null("pLib");
    *pLib = found.library->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
  return enter_kernel(hfunc, [&](Driver&, const Kernel& found) {
    if (name == nullptr) return refuse_null("name");
    *name = found.code.name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  return enter_kernel(kernel, dev, [&](Driver& driver) {
    return kernel_attribute(driver.runtime().topology(), dev, attrib, pi);
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  return enter_kernel(kernel, dev, [&](Driver&) { return set_kernel_attribute(attrib, val); });
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  return enter_kernel(kernel, dev, [&](Driver&) { return set_kernel_cache(config); });
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset,
                              size_t* paramSize) {
  return enter_kernel(kernel, [&](Driver&, const Kernel& found) {
    return tell_param(found.code.params, paramIndex, paramOffset, paramSize);
  });
}
