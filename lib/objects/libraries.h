// The libraries that were loaded, and the kernels in them that have handles. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "objects/handle_table.h"
#include "objects/module.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class Libraries {
 public:
  explicit Libraries(Runtime& runtime) : runtime_(runtime) {}

  CUlibrary add(const std::string& name, LoadedObject object);
  // Removes the library and its kernels. Returns null if there is none.
  std::shared_ptr<Library> take(CUlibrary handle);
  std::shared_ptr<Library> find(CUlibrary handle) const { return libraries_.find(handle); }

  // Returns null if the library has been taken meanwhile.
  CUkernel kernel_of(const std::shared_ptr<Library>& library, const KernelCode& code);
  std::shared_ptr<Kernel> find_kernel(CUkernel handle) const { return kernels_.find(handle); }

  // Finds the kernel whose code begins at the address, in the program or a shared object that it
  // loaded by itself, and keeps that loaded. Returns CUDA_ERROR_NOT_FOUND if no exported and
  // declared kernel begins there, else the errors of loading a library.
  CUresult kernel_at(std::uintptr_t address, CUkernel& kernel) EXCLUDES(own_lock_);
  // The address at which kernel_at() found the kernel; 0 if it did not.
  std::uintptr_t address_of(CUkernel kernel) const EXCLUDES(own_lock_);

 private:
  CUresult learn_kernel(std::uintptr_t address, CUkernel& kernel) EXCLUDES(own_lock_);
  // Logs once for each address why no kernel is there.
  void refuse_code(std::uintptr_t address, const std::string& why) EXCLUDES(own_lock_);

  Runtime& runtime_;
  HandleTable<CUlibrary, Library> libraries_{6};
  HandleTable<CUkernel, Kernel> kernels_{10};
  mutable Mutex own_lock_{LockOrder::own_libraries};
  // The program's shared objects by the loader's handle, and their kernels by address. Some of
  // these CUDA handles have ended.
  std::map<void*, CUlibrary> own_libraries_ GUARDED_BY(own_lock_);
  std::map<std::uintptr_t, CUkernel> own_kernels_ GUARDED_BY(own_lock_);
  std::set<std::uintptr_t> refused_ GUARDED_BY(own_lock_);
};

}  // namespace wherry::impl
