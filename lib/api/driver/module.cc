// The C functions of modules and their kernels.
#include "objects/module.h"
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/kernel_attributes.h"
#include "objects/shared_objects.h"

using namespace wherry::impl;

namespace {

// Creates a module from the object that load(runtime, source, NewObject&) returns.
template <typename Source, typename Load>
CUresult make_module(CUmodule* module, Source source, const Load& load,
                     const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (module == nullptr) return refuse_null("module");
    if (source == nullptr) return refuse_null("the file's name or image");
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    NewObject loaded;
    const CUresult result = load(driver.runtime(), source, loaded);
    if (result == CUDA_SUCCESS)
      *module = driver.create_module(context, loaded.name, std::move(loaded.object));
    return result;
  });
}

// Runs body(driver, module) if the module exists.
template <typename Body>
CUresult enter_module(CUmodule handle, const Body& body, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    const auto module = driver.find_module(handle);
    return module ? body(driver, module) : refuse_handle(handle);
  });
}

template <typename Body>
CUresult enter_function(CUfunction handle, const Body& body,
                        const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    const auto function = driver.find_function(handle);
    return function ? body(driver, *function) : refuse_handle(handle);
  });
}

}  // namespace

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  return make_module(module, fname, load_file);
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return make_module(module, image, load_image);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                            CUjit_option* options, void** optionValues) {
  if (numOptions != 0 && (options == nullptr || optionValues == nullptr)) module = nullptr;
  return make_module(module, image, load_image);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return enter([&](Driver& driver) {
    if (module == nullptr || fatCubin == nullptr) return refuse_null("module or fatCubin");
    const CUresult working = check_working(driver);
    return working != CUDA_SUCCESS ? working : refuse_device_code("a fat binary");
  });
}

CUresult cuModuleUnload(CUmodule hmod) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    const auto module = driver.find_module(hmod);
    if (module && module->is_library)
      return fail(CUDA_ERROR_NOT_PERMITTED,
                  "the module is that of a library; unload it with cuLibraryUnload");
    return driver.destroy_module(hmod) ? CUDA_SUCCESS : refuse_handle(hmod);
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return enter([&](Driver&) {
    if (mode == nullptr) return refuse_null("mode");
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  if (hfunc == nullptr || name == nullptr)
    return enter([](Driver&) { return refuse_null("hfunc or name"); });
  return enter_module(hmod, [&](Driver& driver, const std::shared_ptr<Module>& module) {
    const KernelCode code = find_kernel(module->object, name);
    if (code.entry == nullptr) return refuse_kernel(module->name, name);
    const CUfunction function = driver.function_of(module, code);
    if (function == nullptr) return refuse_handle(hmod);
    *hfunc = function;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  if (name == nullptr || (dptr == nullptr && bytes == nullptr))
    return enter([](Driver&) { return refuse_null("name, or both of dptr and bytes,"); });
  return enter_module(hmod, [&](Driver& driver, const std::shared_ptr<Module>& module) {
    ExportedSymbol variable;
    const CUresult found =
        find_managed(driver.runtime(), module->object, module->name, name, variable);
    if (found != CUDA_SUCCESS) return found;
    if (dptr != nullptr) *dptr = variable.address;
    if (bytes != nullptr) *bytes = variable.bytes;
    return CUDA_SUCCESS;
  });
}
// No variable has an address that fits into 32 bits, so this old variant never finds one.
CUresult cuModuleGetGlobal(CUdeviceptr_v1* dptr, unsigned int* bytes, CUmodule hmod,
                           const char* name) {
  CUdeviceptr address = 0;
  std::size_t size = 0;
  const CUresult result = cuModuleGetGlobal_v2(dptr == nullptr ? nullptr : &address,
                                               bytes == nullptr ? nullptr : &size, hmod, name);
  if (result != CUDA_SUCCESS) return result;
  return with_message([] { return refuse_old_variant(CUDA_ERROR_NOT_FOUND); });
}

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  return enter_function(hfunc, [&](Driver& driver, const Function& function) {
    return kernel_attribute(driver.runtime().topology(), function.module->context->device.ordinal,
                            attrib, pi);
  });
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  return enter_function(
      hfunc, [&](Driver&, const Function&) { return set_kernel_attribute(attrib, value); });
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  return enter_function(hfunc, [&](Driver&, const Function&) { return set_kernel_cache(config); });
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return enter_function(function, [&](Driver&, const Function&) {
    if (state == nullptr) return refuse_null("state");
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncLoad(CUfunction function) {
  return enter_function(function, [](Driver&, const Function&) { return CUDA_SUCCESS; });
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset,
                            size_t* paramSize) {
  return enter_function(func, [&](Driver&, const Function& function) {
    return tell_param(function.code.params, paramIndex, paramOffset, paramSize);
  });
}

CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  return enter_function(hfunc, [&](Driver&, const Function& function) {
    if (hmod == nullptr) return refuse_null("hmod");
    *hmod = function.module->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  return enter_function(hfunc, [&](Driver&, const Function& function) {
    if (name == nullptr) return refuse_null("name");
    *name = function.code.name.c_str();
    return CUDA_SUCCESS;
  });
}
