// Modules and their kernels as the API sees them.
#pragma once

#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/device.h"
#include "base/lock.h"
#include "os/object_file.h"

namespace wherry::impl {

struct Module {
  Module(std::shared_ptr<Context> its_context, std::string its_name, LoadedObject its_object,
         CUmodule its_handle)
      : context(std::move(its_context)),
        name(std::move(its_name)),
        object(std::move(its_object)),
        handle(its_handle) {}

  const std::shared_ptr<Context> context;
  const std::string name;     // for log lines
  const LoadedObject object;  // stays loaded when this ends
  const CUmodule handle;

  // Held while a function gets its handle, so that it gets one.
  Mutex lock;
  std::map<std::string, CUfunction> functions GUARDED_BY(lock);
};

// The sizes of a kernel's parameters, as WHERRY_KERNEL_PARAMS says; null: it says nothing.
struct DeclaredParams {
  const unsigned* sizes = nullptr;
  std::size_t count = 0;
};

struct Function {
  Function(std::shared_ptr<Module> its_module, std::string its_name, wherryGridKernel its_kernel,
           DeclaredParams its_params)
      : module(std::move(its_module)),
        name(std::move(its_name)),
        kernel(its_kernel),
        params(its_params) {}

  const std::shared_ptr<Module> module;
  const std::string name;
  const wherryGridKernel kernel;
  const DeclaredParams params;
};

}  // namespace wherry::impl
