#include "devices/device_process.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/page.h"
#include "base/patience.h"
#include "devices/agent.h"
#include "devices/agent_commands.h"
#include "devices/agent_link.h"
#include "devices/kernel_module.h"
#include "devices/launch_board.h"
#include "devices/module_image.h"
#include "os/memory/loader_memory.h"
#include "os/memory/mapping.h"
#include "os/memory/own_heap.h"
#include "os/memory/shared_memory.h"
#include "os/process/credentials.h"
#include "os/process/poll.h"
#include "os/process/process.h"
#include "os/process/resource_limits.h"
#include "os/process/socket.h"

namespace wherry::impl {
namespace {

// A fork may copy a lock that another thread holds, for example of an allocator that is not
// prepared for fork(), such as AddressSanitizer's. Such a device never starts, and the next attempt
// probably does. Only the last attempt gets the time that a slow machine may need.
constexpr int start_attempts = 4;
constexpr std::uint64_t attempt_limit_ns = 1'200'000'000;
constexpr std::uint64_t last_attempt_limit_ns = 5'000'000'000;
constexpr std::uint64_t quit_limit_ns = 1'000'000'000;
constexpr std::uint64_t kill_limit_ns = 5'000'000'000;
// Addresses for the device's own mappings: its heap, its threads' stacks, modules.
constexpr std::size_t window_bytes = std::size_t{64} << 30;

// Whether devices see less of the program's address space than a fork gives them. That is
// impossible if an address space limit leaves no space for the mappings that hide it, or if /proc,
// which lists the mappings, is not mounted.
bool masks_address_space() {
  return !runs_under_sanitizer() && address_space_limit() == unlimited &&
         !read_address_map().empty();
}

// The pause between two checks whether a module has been loaded. It starts short, as most modules
// load within a millisecond.
constexpr std::chrono::microseconds load_pause_min{100};
constexpr std::chrono::microseconds load_pause_max{10'000};

// Whether some variables of the module at this address are managed memory. Loading the module a
// second time at another address would give it a second set of variables.
bool has_placed_pages(const ArenaLayout& layout, std::uintptr_t address) {
  return std::ranges::any_of(loaded_modules(), [&](const ModuleIdentity& module) {
    return module.extent.contains(address) &&
           layout.for_each_placed([&](const PlacedPages& placed) {
             return module.extent.contains(placed.address) ? 1 : 0;
           }) != 0;
  });
}

void copy_environment(AgentStart& start) {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    start.variables.emplace_back(*variable);
  for (std::string& variable : start.variables) start.environment.push_back(variable.data());
  start.environment.push_back(nullptr);
}

}  // namespace

struct DeviceProcess::State {
  // Memory that the host and the device share. All zero when it is new.
  struct Boards {
    LaunchBoard launches;
    FaultBoard faults;
  };

  State(const DeviceProcessOptions& given, Mapping reserved)
      : options(given),
        window(std::move(reserved)),
        shared(fmt::format("wherry-boards-dev{}", given.ordinal), sizeof(Boards)),
        boards(new (shared.data()) Boards),
        poster(boards->launches, given.workers),
        completion(make_eventfd()),
        fault_notifier(traits_of(given.trap.kind).signals_devices ? make_semaphore() : Fd()) {}

  std::unique_ptr<AgentStart> make_agent_start() const;
  // Makes one attempt to start the device. Returns ETIMEDOUT if it did not report. Throws if
  // another attempt cannot succeed.
  int try_start(Patience patience);
  int send_image(const ModuleImage& image);
  bool has_adopted(std::uintptr_t address) const REQUIRES(modules_lock);
  std::optional<std::uintptr_t> find_late_kernel(std::uintptr_t address) REQUIRES(modules_lock);
  int kill() const;
  void kill_and_wait() const;
  void reap_if_ours() EXCLUDES(end_lock);
  // For messages: " (signal 11)", " (exit code 1)", or "" where Linux does not say it.
  std::string how_it_ended() EXCLUDES(end_lock);

  const DeviceProcessOptions options;
  const pid_t owner = ::getpid();
  // Stays reserved, so that the host never maps anything at a device's addresses.
  const Mapping window;
  const SharedMemory shared;
  Boards* const boards;
  LaunchPoster poster;
  const Fd completion;
  const Fd fault_notifier;       // empty: the device posts no faults
  const ModuleSnapshot modules;  // from before the fork
  const std::vector<ModuleIdentity> inherited = loaded_modules();  // before the fork
  const SpawnMethod method = choose_spawn_method();
  const Credentials credentials = Credentials::of_this_thread();

  SpawnedProcess process;
  AgentLink link{options.command_limit_ns};
  Fd userfaultfd;  // the device's; empty if it has none

  Mutex modules_lock{LockOrder::modules};
  // Addresses in the device of kernels whose modules the device had to load. Cleared when the host
  // unloads a module.
  std::unordered_map<std::uintptr_t, std::uintptr_t> late_kernels GUARDED_BY(modules_lock);
  std::uint64_t late_unloads GUARDED_BY(modules_lock) = 0;
  // Extents of modules that the device has as images (module_image.h); none is ever unloaded.
  std::vector<AddressRange> adopted GUARDED_BY(modules_lock);

  Mutex end_lock{LockOrder::device_end};
  std::optional<ProcessEnd> end GUARDED_BY(end_lock);
};

std::unique_ptr<AgentStart> DeviceProcess::State::make_agent_start() const {
  auto start = std::make_unique<AgentStart>();
  start->name = fmt::format("wherry-dev{}", options.ordinal);
  start->options = &options;
  start->board = &boards->launches;
  start->faults = &boards->faults;
  start->host = own_pid();
  start->host_pidfd = open_own_pidfd();
  start->c_library_code = code_of_c_library();
  start->completion = &completion;
  start->fault_notifier = fault_notifier.get();
  copy_environment(*start);
  if (window.size() == 0) return start;
  start->window = {window.address(), window.address() + window.size()};
  start->kept = ranges_needed_to_run();
  start->kept.push_back(start->window);
  start->kept.push_back({shared.address(), shared.address() + round_up(shared.size(), page_size)});
  const ArenaLayout& layout = *options.layout;
  start->kept.push_back({layout.base(), layout.base() + layout.bytes()});
  layout.for_each_placed([&](const PlacedPages& placed) {
    start->kept.push_back({placed.address, placed.address + placed.pages.bytes()});
    return 0;
  });
  if (options.annex_size != 0)
    start->kept.push_back({options.annex_base, options.annex_base + options.annex_size});
  const auto owners = reinterpret_cast<std::uintptr_t>(options.page_owners.bytes);
  if (owners != 0)
    start->kept.push_back({owners, owners + round_up(options.page_owners.size(), page_size)});
  start->kept.push_back(own_heap_range());
  start->hide_memory = method != SpawnMethod::risky_clone && uses_standard_malloc();
  const bool checks = environment("WHERRY_CHECK") == "1";
  if (checks && !start->hide_memory)
    log_line(
        "WHERRY_CHECK is off in device {}: the program's malloc is not the C library's, or the "
        "device had to be cloned while threads were running",
        options.ordinal);
  start->guards_snapshot = checks && start->hide_memory;
  if (start->guards_snapshot) {
    start->guard = plan_snapshot_guard();
    layout.for_each_placed([&](const PlacedPages& placed) {
      start->kept_variables.push_back({placed.address, placed.address + placed.pages.bytes()});
      return 0;
    });
  }
  return start;
}

int DeviceProcess::State::try_start(Patience patience) {
  const auto start = make_agent_start();
  start->socket = std::move(link.agent_end());
  for (const PoolFiles& pool : options.pools)
    start->descriptors.insert(start->descriptors.end(), pool.fds.begin(), pool.fds.end());
  start->descriptors.insert(start->descriptors.end(),
                            {start->socket.get(), start->host_pidfd.get(), completion.get()});
  if (fault_notifier) start->descriptors.push_back(fault_notifier.get());
  std::ranges::sort(start->descriptors);
  process = spawn_process(method, run_agent, start.get());
  start->socket.reset();
  link.start(process.pid);

  StartReport report;
  auto received =
      receive_message(link.socket(), std::as_writable_bytes(std::span(&report, 1)), patience);
  if (received && report.error == 0) {
    userfaultfd = std::move(received.passed);
    return 0;
  }
  kill_and_wait();
  reap_if_ours();
  if (received.error == ETIMEDOUT) return ETIMEDOUT;
  if (!received)
    throw_errno(received.error, "device process ended while it started" + how_it_ended());
  report.what[sizeof report.what - 1] = '\0';
  throw_errno(report.error, fmt::format("device process, {}", report.what));
}

int DeviceProcess::State::kill() const {
  const int error = kill_process(process.pidfd);
  if (error == EPERM) shut_down(link.socket());
  return error;
}

// Kills the process, and gives Linux a while to carry it out.
void DeviceProcess::State::kill_and_wait() const {
  const int error = kill();
  if (impl::wait_for_end(process.pidfd, Patience(kill_limit_ns, AtLimit::goes_on))) return;
  log_error("device process {} does not end: {}; end it by hand", process.pid,
            error == EPERM ? "it is stopped, and the program no longer has its credentials"
                           : "Linux has not carried out SIGKILL");
}

void DeviceProcess::State::reap_if_ours() {
  const LockGuard guard(end_lock);
  if (process.ours && !end) end = reap(process.pidfd);
}

std::string DeviceProcess::State::how_it_ended() {
  const LockGuard guard(end_lock);
  if (!end) return {};
  return fmt::format(" ({} {})", end->by_signal ? "signal" : "exit code", end->code);
}

int DeviceProcess::State::send_image(const ModuleImage& image) {
  command::AdoptImage command{
      .extent = image.extent, .unwind_info = image.unwind_info, .count = image.segments.size()};
  std::ranges::copy(image.segments, command.segments);
  return link.send(command, image.contents.get());
}

bool DeviceProcess::State::has_adopted(std::uintptr_t address) const {
  return std::ranges::any_of(adopted,
                             [&](const AddressRange& module) { return module.contains(address); });
}

std::unique_ptr<DeviceProcess> DeviceProcess::start(const DeviceProcessOptions& options) {
  WHERRY_CHECK(options.workers > 0, "{} workers", options.workers);
  for (int attempt = 1;; ++attempt) {
    auto state = std::make_unique<State>(
        options, masks_address_space() ? Mapping::reserve(window_bytes, block_size) : Mapping());
    const bool is_last = attempt == start_attempts;
    const int error = state->try_start(is_last ? Patience(last_attempt_limit_ns)
                                               : Patience(attempt_limit_ns, AtLimit::goes_on));
    if (error == 0) {
      state->shared.hide_from_forks();
      log_info("device {} runs in process {}, with {} workers", options.ordinal, state->process.pid,
               options.workers);
      return std::unique_ptr<DeviceProcess>(new DeviceProcess(std::move(state)));
    }
    if (is_last)
      throw_errno(error,
                  "device process does not start; maybe other threads used an allocator that is "
                  "not prepared for fork()");
  }
}

DeviceProcess::DeviceProcess(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceProcess::~DeviceProcess() {
  stop();
}

void DeviceProcess::stop() {
  // A child that the application has forked must not end the device.
  if (::getpid() != state_->owner) return;
  if (state_->link.ask_to_quit() != 0 ||
      !impl::wait_for_end(state_->process.pidfd, Patience(quit_limit_ns, AtLimit::goes_on)))
    state_->kill_and_wait();
  state_->reap_if_ours();
  log_info("device process {} has ended", pid());
}

void DeviceProcess::give_up() {
  const AgentLink::Failure failed = state_->link.last_failure();
  log_error("device process {} does not answer: Wherry ends it (command {}, errno {})", pid(),
            failed.command, failed.error);
  stop();
}

void DeviceProcess::kill() {
  if (::getpid() == state_->owner) state_->kill();
}

void DeviceProcess::wait_for_end() {
  if (::getpid() != state_->owner) return;
  (void)impl::wait_for_end(state_->process.pidfd, Patience(quit_limit_ns, AtLimit::goes_on));
  state_->reap_if_ours();
}

pid_t DeviceProcess::pid() const {
  return state_->process.pid;
}
int DeviceProcess::pidfd() const {
  return state_->process.pidfd.get();
}
int DeviceProcess::completion_fd() const {
  return state_->completion.get();
}
Fd DeviceProcess::take_userfaultfd() {
  return std::move(state_->userfaultfd);
}
FaultBoard& DeviceProcess::fault_board() {
  return state_->boards->faults;
}
const Fd& DeviceProcess::fault_notifier() const {
  return state_->fault_notifier;
}

void DeviceProcess::run() {
  if (const int error = state_->link.send(command::Run{}))
    throw_errno(error,
                "a device's workers do not run; maybe other threads used an allocator that is not "
                "prepared for fork()");
}

bool DeviceProcess::try_post(const LaunchRequest& request) {
  if (!state_->poster.try_post(request)) return false;
  if (request.items == 0) signal_eventfd(state_->completion);
  return true;
}

std::vector<std::uint64_t> DeviceProcess::take_completed() {
  // Drain first: a launch that finishes after this signals again.
  drain_eventfd(state_->completion);
  return state_->poster.take_completed();
}

bool DeviceProcess::has_completed() const {
  return state_->poster.has_completed();
}

// After a timeout it is unknown whether the device still executes the command. And each further
// call would wait as long for this device.
int DeviceProcess::end_if_silent(int error) {
  if (error != ETIMEDOUT) return error;
  give_up();
  return ESRCH;
}

int DeviceProcess::open_arena(PageSpan pages) {
  return end_if_silent(state_->link.send(command::OpenArena{pages}));
}

int DeviceProcess::forbid(std::uintptr_t address, std::size_t bytes) {
  return state_->link.send_briefly(command::Forbid{{address, address + bytes}});
}

int DeviceProcess::change_view(const FileView& view, std::size_t owner) {
  return state_->link.send(command::ChangeView{view, owner});
}

int DeviceProcess::place(const PlacedPages& placed) {
  return state_->link.send(command::PlacePages{placed});
}

int DeviceProcess::forget_entries(std::span<const PageSpan> runs) {
  command::ForgetEntries command{.count = runs.size()};
  std::ranges::copy(runs, std::begin(command.runs));
  return state_->link.send_briefly(command);
}

bool DeviceProcess::is_overdue() {
  return state_->link.is_overdue();
}

int DeviceProcess::map_file(std::uintptr_t address, std::size_t bytes, int fd, std::uint64_t offset,
                            Access access) {
  return state_->link.send(command::MapFile{{address, bytes, offset}, access}, fd);
}

int DeviceProcess::unmap_file(std::uintptr_t address, std::size_t bytes) {
  return state_->link.send(command::UnmapFile{{address, address + bytes}});
}

std::optional<std::string> DeviceProcess::adopt_module(std::uintptr_t address) {
  State& state = *state_;
  if (state.modules.still_has(address)) return {};
  const LockGuard guard(state.modules_lock);
  const auto is_there = [&](const ModuleIdentity& module) REQUIRES(state.modules_lock) {
    return state.has_adopted(module.extent.start) ||
           std::ranges::count(state.inherited, module) != 0;
  };
  const auto here = loaded_modules();
  const auto module = std::ranges::find_if(
      here, [&](const ModuleIdentity& one) { return one.extent.contains(address); });
  if (module != here.end() && is_there(*module)) return {};
  auto images = copy_modules(address, is_there);
  if (auto* why = std::get_if<std::string>(&images)) return std::move(*why);
  for (const ModuleImage& image : std::get<std::vector<ModuleImage>>(images)) {
    const int error = end_if_silent(state.send_image(image));
    if (error == ESRCH) return {};
    if (error != 0)
      return fmt::format("device {} cannot have it at its address: errno {}", state.options.ordinal,
                         error);
    state.adopted.push_back(image.extent);
  }
  return {};
}

std::optional<std::uintptr_t> DeviceProcess::State::find_late_kernel(std::uintptr_t address) {
  if (has_adopted(address)) return address;
  const std::uint64_t unloads = ModuleCounts::now().unloads;
  if (late_unloads != unloads) late_kernels.clear();
  late_unloads = unloads;
  const auto found = late_kernels.find(address);
  if (found == late_kernels.end()) return {};
  return found->second;
}

std::optional<std::uintptr_t> DeviceProcess::find_kernel(KernelFunction kernel) {
  const auto address = reinterpret_cast<std::uintptr_t>(kernel);
  if (state_->modules.still_has(address)) return address;
  const LockGuard guard(state_->modules_lock);
  return state_->find_late_kernel(address);
}

int DeviceProcess::load_module_of(KernelFunction kernel) {
  const auto address = reinterpret_cast<std::uintptr_t>(kernel);
  State& state = *state_;
  // Called without the lock: the loader may be busy with a constructor that waits for this process.
  const auto location = locate_module(address);
  command::LoadModule command;
  if (!location || location->path.size() >= sizeof command.path ||
      has_placed_pages(*state.options.layout, address))
    return ENOEXEC;
  command.file = location->file;
  std::memcpy(command.path, location->path.c_str(), location->path.size() + 1);
  // The loop has no time limit, because a constructor may take any time. Each answer of the agent
  // has one.
  for (auto pause = load_pause_min;; pause = std::min(2 * pause, load_pause_max)) {
    {
      const LockGuard guard(state.modules_lock);
      if (state.find_late_kernel(address)) return 0;  // another thread was faster
      std::uint64_t base = 0;
      const int error = end_if_silent(state.link.send(command, /*passed=*/-1, &base));
      if (error == 0) state.late_kernels[address] = address - location->base + base;
      if (error != EINPROGRESS) return error;
    }
    std::this_thread::sleep_for(pause);
  }
}

bool DeviceProcess::has_credentials_of_caller() const {
  return Credentials::of_this_thread() == state_->credentials;
}

DeviceFailure DeviceProcess::failure() const {
  State& state = *state_;
  state.reap_if_ours();
  if (auto said = read_failure(state.boards->launches.failure)) return *said;
  DeviceFailure failure;
  const LockGuard guard(state.end_lock);
  if (!state.end) return failure;
  if (!state.end->by_signal) failure.kind = DeviceFailure::Kind::exited;
  failure.signal = state.end->code;
  return failure;
}

}  // namespace wherry::impl
