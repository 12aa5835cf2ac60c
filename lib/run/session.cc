#include "run/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <wherry/wherry.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/environment.h"
#include "os/files/fd.h"
#include "os/process/resource_limits.h"
#include "run/attachment.h"
#include "run/first_cpus.h"
#include "run/fork_copies.h"
#include "run/managed_regions.h"
#include "run/own_calls.h"
#include "run/own_files.h"
#include "run/settings.h"

// From libwherry_io, which is loaded only where Linux does not serve faults inside system calls.
extern "C" [[gnu::weak]] bool wherry_io_prepares();
extern "C" [[gnu::weak]] unsigned long wherry_io_refused_calls();

namespace wherry::run {
namespace {

bool wherry_io_loaded() {
  return ::wherry_io_prepares != nullptr;
}

enum class State {
  not_loaded,
  loaded,
  starting,
  running,
  off
};
std::atomic<State> state{State::not_loaded};
CUcontext the_context = nullptr;
std::atomic<bool> is_forked_child{false};
std::atomic<bool> calls_need_help{false};
std::atomic<std::uint64_t> forks{0};
std::atomic<std::uint64_t> fork_bytes{0};
[[gnu::tls_model("initial-exec")]] thread_local bool has_context = false;

// Keeps a child of the program from replacing the program's trace.
void leave_trace_to_the_program() {
  if (!settings()->records_children) ::unsetenv("WHERRY_TRACE");
}

// Opened when this library is loaded, because later the program may have changed its root
// directory, or given up its rights to files. -1 if there is none.
int reports_file = -1;

void open_reports() {
  if (reports_file < 0 && !settings()->reports.empty())
    reports_file = open_own_file(settings()->reports.c_str());
}

// Appends a JSON object in a line of its own; a process may write several. The line begins with a
// newline, because another process may have had no space for the end of its line.
void report(const std::string& members) {
  const std::string line = "\n{\"process\":" + std::to_string(::getpid()) + "," + members + "}";
  const off_t end = ::lseek(reports_file, 0, SEEK_END);
  // If the file may not be so long, a signal would end the program.
  if (end < 0 || !impl::may_write_to(static_cast<std::uint64_t>(end) + line.size())) return;
  (void)!::write(reports_file, line.data(), line.size());
}

void complain(const char* why) {
  const std::string text = std::string("wherry run: a process stays without Wherry: ") + why + '\n';
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

// Whether Linux serves faults inside system calls of the program. If it did not, the tool has
// preloaded libwherry_io; but the program may have given up its privileges since.
bool serves_system_calls() {
  if (!impl::environment("WHERRY_TRAP").empty()) return true;  // the user accepts what that means
  CUdeviceptr memory = 0;
  const impl::Fd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  if (zeros.get() < 0) return true;  // unknown, as after chroot()
  if (cuMemAllocManaged(&memory, page_bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) return true;
  const bool served = ::read(zeros.get(), reinterpret_cast<void*>(memory), 1) == 1;
  (void)cuMemFree(memory);
  if (!served)
    complain(
        "it has given up the privileges with which its system calls find memory that is elsewhere");
  return served;
}

// Whether the program's system calls work with managed memory.
bool may_manage() {
  if (!wherry_io_loaded() || !::wherry_io_prepares()) return serves_system_calls();
  // If the program has an allocator of its own, the C library's buffers come from that, and would
  // be in its managed mappings.
  if (program_malloc() == Malloc::before_this_library) {
    complain(
        "it has an allocator of its own, from which the C library gets memory that it passes "
        "to Linux");
    return false;
  }
  calls_need_help = true;
  return true;
}

bool try_to_start() {
  const OnFirstCpus all_cpus;
  const OwnFiles files;
  if (is_forked_child) leave_trace_to_the_program();
  CUdevice device = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&the_context, device) != CUDA_SUCCESS)
    return false;
  if (!use_context() || !may_manage()) return false;
  attach_first_thread();
  return true;
}

bool start() {
  const OwnCalls own;
  open_reports();  // there may have been no free number before
  const bool started = try_to_start();
  // If no further line follows, the process has ended without its exit handlers. If the library did
  // not start, the tool must not take the process for one without large allocations; the library
  // has printed why.
  report(started ? "\"started\":1" : "\"not_started\":1");
  return started;
}

// Escapes a string for JSON.
std::string escaped(const char* text) {
  std::string result;
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') result += '\\';
    result += static_cast<unsigned char>(*text) < ' ' ? ' ' : *text;
  }
  return result;
}

// Reports this process's counts. The tool adds up those of all processes.
void report_counts() {
  const OwnCalls own;
  wherryStats stats{};
  stats.size = sizeof stats;
  if (wherryGetStats(&stats) != CUDA_SUCCESS) return;
  const ManagedRegions::Counts counts = ManagedRegions::instance().counts();
  std::string processors;
  for (std::uint64_t i = 0; i < stats.processors; ++i) {
    const wherryProcessorStats& p = stats.processor[i];
    processors +=
        fmt::format(R"({}{{"populated":{},"migrated_in":{},"migrated_out":{},"evicted":{},)"
                    R"("mapped_remotely":{},"held":{}}})",
                    i == 0 ? "" : ",", p.populated, p.migrated_in, p.migrated_out, p.evicted,
                    p.mapped_remotely, stats.processor_held[i]);
  }
  report(fmt::format(
      R"("objects":{},"mappings":{},"most_bytes":{},"refused":{},"refusal":"{}","forks":{},)"
      R"("fork_bytes":{},"helped":{},"refused_calls":{},"made_private":[{}],"faults":{},)"
      R"("bytes_copied":{},"thrashing":{},"service_ns":{},"processors":[{}])",
      counts.objects, counts.mappings, counts.most_bytes, counts.refused, escaped(counts.refusal),
      forks.load(), fork_bytes.load(), calls_must_be_helped() ? 1 : 0,
      calls_must_be_helped() ? ::wherry_io_refused_calls() : 0, fmt::join(counts.made_private, ","),
      stats.faults_missing + stats.faults_minor + stats.faults_write_protect, stats.bytes_copied,
      stats.thrashing_detected, stats.service_ns, processors));
}

[[gnu::constructor]] void load() {
  read_settings();
  if (settings() == nullptr) return;
  remember_first_cpus();
  find_code();
  open_reports();
  if (::getppid() != settings()->tool) leave_trace_to_the_program();
  prepare_forks();
  state = State::loaded;
  // An allocator other than the C library's may hold its lock when it calls mmap, and the start of
  // this library needs the C library, which may allocate from that allocator. So this library
  // starts now.
  if (program_malloc() != Malloc::of_c_library) (void)is_running();
}

[[gnu::destructor]] void unload() {
  if (state.load() == State::running) report_counts();
}

}  // namespace

bool calls_must_be_helped() {
  return calls_need_help.load(std::memory_order_relaxed);
}

bool has_started() {
  return state.load(std::memory_order_acquire) == State::running && !OwnCalls::active();
}

bool is_running() {
  if (OwnCalls::active()) return false;
  State now = state.load(std::memory_order_acquire);
  if (now == State::loaded && state.compare_exchange_strong(now, State::starting)) {
    now = start() ? State::running : State::off;
    state.store(now, std::memory_order_release);
  }
  return now == State::running;
}

bool use_context() {
  if (!has_context) has_context = cuCtxSetCurrent(the_context) == CUDA_SUCCESS;
  return has_context;
}

void become_child() {
  is_forked_child = true;
  forget_own_files();
  // If the library had not begun to start, the child has nothing of it, and may start its own. This
  // serves daemons, and programs whose forked processes do the work.
  if (state.load() != State::loaded) state = State::off;
}

void note_fork_copies(unsigned long bytes) {
  ++forks;
  fork_bytes += bytes;
}

}  // namespace wherry::run
