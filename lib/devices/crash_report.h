// Runs in the device: how a device that must end says why, in the shared failure record, and ends.
#pragma once

#include "devices/launch_board.h"

namespace wherry::impl {

// Installs what catches fatal signals and exit(). Once, before anything that could fail.
void install_crash_reports(LaunchBoard& board);

// What the calling thread runs at the moment; null: no kernel. The piece must outlive that.
void set_running_piece(const LaunchPiece* piece);

// Writes the record and ends the process. Called where nothing but async-signal-safe functions may
// be called. When another thread is already ending the process, waits for that.
[[noreturn]] void end_with_failure(DeviceFailure::Kind kind, int signal, std::uintptr_t address,
                                   const char* what);

}  // namespace wherry::impl
