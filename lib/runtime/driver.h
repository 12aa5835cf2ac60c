// What the C functions work on: the runtime, a launch engine for each device, and the handles that
// were given out. Made by the first cuInit, never destroyed. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <memory>
#include <vector>

#include "pages/memory_records.h"
#include "runtime/device.h"
#include "runtime/handle_table.h"
#include "runtime/held_pages.h"
#include "runtime/imported_memory.h"
#include "runtime/libraries.h"
#include "runtime/memory_pools.h"
#include "runtime/module.h"
#include "runtime/offers.h"
#include "runtime/peer_grants.h"
#include "runtime/runtime.h"
#include "runtime/tracing.h"
#include "runtime/virtual_memory.h"

namespace wherry::impl {

class Driver {
 public:
  // cuInit. Logs what is wrong where there is more to say than the code.
  static CUresult start();
  // What WHERRY_POLICY would say, for a start() that is yet to come. As wherrySetPolicy().
  static CUresult set_policy(const char* text);
  // As wherryRegisterPolicy().
  static CUresult add_policy(const char* name, unsigned version, wherry::make_policy* make);
  // At the program's end: ends and reaps the device processes. Managed memory stays usable on the
  // host. Nothing in a forked child.
  static void end_devices();
  // Null before start() has succeeded, and in every forked child.
  static Driver* current();

  Runtime& runtime() { return runtime_; }
  // What the API knows of every address that it gave out or was given.
  MemoryRecords& memory() { return runtime_.memory(); }
  PeerGrants& peers() { return peers_; }
  HeldPages& held_pages() { return held_pages_; }
  // What other processes may have of this one's devices, and this one has of theirs.
  Offers& offers() { return offers_; }
  ImportedMemory& imported() { return imported_; }
  HandleTable<CUmemoryPool, ImportedPool>& imported_pools() { return imported_pools_; }
  MemoryPools& pools() { return pools_; }
  // Whether who launches a kernel is to wait for it (CUDA_LAUNCH_BLOCKING).
  bool launches_block() const { return launches_block_; }
  VirtualMemory& virtual_memory() { return virtual_memory_; }
  // What WHERRY_TRACE asks for; null: nothing.
  TraceWriter* trace() { return trace_.get(); }
  int device_count() const { return static_cast<int>(devices_.size()); }
  // Null: there is no such device.
  Device* device(CUdevice ordinal);

  // ---- contexts

  CUcontext create_context(Device& device, unsigned flags);
  // Waits for its work. Returns false when `handle` is no context that can be destroyed.
  bool destroy_context(CUcontext handle);
  std::shared_ptr<Context> find_context(CUcontext handle) const { return contexts_.find(handle); }
  // What every call that works on the context answers.
  WorkStatus context_status(CUcontext handle) const;

  CUcontext retain_primary(Device& device);
  // The same, but counts one user however often it is called: one that never lets go.
  CUcontext hold_primary(Device& device);
  // Waits for its work if this was the last user. False: it had none.
  bool release_primary(Device& device);
  // Throws std::system_error when no new process can be started.
  void reset(Device& device);

  // ---- streams and events

  CUstream create_stream(const std::shared_ptr<Context>& context, StreamKind kind, int priority);
  bool destroy_stream(CUstream handle);
  std::shared_ptr<StreamHandle> find_stream(CUstream handle) const { return streams_.find(handle); }

  // `shared`: what it is if other processes have it, too.
  CUevent create_event(const std::shared_ptr<Context>& context, unsigned flags,
                       std::shared_ptr<SharedEvent> shared = nullptr);
  // Who waits for it still does.
  bool destroy_event(CUevent handle);
  std::shared_ptr<Event> find_event(CUevent handle) const { return events_.find(handle); }

  // ---- modules

  CUmodule create_module(const std::shared_ptr<Context>& context, const std::string& name,
                         LoadedObject object, bool is_library = false);
  // False: there is none. Its functions go with it.
  bool destroy_module(CUmodule handle);
  std::shared_ptr<Module> find_module(CUmodule handle) const { return modules_.find(handle); }
  // Null: the module has ended meanwhile.
  CUfunction function_of(const std::shared_ptr<Module>& module, const KernelCode& code);
  std::shared_ptr<Function> find_function(CUfunction handle) const {
    return functions_.find(handle);
  }

  Libraries& libraries() { return libraries_; }
  const Libraries& libraries() const { return libraries_; }
  // False: there is none. What is of it goes with it.
  bool destroy_library(CUlibrary handle);
  // The library as the context has it. Null: one of them has ended meanwhile.
  CUmodule module_of(const std::shared_ptr<Library>& library,
                     const std::shared_ptr<Context>& context);

  // Gives back what other processes have let go of, and what the device's pools keep for later, for
  // want of room. True: there was something.
  bool give_back(Device& device);
  // ... of all devices.
  bool give_back();

  // Waits until no device has work that may touch managed memory.
  void wait_for_all_work();
  // Ends it after that: work that was launched before may still use it.
  void end_import(const ImportedMemory::Import& import);

 private:
  explicit Driver(const RuntimeOptions& options);

  CUcontext retain_primary_locked(Device& device) REQUIRES(device.lock);
  void destroy_handles_of(const Context& context);
  // While a device that cannot share managed memory with the host at the same time has a context,
  // nothing is read-duplicated.
  void context_begins(const Device& device) EXCLUDES(exclusive_lock_);
  void context_ends(const Device& device) EXCLUDES(exclusive_lock_);

  const bool launches_block_;
  PendingTrace pending_trace_;
  Runtime runtime_;
  PeerGrants peers_{runtime_};
  VirtualMemory virtual_memory_{runtime_};
  HeldPages held_pages_{runtime_, runtime_.memory(), virtual_memory_};
  Offers offers_{runtime_, held_pages_};
  ImportedMemory imported_{runtime_};
  MemoryPools pools_{{runtime_, runtime_.memory()}};
  HandleTable<CUmemoryPool, ImportedPool> imported_pools_{14};
  HandleTable<CUcontext, Context> contexts_{0};
  HandleTable<CUstream, StreamHandle> streams_{8};
  HandleTable<CUevent, Event> events_{4};
  HandleTable<CUmodule, Module> modules_{12};
  HandleTable<CUfunction, Function> functions_{2};
  Libraries libraries_{runtime_};
  std::vector<std::unique_ptr<Device>> devices_;
  const std::unique_ptr<TraceWriter> trace_ = pending_trace_.start(runtime_);
  Mutex exclusive_lock_{LockOrder::exclusive};
  int exclusive_contexts_ GUARDED_BY(exclusive_lock_) = 0;
};

}  // namespace wherry::impl
