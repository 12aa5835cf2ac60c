#include "objects/start.h"

#include <fmt/ranges.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "base/environment.h"
#include "base/log.h"
#include "base/page.h"
#include "memory/system_calls.h"
#include "objects/driver.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"
#include "os/process/fork_mark.h"
#include "os/process/machine_names.h"
#include "os/process/resource_limits.h"
#include "os/process/thread.h"
#include "os/process/valgrind.h"
#include "trap/child_accesses.h"

namespace wherry::impl {

namespace {

constinit Mutex start_lock{LockOrder::start};
// Tells the host process from its children. Set by the first start() before it forks any process.
std::atomic<const ForkMark*> the_mark = nullptr;
std::atomic<Driver*> the_driver = nullptr;
// Set by wherrySetPolicy(); without a source if that was not called. Guarded by start_lock. Never
// destroyed, like the driver.
NamedPolicy& the_policy = *new NamedPolicy;
// True while this thread forks a device process, and in that process. The fork handlers do nothing
// then: device processes drop what they do not need themselves.
thread_local bool starts_device = false;

// The driver for which the handlers of this thread's current fork act. Null if the application does
// not fork in this thread, or there is no driver, as in a child of an earlier fork.
thread_local Driver* forking = nullptr;
// Signals are blocked while the thread forks: a signal handler of the application that forks, too,
// would wait for this fork.
thread_local SavedSignals signals_of_fork;
// Cancellation is disabled in fork handlers: it would leave locks behind, or end the child.
thread_local SavedCancellation cancellation_of_fork;

void before_fork() {
  Driver* const driver = starts_device ? nullptr : Driver::current();
  if (driver == nullptr) return;
  // Signals are blocked first: a signal handler that forks uses the same variables.
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

void log_counters(const wherryStats& stats) {
  log_info(
      "the program ends: {} faults, {} pages created, {} moved, {} copied read-mostly, {} evicted, "
      "{} prefetched, {} held",
      stats.faults_missing + stats.faults_minor + stats.faults_write_protect, stats.populated,
      stats.migrated_in, stats.duplicated, stats.evicted, stats.prefetched, stats.held);
}

// At the program's end: ends and reaps the device processes. Managed memory stays usable on the
// host. Does nothing in a forked child.
void end_devices() {
  if (Driver* driver = Driver::current()) {
    driver->end_work();
    if (is_logged(LogLevel::info)) log_counters(driver->runtime().inspector().stats());
    driver->end_devices();
  }
}

// Runs after everything that the program registered with atexit(), and after the destructors of its
// static objects: these run before the destructors of the libraries that the program needs.
[[gnu::destructor]] void end_devices_at_exit() {
  end_devices();
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

CUresult refuse_late_policy() {
  return fail(CUDA_ERROR_NOT_PERMITTED,
              "the library runs already; choose the policy before cuInit");
}

}  // namespace

DeviceStart::DeviceStart() {
  starts_device = true;
}

DeviceStart::~DeviceStart() {
  starts_device = false;
}

Driver* Driver::current() {
  Driver* driver = the_driver.load(std::memory_order_acquire);
  return driver != nullptr && the_mark.load(std::memory_order_relaxed)->is_here() ? driver
                                                                                  : nullptr;
}

CUresult start_driver() {
  // Checked before the lock, which a child may have inherited from a thread that held it.
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
    // If the start fails the mark is not deleted: another thread may be reading it.
    the_mark = new ForkMark;
    // Attached before devices are forked, so that they inherit it.
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

CUresult set_policy(const char* text) {
  if (text == nullptr) return fail(CUDA_ERROR_INVALID_VALUE, "policy is NULL; pass a name");
  if (the_mark.load() != nullptr) return refuse_late_policy();
  try {
    // Called without the lock: a shared object that is loaded here may register policies.
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

CUresult add_policy(const char* name, unsigned version, wherry::make_policy* make) {
  if (the_mark.load() != nullptr) return refuse_late_policy();
  try {
    return refuse_policy(register_policy(name, version, make), name, version);
  } catch (const std::bad_alloc&) {
    return refuse_own_data();
  }
}

}  // namespace wherry::impl
