// A recorded run as a graph: what happened on which thread, and what it depended on. A replay walks
// the graph with other times.
//
//   host thread   touch ----> touch -------------------------------> touch
//                               |                                      ^
//   launches                    +--> begin ----------------> end ------+
//                                      |                      ^
//   device thread                      +--> touch --> touch --+
//
// A node depends on the previous node of its lane, and on the nodes at the begin of its edges. The
// slack of a node is the time between the end of the last node that it depends on and its own
// begin, as recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/page_mask.h"
#include "base/processor.h"
#include "replay/recorded_answers.h"
#include "replay/recorded_victims.h"
#include "trace_reader.h"

namespace wherry::replay {

inline constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

// 32 bytes, because there are millions of nodes.
struct Node {
  enum class Kind : std::uint8_t {
    touch,
    launch,  // the begin or the end of a launch
    change,  // a change by the program: memory, advice, prefetches, copies
  };

  std::uint64_t slack_ns = 0;
  std::uint32_t lane = 0;
  std::uint32_t next = none;      // in the same lane
  std::uint32_t edges_begin = 0;  // first in Timeline::edges; the next node's is the end
  // For an access: the block's number in Timeline::blocks. For a change: the event.
  std::uint32_t what = 0;
  std::uint16_t page = 0;  // in the block
  Kind kind = Kind::touch;
  std::uint8_t write = 0;
  std::uint8_t processor = 0;
  bool sampled = false;  // the access was a sample: its page was mapped
  // The access has no recorded duration, because another tool recorded it (`wherry import`): it was
  // no fault, so that the time before it contains no trap.
  bool untimed = false;
};

struct Timeline {
  const tool::Trace* trace = nullptr;  // must outlive this object
  impl::ProcessorMask coherent = 0;    // devices that use the host's page table
  std::vector<Node> nodes;  // in order of time; one more than size(), for the end of the last edges
  // Edges to nodes that had to end before, besides the previous node of the lane. An edge with the
  // bit `begun` leads to a fault that takes the page away: only its begin must have passed.
  static constexpr std::uint32_t begun = std::uint32_t{1} << 31;
  std::vector<std::uint32_t> edges;
  std::vector<std::uint64_t> ends;      // recorded end of each node
  std::vector<std::uint32_t> lengths;   // recorded duration of each node, at most 4 s
  std::vector<RecordedAnswer> answers;  // for accesses, by node
  std::vector<std::uint32_t> first_of_lane;
  std::vector<impl::PageMask> touched;  // by block and processor
  std::vector<std::uint64_t> blocks;    // address / 2 MiB by block number, in order of appearance
  VictimLists victims;
  std::uint64_t touches = 0;

  std::size_t size() const { return ends.size(); }
  // The processor in whose page table the pages are mapped that this one's threads access.
  impl::Processor table_of(impl::Processor p) const {
    return (coherent & p.bit()) != 0 ? impl::Processor::host() : p;
  }
  // The pages that moved along with this access and that the same processor accessed: without that
  // move it would have faulted on them.
  impl::PageMask used_along(std::uint32_t node) const {
    const Node& its = nodes[node];
    const RecordedAnswer& answer = answers[node];
    if (answer.end - answer.first <= 1) return {};
    const impl::PageMask came =
        impl::PageMask::of({answer.first, static_cast<unsigned>(answer.end - answer.first)});
    return (came & touched[its.what * trace->machine.processors.size() + its.processor]) -
           impl::PageMask::of({its.page, 1});
  }
  std::span<const std::uint32_t> edges_of(std::uint32_t node) const {
    return std::span(edges).subspan(nodes[node].edges_begin,
                                    nodes[node + 1].edges_begin - nodes[node].edges_begin);
  }
};

// Returns one line that says why if the trace cannot be replayed. Throws std::bad_alloc.
std::variant<Timeline, std::string> make_timeline(const tool::Trace& trace);

}  // namespace wherry::replay
