#include "devices/device_process.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
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
#include "devices/kernel_module.h"
#include "devices/launch_board.h"
#include "devices/module_image.h"
#include "os/memory/loader_memory.h"
#include "os/memory/mapping.h"
#include "os/memory/own_heap.h"
#include "os/memory/shared_memory.h"
#include "os/process/credentials.h"
#include "os/process/other_process.h"
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

// A device that has not answered a command within this time is overdue.
constexpr std::uint64_t overdue_ns = 1'000'000'000;
// The host ends a device that does not answer in time, but not while Linux delays it, because a
// device's memory is lost with it. Where CPUs are busy, one call of Linux has held a process's
// mapping lock for 20 s (MADV_COLLAPSE, which waits in lru_add_drain_all() for each CPU).
constexpr std::uint64_t delay_limit_ns = 30'000'000'000;
constexpr std::uint64_t delay_check_ns = 100'000'000;
// The pause before the host looks again whether it may send a command.
constexpr std::chrono::microseconds agent_pause{50};
// The pause before the host tries again to receive an answer.
constexpr std::chrono::milliseconds receive_pause{1};
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
  enum class Answer {
    welcome,  // the host waits a second at most
    needed,   // the host waits until the command's limit
  };
  int send_command(const CommandMessage& command, int passed = -1, std::uint64_t* value = nullptr)
      EXCLUDES(agent_lock);
  // Sends a command whose failure does no harm: waits a second at most, and not for an overdue
  // process.
  int send_command_briefly(const CommandMessage& command) EXCLUDES(agent_lock);
  int send_locked(CommandMessage command, Answer answer, int passed, std::uint64_t* value)
      REQUIRES(agent_lock);
  // Receives the answer to the last command. Returns 0, ETIMEDOUT or ESRCH, or another errno of
  // the socket.
  int receive_reply(Patience patience, Reply& reply) REQUIRES(agent_lock);
  // receive_reply(), but waits beyond the limit while Linux delays the agent.
  int receive_late_reply(std::uint64_t limit_ns, Reply& reply) REQUIRES(agent_lock);
  // Locks agent_lock. Returns false, without the lock, if the process is overdue.
  bool try_lock_agent() WHERRY_TSA(try_acquire_capability(true, agent_lock));
  bool is_overdue() EXCLUDES(agent_lock);
  int send_image(const ModuleImage& image) EXCLUDES(agent_lock);
  bool has_adopted(std::uintptr_t address) const REQUIRES(modules_lock);
  std::optional<std::uintptr_t> find_late_kernel(std::uintptr_t address) REQUIRES(modules_lock);
  int kill() const;
  void kill_and_wait() const;
  void reap_if_ours() EXCLUDES(end_lock);

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
  Fd socket;
  Fd userfaultfd;  // the device's; empty if it has none

  // The agent did not answer the last command within a second, nor since. Written under agent_lock.
  std::atomic<bool> overdue{false};
  // The last command that failed (its number among the alternatives of Command), and its errno.
  std::atomic<std::uint32_t> failed_command{0};
  std::atomic<int> failed_with{0};
  Mutex agent_lock{LockOrder::agent};
  std::uint32_t last_number GUARDED_BY(agent_lock) = 0;
  Mutex modules_lock{LockOrder::modules};
  // Addresses in the device of kernels whose modules the device had to load. Cleared when the host
  // unloads a module.
  std::unordered_map<std::uintptr_t, std::uintptr_t> late_kernels GUARDED_BY(modules_lock);
  std::uint64_t late_unloads GUARDED_BY(modules_lock) = 0;
  // Extents of adopted modules, which are never unloaded.
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
  std::tie(socket, start->socket) = make_socket_pair();
  for (const PoolFiles& pool : options.pools)
    start->descriptors.insert(start->descriptors.end(), pool.fds.begin(), pool.fds.end());
  start->descriptors.insert(start->descriptors.end(),
                            {start->socket.get(), start->host_pidfd.get(), completion.get()});
  if (fault_notifier) start->descriptors.push_back(fault_notifier.get());
  std::ranges::sort(start->descriptors);
  process = spawn_process(method, run_agent, start.get());
  start->socket.reset();

  StartReport report;
  auto received = receive_message(socket, std::as_writable_bytes(std::span(&report, 1)), patience);
  if (received && report.error == 0) {
    userfaultfd = std::move(received.passed);
    return 0;
  }
  kill_and_wait();
  reap_if_ours();
  if (received.error == ETIMEDOUT) return ETIMEDOUT;
  if (!received) throw_errno(received.error, "device process ended while it started");
  report.what[sizeof report.what - 1] = '\0';
  throw_errno(report.error, fmt::format("device process, {}", report.what));
}

int DeviceProcess::State::kill() const {
  const int error = kill_process(process.pidfd);
  if (error == EPERM) shut_down(socket);
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

int DeviceProcess::State::send_command(const CommandMessage& command, int passed,
                                       std::uint64_t* value) {
  const LockGuard guard(agent_lock);
  check_wait();
  const int error = send_locked(command, Answer::needed, passed, value);
  if (error != 0) {
    failed_command = command.kind();
    failed_with = error;
  }
  return error;
}

int DeviceProcess::State::send_command_briefly(const CommandMessage& command) {
  if (!try_lock_agent()) return ETIMEDOUT;
  const AdoptGuard guard(agent_lock);
  check_wait();
  return send_locked(command, Answer::welcome, -1, nullptr);
}

bool DeviceProcess::State::try_lock_agent() {
  while (!is_overdue()) {
    if (agent_lock.try_lock()) return true;
    std::this_thread::sleep_for(agent_pause);  // another command is under way
  }
  return false;
}

int DeviceProcess::State::send_locked(CommandMessage command, Answer answer, int passed,
                                      std::uint64_t* value) {
  command.set_number(++last_number);
  if (const int error = send_message(socket, command.bytes(), passed))
    return error == EPIPE ? ESRCH : error;
  Reply reply;
  const std::uint64_t brief_ns = std::min(overdue_ns, options.command_limit_ns);
  int error = receive_reply(Patience(brief_ns, AtLimit::goes_on), reply);
  if (error == ETIMEDOUT) overdue.store(true);
  if (error == ETIMEDOUT && answer == Answer::needed)
    error = receive_late_reply(options.command_limit_ns - brief_ns, reply);
  if (error != 0) return error;
  overdue.store(false);
  // The agent's error is an errno. Any other value means that the memory was overwritten.
  constexpr int errno_max = 4095;
  if (reply.error < 0 || reply.error > errno_max) return EPROTO;
  if (value != nullptr) *value = reply.value;
  return reply.error;
}

int DeviceProcess::State::receive_late_reply(std::uint64_t limit_ns, Reply& reply) {
  int error = receive_reply(Patience(limit_ns), reply);
  for (Patience delay(delay_limit_ns);
       error == ETIMEDOUT && !delay.is_over() && is_delayed_by_linux(process.pid);
       delay.note_wait())
    error = receive_reply(Patience(delay_check_ns, AtLimit::goes_on), reply);
  return error;
}

int DeviceProcess::State::receive_reply(Patience patience, Reply& reply) {
  for (;;) {
    const int error =
        receive_message(socket, std::as_writable_bytes(std::span(&reply, 1)), patience).error;
    // Other numbers belong to late answers to commands that timed out.
    if (error == 0 && reply.number == last_number) return 0;
    if (error == 0) continue;
    // The device has received the command. If this process lacks memory, the answer still arrives.
    const bool is_transient = error == ENOMEM || error == ENOBUFS || error == EAGAIN;
    if (!is_transient && error != ETIMEDOUT) return error == EPIPE ? ESRCH : error;
    if (!is_transient || patience.is_over()) return ETIMEDOUT;
    std::this_thread::sleep_for(receive_pause);
    patience.note_wait();
  }
}

bool DeviceProcess::State::is_overdue() {
  // While another thread waits for the answer, it holds agent_lock and notices the answer.
  if (!overdue.load() || !agent_lock.try_lock()) return overdue.load();
  const AdoptGuard guard(agent_lock);
  Reply reply;
  while (overdue.load() && receive_message(socket, std::as_writable_bytes(std::span(&reply, 1))))
    if (reply.number == last_number) overdue.store(false);
  return overdue.load();
}

int DeviceProcess::State::send_image(const ModuleImage& image) {
  command::AdoptImage command{
      .extent = image.extent, .unwind_info = image.unwind_info, .count = image.segments.size()};
  std::ranges::copy(image.segments, command.segments);
  return send_command(command, image.contents.get());
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
  // Sent without agent_lock: a thread with a command in progress gets ESRCH.
  const int error = send_message(state_->socket, CommandMessage(command::Quit{}).bytes());
  if (error != 0 ||
      !impl::wait_for_end(state_->process.pidfd, Patience(quit_limit_ns, AtLimit::goes_on)))
    state_->kill_and_wait();
  state_->reap_if_ours();
  log_info("device process {} has ended", pid());
}

void DeviceProcess::give_up() {
  log_error("device process {} does not answer: Wherry ends it (command {}, errno {})", pid(),
            state_->failed_command.load(), state_->failed_with.load());
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
  if (const int error = state_->send_command(command::Run{}))
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
  return end_if_silent(state_->send_command(command::OpenArena{pages}));
}

int DeviceProcess::forbid(std::uintptr_t address, std::size_t bytes) {
  return state_->send_command_briefly(command::Forbid{{address, address + bytes}});
}

int DeviceProcess::change_view(const FileView& view, std::size_t owner) {
  return state_->send_command(command::ChangeView{view, owner});
}

int DeviceProcess::place(const PlacedPages& placed) {
  return state_->send_command(command::PlacePages{placed});
}

int DeviceProcess::forget_entries(std::span<const PageSpan> runs) {
  command::ForgetEntries command{.count = runs.size()};
  std::ranges::copy(runs, std::begin(command.runs));
  return state_->send_command_briefly(command);
}

bool DeviceProcess::is_overdue() {
  return state_->is_overdue();
}

int DeviceProcess::map_file(std::uintptr_t address, std::size_t bytes, int fd, std::uint64_t offset,
                            Access access) {
  return state_->send_command(command::MapFile{{address, bytes, offset}, access}, fd);
}

int DeviceProcess::unmap_file(std::uintptr_t address, std::size_t bytes) {
  return state_->send_command(command::UnmapFile{{address, address + bytes}});
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
      const int error = end_if_silent(state.send_command(command, /*passed=*/-1, &base));
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
