#include "runtime/device_supervisor.h"

#include <cerrno>

#include "base/log.h"
#include "os/files/fd.h"
#include "os/process/thread.h"

namespace wherry::impl {

DeviceSupervisor::DeviceSupervisor(const Parts& parts)
    : parts_(parts), processes_(static_cast<std::size_t>(parts.options.device_count())) {}

std::shared_ptr<DeviceProcess> DeviceSupervisor::fork(DeviceProcessOptions options) {
  // If a signal handler of the application forked now, it would wait for the end of this fork.
  const SignalBlock no_signals;
  parts_.adopted.before_fork();
  try {
    options.withheld = parts_.adopted.unshared_pages();
    auto process = DeviceProcess::start(options);
    parts_.adopted.after_fork(/*child_copies=*/false);
    return process;
  } catch (...) {
    parts_.adopted.after_fork(/*child_copies=*/false);
    throw;
  }
}

std::shared_ptr<const FaultSource> DeviceSupervisor::start(int device) {
  const DeviceConfig& config = parts_.options.device(device);
  DeviceProcessOptions options;
  options.ordinal = device;
  options.trap = parts_.options.trap;
  options.layout = &parts_.arena.layout();
  options.annex_base = parts_.annex.base();
  options.annex_size = parts_.annex.size();
  options.arena_open = parts_.arena.open_pages();
  options.arena_accessible = traits_of(options.trap.kind).opens_arena;
  options.pools = parts_.pools.descriptors();
  options.own_pool = static_cast<std::size_t>(Processor::device(device).index);
  options.huge_pages = parts_.pools.views_permit_huge_pages();
  options.workers = config.workers;
  options.page_owners = parts_.page_owners.view();
  options.cpus = config.cpus;
  auto& process = process_of(device);
  process = fork(options);
  if (!parts_.live.put(device, process)) {
    process->stop();
    throw_errno(ECANCELED, "the program ends");
  }
  parts_.annex.attach(device, process);
  return parts_.trap.attach_device(device, process);
}

std::vector<std::shared_ptr<const FaultSource>> DeviceSupervisor::fork_all() {
  const LockGuard guard(lock);
  std::vector<std::shared_ptr<const FaultSource>> sources;
  for (int device = 0; device < parts_.options.device_count(); ++device)
    sources.push_back(parts_.options.is_coherent(device) ? nullptr : start(device));
  return sources;
}

void DeviceSupervisor::run(FaultDaemon& daemon) {
  daemon_ = &daemon;
  for (int device = 0; device < parts_.options.device_count(); ++device)
    if (const auto started = process(device)) started->run();
}

std::shared_ptr<DeviceProcess> DeviceSupervisor::process(int device) const {
  const LockGuard guard(lock);
  return processes_[static_cast<std::size_t>(device)];
}

void DeviceSupervisor::restart(int device) {
  if (parts_.options.is_coherent(device)) return;
  const Processor p = Processor::device(device);
  // The old process can use its mappings while it runs. So it ends before the trap forgets it.
  process(device)->stop();
  const LockGuard guard(lock);
  daemon_->listen(p, nullptr);
  {
    // View changes that are under way at the old process fail now, and none begins before the page
    // state is right again. Those that begin after that fail, too, or concern the new process,
    // which sees its own pool everywhere, as the page state says.
    const ViewSwitcher::Pause no_changes(parts_.switcher, p);
    parts_.trap.detach_device(device);
    parts_.blocks.for_each_used([&](BlockIndex, Block& block) {
      const LockGuard block_guard(block.lock);
      block.unmapped(p);
    });
  }
  const auto source = start(device);
  daemon_->listen(p, source);
  process_of(device)->run();
}

bool DeviceSupervisor::open_arena(PageSpan needed) {
  const LockGuard guard(lock);
  while (const auto closed = parts_.arena.next_to_open(needed)) {
    if (!open(*closed)) return false;
    parts_.arena.note_opened(*closed);
  }
  return true;
}

bool DeviceSupervisor::open(PageSpan closed) {
  const bool opens = traits_of(parts_.options.trap.kind).opens_arena;
  if (!opens && parts_.options.stripes().are_in_first_file(closed)) return true;
  for (const auto& pool : parts_.pools.all())
    if (pool->open(closed) != 0) return false;
  for (const auto& process : processes_) {
    if (!process) continue;
    // If a device's process has ended, the next one opens these pages when it starts.
    const int error = process->open_arena(closed);
    if (error != 0 && error != ESRCH) return false;
  }
  return parts_.trap.open_host(closed) == 0;
}

bool DeviceSupervisor::load_module(const std::string& module, std::uintptr_t address) {
  const LockGuard guard(lock);
  bool all = true;
  for (std::size_t device = 0; device < processes_.size(); ++device) {
    const auto& process = processes_[device];
    if (!process) continue;  // the next process inherits it; a coherent device has it
    const auto why = process->adopt_module(address);
    if (!why) continue;
    log_line("{} cannot run on device {} before that is reset: {}", module, device, *why);
    all = false;
  }
  return all;
}

void DeviceSupervisor::show(const PlacedPages& placed) {
  for (const auto& process : processes_) {
    // Devices without a process find the pages in the layout when they start.
    const int error = process ? process->place(placed) : ESRCH;
    if (error == 0 || error == ESRCH) continue;
    log_error("device process {} cannot have managed variables (errno {}): it is ended",
              process->pid(), error);
    process->stop();
  }
}

}  // namespace wherry::impl
