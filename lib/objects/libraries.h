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
  // Null: there is none. Its kernels go with it.
  std::shared_ptr<Library> take(CUlibrary handle);
  std::shared_ptr<Library> find(CUlibrary handle) const { return libraries_.find(handle); }

  // Null: the library has been taken meanwhile.
  CUkernel kernel_of(const std::shared_ptr<Library>& library, const KernelCode& code);
  std::shared_ptr<Kernel> find_kernel(CUkernel handle) const { return kernels_.find(handle); }

  // The kernel whose code begins at this address, of the program or a library that it has loaded by
  // itself; that stays loaded from now on. CUDA_ERROR_NOT_FOUND: no kernel that is exported and
  // declared is there; else as a library is loaded.
  CUresult kernel_at(std::uintptr_t address, CUkernel& kernel) EXCLUDES(own_lock_);
  // Where that kernel's code begins; 0: it is of a library that has a handle.
  std::uintptr_t address_of(CUkernel kernel) const EXCLUDES(own_lock_);

 private:
  CUresult learn_kernel(std::uintptr_t address, CUkernel& kernel) EXCLUDES(own_lock_);
  // Says why it is none, once for each.
  void refuse_code(std::uintptr_t address, const std::string& why) EXCLUDES(own_lock_);

  Runtime& runtime_;
  HandleTable<CUlibrary, Library> libraries_{6};
  HandleTable<CUkernel, Kernel> kernels_{10};
  mutable Mutex own_lock_{LockOrder::own_libraries};
  // What the program is made of, by the loader's handle, and its kernels; some have ended.
  std::map<void*, CUlibrary> own_libraries_ GUARDED_BY(own_lock_);
  std::map<std::uintptr_t, CUkernel> own_kernels_ GUARDED_BY(own_lock_);
  std::set<std::uintptr_t> refused_ GUARDED_BY(own_lock_);
};

}  // namespace wherry::impl
