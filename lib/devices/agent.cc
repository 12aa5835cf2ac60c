#include "devices/agent.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "devices/agent_commands.h"
#include "devices/crash_report.h"
#include "devices/kernel_module.h"
#include "memory/touch.h"
#include "os/memory/address_mask.h"
#include "os/memory/loader_memory.h"
#include "os/memory/mapping.h"
#include "os/process/other_process.h"
#include "os/process/poll.h"
#include "os/process/process.h"
#include "os/process/snapshot_guard.h"
#include "os/process/socket.h"
#include "os/process/thread.h"
#include "os/process/thread_pause.h"
#include "os/signals/fatal_signals.h"
#include "trap/trap.h"

namespace wherry::impl {
namespace {

constexpr std::size_t agent_stack_bytes = 1 << 20;
constexpr std::size_t agent_guard_bytes = 1 << 16;

template <typename T>
std::span<const std::byte> bytes_of(const T& message) {
  return std::as_bytes(std::span(&message, 1));
}

[[noreturn]] void fail_start(const AgentStart& start, int error, const char* what) {
  StartReport report;
  report.error = error;
  std::strncpy(report.what, what, sizeof report.what - 1);
  [[maybe_unused]] const int unheard = send_message(start.socket, bytes_of(report));
  ::_exit(1);
}

// How often the watch thread checks whether the host is stopped, and then whether it continues.
constexpr int stop_check_ms = 200;
constexpr int resume_check_ms = 20;

// Ends the process when the host has ended or has shut the socket down. The agent itself cannot
// always notice: it may be blocked in a system call that waits for the host, which has ended.
void end_with_host(const AgentStart& start, int limit_ms) {
  pollfd polled[] = {{start.host_pidfd.get(), POLLIN, 0}, {start.socket.get(), 0, 0}};
  if (poll_descriptors(polled, limit_ms) > 0) ::_exit(0);
}

void watch_host(const AgentStart& start) {
  const pid_t agent = own_pid();
  for (;;) {
    end_with_host(start, stop_check_ms);
    if (!is_stopped(start.host)) continue;
    // The user has stopped the host with Ctrl-Z, so its devices stop their workers, too. The agent
    // keeps running; a stopped host sends it nothing.
    const ThreadPause pause({&agent, 1});
    while (is_stopped(start.host)) end_with_host(start, resume_check_ms);
  }
}

void start_host_watch(const AgentStart& start) {
  install_thread_pause();
  std::thread([&start] {
    const SignalBlock no_signals;
    name_this_thread("wherry-watch");
    watch_host(start);
  }).detach();
}

// The state that the agent changes while it runs.
struct AgentState {
  ArenaLayout layout;
  std::unique_ptr<DeviceTrap> trap;
  BackgroundLoader loader;
};

ViewOptions view_options(const DeviceProcessOptions& options, int userfaultfd) {
  return {userfaultfd, options.huge_pages};
}

// Executes one command. Each function returns 0 or an errno.
struct Executor {
  const AgentStart& start;
  AgentState& state;
  Fd passed;             // the descriptor that was sent with the command
  std::uint64_t& value;  // for the reply

  int operator()(const command::Run&) const {
    try {
      start_host_watch(start);
      start_workers(*start.board, *start.completion,
                    {start.options->ordinal, start.options->workers, start.options->cpus});
    } catch (const std::system_error& error) {
      return error.code().value();
    }
    return 0;
  }
  int operator()(const command::OpenArena& command) const {
    const DeviceProcessOptions& options = *start.options;
    return open_pool_view(state.layout.base(), command.pages, options.pools[options.own_pool],
                          view_options(options, state.trap->userfaultfd()),
                          options.arena_accessible);
  }
  int operator()(const command::Forbid& command) const {
    return set_access(command.range.start, command.range.size(), Access::none);
  }
  int operator()(const command::ChangeView& command) const {
    return show_pool(command.view, command.owner);
  }
  int operator()(const command::PlacePages& command) const {
    const PlacedPages& placed = command.placed;
    state.layout.place(placed);  // before any access there can fault
    return show_pool({placed.address, placed.pages.bytes(), placed.pages.offset()},
                     start.options->own_pool);
  }
  int operator()(const command::ForgetEntries& command) const {
    for (const PageSpan& run : std::span(command.runs).first(command.count))
      if (const int error = forget_entries(state.layout.address_of(run.first), run.bytes(),
                                           state.trap->userfaultfd()))
        return error;
    return 0;
  }
  int operator()(const command::MapFile& command) const {
    const FileView& view = command.view;
    if (const int error = map_file_range(view.start, view.bytes, passed.get(), view.offset,
                                         command.access, /*huge_pages=*/true))
      return error;
    // Not needed in the device's core dump, because the host's has this memory.
    return leave_out_of_core_dumps(view.start, view.bytes);
  }
  int operator()(const command::UnmapFile& command) const {
    return unmap_file_range(command.range.start, command.range.size());
  }
  int operator()(const command::LoadModule& command) const {
    return state.loader.load(command.path, command.file, value);
  }
  int operator()(const command::AdoptImage& command) {
    ModuleImage image;
    image.extent = command.extent;
    image.segments.assign(command.segments, command.segments + command.count);
    image.contents = std::move(passed);
    image.unwind_info = command.unwind_info;
    return adopt_image(image);
  }
  [[noreturn]] int operator()(const command::Quit&) const { ::_exit(0); }

  int show_pool(const FileView& view, std::size_t owner) const {
    return impl::show_pool(view, start.options->pools[owner],
                           view_options(*start.options, state.trap->userfaultfd()));
  }
};

[[noreturn]] void obey_commands(const AgentStart& start, AgentState& state) {
  for (;;) {
    pollfd polled[] = {{start.socket.get(), POLLIN, 0}, {start.host_pidfd.get(), POLLIN, 0}};
    poll_descriptors(polled, -1);
    if (polled[1].revents != 0) ::_exit(0);
    CommandMessage message;
    auto received = receive_message(start.socket, message.room(), CommandMessage::bytes_min);
    if (received.error == ETIMEDOUT) continue;
    if (!received) ::_exit(0);
    const auto command = message.content(received.bytes);
    if (!command) ::_exit(0);
    Reply reply{.number = message.number()};
    reply.error =
        std::visit(Executor{start, state, std::move(received.passed), reply.value}, *command);
    if (send_message(start.socket, bytes_of(reply)) != 0) ::_exit(0);
  }
}

// Starts a thread and waits for its end. Does not return if that needs a lock whose holder was not
// forked: then the host gets no report, and forks another device. Unmaps the thread's stack:
// without a window (addresses that the host keeps free for the device), a module that the host
// loads later may get the stack's addresses.
void try_thread() {
  std::thread([] { name_this_thread("wherry-trial"); }).join();
  if (!drop_cached_stacks()) throw_errno(EAGAIN, "starting a thread");
}

// What the agent still needs after mask_address_space() has hidden the program's memory from it. It
// is on the agent's own stack, which stays visible.
struct Prepared {
  const AgentStart& start;
  const ArenaLayout layout;  // a copy: the host's may be on a stack that the mask hides
  // The parts of the hidden memory that the C library uses.
  std::vector<AddressRange> touched;
};

void catch_faults_and_obey(void* pointer) {
  const Prepared& prepared = *static_cast<const Prepared*>(pointer);
  const AgentStart& start = prepared.start;
  const DeviceProcessOptions& options = *start.options;
  report_exits();
  if (start.guards_snapshot) {
    std::vector<AddressRange> kept = start.kept;
    kept.insert(kept.end(), prepared.touched.begin(), prepared.touched.end());
    if (const int error = guard_snapshot(start.guard, start.window, kept, start.kept_variables))
      fail_start(start, error, "guarding the program's memory");
  }
  AgentState state{prepared.layout, nullptr, {}};
  const ArenaLayout& layout = state.layout;
  install_crash_reports(*start.board);
  const AlternateStack stack;
  try {
    if (options.page_owners.bytes != nullptr)
      TouchableMemory::announce({&layout, options.page_owners, Processor::device(options.ordinal)});
    state.trap = make_device_trap({options.trap, &layout, start.faults, Fd(start.fault_notifier)});
    unblock_all_signals();
    try_thread();
    if (send_message(start.socket, bytes_of(StartReport{}), state.trap->userfaultfd()) != 0)
      ::_exit(1);
  } catch (const std::system_error& error) {
    fail_start(start, error.code().value(), "trapping faults and starting threads");
  }
  obey_commands(start, state);
}

// Maps the device's own pool over the arena. Returns 0 or an errno.
int map_own_pool(const DeviceProcessOptions& options, const ArenaLayout& layout) {
  const PoolFiles& pool = options.pools[options.own_pool];
  int error =
      map_first_file(layout.base(), {{0}, layout.bytes() / page_size}, pool, options.huge_pages);
  for (const PageSpan& open : options.arena_open)
    if (error == 0)
      error = open_pool_view(layout.base(), open, pool, view_options(options, -1),
                             options.arena_accessible);
  if (error != 0) return error;
  return layout.for_each_placed([&](const PlacedPages& placed) {
    const int mapped = map_first_file(placed.address, placed.pages, pool, options.huge_pages);
    if (mapped != 0 || !traits_of(options.trap.kind).opens_arena) return mapped;
    return set_access(placed.address, placed.pages.bytes(), Access::write);
  });
}

// Runs on a stack in the window (AgentStart::window), or on the inherited one if there is none.
void prepare_and_obey(void* pointer) {
  const AgentStart& start = *static_cast<const AgentStart*>(pointer);
  const DeviceProcessOptions& options = *start.options;
  Prepared prepared{start, *options.layout, {}};
  const ArenaLayout& layout = prepared.layout;
  if (const int error = map_own_pool(options, layout)) fail_start(start, error, "mapping the pool");
  // The fork may have inherited mappings that the host has in the annex.
  int error = 0;
  if (options.annex_size != 0) error = unmap_file_range(options.annex_base, options.annex_size);
  if (error != 0) fail_start(start, error, "reserving the annex");
  if (!start.window.empty()) {
    AddressMaskOptions mask{start.window, start.kept, start.heap_block.get(), start.hide_memory};
    if (keeps_forked_stacks()) {
      mask.touch = [] { static_cast<void>(drop_cached_stacks()); };
      mask.touched = &prepared.touched;
    }
    error = mask_address_space(mask);
    if (error != 0) fail_start(start, error, "masking the address space");
  }
  if (!start.guards_snapshot) catch_faults_and_obey(&prepared);
  // The agent allocates, too, so it continues on a heap other than the program's.
  error = continue_on_fresh_heap(start.window, catch_faults_and_obey, &prepared);
  fail_start(start, error, "leaving the program's heap");
}

}  // namespace

void run_agent(void* pointer) {
  forget_locks_of_parent();
  AgentStart& start = *static_cast<AgentStart*>(pointer);
  // Libraries for MPI (UCX, Open MPI, libfabric) make the C library's mmap(), munmap(), madvise()
  // and others jump to functions of theirs, which follow what becomes of registered memory. In the
  // device these would use memory that is hidden, and locks that another thread held at the fork.
  undo_changes_of_code(start.c_library_code);
  for (const AddressRange& range : start.options->withheld)
    if (const int error = unmap_file_range(range.start, range.size()))
      fail_start(start, error, "withholding memory of the program");
  detach_from_application(start.name.c_str());
  admit_to_memory(start.host);  // so that the host may call enter_huge_page() for this process
  drop_inherited_output();
  keep_descriptors(start.descriptors);
  environ = start.environment.data();
  if (start.window.empty()) prepare_and_obey(pointer);

  if (start.hide_memory) {
    if (!drop_cached_stacks()) fail_start(start, EAGAIN, "starting a thread");
    if (const int error = start.start_block.use_copy())
      fail_start(start, error, "moving the command line");
  }
  // The mask hides the host's stack, so the agent continues on a stack in the window.
  const AddressRange stack{start.window.end - agent_stack_bytes, start.window.end};
  if (const int error = open_window(start.window, stack, agent_guard_bytes))
    fail_start(start, error, "the agent's stack");
  continue_on_stack(stack, prepare_and_obey, pointer);
}

}  // namespace wherry::impl
