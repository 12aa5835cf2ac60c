// Shared objects as modules and libraries begin with them: loaded here and in all devices, with
// variables that are managed memory.
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

// cuModuleLoad's errors, but for those of arguments; the log says why.
CUresult load_file(Runtime& runtime, const char* path, NewObject& loaded);
CUresult load_image(Runtime& runtime, const void* image, NewObject& loaded);
// Says that device code is for GPUs, and answers so.
CUresult refuse_device_code(const std::string& name);

// Has an object that is loaded here in all devices.
CUresult share_object(Runtime& runtime, const std::string& name, const LoadedObject& object);

// Where an exported variable is that is managed memory. CUDA_ERROR_NOT_FOUND: there is none of that
// name.
CUresult find_managed(Runtime& runtime, const LoadedObject& object, const std::string& object_name,
                      const char* name, ExportedSymbol& variable);

}  // namespace wherry::impl
