// Code that runs in the device process: writes the reason for its end to the shared failure record,
// and ends it.
#pragma once

#include "devices/launch_board.h"

namespace wherry::impl {

// Installs the handler of exit(). Call it once, when the process uses its final heap, and before
// guard_snapshot(), because the C library writes to the program's list of handlers.
void report_exits();

// Installs the handlers of fatal signals. Call it once, before anything that could fail.
void install_crash_reports(LaunchBoard& board);

// Whether this is the process of a device. Returns false in a process that a kernel forked.
// Async-signal-safe.
bool is_device_process();

// Sets the piece of a launch that the calling thread runs; null: none. The piece must live while it
// is set.
void set_running_piece(const LaunchPiece* piece);

// Writes the record and ends the process, which must be the device's. Calls only async-signal-safe
// functions. If another thread is already ending the process, waits for that.
[[noreturn]] void end_with_failure(DeviceFailure::Kind kind, int signal, std::uintptr_t address,
                                   const char* what);

}  // namespace wherry::impl
