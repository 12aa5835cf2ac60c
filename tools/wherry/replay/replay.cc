#include "replay/replay.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/signal_blocking.h"

namespace wherry::replay {
namespace {

constexpr std::uint64_t not_yet = std::numeric_limits<std::uint64_t>::max();
// The turns for which signals stay blocked: about a millisecond.
constexpr unsigned turns_while_blocked = 4096;

struct BlockedSignals {
  BlockedSignals() { impl::block_signals(); }
  ~BlockedSignals() { impl::unblock_signals(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
};

class Walk {
 public:
  explicit Walk(const ReplayRequest& request)
      : request_(request),
        timeline_(request.timeline),
        machine_(request.setting, request.costs, request.policy),
        begins_(timeline_.size(), not_yet),
        ends_(timeline_.size(), not_yet),
        lanes_(timeline_.first_of_lane.size()) {
    for (std::size_t p = 0; p < trap_ns_.size(); ++p)
      trap_ns_[p] = static_cast<std::uint64_t>(timeline_.table_of({static_cast<int>(p)}).is_host()
                                                   ? request_.costs.round_trip_host_ns
                                                   : request_.costs.round_trip_device_ns);
    agenda_.reserve(lanes_.size());
    blocked_.reserve(lanes_.size());
  }

  ReplayResult run() {
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      lanes_[lane].node = timeline_.first_of_lane[lane];
      lanes_[lane].clock_ns = timeline_.trace->machine.start_ns;
      arm(lane);
    }
    while (!agenda_.empty()) {
      // Otherwise each lock of a block would block signals, which takes two system calls.
      const BlockedSignals blocked;
      for (unsigned turns = 0; turns < turns_while_blocked && !agenda_.empty(); ++turns)
        take_next();
    }
    const Window window = request_.window;
    return {machine_.counts(), stall_ns_, moment(window.end_ns) - moment(window.begin_ns)};
  }

 private:
  struct Lane {
    std::uint32_t node = none;  // the current or next node
    std::uint32_t awaited = none;
    std::uint64_t clock_ns = 0;  // the end of the previous node
    // When the current access became a fault; 0 if it has not.
    std::uint64_t fault_ns = 0;
    Touch touch;
    // Further pages that the trace shows to have been accessed along with the current access.
    impl::PageMask along;
  };
  struct Turn {
    std::uint64_t time_ns;
    std::uint32_t node;
    std::uint32_t lane;
  };
  // Nodes that are due at the same time are taken in the order of their recorded ends, so that
  // threads that wait for the same thing are served in the same order.
  struct Later {
    const std::vector<std::uint64_t>& ends;
    bool operator()(const Turn& a, const Turn& b) const {
      if (a.time_ns != b.time_ns) return a.time_ns > b.time_ns;
      return ends[a.node] != ends[b.node] ? ends[a.node] > ends[b.node] : a.node > b.node;
    }
  };
  Later later() const { return {timeline_.ends}; }

  void put(const Turn& turn) {
    agenda_.push_back(turn);
    std::ranges::push_heap(agenda_, later());
  }

  // How much of the recorded time before a fault the trap takes: its usual cost, at most the slack.
  std::uint64_t round_trip_ns(const Node& node) const {
    const std::uint64_t whole_ns = trap_ns_[node.processor];
    return node.untimed ? whole_ns : std::min(node.slack_ns, whole_ns);
  }
  // How much of the trap's time the recorded slack includes. The replay subtracts that, and adds
  // the trap's time only if the access faults.
  std::uint64_t recorded_trip_ns(const Node& node) const {
    return node.untimed ? 0 : round_trip_ns(node);
  }

  // Schedules the lane's next node, or lets it wait for another node to end.
  void arm(std::uint32_t number) {
    Lane& lane = lanes_[number];
    if (lane.node == none) return;
    const Node& node = timeline_.nodes[lane.node];
    std::uint64_t begin_ns = lane.clock_ns;
    for (const std::uint32_t edge : timeline_.edges_of(lane.node)) {
      const std::uint32_t earlier = edge & ~Timeline::begun;
      const auto& times = (edge & Timeline::begun) != 0 ? begins_ : ends_;
      if (times[earlier] == not_yet) {
        lane.awaited = earlier;
        blocked_.push_back(number);
        return;
      }
      begin_ns = std::max(begin_ns, times[earlier]);
    }
    begin_ns += node.slack_ns;
    if (node.kind == Node::Kind::touch) {
      begin_ns -= recorded_trip_ns(node);
      lane.touch = {.block = node.what,
                    .page = node.page,
                    .faulting_processor = {node.processor},
                    .write = node.write != 0,
                    .sampled = node.sampled,
                    .recorded = timeline_.answers[lane.node]};
      lane.along = timeline_.used_along(lane.node);
    }
    put({begin_ns, lane.node, number});
  }

  void take_next() {
    std::ranges::pop_heap(agenda_, later());
    const Turn turn = agenda_.back();
    agenda_.pop_back();
    machine_.end_temporary_pins(turn.time_ns);
    machine_.follow(timeline_.ends[turn.node] - timeline_.lengths[turn.node], turn.time_ns);
    take(turn);
  }

  void take(const Turn& turn) {
    const Node& node = timeline_.nodes[turn.node];
    if (request_.current != nullptr) *request_.current = turn.node;
    switch (node.kind) {
      case Node::Kind::launch:
        finish(turn, turn.time_ns);
        return;
      case Node::Kind::change:
        finish(turn, machine_.apply(timeline_.trace->events[node.what], turn.time_ns));
        return;
      case Node::Kind::touch:
        break;
    }
    Lane& lane = lanes_[turn.lane];
    if (lane.fault_ns == 0) {
      std::uint64_t extra_ns = 0;
      if (machine_.access(lane.touch, turn.time_ns, extra_ns)) {
        end_touch(turn, turn.time_ns + extra_ns);
        return;
      }
      lane.fault_ns = turn.time_ns + round_trip_ns(node);
      if (lane.fault_ns > turn.time_ns) {
        put({lane.fault_ns, turn.node, turn.lane});
        return;
      }
    }
    const Answer answer = machine_.resolve(lane.touch, turn.time_ns);
    if (!answer.resolved) {
      put({answer.time_ns, turn.node, turn.lane});
      return;
    }
    stall_ns_ += answer.time_ns - lane.fault_ns;
    lane.fault_ns = 0;
    end_touch(turn, answer.time_ns);
  }

  // Pages that moved along in the recording, but not in the replay, are accessed next.
  void end_touch(const Turn& turn, std::uint64_t end_ns) {
    note_begin(turn);
    Lane& lane = lanes_[turn.lane];
    if (const auto page = machine_.first_missing(lane.touch, lane.along)) {
      lane.along -= impl::PageMask::of({*page, 1});
      lane.touch = {.block = lane.touch.block,
                    .page = *page,
                    .faulting_processor = lane.touch.faulting_processor,
                    .write = lane.touch.write,
                    .recorded = {}};
      put({end_ns, turn.node, turn.lane});
      return;
    }
    finish(turn, end_ns);
  }

  void finish(const Turn& turn, std::uint64_t end_ns) {
    ends_[turn.node] = end_ns;
    Lane& lane = lanes_[turn.lane];
    lane.clock_ns = end_ns;
    lane.node = timeline_.nodes[turn.node].next;
    arm(turn.lane);
    arm_those_who_await(turn.node);
  }

  void note_begin(const Turn& turn) {
    if (begins_[turn.node] != not_yet) return;
    begins_[turn.node] = turn.time_ns;
    arm_those_who_await(turn.node);
  }

  void arm_those_who_await(std::uint32_t node) {
    armed_.clear();
    std::erase_if(blocked_, [&](std::uint32_t number) {
      if (lanes_[number].awaited != node) return false;
      armed_.push_back(number);
      return true;
    });
    for (const std::uint32_t number : armed_) arm(number);
  }

  // The simulated time for a recorded time: the simulated end of the nodes that had ended by then,
  // plus the recorded time since the last of them ended.
  std::uint64_t moment(std::uint64_t time_ns) const {
    std::uint64_t recorded_ns = timeline_.trace->machine.start_ns;
    std::uint64_t simulated_ns = recorded_ns;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (timeline_.ends[i] > time_ns) continue;
      recorded_ns = std::max(recorded_ns, timeline_.ends[i]);
      simulated_ns = std::max(simulated_ns, ends_[i]);
    }
    return simulated_ns + (time_ns - std::min(recorded_ns, time_ns));
  }

  const ReplayRequest& request_;
  const Timeline& timeline_;
  Machine machine_;
  std::array<std::uint64_t, impl::max_processors> trap_ns_{};  // of a fault, by processor
  // Simulated times of nodes. Only accesses have a begin: the time at which their own page is
  // available.
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint64_t> ends_;
  std::vector<Lane> lanes_;
  std::vector<Turn> agenda_;            // a heap
  std::vector<std::uint32_t> armed_;    // temporary list of lanes
  std::vector<std::uint32_t> blocked_;  // lanes whose next node waits for another node
  std::uint64_t stall_ns_ = 0;
};

}  // namespace

ReplayResult replay(const ReplayRequest& request) {
  return Walk(request).run();
}

MachineSetting setting_of(const Timeline& timeline, std::uint64_t capacity_pages) {
  const impl::TraceMachine& machine = timeline.trace->machine;
  MachineSetting setting;
  setting.processors = static_cast<int>(machine.processors.size());
  setting.coherent = timeline.coherent;
  for (std::size_t i = 0; i < machine.processors.size(); ++i) {
    const std::uint64_t pages = machine.processors[i].capacity / impl::page_size;
    setting.capacity_pages[i] = i != 0 && capacity_pages != 0 ? capacity_pages : pages;
  }
  setting.region_pages = static_cast<unsigned>(
      std::clamp<std::uint64_t>(machine.region_bytes / impl::page_size, 1, impl::pages_per_block));
  setting.blocks = timeline.blocks;
  return setting;
}

MachineSetting as_recorded(const MachineSetting& setting, const Timeline& timeline) {
  MachineSetting same = setting;
  if (setting.capacity_pages == setting_of(timeline).capacity_pages)
    same.victims = &timeline.victims;
  return same;
}

Window whole(const tool::Trace& trace) {
  return {trace.machine.start_ns, std::max(trace.machine.start_ns, trace.end_ns)};
}

}  // namespace wherry::replay
