// Writes what is recorded to a file, until finish() or the end of the process: a thread that takes
// the events every few milliseconds, so that the file of a program that is killed lacks the last of
// them alone.
//
// Where the file cannot be written any more, one line in the log says so, recording ends, and the
// program goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/lock.h"
#include "os/files/fd.h"
#include "os/process/condition.h"
#include "trace/trace_chunks.h"

namespace wherry::impl {

class TraceWriter {
 public:
  // What to call a kernel in reports.
  using NameKernel = std::function<std::string(std::uintptr_t address)>;

  // `file`: empty, to be written to; `path`: its name, for the log. Requires: recording has been
  // started for EventReader::trace. Throws std::system_error.
  TraceWriter(Fd file, std::string path, const TraceMachine& machine, NameKernel name_kernel);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  ~TraceWriter() { finish(); }

  // Reports are to call this memory so. Any thread.
  void name(TraceName name) EXCLUDES(lock_);
  // Stops recording, writes what has been recorded, and closes the file; again, it does nothing.
  // Any thread of the process that made the writer; not in a child of fork(), which does not have
  // the thread.
  void finish() EXCLUDES(lock_);

 private:
  void work();
  // Waits for the next time; false: it is the last one.
  bool wait_for_next_round() EXCLUDES(lock_);
  // Everything that there is now. False: it cannot be written.
  bool write_round(bool last) EXCLUDES(lock_);
  void add_events(std::span<const EventRecord> events);
  void add_names() EXCLUDES(lock_);
  void add_drops();
  bool flush();

  const std::string path_;
  const NameKernel name_kernel_;
  // The thread's own.
  Fd file_;
  TraceBytes buffer_;  // not written yet
  std::vector<EventRecord> events_;
  std::unordered_set<std::uint64_t> named_kernels_;
  TraceDrops written_drops_{};

  Mutex lock_{LockOrder::trace};
  Condition wake_;
  std::vector<TraceName> names_ GUARDED_BY(lock_);  // not written yet
  bool stopping_ GUARDED_BY(lock_) = false;
  bool broken_ GUARDED_BY(lock_) = false;  // nobody writes any more

  Mutex finish_lock_{LockOrder::trace_end};
  std::thread thread_ GUARDED_BY(finish_lock_);
};

}  // namespace wherry::impl
