#include "objects/libraries.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/log.h"
#include "devices/device_process.h"
#include "objects/compiled_kernels.h"
#include "objects/failures/last_failure.h"
#include "objects/shared_objects.h"

namespace wherry::impl {
namespace {

// Says what a function lacks to be a kernel, and how to add it.
std::string why_no_kernel(const std::string& exported_as) {
  if (exported_as.empty())
    return "no exported function begins there; declare it extern \"C\", not static, and link the "
           "program with -rdynamic";
  if (exported_as.starts_with("_Z")) return "it has a C++ name; declare it extern \"C\"";
  return fmt::format(
      "the sizes of its parameters are not declared; write WHERRY_KERNEL_PARAMS({}, ...) beside it",
      exported_as);
}

}  // namespace

CUlibrary Libraries::add(const std::string& name, LoadedObject object) {
  const CUlibrary handle = libraries_.reserve();
  libraries_.assign(handle, std::make_shared<Library>(name, std::move(object), handle));
  return handle;
}

std::shared_ptr<Library> Libraries::take(CUlibrary handle) {
  auto library = libraries_.take(handle);
  if (!library) return nullptr;
  {
    const LockGuard guard(library->lock);
    library->is_unloaded = true;
  }
  kernels_.take_if([&](const Kernel& kernel) { return kernel.library == library; });
  return library;
}

CUkernel Libraries::kernel_of(const std::shared_ptr<Library>& library, const KernelCode& code) {
  const LockGuard guard(library->lock);
  if (library->is_unloaded) return nullptr;
  CUkernel& handle = library->kernels[code.name];
  if (handle == nullptr) handle = kernels_.insert(std::make_shared<Kernel>(library, code));
  return handle;
}

CUresult Libraries::kernel_at(std::uintptr_t address, CUkernel& kernel) {
  {
    const LockGuard guard(own_lock_);
    const auto found = own_kernels_.find(address);
    if (found != own_kernels_.end() && kernels_.find(found->second)) {
      kernel = found->second;
      return CUDA_SUCCESS;
    }
  }
  return learn_kernel(address, kernel);
}

CUresult Libraries::learn_kernel(std::uintptr_t address, CUkernel& kernel) {
  // Called without own_lock_: a constructor that the loader runs may wait for own_lock_.
  CodePlace place = find_code(address, params_prefix);
  if (place.object.handle == nullptr)
    return fail(CUDA_ERROR_NOT_FOUND, "no code is at {:#x}; pass the address of a kernel", address);
  KernelCode code;
  if (auto compiled = CompiledKernels::of_process().find(reinterpret_cast<const void*>(address)))
    code = std::move(*compiled);
  else if (!place.exported_as.empty())
    code = impl::find_kernel(place.object, place.exported_as);
  // The CUDA compiler leaves a host function for each kernel, which would do nothing on a device.
  // It has no declaration by WHERRY_KERNEL_PARAMS.
  if (code.entry == nullptr || code.params.sizes == nullptr) {
    const std::string why = why_no_kernel(place.exported_as);
    refuse_code(address, why);
    return fail(CUDA_ERROR_NOT_FOUND, "the function at {:#x} is no kernel: {}", address, why);
  }
  const CUresult shared = share_object(runtime_, place.file, place.object);
  if (shared != CUDA_SUCCESS) return shared;
  static_cast<void>(place.reference.release());  // devices have the object: it stays loaded

  const LockGuard guard(own_lock_);
  CUlibrary& handle = own_libraries_[place.object.handle];
  auto library = handle == nullptr ? nullptr : libraries_.find(handle);
  kernel = library ? kernel_of(library, code) : nullptr;
  if (kernel == nullptr) {
    // The library is new, or the program has unloaded it.
    handle = add(place.file, std::move(place.object));
    library = libraries_.find(handle);
    kernel = library ? kernel_of(library, code) : nullptr;
  }
  // Another thread has found the new library and unloaded it.
  if (kernel == nullptr)
    return fail(CUDA_ERROR_NOT_FOUND,
                "another thread has unloaded the library of the kernel at {:#x} during the call; "
                "unload it later",
                address);
  own_kernels_[address] = kernel;
  return CUDA_SUCCESS;
}

void Libraries::refuse_code(std::uintptr_t address, const std::string& why) {
  {
    const LockGuard guard(own_lock_);
    if (!refused_.insert(address).second) return;
  }
  log_line("{} is no kernel: {}", describe_code_address(address), why);
}

std::uintptr_t Libraries::address_of(CUkernel kernel) const {
  const LockGuard guard(own_lock_);
  for (const auto& [address, known] : own_kernels_)
    if (known == kernel) return address;
  return 0;
}

}  // namespace wherry::impl
