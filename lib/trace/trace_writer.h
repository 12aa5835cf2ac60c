// Writes recorded events to a file, until finish() or until the process ends. A thread takes the
// events every few milliseconds, so if the program is killed, the file lacks only the last of them.
//
// If the file cannot be written any more, the writer logs one line and stops recording, and the
// program continues.
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
  // Returns the name of a kernel for reports.
  using NameKernel = std::function<std::string(std::uintptr_t address)>;

  // `file`: an empty file, open for writing; `path`: its name, for the log. Requires: recording has
  // been started for EventReader::trace. Throws std::system_error.
  TraceWriter(Fd file, std::string path, const TraceMachine& machine, const TraceSettings& settings,
              NameKernel name_kernel);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  ~TraceWriter() { finish(); }

  // Sets the name under which reports show this memory. Any thread may call.
  void name(TraceName name) EXCLUDES(lock_);
  // Stops recording, writes what has been recorded, and closes the file. Further calls do nothing.
  // Any thread of the process that created the writer may call, but not a child of fork(), which
  // lacks the writer's thread.
  void finish() EXCLUDES(lock_);

 private:
  void work();
  // Waits for the next round. Returns false if that is the last one.
  bool wait_for_next_round() EXCLUDES(lock_);
  // Writes everything recorded so far. Returns false if the file cannot be written.
  bool write_round(bool last) EXCLUDES(lock_);
  void add_events(std::span<const TraceEvent> events);
  void add_names() EXCLUDES(lock_);
  void add_drops();
  bool flush();

  const std::string path_;
  const NameKernel name_kernel_;
  // Used only by the writer's thread.
  Fd file_;
  std::uint64_t file_bytes_ = 0;
  TraceBytes buffer_;  // encoded, not yet written
  std::vector<TraceEvent> events_;
  std::unordered_set<std::uint64_t> named_;  // addresses of kernels, and of texts of marks
  TraceDrops written_drops_{};

  Mutex lock_{LockOrder::trace};
  Condition wake_;
  std::vector<TraceName> names_ GUARDED_BY(lock_);  // not yet encoded
  bool stopping_ GUARDED_BY(lock_) = false;
  bool broken_ GUARDED_BY(lock_) = false;  // writing has failed; names are discarded

  Mutex finish_lock_{LockOrder::trace_end};
  std::thread thread_ GUARDED_BY(finish_lock_);
};

}  // namespace wherry::impl
