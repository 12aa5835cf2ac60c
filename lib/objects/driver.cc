#include "objects/driver.h"

#include <map>
#include <utility>

#include "objects/start.h"
#include "streams/thread_target.h"

namespace wherry::impl {

namespace {

std::shared_ptr<Context> make_context(Device& device, CUcontext handle, bool primary,
                                      unsigned flags) {
  auto context =
      std::make_shared<Context>(Context{device, handle, primary, device.engine.create_context(),
                                        std::make_shared<ContextSettings>(flags)});
  context->set_flags(flags);
  return context;
}

}  // namespace

Driver::Driver(const RuntimeOptions& options)
    : launches_block_(options.launches_block), runtime_(options) {
  for (int ordinal = 0; ordinal < runtime_.device_count(); ++ordinal) {
    devices_.push_back(std::make_unique<Device>(ordinal, contexts_.reserve()));
    devices_.back()->engine.attach(make_target(ordinal));
  }
}

void Driver::end_work() {
  for (const auto& device : devices_) device->engine.program_ends();
}

std::shared_ptr<LaunchTarget> Driver::make_target(int ordinal) {
  if (!runtime_.options().is_coherent(ordinal))
    return std::make_shared<ProcessTarget>(runtime_.devices().process(ordinal));
  const DeviceConfig& config = runtime_.device_config(ordinal);
  return std::make_shared<ThreadTarget>(runtime_.attached_threads(),
                                        WorkerOptions{ordinal, config.workers, config.cpus});
}

Device* Driver::device(CUdevice ordinal) {
  if (ordinal < 0 || ordinal >= device_count()) return nullptr;
  return devices_[static_cast<std::size_t>(ordinal)].get();
}

// ---- contexts

void Driver::context_begins(const Device& device) {
  if (runtime_.device_config(device.ordinal).concurrent) return;
  const LockGuard guard(exclusive_lock_);
  if (exclusive_contexts_++ == 0) runtime_.advice_effects().forbid_copies();
}

void Driver::context_ends(const Device& device) {
  if (runtime_.device_config(device.ordinal).concurrent) return;
  const LockGuard guard(exclusive_lock_);
  if (--exclusive_contexts_ == 0) runtime_.advice_effects().permit_copies();
}

CUcontext Driver::create_context(Device& device, unsigned flags) {
  context_begins(device);
  const CUcontext handle = contexts_.reserve();
  contexts_.assign(handle, make_context(device, handle, /*primary=*/false, flags));
  return handle;
}

bool Driver::destroy_context(CUcontext handle) {
  const auto found = contexts_.find(handle);
  if (!found || found->primary) return false;
  const auto context = contexts_.take(handle);
  if (!context) return false;  // another thread has destroyed it
  destroy_handles_of(*context);
  context->device.engine.destroy_context(context->work);
  peers_.end(*context);
  context_ends(context->device);
  return true;
}

WorkStatus Driver::context_status(CUcontext handle) const {
  WorkStatus status = WorkStatus::context_destroyed;
  contexts_.look_at(handle, [&](const Context& context) {
    status = context.device.engine.status(*context.work);
  });
  return status;
}

CUcontext Driver::retain_primary_locked(Device& device) {
  if (!device.primary) {
    device.primary =
        make_context(device, device.primary_handle, /*primary=*/true, device.primary_flags);
    contexts_.assign(device.primary_handle, device.primary);
    context_begins(device);
  }
  ++device.primary_users;
  return device.primary_handle;
}

CUcontext Driver::retain_primary(Device& device) {
  const LockGuard guard(device.lock);
  return retain_primary_locked(device);
}

CUcontext Driver::retain_primary_for_runtime(Device& device) {
  const LockGuard guard(device.lock);
  if (!device.primary_retained_by_runtime) retain_primary_locked(device);
  device.primary_retained_by_runtime = true;
  return device.primary_handle;
}

bool Driver::release_primary(Device& device) {
  std::shared_ptr<Context> last;
  {
    const LockGuard guard(device.lock);
    if (device.primary_users == 0) return false;
    if (--device.primary_users > 0) return true;
    last = std::move(device.primary);
    device.primary = nullptr;
    contexts_.take(device.primary_handle);
  }
  destroy_handles_of(*last);
  device.engine.destroy_context(last->work);
  peers_.end(*last);
  context_ends(device);
  return true;
}

void Driver::reset(Device& device) {
  const LockGuard one_at_a_time(device.reset_lock);
  std::shared_ptr<Context> primary;
  {
    const LockGuard guard(device.lock);
    primary = device.primary;
  }
  // A coherent device's threads belong to the program and cannot be ended from outside.
  if (runtime_.options().is_coherent(device.ordinal)) device.engine.wait_for_device();
  device.engine.detach(primary ? primary->work : nullptr);
  if (primary) {
    destroy_handles_of(*primary);
    peers_.end(*primary);
  }
  try {
    const DeviceStart scope;
    runtime_.devices().restart(device.ordinal);
  } catch (...) {
    device.engine.attach(nullptr);
    throw;
  }
  device.engine.attach(make_target(device.ordinal));
}

// ---- streams and events

CUstream Driver::create_stream(const std::shared_ptr<Context>& context, StreamKind kind,
                               int priority) {
  return streams_.insert(std::make_shared<StreamHandle>(
      StreamHandle{context, context->device.engine.create_stream(context->work, kind, priority)}));
}

bool Driver::destroy_stream(CUstream handle) {
  const auto found = streams_.take(handle);
  if (!found) return false;
  captures_.forget(*found->stream);
  found->context->device.engine.destroy_stream(found->stream);
  return true;
}

CUevent Driver::create_event(const std::shared_ptr<Context>& context, unsigned flags,
                             std::shared_ptr<SharedEvent> shared) {
  return events_.insert(std::make_shared<CudaEvent>(context, flags, std::move(shared)));
}

bool Driver::destroy_event(CUevent handle) {
  const auto event = events_.take(handle);
  if (event && event->shared) offers_.withdraw(*event->shared);
  return event != nullptr;
}

void Driver::destroy_handles_of(const Context& context) {
  const auto is_its = [&](const auto& object) { return object.context.get() == &context; };
  for (const auto& event : events_.take_if(is_its))
    if (event->shared) offers_.withdraw(*event->shared);
  modules_.take_if(is_its);
  functions_.take_if(
      [&](const Function& function) { return function.module->context.get() == &context; });
  const auto streams = streams_.take_if(is_its);
  captures_.forget(context);
  for (const auto& handle : streams) context.device.engine.destroy_stream(handle->stream);
}

// ---- modules

CUmodule Driver::create_module(const std::shared_ptr<Context>& context, const std::string& name,
                               LoadedObject object, bool is_library) {
  const CUmodule handle = modules_.reserve();
  modules_.assign(handle,
                  std::make_shared<Module>(context, name, std::move(object), handle, is_library));
  return handle;
}

bool Driver::destroy_module(CUmodule handle) {
  const auto module = modules_.take(handle);
  if (!module) return false;
  functions_.take_if([&](const Function& function) { return function.module == module; });
  return true;
}

CUfunction Driver::function_of(const std::shared_ptr<Module>& module, const KernelCode& code) {
  const LockGuard guard(module->lock);
  CUfunction& handle = module->functions[code.name];
  if (handle == nullptr) handle = functions_.insert(std::make_shared<Function>(module, code));
  if (find_module(module->handle) == module) return handle;
  // The module was destroyed meanwhile, perhaps before its functions had this one: remove it here.
  functions_.take(handle);
  return nullptr;
}

bool Driver::destroy_library(CUlibrary handle) {
  const auto library = libraries_.take(handle);
  if (!library) return false;
  std::map<CUcontext, CUmodule> modules;
  {
    const LockGuard guard(library->lock);
    modules.swap(library->modules);
  }
  for (const auto& [context, module] : modules) destroy_module(module);
  return true;
}

CUmodule Driver::module_of(const std::shared_ptr<Library>& library,
                           const std::shared_ptr<Context>& context) {
  const LockGuard guard(library->lock);
  if (library->is_unloaded) return nullptr;
  CUmodule& handle = library->modules[context->handle];
  const auto module = handle == nullptr ? nullptr : modules_.find(handle);
  if (module && module->context == context) return handle;
  const CUmodule made = create_module(context, library->name, library->object, /*is_library=*/true);
  if (find_context(context->handle) == context) return handle = made;
  // The context was destroyed meanwhile, perhaps before its modules had this one: destroy it here.
  destroy_module(made);
  return nullptr;
}

bool Driver::give_back(Device& device) {
  const bool returned = offers_.free_returned();
  const bool gave_up = runtime_.heap().give_up_spare(device.ordinal);
  return pools_.give_back_all(device.ordinal) || returned || gave_up;
}

bool Driver::give_back() {
  bool gave = false;
  for (const auto& device : devices_) gave = give_back(*device) || gave;
  return gave;
}

void Driver::wait_for_all_work() {
  for (const auto& device : devices_) device->engine.wait_for_device();
}

void Driver::end_import(const ImportedMemory::Import& import) {
  wait_for_all_work();
  imported_.end(import);
}

}  // namespace wherry::impl
