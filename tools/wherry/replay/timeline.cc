#include "replay/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/page.h"
#include "replay/block_numbers.h"

namespace wherry::replay {
namespace {

using impl::AdviceDetail;
using impl::EventCause;
using impl::EventKind;
using impl::Processor;
using impl::TraceEvent;

// A limit, because the data of one block takes a few kilobytes.
constexpr std::uint64_t blocks_max = std::uint64_t{1} << 20;

// Whether the event is an access that a policy could handle differently: stale messages and faults
// that ended a thread are not.
bool is_touch(const TraceEvent& event) {
  return event.kind == EventKind::fault && event.bytes != 0 && event.destination >= 0 &&
         (event.detail & impl::fault_refused) == 0;
}

// Whether the program itself changed its memory, or the event follows from that under any policy.
bool is_change(const TraceEvent& event) {
  switch (event.kind) {
    case EventKind::allocation:
    case EventKind::free:
    case EventKind::advice:
      return true;
    case EventKind::pin:
    case EventKind::unpin:
      return event.cause == EventCause::advice;
    case EventKind::populate:
      return event.cause == EventCause::creation || event.cause == EventCause::copy;
    case EventKind::migration:
      return event.cause == EventCause::copy;
    case EventKind::invalidate:
      return event.cause == EventCause::release;
    default:
      return false;
  }
}

// Whether pages move or are created with the event.
bool brings_pages(const TraceEvent& event) {
  return event.kind == EventKind::populate || event.kind == EventKind::migration ||
         (event.kind == EventKind::advice && event.detail == impl::code_of(AdviceDetail::prefetch));
}

class Builder {
 public:
  explicit Builder(const tool::Trace& trace) : trace_(trace) {
    timeline_.trace = &trace;
    const auto& processors = trace.machine.processors;
    for (std::size_t i = 0; i < processors.size(); ++i)
      if (processors[i].kind == impl::TraceProcessor::Kind::coherent)
        timeline_.coherent |= Processor{static_cast<int>(i)}.bit();
  }

  std::variant<Timeline, std::string> build() {
    if (trace_.machine.page_bytes != impl::page_size ||
        trace_.machine.block_bytes != impl::block_size)
      return "its page or block size differs from this program's";
    if (trace_.events.size() >= none / 2) return "it has too many events";
    timeline_.nodes.reserve(trace_.events.size() + 1);
    timeline_.ends.reserve(trace_.events.size());
    timeline_.lengths.reserve(trace_.events.size());
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      add(trace_.events[i], static_cast<std::uint32_t>(i));
      if (blocks_.size() > blocks_max)
        return fmt::format("it contains more than {} blocks of 2 MiB", blocks_max);
    }
    add_edges_end();
    timeline_.blocks = std::move(blocks_).take();
    timeline_.answers = answers_.take(timeline_.size());
    return std::move(timeline_);
  }

 private:
  struct Lane {
    std::uint32_t last = none;    // its latest node
    std::uint32_t before = none;  // the node before that
    // The device whose kernel the thread runs; 0 for a thread of the program; negative if the lane
    // is no thread's.
    int processor = 0;
    // For a device's lane: its latest node that the end of a launch depends on.
    std::uint32_t awaited = none;
  };

  void add(const TraceEvent& event, std::uint32_t index) {
    if (is_touch(event))
      add_touch(event);
    else if (event.kind == EventKind::launch_begin && event.destination > 0)
      add_launch_begin(event);
    else if (event.kind == EventKind::launch_end && event.destination > 0)
      add_launch_end(event);
    else if (is_change(event))
      add_change(event, index);
    else if (RecordedAnswers::concerns(event))
      answers_.add(event, blocks_.find(event.address / impl::block_size));
    if (event.kind == EventKind::eviction && event.source > 0) add_victim(event);
  }

  void add_victim(const TraceEvent& event) {
    if (const auto block = blocks_.find(event.address / impl::block_size))
      timeline_.victims[static_cast<std::size_t>(event.source)].push_back({event.time_ns, *block});
  }

  // Whether a kernel made the access. On a coherent device a thread of the program may count as the
  // device, but then usually no launch is running.
  bool is_of_kernel(const TraceEvent& event) const {
    const Processor p{event.destination};
    return timeline_.table_of(p) == p ? !p.is_host()
                                      : running_[static_cast<std::size_t>(p.index)] > 0;
  }

  void add_touch(const TraceEvent& event) {
    const bool is_of_kernel = this->is_of_kernel(event);
    const std::uint32_t lane = lane_of(event);
    lanes_[lane].processor = is_of_kernel ? event.destination : 0;
    const impl::PageIndex page = impl::page_at_offset(event.address);
    const std::uint32_t block = blocks_.of(impl::block_of(page).value);
    const auto in_block = static_cast<std::uint16_t>(impl::page_in_block(page));
    if (const std::uint32_t last = lanes_[lane].last;
        last != none && timeline_.ends[last] > event.time_ns)
      timeline_.ends[last] = answers_.woken(last, timeline_.nodes[last].what, event.time_ns);
    begin({.lane = lane,
           .what = block,
           .page = in_block,
           .write = event.access == impl::EventAccess::write,
           .processor = static_cast<std::uint8_t>(event.destination),
           .sampled = event.cause == EventCause::sample,
           .untimed = event.duration_ns == 0},
          event.time_ns);
    if (is_of_kernel) {
      after_news(begins_[static_cast<std::size_t>(event.destination)]);
    } else {
      for (const std::uint32_t end : last_end_) after_news(end);
      after_news(last_change_);
    }
    pages_.resize(std::max(pages_.size(), blocks_.size() * impl::pages_per_block), none);
    std::uint32_t& faulting_processor = pages_[block * impl::pages_per_block + in_block];
    if (faulting_processor != none && timeline_.nodes[faulting_processor].lane != lane &&
        timeline_.ends[faulting_processor] <= event.time_ns)
      after(faulting_processor);
    faulting_processor = node();
    if (const auto taking = answers_.taking(block, in_block, event.destination, event.time_ns)) {
      begins_at_ = std::max(begins_at_, taking->since_ns);
      timeline_.edges.push_back(taking->number | Timeline::begun);
    }
    ++timeline_.touches;
    const std::size_t processors = trace_.machine.processors.size();
    auto& touched = timeline_.touched;
    touched.resize(std::max(touched.size(), blocks_.size() * processors));
    touched[block * processors + static_cast<std::size_t>(event.destination)] |=
        impl::PageMask::of({in_block, 1});
    finish(event.time_ns + event.duration_ns);
    if (event.duration_ns != 0)
      answers_.add_fault(event, timeline_.table_of({event.destination}), block, node());
  }

  void add_launch_begin(const TraceEvent& event) {
    begin_launch(event);
    after_host(event.time_ns);
    // A thread that waited for another device launches after that device's work has ended.
    after(latest_end_);
    after(last_change_);
    begins_[static_cast<std::size_t>(event.destination)] = node();
    ++running_[static_cast<std::size_t>(event.destination)];
    finish(event.time_ns);
  }

  void add_launch_end(const TraceEvent& event) {
    begin_launch(event);
    for (Lane& lane : lanes_) {
      const std::uint32_t ended =
          lane.processor == event.destination ? ended_by(lane, event.time_ns) : none;
      if (ended == none || ended == lane.awaited) continue;
      after(ended);
      lane.awaited = ended;
    }
    last_end_[static_cast<std::size_t>(event.destination)] = latest_end_ = node();
    // Not below 0, because the trace may begin during a launch.
    int& running = running_[static_cast<std::size_t>(event.destination)];
    running = std::max(running - 1, 0);
    finish(event.time_ns);
  }

  void add_change(const TraceEvent& event, std::uint32_t index) {
    if (change_lane_ == none) change_lane_ = new_lane(of_the_program);
    begin({.lane = change_lane_, .what = index, .kind = Node::Kind::change}, event.time_ns);
    after_host(event.time_ns);
    for (const std::uint32_t end : last_end_) after(end);
    last_change_ = node();
    if (brings_pages(event)) number_blocks(event);
    finish(event.time_ns);
  }

  void number_blocks(const TraceEvent& event) {
    const std::uint64_t first = event.address / impl::block_size;
    const std::uint64_t count =
        (event.address % impl::block_size + event.bytes + impl::block_size - 1) / impl::block_size;
    for (std::uint64_t i = 0; i < std::min(count, blocks_max + 1); ++i) blocks_.of(first + i);
  }

  // ---- nodes and edges

  static constexpr int of_the_program = -1;
  static constexpr std::array<std::uint32_t, impl::max_processors> no_processor() {
    std::array<std::uint32_t, impl::max_processors> nodes{};
    nodes.fill(none);
    return nodes;
  }

  std::uint32_t new_lane(int processor) {
    lanes_.push_back({.processor = processor});
    timeline_.first_of_lane.push_back(none);
    return static_cast<std::uint32_t>(lanes_.size() - 1);
  }

  // A thread that counts as several processors, one after the other, has one lane.
  std::uint32_t lane_of(const TraceEvent& event) {
    const Processor p{event.destination};
    const Processor table = event.thread != 0 ? timeline_.table_of(p) : p;
    const std::uint64_t key =
        std::uint64_t{event.thread} << 8 | static_cast<std::uint8_t>(table.index);
    if (key == last_key_) return last_lane_;
    const auto [found, is_new] = lane_numbers_.try_emplace(key, 0);
    if (is_new) found->second = new_lane(event.destination);
    last_key_ = key;
    return last_lane_ = found->second;
  }

  void begin_launch(const TraceEvent& event) {
    std::uint32_t& lane = launch_lanes_[static_cast<std::size_t>(event.destination)];
    if (lane == none) lane = new_lane(of_the_program);
    begin({.lane = lane, .kind = Node::Kind::launch}, event.time_ns);
  }

  std::uint32_t node() const { return static_cast<std::uint32_t>(timeline_.nodes.size() - 1); }

  void begin(Node node, std::uint64_t time_ns) {
    node.edges_begin = static_cast<std::uint32_t>(timeline_.edges.size());
    time_ns_ = time_ns;
    begins_at_ = trace_.machine.start_ns;
    previous_ = lanes_[node.lane].last;
    if (previous_ != none) begins_at_ = std::max(begins_at_, timeline_.ends[previous_]);
    timeline_.nodes.push_back(node);
  }

  // Adds an edge: the current node depends on this earlier one.
  void after(std::uint32_t earlier) {
    if (earlier == none || earlier == previous_) return;
    begins_at_ = std::max(begins_at_, timeline_.ends[earlier]);
    timeline_.edges.push_back(earlier);
  }

  // Adds an edge to the earlier node only if no node of this lane is after it yet.
  void after_news(std::uint32_t earlier) {
    if (earlier != none && (previous_ == none || earlier > previous_)) after(earlier);
  }

  // Adds edges to the last nodes of the host's threads that had ended by then.
  void after_host(std::uint64_t time_ns) {
    for (const Lane& lane : lanes_)
      if (lane.processor == 0) after(ended_by(lane, time_ns));
  }

  std::uint32_t ended_by(const Lane& lane, std::uint64_t time_ns) const {
    if (lane.last != none && timeline_.ends[lane.last] <= time_ns) return lane.last;
    return lane.before;
  }

  void finish(std::uint64_t end_ns) {
    Node& made = timeline_.nodes.back();
    made.slack_ns = time_ns_ - std::min(begins_at_, time_ns_);
    timeline_.ends.push_back(end_ns);
    timeline_.lengths.push_back(static_cast<std::uint32_t>(
        std::min<std::uint64_t>(end_ns - std::min(time_ns_, end_ns), 4'000'000'000)));
    Lane& lane = lanes_[made.lane];
    if (lane.last == none)
      timeline_.first_of_lane[made.lane] = node();
    else
      timeline_.nodes[lane.last].next = node();
    lane.before = lane.last;
    lane.last = node();
  }

  void add_edges_end() {
    timeline_.nodes.push_back({.edges_begin = static_cast<std::uint32_t>(timeline_.edges.size())});
  }

  const tool::Trace& trace_;
  Timeline timeline_;
  BlockNumbers blocks_;
  RecordedAnswers answers_;
  std::vector<std::uint32_t> pages_;  // by block and page: the node of the latest access
  std::vector<Lane> lanes_;
  std::unordered_map<std::uint64_t, std::uint32_t> lane_numbers_;
  std::uint64_t last_key_ = ~std::uint64_t{0};
  std::uint32_t last_lane_ = none;
  // By device: the lane of its launches, the latest begin, and the latest end.
  std::array<std::uint32_t, impl::max_processors> launch_lanes_ = no_processor();
  std::array<std::uint32_t, impl::max_processors> begins_ = no_processor();
  std::array<std::uint32_t, impl::max_processors> last_end_ = no_processor();
  std::array<int, impl::max_processors> running_{};  // launches, by device
  std::uint32_t latest_end_ = none;
  std::uint32_t change_lane_ = none;
  std::uint32_t last_change_ = none;
  // For the current node.
  std::uint64_t time_ns_ = 0;
  std::uint64_t begins_at_ = 0;
  std::uint32_t previous_ = none;
};

}  // namespace

std::variant<Timeline, std::string> make_timeline(const tool::Trace& trace) {
  return Builder(trace).build();
}

}  // namespace wherry::replay
