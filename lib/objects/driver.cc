#include "objects/driver.h"

#include <fmt/ranges.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/environment.h"
#include "base/log.h"
#include "base/page.h"
#include "memory/system_calls.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"
#include "os/process/fork_mark.h"
#include "os/process/machine_names.h"
#include "os/process/resource_limits.h"
#include "os/process/thread.h"
#include "os/process/valgrind.h"
#include "streams/thread_target.h"
#include "trap/child_accesses.h"

namespace wherry::impl {

namespace {

constinit Mutex start_lock{LockOrder::start};
// Tells the host process from its children. Set by the first start() before it forks any process.
std::atomic<const ForkMark*> the_mark = nullptr;
std::atomic<Driver*> the_driver = nullptr;
// Set by wherrySetPolicy(); without a source: it was not called. Guarded by start_lock. Never
// destroyed, like the driver.
NamedPolicy& the_policy = *new NamedPolicy;
// Fork handlers also run when a thread forks device processes, and in these. The handlers do
// nothing then: device processes drop what they do not need themselves.
thread_local bool starts_device = false;

std::shared_ptr<Context> make_context(Device& device, CUcontext handle, bool primary,
                                      unsigned flags) {
  auto context =
      std::make_shared<Context>(Context{device, handle, primary, device.engine.create_context(),
                                        std::make_shared<ContextSettings>(flags)});
  context->set_flags(flags);
  return context;
}

class DeviceStart {
 public:
  DeviceStart() { starts_device = true; }
  ~DeviceStart() { starts_device = false; }
  DeviceStart(const DeviceStart&) = delete;
  DeviceStart& operator=(const DeviceStart&) = delete;
};

// The driver for which the handlers of this thread's current fork act. Null: the application does
// not fork in this thread, or there is no driver, as in a child of an earlier fork.
thread_local Driver* forking = nullptr;
// Signals are blocked while the thread forks: a signal handler of the application that forks, too,
// would wait for this fork.
thread_local SavedSignals signals_of_fork;
// A thread that is cancelled in a fork handler would leave locks behind, or a child that ends.
thread_local SavedCancellation cancellation_of_fork;

void before_fork() {
  Driver* const driver = starts_device ? nullptr : Driver::current();
  if (driver == nullptr) return;
  // In this order: a signal handler that forks uses the same variables.
  signals_of_fork.block();
  cancellation_of_fork.disable();
  forking = driver;
  driver->runtime().fork_hooks().before();
}
void after_fork() {
  Driver* const driver = std::exchange(forking, nullptr);
  if (driver == nullptr) return;
  driver->runtime().fork_hooks().after();
  cancellation_of_fork.restore();
  signals_of_fork.restore();
}
void in_forked_child() {
  Driver* const driver = std::exchange(forking, nullptr);
  if (driver == nullptr) return;
  Runtime& runtime = driver->runtime();
  runtime.fork_hooks().after_in_child();
  cancellation_of_fork.restore();
  signals_of_fork.restore();
  const std::uintptr_t arena = runtime.layout().base();
  explain_accesses_in_child(
      {AddressRange{arena, arena + runtime.layout().bytes()}, runtime.annex().range()});
}

// Runs at the program's end. It also runs in children and device processes, where it does nothing.
void finish_trace() {
  if (Driver* driver = Driver::current())
    if (TraceWriter* trace = driver->trace()) trace->finish();
}

// Runs after everything that the program registered with atexit(), and after the destructors of its
// static objects: these run before the destructors of the libraries that the program needs.
[[gnu::destructor]] void end_devices_at_exit() {
  Driver::end_devices();
}

CUresult to_result(OptionsError::Kind kind) {
  switch (kind) {
    case OptionsError::Kind::malformed:
      return CUDA_ERROR_INVALID_VALUE;
    case OptionsError::Kind::not_permitted:
      return CUDA_ERROR_NOT_PERMITTED;
    case OptionsError::Kind::no_device:
      return CUDA_ERROR_NO_DEVICE;
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult to_result(const std::system_error& error) {
  switch (error.code().value()) {
    case EPERM:
    case EACCES:
      return CUDA_ERROR_NOT_PERMITTED;
    case ENOMEM:
    case ENOSPC:
      return CUDA_ERROR_OUT_OF_MEMORY;
    default:
      return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

void log_start(const Runtime& runtime) {
  if (!is_logged(LogLevel::info)) return;
  const RuntimeOptions& options = runtime.options();
  log_info("started: trap {}, policy {}, {} GiB of addresses, host on node {}",
           to_string(options.trap), options.policy_name.empty() ? "auto" : options.policy_name,
           options.arena_bytes >> 30, fmt::join(options.topology.host_nodes, ","));
  for (const DeviceConfig& device : options.topology.devices)
    log_info("device {}: {}, {} MiB on node {}, {} workers", device.number,
             device.kind == DeviceKind::coherent ? "coherent" : "isolated", device.capacity >> 20,
             device.node, device.workers);
}

void log_counters(const wherryStats& stats) {
  log_info(
      "the program ends: {} faults, {} pages created, {} moved, {} copied read-mostly, {} evicted, "
      "{} prefetched, {} held",
      stats.faults_missing + stats.faults_minor + stats.faults_write_protect, stats.populated,
      stats.migrated_in, stats.duplicated, stats.evicted, stats.prefetched, stats.held);
}

CUresult refuse_late_policy() {
  return fail(CUDA_ERROR_NOT_PERMITTED,
              "the library runs already; choose the policy before cuInit");
}

}  // namespace

CUresult Driver::start() {
  // Before the lock is taken: a child may have inherited it from a thread that held it.
  if (const ForkMark* mark = the_mark; mark != nullptr && !mark->is_here()) {
    return fail(CUDA_ERROR_NOT_INITIALIZED,
                "a child of fork() cannot use the library; start another program in it (exec)");
  }
  const LockGuard guard(start_lock);
  if (the_driver.load() != nullptr) return CUDA_SUCCESS;
  try {
    read_log_level();
    complain_about_environment();
    if (runs_in_valgrind()) {
      log_error(
          "cannot start in valgrind: it has no userfaultfd and no room for the addresses of "
          "managed memory; use gdb or AddressSanitizer (docs/debugging.md)");
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "the library does not work in valgrind; use gdb or "
                  "AddressSanitizer (docs/debugging.md)");
    }
    if (const std::size_t bytes = linux_page_size(); bytes != page_size) {
      log_error(
          "cannot start: Linux has pages of {} KiB here, and the library needs pages of 4 KiB; "
          "boot "
          "a kernel with such pages (docs/limits.md)",
          bytes >> 10);
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "Linux has pages of {} KiB here; the library needs pages of 4 KiB "
                  "(docs/limits.md)",
                  bytes >> 10);
    }
    OptionsError problem;
    const auto options = RuntimeOptions::from_environment(problem, the_policy);
    if (!options) {
      if (problem.kind == OptionsError::Kind::no_device)
        return fail(CUDA_ERROR_NO_DEVICE,
                    "CUDA_VISIBLE_DEVICES names none of the devices; unset it, or name one");
      log_error("{}", problem.message);
      return fail(to_result(problem.kind), "{}", problem.message);
    }
    // Not deleted if the start fails: another thread may be reading it.
    the_mark = new ForkMark;
    // Before devices are forked, so that they inherit it.
    attach_to_system_calls(options->serves_system_calls());
    the_driver = new Driver(*options);
    if (the_driver.load()->trace() != nullptr) std::atexit(finish_trace);
    std::at_quick_exit(end_devices);
    ::pthread_atfork(impl::before_fork, impl::after_fork, in_forked_child);
    log_start(the_driver.load()->runtime());
    return CUDA_SUCCESS;
  } catch (const std::system_error& error) {
    the_mark = nullptr;
    const std::string limits = limits_in_force();
    log_error("cannot start: {}{}{}", error.what(), limits.empty() ? "" : "; limits: ", limits);
    return fail(to_result(error), "cannot start: {}", error.what());
  } catch (const std::invalid_argument& error) {
    the_mark = nullptr;
    log_error("cannot start: {}", error.what());
    return fail(CUDA_ERROR_INVALID_VALUE, "cannot start: {}", error.what());
  } catch (const std::bad_alloc&) {
    the_mark = nullptr;
    return refuse_own_data();
  }
}

CUresult Driver::set_policy(const char* text) {
  if (text == nullptr) return fail(CUDA_ERROR_INVALID_VALUE, "policy is NULL; pass a name");
  if (the_mark.load() != nullptr) return refuse_late_policy();
  try {
    // Not under the lock: a shared object that is loaded here may register policies.
    auto source = find_policy(text);
    if (const auto* wrong = std::get_if<std::string>(&source)) {
      log_line("wherrySetPolicy: {}", *wrong);
      return fail(CUDA_ERROR_INVALID_VALUE, "{}", *wrong);
    }
    const LockGuard guard(start_lock);
    if (the_mark.load() != nullptr) return refuse_late_policy();
    the_policy = {text, std::get<PolicySource>(std::move(source))};
    log_info("the program chooses the policy {}", text);
    return CUDA_SUCCESS;
  } catch (const std::bad_alloc&) {
    return refuse_own_data();
  }
}

CUresult Driver::add_policy(const char* name, unsigned version, wherry::make_policy* make) {
  if (the_mark.load() != nullptr) return refuse_late_policy();
  try {
    return refuse_policy(register_policy(name, version, make), name, version);
  } catch (const std::bad_alloc&) {
    return refuse_own_data();
  }
}

void Driver::end_devices() {
  Driver* driver = current();
  if (driver == nullptr) return;
  for (const auto& device : driver->devices_) device->engine.program_ends();
  if (is_logged(LogLevel::info)) log_counters(driver->runtime_.inspector().stats());
  driver->runtime_.devices().end_all();
}

Driver* Driver::current() {
  Driver* driver = the_driver.load(std::memory_order_acquire);
  return driver != nullptr && the_mark.load(std::memory_order_relaxed)->is_here() ? driver
                                                                                  : nullptr;
}

Driver::Driver(const RuntimeOptions& options)
    : launches_block_(options.launches_block), runtime_(options) {
  for (int ordinal = 0; ordinal < runtime_.device_count(); ++ordinal) {
    devices_.push_back(std::make_unique<Device>(ordinal, contexts_.reserve()));
    devices_.back()->engine.attach(make_target(ordinal));
  }
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
  if (!context) return false;  // another thread was faster
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
  // Threads of the program cannot be ended from outside.
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
  // The thread that destroyed the module may have looked for its functions before this one was
  // entered.
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
  // The thread that destroyed the context may have looked for its modules before this one was
  // entered.
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
