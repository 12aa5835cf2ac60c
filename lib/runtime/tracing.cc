#include "runtime/tracing.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/mpi_rank.h"
#include "devices/device_process.h"
#include "machine/policy_machine.h"
#include "machine/policy_source.h"
#include "os/files/new_file.h"
#include "os/memory/numa.h"
#include "os/process/command_line.h"
#include "os/process/machine_names.h"
#include "os/process/process.h"
#include "policy/policies.h"
#include "trace/recorder.h"
#include "trace/trace_name.h"
#include "trap/trap.h"

namespace wherry::impl {
namespace {

// Events in each ring: as many as one thread has been seen to record in a tenth of a second, which
// is ten times the interval between two rounds of the writer. Larger rings would not stay in a
// cache.
constexpr std::size_t ring_capacity = 32768;
// Bytes of the program's command line that a trace keeps.
constexpr std::size_t command_line_max = 4096;

TraceProcessor describe(const DeviceConfig& device) {
  return {device.kind == DeviceKind::coherent ? TraceProcessor::Kind::coherent
                                              : TraceProcessor::Kind::isolated,
          device.concurrent,
          device.capacity,
          static_cast<std::uint32_t>(device.workers),
          {static_cast<std::uint32_t>(device.node)}};
}

std::uint64_t unix_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

TraceMachine describe(const Runtime& runtime, std::uint64_t start_ns) {
  const RuntimeOptions& options = runtime.options();
  TraceMachine machine;
  machine.start_ns = start_ns;
  machine.start_unix_ns = unix_ns() - (now_ns() - start_ns);
  machine.process = static_cast<std::uint64_t>(own_pid());
  machine.page_bytes = page_size;
  machine.block_bytes = block_size;
  machine.region_bytes = options.region_pages * page_size;
  machine.arena_base = runtime.layout().base();
  machine.arena_bytes = runtime.layout().row_bytes();
  machine.program = command_line(command_line_max);
  if (machine.program.empty()) machine.program = program_invocation_name;
  machine.trap = to_string(options.trap);
  TraceProcessor host;
  host.capacity = options.topology.host_capacity;
  for (const int node : options.topology.host_nodes)
    host.nodes.push_back(static_cast<std::uint32_t>(node));
  machine.processors.push_back(std::move(host));
  for (const DeviceConfig& device : options.topology.devices)
    machine.processors.push_back(describe(device));
  return machine;
}

TraceSettings settings_of(const Runtime& runtime) {
  const RuntimeOptions& options = runtime.options();
  const PolicyMachine machine = policy_machine_of(options.topology);
  TraceSettings settings;
  settings.policy = options.policy_name.empty() ? automatic_policy : options.policy_name;
  settings.policy_in_force = name_in_force(options.policy_name, machine.access_costs);
  settings.version = WHERRY_VERSION;
  settings.kernel = kernel_release();
  settings.cpu = cpu_model();
  settings.cpus = static_cast<std::uint32_t>(options.handler_cpus.size());
  settings.nodes = static_cast<std::uint32_t>(read_machine().nodes.size());
  settings.environment = settings_in_environment();
  return settings;
}

const char* why_not_created(int error) {
  if (error == EINVAL) return "it is no regular file";
  if (error == EBUSY)
    return "another process is writing it; with %p (process) or %r (MPI rank) in WHERRY_TRACE each "
           "process has a file of its own";
  return std::strerror(error);
}

}  // namespace

PendingTrace::PendingTrace() {
  const char* const pattern = environment_value("WHERRY_TRACE");
  if (pattern == nullptr || *pattern == '\0') return;
  auto name = trace_file_name(pattern, own_pid(), mpi_rank().value_or(0));
  if (const auto* wrong = std::get_if<TraceNameError>(&name)) {
    log_line("no trace {} is written: {}", pattern, wrong->message);
    return;
  }
  start_ns_ = now_ns();
  try {
    if (start_recording(EventReader::trace, all_event_kinds, ring_capacity))
      path_ = std::get<std::string>(std::move(name));
  } catch (const std::system_error& error) {
    log_line("no trace {} is written: {}", pattern, error.what());
  }
}

void PendingTrace::give_up() {
  if (!path_.empty()) (void)stop_recording(EventReader::trace);
  path_.clear();
}

std::unique_ptr<TraceWriter> PendingTrace::start(const Runtime& runtime) {
  if (path_.empty()) return nullptr;
  Fd file;
  if (const int error = create_in_place_of(path_, file)) {
    log_line("no trace {} is written: {}", path_, why_not_created(error));
    give_up();
    return nullptr;
  }
  return std::make_unique<TraceWriter>(std::move(file), std::exchange(path_, {}),
                                       describe(runtime, start_ns_), settings_of(runtime),
                                       describe_code_address);
}

}  // namespace wherry::impl
