// Loads the shared objects of modules and libraries, here and in all devices, and turns their
// managed variables into managed memory. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <string>

#include "os/files/object_file.h"
#include "runtime/runtime.h"

namespace wherry::impl {

struct NewObject {
  std::string name;  // for log lines
  LoadedObject object;
};

// Return cuModuleLoad's errors, except those of its arguments; the log gives the reason.
CUresult load_file(Runtime& runtime, const char* path, NewObject& loaded);
CUresult load_image(Runtime& runtime, const void* image, NewObject& loaded);
// Logs that device code is for GPUs; returns CUDA_ERROR_NO_BINARY_FOR_GPU.
CUresult refuse_device_code(const std::string& name);

// Loads an object that this process has loaded in all devices, too.
CUresult share_object(Runtime& runtime, const std::string& name, const LoadedObject& object);

// Finds an exported variable that is managed memory. Returns CUDA_ERROR_NOT_FOUND if none has the
// name.
CUresult find_managed(Runtime& runtime, const LoadedObject& object, const std::string& object_name,
                      const char* name, ExportedSymbol& variable);

}  // namespace wherry::impl
