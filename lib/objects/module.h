// Modules, libraries and their kernels as the API sees them. A module belongs to one context, a
// library to none.
#pragma once

#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "objects/device.h"
#include "os/files/object_file.h"

namespace wherry::impl {

// The sizes of a kernel's parameters, as WHERRY_KERNEL_PARAMS declares them; null without it.
struct DeclaredParams {
  const unsigned* sizes = nullptr;
  std::size_t count = 0;
};

// The name of the variable that WHERRY_KERNEL_PARAMS defines is this prefix and the kernel's name.
inline constexpr const char* params_prefix = "wherry_params_of_";

struct KernelCode {
  std::string name;
  wherryGridKernel entry = nullptr;
  DeclaredParams params;
};

// Returns the kernel that the object exports by this name; without an entry if there is none.
KernelCode find_kernel(const LoadedObject& object, const std::string& name);

struct Module {
  Module(std::shared_ptr<Context> its_context, std::string its_name, LoadedObject its_object,
         CUmodule its_handle, bool of_library)
      : context(std::move(its_context)),
        name(std::move(its_name)),
        object(std::move(its_object)),
        handle(its_handle),
        is_library(of_library) {}

  const std::shared_ptr<Context> context;
  const std::string name;     // for log lines
  const LoadedObject object;  // stays loaded when this ends
  const CUmodule handle;
  const bool is_library;  // it stands for a library in its context

  // Held while a function gets its handle, so that it gets only one.
  Mutex lock{LockOrder::library};
  std::map<std::string, CUfunction> functions GUARDED_BY(lock);
};

struct Function {
  Function(std::shared_ptr<Module> its_module, KernelCode its_code)
      : module(std::move(its_module)), code(std::move(its_code)) {}

  const std::shared_ptr<Module> module;
  const KernelCode code;
};

struct Library {
  Library(std::string its_name, LoadedObject its_object, CUlibrary its_handle)
      : name(std::move(its_name)), object(std::move(its_object)), handle(its_handle) {}

  const std::string name;     // for log lines
  const LoadedObject object;  // stays loaded when this ends
  const CUlibrary handle;

  // Held while a kernel, or the library in a context, gets its handle, so that it gets only one.
  Mutex lock{LockOrder::library};
  std::map<std::string, CUkernel> kernels GUARDED_BY(lock);
  std::map<CUcontext, CUmodule> modules GUARDED_BY(lock);  // some have ended with their contexts
  bool is_unloaded GUARDED_BY(lock) = false;               // no kernel or module is added
};

struct Kernel {
  Kernel(std::shared_ptr<Library> its_library, KernelCode its_code)
      : library(std::move(its_library)), code(std::move(its_code)) {}

  const std::shared_ptr<Library> library;
  const KernelCode code;
};

}  // namespace wherry::impl
