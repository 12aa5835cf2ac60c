#include "objects/shared_objects.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "base/log.h"
#include "objects/failures/last_failure.h"
#include "objects/ranges.h"

namespace wherry::impl {
namespace {

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

// The path by which the dynamic loader, and debuggers that read its lists, know the file.
std::string absolute_path(const char* path) {
  const std::unique_ptr<char, FreeText> absolute(::realpath(path, nullptr));
  return absolute ? absolute.get() : "";
}

CUresult refuse(ObjectKind kind, const std::string& name) {
  if (kind == ObjectKind::device_code) return refuse_device_code(name);
  log_line("{}: a module is a shared object of this machine", name);
  return fail(CUDA_ERROR_INVALID_IMAGE,
              "{} is no shared object of this machine; compile it with -shared -fPIC", name);
}

CUresult load(Runtime& runtime, const Fd& file, const std::string& path, NewObject& loaded) {
  loaded.object = load_object(file, path);
  if (loaded.object.handle == nullptr) {
    log_line("{} cannot be loaded: {}", loaded.name, loaded.object.why);
    return fail(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "{} cannot be loaded: {}; see ldd",
                loaded.name, loaded.object.why);
  }
  const CUresult shared = share_object(runtime, loaded.name, loaded.object);
  if (shared == CUDA_SUCCESS) log_debug("module {} is loaded", loaded.name);
  return shared;
}

}  // namespace

CUresult load_file(Runtime& runtime, const char* path, NewObject& loaded) {
  loaded.name = path;
  const Fd file = open_object(path);
  if (!file)
    return fail(CUDA_ERROR_FILE_NOT_FOUND,
                "{} cannot be opened: {}; check its name and permissions", path,
                std::generic_category().message(errno));
  const ObjectKind kind = kind_of_object(read_beginning(file));
  if (kind != ObjectKind::shared_object) return refuse(kind, loaded.name);
  return load(runtime, file, absolute_path(path), loaded);
}

CUresult load_image(Runtime& runtime, const void* image, NewObject& loaded) {
  loaded.name = "a module in memory";
  const ObjectKind kind = kind_of_object(beginning_of_image(image));
  if (kind != ObjectKind::shared_object) return refuse(kind, loaded.name);
  return load(runtime, copy_image(image), "", loaded);
}

CUresult refuse_device_code(const std::string& name) {
  log_line("{}: PTX, cubins and fat binaries are for GPUs; a module of Wherry is a shared object",
           name);
  return fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
              "{} is code for GPUs (PTX, a cubin or a fat binary); compile it as a shared object, "
              "for example with wherry nvcc",
              name);
}

CUresult share_object(Runtime& runtime, const std::string& name, const LoadedObject& object) {
  switch (runtime.variables().share_module(name, object.place, !object.was_there)) {
    case ModuleVariables::ShareResult::done:
      return CUDA_SUCCESS;
    case ModuleVariables::ShareResult::refused:
      return fail(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED,
                  "a device cannot load {}; a line in the log says why", name);
    case ModuleVariables::ShareResult::no_space:
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "there is no room for the managed variables of {}; free managed memory", name);
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult find_managed(Runtime& runtime, const LoadedObject& object, const std::string& object_name,
                      const char* name, ExportedSymbol& variable) {
  variable = find_variable(object, name);
  if (variable.address == 0)
    return fail(CUDA_ERROR_NOT_FOUND,
                "{} exports no variable {}; declare it extern \"C\", not static", object_name,
                name);
  if (is_managed(runtime, variable.address, variable.address + variable.bytes)) return CUDA_SUCCESS;
  log_line("{} of {} is not WHERRY_MANAGED, and was there before the module was loaded as one",
           name, object_name);
  return fail(CUDA_ERROR_NOT_FOUND, "{} of {} is not managed; declare it WHERRY_MANAGED", name,
              object_name);
}

}  // namespace wherry::impl
