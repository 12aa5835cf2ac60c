// The C functions of modules and of the kernels in them.
#include <climits>
#include <cstdlib>
#include <string_view>

#include "api/device_attributes.h"
#include "api/entry.h"
#include "api/module.h"
#include "api/ranges.h"

using namespace wherry::impl;

namespace {

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

// The path by which the loader, and whoever reads its lists, is to know the file.
std::string absolute_path(const char* path) {
  const std::unique_ptr<char, FreeText> absolute(::realpath(path, nullptr));
  return absolute ? absolute.get() : "";
}

CUresult refuse(ObjectKind kind, std::string_view name) {
  if (kind == ObjectKind::device_code) {
    log_line("{}: PTX, cubins and fat binaries are for GPUs; a module of Wherry is a shared object",
             name);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  log_line("{}: a module is a shared object of this machine", name);
  return CUDA_ERROR_INVALID_IMAGE;
}

CUresult load(Driver& driver, const std::shared_ptr<Context>& context, CUmodule* module,
              const Fd& file, const std::string& path, const std::string& name) {
  LoadedObject object = load_object(file, path);
  if (object.handle == nullptr) {
    log_line("{} cannot be loaded: {}", name, object.why);
    return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  }
  switch (driver.runtime().share_module(name, object.place, !object.was_there)) {
    case Runtime::ModuleResult::done:
      break;
    case Runtime::ModuleResult::refused:
      return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    case Runtime::ModuleResult::no_room:
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *module = driver.create_module(context, name, std::move(object));
  return CUDA_SUCCESS;
}

CUresult load_image(CUmodule* module, const void* image) {
  return enter([&](Driver& driver) {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    constexpr const char* name = "a module in memory";
    const ObjectKind kind = kind_of_object(beginning_of_image(image));
    if (kind != ObjectKind::shared_object) return refuse(kind, name);
    return load(driver, context, module, copy_image(image), "", name);
  });
}

// Runs body(context, module) for a module that exists.
template <typename Body>
CUresult enter_module(CUmodule handle, const Body& body) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    const auto module = driver.find_module(handle);
    return module ? body(driver, module) : CUDA_ERROR_INVALID_HANDLE;
  });
}

template <typename Body>
CUresult enter_function(CUfunction handle, const Body& body) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    const auto function = driver.find_function(handle);
    return function ? body(driver, *function) : CUDA_ERROR_INVALID_HANDLE;
  });
}

}  // namespace

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  return enter([&](Driver& driver) {
    if (module == nullptr || fname == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    const Fd file = open_object(fname);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    const ObjectKind kind = kind_of_object(read_beginning(file));
    if (kind != ObjectKind::shared_object) return refuse(kind, fname);
    return load(driver, context, module, file, absolute_path(fname), fname);
  });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return load_image(module, image);
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                            CUjit_option* options, void** optionValues) {
  if (numOptions != 0 && (options == nullptr || optionValues == nullptr)) module = nullptr;
  return load_image(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return enter([&](Driver& driver) {
    if (module == nullptr || fatCubin == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult working = check_working(driver);
    return working != CUDA_SUCCESS ? working : refuse(ObjectKind::device_code, "a fat binary");
  });
}

CUresult cuModuleUnload(CUmodule hmod) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    return driver.destroy_module(hmod) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return enter([&](Driver&) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  if (hfunc == nullptr || name == nullptr)
    return enter([](Driver&) { return CUDA_ERROR_INVALID_VALUE; });
  return enter_module(hmod, [&](Driver& driver, const std::shared_ptr<Module>& module) {
    const CUfunction function = driver.function_of(module, name);
    if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
    *hfunc = function;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  if (name == nullptr || (dptr == nullptr && bytes == nullptr))
    return enter([](Driver&) { return CUDA_ERROR_INVALID_VALUE; });
  return enter_module(hmod, [&](Driver& driver, const std::shared_ptr<Module>& module) {
    const ExportedSymbol variable = find_variable(module->object, name);
    if (variable.address == 0) return CUDA_ERROR_NOT_FOUND;
    if (!is_managed(driver.runtime(), variable.address, variable.address + variable.bytes)) {
      log_line("{} of {} is not WHERRY_MANAGED, and was there before the module was loaded as one",
               name, module->name);
      return CUDA_ERROR_NOT_FOUND;
    }
    if (dptr != nullptr) *dptr = variable.address;
    if (bytes != nullptr) *bytes = variable.bytes;
    return CUDA_SUCCESS;
  });
}
// No variable lies where 32 bits reach.
CUresult cuModuleGetGlobal(CUdeviceptr_v1* dptr, unsigned int* bytes, CUmodule hmod,
                           const char* name) {
  CUdeviceptr address = 0;
  std::size_t size = 0;
  const CUresult result = cuModuleGetGlobal_v2(dptr == nullptr ? nullptr : &address,
                                               bytes == nullptr ? nullptr : &size, hmod, name);
  return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  return enter_function(hfunc, [&](Driver& driver, const Function& function) {
    if (pi == nullptr || attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
      return CUDA_ERROR_INVALID_VALUE;
    const auto of_device = [&](CUdevice_attribute attribute) {
      return device_attribute(attribute, driver.runtime().topology(),
                              function.module->context->device.ordinal)
          .value_or(0);
    };
    switch (attrib) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *pi = of_device(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        break;
      case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *pi = 10 * of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
              of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        break;
      default:
        *pi = 0;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  return enter_function(hfunc, [&](Driver&, const Function&) {
    const bool is_size = attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0;
    const bool is_share =
        attrib == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT && value >= -1 && value <= 100;
    return is_size || is_share ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  return enter_function(hfunc, [&](Driver&, const Function&) {
    const bool known = config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  return enter_function(hfunc, [&](Driver&, const Function& function) {
    if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *hmod = function.module->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  return enter_function(hfunc, [&](Driver&, const Function& function) {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = function.name.c_str();
    return CUDA_SUCCESS;
  });
}
