#include "trace/trace_writer.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "os/files/new_file.h"
#include "os/process/thread.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

// Long enough to cost a busy machine little, short enough for the rings to hold the events of one
// period.
constexpr auto period = std::chrono::milliseconds(10);
// The least size of one write, except for the last write of a round.
constexpr std::size_t write_bytes = std::size_t{1} << 18;

}  // namespace

TraceWriter::TraceWriter(Fd file, std::string path, const TraceMachine& machine,
                         const TraceSettings& settings, NameKernel name_kernel)
    : path_(std::move(path)),
      name_kernel_(std::move(name_kernel)),
      file_(std::move(file)),
      events_(chunk_events_max) {
  append_trace_header(buffer_);
  append_machine(buffer_, machine);
  append_settings(buffer_, settings);
  const SignalBlock no_signals;
  // Written at once, so that there is a valid trace whenever the program is killed.
  if (!flush()) return;
  const LockGuard guard(finish_lock_);
  thread_ = std::thread([this] { work(); });
}

void TraceWriter::name(TraceName name) {
  const LockGuard guard(lock_);
  if (!broken_) names_.push_back(std::move(name));
}

void TraceWriter::finish() {
  const LockGuard finishing(finish_lock_);
  if (!thread_.joinable()) return;
  (void)stop_recording(EventReader::trace);
  {
    const LockGuard guard(lock_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void TraceWriter::work() {
  name_this_thread("wherry-trace");
  // The rings hold the events of ten rounds, so this thread need not run at once. It takes no CPU
  // time from the program while another CPU is free.
  give_way();
  bool last = false;
  while (!last && write_round(last = !wait_for_next_round())) continue;
  file_.reset();
}

bool TraceWriter::wait_for_next_round() {
  const LockGuard guard(lock_);
  if (!stopping_) wake_.wait_for(lock_, period);
  return !stopping_;
}

bool TraceWriter::write_round(bool last) {
  bool good = true;
  for (std::size_t taken = events_.size(); taken != 0 && good;) {
    if (!take_events(EventReader::trace, events_, taken)) break;
    add_events(std::span(events_).first(taken));
    if (buffer_.size() >= write_bytes) good = flush();
    // Events that arrived meanwhile can wait for the next round.
    if (taken < events_.size()) break;
  }
  add_names();
  add_drops();
  if (last) append_end(buffer_, now_ns());
  return good && flush();
}

void TraceWriter::add_events(std::span<const TraceEvent> events) {
  if (events.empty()) return;
  append_events(buffer_, events);
  for (const TraceEvent& event : events) {
    const bool is_mark = event.kind == EventKind::mark;
    if (!is_mark && event.kind != EventKind::launch_begin) continue;
    if (!named_.insert(event.address).second) continue;
    if (is_mark)
      name({TraceName::Kind::mark, event.time_ns, event.address, 0,
            reinterpret_cast<const char*>(event.address)});
    else
      name({TraceName::Kind::kernel, event.time_ns, event.address, 0, name_kernel_(event.address)});
  }
}

void TraceWriter::add_names() {
  std::vector<TraceName> names;
  {
    const LockGuard guard(lock_);
    names.swap(names_);
  }
  // One chunk for each name, because names are few, and of any length.
  for (const TraceName& name : names) append_names(buffer_, std::span(&name, 1));
}

void TraceWriter::add_drops() {
  TraceDrops drops{};
  for (unsigned i = 0; i < event_kinds; ++i) drops[i] = dropped_events(static_cast<EventKind>(i));
  if (drops == written_drops_) return;
  append_drops(buffer_, drops);
  written_drops_ = drops;
}

bool TraceWriter::flush() {
  const std::uint64_t before = file_bytes_;
  const int error = append_all(file_, buffer_, file_bytes_);
  // Makes the file end within a chunk: after a whole one, a reader would think that the program was
  // killed.
  if (error != 0 && are_whole_chunks(buffer_, file_bytes_ - before))
    (void)change_end(file_, file_bytes_);
  buffer_.clear();
  if (error == 0) return true;
  log_error("the trace {} ends early: {}; later events are not recorded", path_,
            std::strerror(error));
  (void)stop_recording(EventReader::trace);
  const LockGuard guard(lock_);
  broken_ = true;
  names_.clear();
  return false;
}

}  // namespace wherry::impl
