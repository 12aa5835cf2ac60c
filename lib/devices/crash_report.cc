#include "devices/crash_report.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/process/snapshot_guard.h"
#include "os/signals/fatal_signals.h"

namespace wherry::impl {
namespace {

// The device process has exactly one board. Signal handlers can reach it only through a global
// variable.
LaunchBoard* reported_board = nullptr;
pid_t reporting_process = 0;

// Static thread-local storage, because a signal handler must not allocate it.
[[gnu::tls_model("initial-exec")]] thread_local const LaunchPiece* running_piece = nullptr;

bool on_fatal_signal(const FatalSignal& signal) {
  using Kind = DeviceFailure::Kind;
  const Kind kind = signal.invalid_access ? Kind::illegal_address : Kind::signal;
  const char* what = "";
  if (signal.signal == SIGSEGV && signal.invalid_access) {
    const GuardVerdict verdict = judge_fault(signal.address, signal.instruction);
    if (verdict == GuardVerdict::permitted) return true;
    if (verdict == GuardVerdict::forbidden)
      what = "ordinary memory of the host; allocate it managed";
  }
  // A process that a kernel forked ends by the signal, so that its parent sees it.
  if (!is_device_process()) return false;
  end_with_failure(kind, signal.signal, signal.address, what);
}

// Registered after all exit handlers of the application, so it is called before them: no exit
// handler or destructor of the application runs in a device, or in a process that a kernel forks.
void on_exit_call(int code, void*) {
  std::fflush(stdout);
  std::fflush(stderr);
  if (!is_device_process()) ::_exit(code);
  end_with_failure(DeviceFailure::Kind::exited, code, 0, "");
}

}  // namespace

void report_exits() {
  // glibc keeps handlers in blocks of 32, and exit() writes to the block of each handler that it
  // calls. The last of 33 handlers is in a block that this process allocates, and is called first.
  // It ends the process, so exit() writes to no block of the program.
  for (int i = 0; i < 33; ++i) ::on_exit(on_exit_call, nullptr);
}

void install_crash_reports(LaunchBoard& board) {
  reported_board = &board;
  reporting_process = ::getpid();
  catch_fatal_signals(on_fatal_signal);
}

bool is_device_process() {
  return reported_board != nullptr && ::getpid() == reporting_process;
}

void set_running_piece(const LaunchPiece* piece) {
  running_piece = piece;
}

void end_with_failure(DeviceFailure::Kind kind, int signal, std::uintptr_t address,
                      const char* what) {
  constexpr int exit_failed = 1;
  FailureRecord& record = reported_board->failure;
  auto expected = FailureRecord::State::empty;
  if (!record.state.compare_exchange_strong(expected, FailureRecord::State::claimed)) {
    for (;;) ::pause();
  }
  record.kind = kind;
  record.signal = signal;
  record.address = address;
  record.kernel = running_piece == nullptr ? 0 : running_piece->kernel;
  record.launch_id = running_piece == nullptr ? 0 : running_piece->launch_id;
  std::strncpy(record.what, what, sizeof record.what - 1);
  // Release: pairs with the acquire in read_failure().
  record.state.store(FailureRecord::State::complete, std::memory_order_release);
  ::_exit(exit_failed);
}

}  // namespace wherry::impl
