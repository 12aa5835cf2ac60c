// What the C functions work on: the runtime, a launch engine for each device, and the handles that
// the program holds. Made by the first cuInit, never destroyed. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <memory>
#include <vector>

#include "objects/captures.h"
#include "objects/device.h"
#include "objects/graphs.h"
#include "objects/handle_table.h"
#include "objects/imported_memory.h"
#include "objects/libraries.h"
#include "objects/memory_pools.h"
#include "objects/module.h"
#include "objects/offers.h"
#include "objects/p2p_pages.h"
#include "objects/peer_grants.h"
#include "objects/virtual_memory.h"
#include "pages/memory_records.h"
#include "runtime/runtime.h"
#include "runtime/tracing.h"

namespace wherry::impl {

class Driver {
 public:
  // Throws std::system_error, std::invalid_argument.
  explicit Driver(const RuntimeOptions& options);
  // Null before start_driver() (objects/start.h) has succeeded, and in every forked child.
  static Driver* current();
  // Called at the program's end: ends the devices' work; end_devices() then ends and reaps the
  // device processes. Managed memory stays usable on the host.
  void end_work();
  void end_devices() { runtime_.devices().end_all(); }

  Runtime& runtime() { return runtime_; }
  // What the API knows of every address that it returned or was passed.
  MemoryRecords& memory() { return runtime_.memory(); }
  PeerGrants& peers() { return peers_; }
  P2PPages& p2p_pages() { return p2p_pages_; }
  // What other processes may open of this process's devices, and what it has opened of theirs.
  Offers& offers() { return offers_; }
  ImportedMemory& imported() { return imported_; }
  HandleTable<CUmemoryPool, ImportedMemoryPool>& imported_memory_pools() {
    return imported_memory_pools_;
  }
  MemoryPools& pools() { return pools_; }
  // Whether a thread that launches a kernel waits for its end (CUDA_LAUNCH_BLOCKING).
  bool launches_block() const { return launches_block_; }
  VirtualMemory& virtual_memory() { return virtual_memory_; }
  // Writes the trace that WHERRY_TRACE asks for; null if it asks for none.
  TraceWriter* trace() { return trace_.get(); }
  int device_count() const { return static_cast<int>(devices_.size()); }
  // Returns null if there is no such device.
  Device* device(CUdevice ordinal);

  // ---- contexts

  CUcontext create_context(Device& device, unsigned flags);
  // Waits for the context's work. Returns false if `handle` is not a context that can be destroyed.
  bool destroy_context(CUcontext handle);
  std::shared_ptr<Context> find_context(CUcontext handle) const { return contexts_.find(handle); }
  // The status of the context, which every call that works on the context returns.
  WorkStatus context_status(CUcontext handle) const;

  CUcontext retain_primary(Device& device);
  // Like retain_primary(), for the runtime API: counts as one user that never releases the context,
  // however often it is called.
  CUcontext retain_primary_for_runtime(Device& device);
  // Waits for the context's work if this was its last user. Returns false if it had no user.
  bool release_primary(Device& device);
  // Throws std::system_error if no new process can be started.
  void reset(Device& device);

  // ---- streams and events

  CUstream create_stream(const std::shared_ptr<Context>& context, StreamKind kind, int priority);
  bool destroy_stream(CUstream handle);
  std::shared_ptr<StreamHandle> find_stream(CUstream handle) const { return streams_.find(handle); }

  // `shared` is null unless other processes may use the event, too.
  CUevent create_event(const std::shared_ptr<Context>& context, unsigned flags,
                       std::shared_ptr<SharedEvent> shared = nullptr);
  // Threads and streams that wait for the event go on waiting.
  bool destroy_event(CUevent handle);
  std::shared_ptr<CudaEvent> find_event(CUevent handle) const { return events_.find(handle); }

  Graphs& graphs() { return graphs_; }
  Captures& captures() { return captures_; }

  // ---- modules

  CUmodule create_module(const std::shared_ptr<Context>& context, const std::string& name,
                         LoadedObject object, bool is_library = false);
  // Destroys the module and its functions. Returns false if there is no such module.
  bool destroy_module(CUmodule handle);
  std::shared_ptr<Module> find_module(CUmodule handle) const { return modules_.find(handle); }
  // Returns null if another thread has destroyed the module meanwhile.
  CUfunction function_of(const std::shared_ptr<Module>& module, const KernelCode& code);
  std::shared_ptr<Function> find_function(CUfunction handle) const {
    return functions_.find(handle);
  }

  Libraries& libraries() { return libraries_; }
  const Libraries& libraries() const { return libraries_; }
  // Destroys the library, its modules and its functions. Returns false if there is none.
  bool destroy_library(CUlibrary handle);
  // Returns the module that stands for the library in the context, or null if another thread has
  // destroyed one of the two meanwhile.
  CUmodule module_of(const std::shared_ptr<Library>& library,
                     const std::shared_ptr<Context>& context);

  // Called when memory does not fit: frees memory that other processes have closed, and what the
  // device's memory pools keep for later use. Returns whether it freed any.
  bool give_back(Device& device);
  // Does what give_back(device) does, for all devices.
  bool give_back();

  // Waits until no device has work that may access managed memory.
  void wait_for_all_work();
  // Waits like wait_for_all_work(), because earlier work may use the imported memory; then closes
  // that memory.
  void end_import(const ImportedMemory::Import& import);

 private:
  // Makes what runs the device's kernels: its process, or new threads of the host if the device is
  // coherent. Throws std::system_error.
  std::shared_ptr<LaunchTarget> make_target(int ordinal);

  CUcontext retain_primary_locked(Device& device) REQUIRES(device.lock);
  void destroy_handles_of(const Context& context);
  // While a device that cannot access managed memory concurrently with the host has a context, no
  // page is read-duplicated. These two count such contexts.
  void context_begins(const Device& device) EXCLUDES(exclusive_lock_);
  void context_ends(const Device& device) EXCLUDES(exclusive_lock_);

  const bool launches_block_;
  PendingTrace pending_trace_;
  Runtime runtime_;
  PeerGrants peers_{runtime_};
  VirtualMemory virtual_memory_{runtime_};
  P2PPages p2p_pages_{runtime_, runtime_.memory(), virtual_memory_};
  Offers offers_{runtime_, p2p_pages_};
  ImportedMemory imported_{runtime_};
  MemoryPools pools_{{runtime_, runtime_.memory()}};
  HandleTable<CUmemoryPool, ImportedMemoryPool> imported_memory_pools_{14};
  HandleTable<CUcontext, Context> contexts_{0};
  HandleTable<CUstream, StreamHandle> streams_{8};
  HandleTable<CUevent, CudaEvent> events_{4};
  Graphs graphs_;
  Captures captures_{graphs_};
  HandleTable<CUmodule, Module> modules_{12};
  HandleTable<CUfunction, Function> functions_{2};
  Libraries libraries_{runtime_};
  std::vector<std::unique_ptr<Device>> devices_;
  const std::unique_ptr<TraceWriter> trace_ = pending_trace_.start(runtime_);
  Mutex exclusive_lock_{LockOrder::exclusive};
  int exclusive_contexts_ GUARDED_BY(exclusive_lock_) = 0;
};

}  // namespace wherry::impl
