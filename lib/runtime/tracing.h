// The trace that WHERRY_TRACE requests: events from cuInit to the end of the program, in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/runtime.h"
#include "trace/trace_writer.h"

namespace wherry::impl {

// Starts recording before the runtime is created, so that no event is missing. The TraceWriter is
// created later, because it has a thread, and devices must be forked before any thread starts. Used
// by one thread.
class PendingTrace {
 public:
  // Begins to record if WHERRY_TRACE is set.
  PendingTrace();
  PendingTrace(const PendingTrace&) = delete;
  PendingTrace& operator=(const PendingTrace&) = delete;
  // Stops recording if no writer has been created.
  ~PendingTrace() { give_up(); }

  // Creates the writer, which writes all recorded events to the file that WHERRY_TRACE names.
  // Returns null if WHERRY_TRACE is not set or there is an error; an error is logged and the
  // program continues.
  std::unique_ptr<TraceWriter> start(const Runtime& runtime);

 private:
  void give_up();

  std::string path_;  // empty: nothing is recorded, or start() has been called
  std::uint64_t start_ns_ = 0;
};

}  // namespace wherry::impl
