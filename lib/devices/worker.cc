#include "devices/worker.h"

#include <cxxabi.h>
#include <fmt/core.h>
#include <stdio_ext.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <typeinfo>

#include "base/demangle.h"
#include "base/log.h"
#include "devices/crash_report.h"
#include "os/process/poll.h"
#include "os/process/snapshot_guard.h"
#include "os/process/thread.h"
#include "os/signals/fatal_signals.h"

namespace wherry::impl {
namespace {

// A process that the kernel forked does not report failures as the device's: an exception that
// leaves the kernel leaves the thread, as in a process that the host forks.
//
// pthread_exit() unwinds without an exception object, so the caught reference is null.
__attribute__((no_sanitize("undefined"))) void call_kernel(const LaunchPiece& piece) {
  using Kind = DeviceFailure::Kind;
  try {
    reinterpret_cast<KernelFunction>(piece.kernel)(piece.args, piece.begin, piece.end);
  } catch (const abi::__forced_unwind&) {
    if (!is_device_process()) throw;
    end_with_failure(Kind::exited, 0, 0, "the kernel ended its thread");
  } catch (const std::exception& error) {
    if (!is_device_process()) throw;
    end_with_failure(Kind::exception, 0, 0, error.what());
  } catch (...) {
    if (!is_device_process()) throw;
    const std::type_info* type = abi::__cxa_current_exception_type();
    const std::string text = type == nullptr
                                 ? "an exception"
                                 : fmt::format("an exception of type {}", demangle(type->name()));
    end_with_failure(Kind::exception, 0, 0, text.c_str());
  }
}

// The output of a kernel must be written when its launch is done, as if the process had ended.
void flush_output() {
  if (::__fpending(stdout) != 0) std::fflush(stdout);
  if (::__fpending(stderr) != 0) std::fflush(stderr);
}

[[noreturn]] void run_pieces(LaunchBoard& board, const Fd& completion, unsigned worker) {
  const AlternateStack stack;
  if (!can_allocate_beside_guard())
    log_line("WHERRY_CHECK is off: the program has too many malloc heaps");
  for (;;) {
    const LaunchPiece piece = take_piece(board, worker);
    set_running_piece(&piece);
    call_kernel(piece);
    // A process that the kernel forked, and that returns from it, has nothing else to do: the board
    // and the launch are the device's.
    if (!is_device_process()) std::exit(0);
    set_running_piece(nullptr);
    flush_output();
    if (finish_piece(board, piece)) signal_eventfd(completion);
  }
}

}  // namespace

void start_workers(LaunchBoard& board, const Fd& completion, const WorkerOptions& options) {
  // The last worker may still be in count_down() when this function returns.
  const auto missing = std::make_shared<std::latch>(options.count);
  for (int i = 0; i < options.count; ++i) {
    std::thread([&board, &completion, missing, ordinal = options.ordinal, i, cpus = options.cpus] {
      name_this_thread(fmt::format("wherry-dev{}-{}", ordinal, i));
      // A failure is not fatal: a container may have lost the CPU since the topology was read. A
      // worker may run on any of these CPUs: a worker pinned to a single one could wait there while
      // the next CPU is idle.
      if (!cpus.empty()) pin_this_thread(cpus);
      missing->count_down();
      run_pieces(board, completion, static_cast<unsigned>(i));
    }).detach();
  }
  missing->wait();
}

}  // namespace wherry::impl
