#include "import/access_trace_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/page.h"
#include "base/processor.h"
#include "import/synthetic_arena.h"
#include "trace/trace_chunks.h"

namespace wherry::importing {
namespace {

using impl::EventCause;
using impl::EventKind;
using impl::Processor;
using impl::TraceBytes;
using impl::TraceEvent;

// The trace begins at this made-up time, because other tools' times begin anywhere. Not 0, which
// means that there is no time.
constexpr std::uint64_t start_ns = 1'000'000'000;
// The first access is later, because a replay does not count what ends when recording begins.
constexpr std::uint64_t first_ns = start_ns + 1000;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

class Writer {
 public:
  Writer(const Accesses& accesses, const ImportedMachine& machine, const PutTrace& put)
      : accesses_(accesses), put_(put), arena_(accesses.all) {
    counts_.ranges = arena_.ranges().size();
    impl::append_trace_header(file_);
    impl::append_machine(file_, describe(machine));
    impl::TraceSettings settings;
    settings.version = machine.version;
    impl::append_settings(file_, settings);
  }

  ImportedCounts write() {
    for (const SyntheticArena::Range& range : arena_.ranges()) add_range(range);
    for (const Access& access : accesses_.all) {
      add_access(access);
      if (!good_) break;
    }
    flush_events();
    impl::append_end(file_, time_of(std::max(accesses_.all.back().time_ns, accesses_.end_ns)));
    put();
    counts_.pages = pages_.size();
    return counts_;
  }

 private:
  impl::TraceMachine describe(const ImportedMachine& imported) const {
    impl::TraceMachine machine;
    machine.start_ns = start_ns;
    machine.page_bytes = impl::page_size;
    machine.block_bytes = impl::block_size;
    machine.region_bytes = impl::pages_per_region * impl::page_size;
    machine.arena_base = SyntheticArena::base;
    machine.arena_bytes = arena_.bytes();
    machine.program = imported.program;
    machine.trap = "none";
    machine.processors.resize(1 + static_cast<std::size_t>(imported.devices));
    for (impl::TraceProcessor& processor : machine.processors) processor.nodes = {0};
    for (impl::TraceProcessor& device : std::span(machine.processors).subspan(1)) {
      device.kind = impl::TraceProcessor::Kind::isolated;
      device.capacity = imported.capacity;
      device.workers = 1;
    }
    return machine;
  }

  std::uint64_t time_of(std::uint64_t source_ns) const {
    return first_ns + (source_ns - accesses_.all.front().time_ns);
  }

  // The range's name is its address in the imported program, by which a user finds it there.
  void add_range(const SyntheticArena::Range& range) {
    const std::uint64_t bytes = range.pages * impl::page_size;
    const auto& ranges = arena_.ranges();
    const bool is_one_space = ranges.front().space == ranges.back().space;
    const std::uint64_t source = range.first_page * impl::page_size;
    const impl::TraceName name{impl::TraceName::Kind::range, start_ns, range.address, bytes,
                               is_one_space ? fmt::format("{:#x}", source)
                                            : fmt::format("{}: {:#x}", range.space, source)};
    impl::append_names(file_, std::span(&name, 1));
    add({.time_ns = start_ns,
         .address = range.address,
         .bytes = bytes,
         .kind = EventKind::allocation});
  }

  void add_access(const Access& access) {
    const SourcePages pages = pages_of(access);
    std::uint64_t address = arena_.address_of(access);
    for (std::uint64_t left = pages.end - pages.first; left > 0 && good_; --left) {
      add_page(access, address);
      address = impl::round_down(address, impl::page_size) + impl::page_size;
    }
  }

  void add_page(const Access& access, std::uint64_t address) {
    const Processor p{access.processor};
    const std::uint64_t page = impl::round_down(address, impl::page_size);
    auto& [owner, users] = pages_[page];
    const bool is_first = users == 0;
    const bool is_new = (users & p.bit()) == 0;
    if (is_first) owner = access.processor;
    users |= p.bit();
    TraceEvent event{
        .time_ns = time_of(access.time_ns),
        .address = address,
        .bytes = impl::page_size,
        .thread = access.thread,
        .kind = EventKind::fault,
        .access = access.kind,
        .detail = impl::code_of(is_new ? impl::FaultDetail::missing : impl::FaultDetail::minor),
        .destination = access.processor};
    add(event);
    ++counts_.accesses;
    if (!is_new) return;
    event.address = page;
    event.thread = 0;
    event.kind = is_first ? EventKind::populate : EventKind::remote_map;
    event.cause = EventCause::fault;
    event.access = impl::EventAccess::none;
    event.detail = 0;
    if (!is_first) event.source = owner;
    add(event);
  }

  void add(const TraceEvent& event) {
    events_.push_back(event);
    if (events_.size() == impl::chunk_events_max) flush_events();
  }

  void flush_events() {
    if (!events_.empty()) impl::append_events(file_, events_);
    events_.clear();
    if (file_.size() >= piece_bytes) put();
  }

  void put() {
    good_ = good_ && put_(file_);
    file_.clear();
  }

  const Accesses& accesses_;
  const PutTrace& put_;
  const SyntheticArena arena_;
  TraceBytes file_;
  std::vector<TraceEvent> events_;
  // By address: where the page was created, and which processors have accessed it.
  std::unordered_map<std::uint64_t, std::pair<std::int8_t, impl::ProcessorMask>> pages_;
  ImportedCounts counts_;
  bool good_ = true;
};

}  // namespace

ImportedCounts write_access_trace(Accesses& accesses, const ImportedMachine& machine,
                                  const PutTrace& put) {
  std::ranges::stable_sort(accesses.all, {}, &Access::time_ns);
  return Writer(accesses, machine, put).write();
}

}  // namespace wherry::importing
