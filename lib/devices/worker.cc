#include "devices/worker.h"

#include <cxxabi.h>
#include <fmt/core.h>
#include <stdio_ext.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <typeinfo>

#include "base/demangle.h"
#include "base/log.h"
#include "devices/crash_report.h"
#include "os/process/futex.h"
#include "os/process/poll.h"
#include "os/process/snapshot_guard.h"
#include "os/process/thread.h"
#include "os/signals/fatal_signals.h"

namespace wherry::impl {
namespace {

// Shorter than the host's limit for a command, so that the host gets the answer.
constexpr std::chrono::seconds start_limit{4};

// The number of workers that run. A worker that starts after the limit still counts itself.
using Present = std::shared_ptr<std::atomic<std::uint32_t>>;

// Returns false if that takes longer than the limit.
bool wait_for(const std::atomic<std::uint32_t>& present, int count) {
  const auto end = std::chrono::steady_clock::now() + start_limit;
  for (;;) {
    const std::uint32_t seen = present.load();
    if (seen == static_cast<std::uint32_t>(count)) return true;
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    futex_wait_ns(present, seen, left);
  }
}

// pthread_exit() unwinds without an exception object, so the caught reference is null.
__attribute__((no_sanitize("undefined"))) void call_kernel(const LaunchPiece& piece) {
  using Kind = DeviceFailure::Kind;
  try {
    reinterpret_cast<KernelFunction>(piece.kernel)(piece.args, piece.begin, piece.end);
  } catch (const abi::__forced_unwind&) {
    end_with_failure(Kind::exited, 0, 0, "the kernel ended its thread");
  } catch (const std::exception& error) {
    end_with_failure(Kind::exception, 0, 0, error.what());
  } catch (...) {
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

[[noreturn]] void run_pieces(LaunchBoard& board, const Fd& completion) {
  const AlternateStack stack;
  if (!can_allocate_beside_guard())
    log_line("WHERRY_CHECK is off: the program has too many malloc heaps");
  for (;;) {
    const LaunchPiece piece = take_piece(board);
    set_running_piece(&piece);
    call_kernel(piece);
    set_running_piece(nullptr);
    flush_output();
    if (finish_piece(board, piece)) signal_eventfd(completion);
  }
}

}  // namespace

bool start_workers(LaunchBoard& board, const Fd& completion, const WorkerOptions& options) {
  const Present present = std::make_shared<Present::element_type>(0);
  for (int i = 0; i < options.count; ++i) {
    std::thread([&board, &completion, present, ordinal = options.ordinal, i, cpus = options.cpus] {
      name_this_thread(fmt::format("wherry-dev{}-{}", ordinal, i));
      // A failure is not fatal: a container may have lost the CPU since the topology was read. A
      // worker may run on any of these CPUs: a worker pinned to a single one could wait there while
      // the next CPU is idle.
      if (!cpus.empty()) pin_this_thread(cpus);
      ++*present;
      futex_wake(*present, 1);
      run_pieces(board, completion);
    }).detach();
  }
  return wait_for(*present, options.count);
}

}  // namespace wherry::impl
