// Recording to a file for whoever reads it later: what WHERRY_TRACE asks for, from cuInit to the
// end of the program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/runtime.h"
#include "trace/trace_writer.h"

namespace wherry::impl {

// Records from before the runtime is made, so that nothing is missing; the writer has a thread, and
// devices must have been forked before. One thread's.
class PendingTrace {
 public:
  // Begins to record if WHERRY_TRACE is set.
  PendingTrace();
  PendingTrace(const PendingTrace&) = delete;
  PendingTrace& operator=(const PendingTrace&) = delete;
  // Ends that if there is no writer.
  ~PendingTrace() { give_up(); }

  // Writes what has been recorded to the file that WHERRY_TRACE names, from now on. Null: nothing
  // asks for it, or it cannot be done, and then the log says why, and the program goes on.
  std::unique_ptr<TraceWriter> start(const Runtime& runtime);

 private:
  void give_up();

  std::string path_;  // empty: there is nothing to do, or no more
  std::uint64_t start_ns_ = 0;
};

}  // namespace wherry::impl
