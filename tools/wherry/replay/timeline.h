// A recorded run as a graph: what happened on which thread, and after what. A replay walks it with
// other times.
//
//   host thread   touch ----> touch ----------------------------------> touch      (on to the next
//   of the thread,
//                               |                                         ^         after a while
//                               of its own: slack)
//   launches                    +--> begin ----------------> end ---------+
//                                      |                      ^
//   device thread                      +--> touch --> touch --+
//
// A while of its own is what passed since the last of those things had ended that it came after, as
// far as the trace tells.
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
#include "trace/trace_reader.h"

namespace wherry::replay {

inline constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

// 32 bytes: there are millions of them.
struct Node {
  enum class Kind : std::uint8_t {
    touch,
    launch,  // its begin or end
    change,  // by the program: memory, advice, prefetches, copies
  };

  std::uint64_t slack_ns = 0;
  std::uint32_t lane = 0;
  std::uint32_t next = none;      // of its lane
  std::uint32_t edges_begin = 0;  // in Timeline::edges; to the next node's
  std::uint32_t what =
      0;  // of a touch: the block, as Timeline::blocks numbers it; of a change: the event
  std::uint16_t page = 0;  // in the block
  Kind kind = Kind::touch;
  std::uint8_t write = 0;
  std::uint8_t processor = 0;
};

struct Timeline {
  const impl::Trace* trace = nullptr;  // outlives it
  std::vector<Node> nodes;             // in order of time, and one more, which ends the edges
  // To nodes that had ended before, beside the one before of the lane; with `begun`: that had begun
  // to take what a touch is of.
  static constexpr std::uint32_t begun = std::uint32_t{1} << 31;
  std::vector<std::uint32_t> edges;
  std::vector<std::uint64_t> ends;      // when each had ended, as recorded
  std::vector<RecordedAnswer> answers;  // of touches, by node
  std::vector<std::uint32_t> first_of_lane;
  std::vector<impl::PageMask> touched;  // by block and processor
  std::vector<std::uint64_t> blocks;    // their numbers by address, in order of appearance
  std::uint64_t touches = 0;

  std::size_t size() const { return ends.size(); }
  // Pages that came with a touch, and of which the trace knows that the toucher does use them: had
  // they not come, it would have touched them then.
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

// A string: one line that says why it cannot be replayed. Throws std::bad_alloc.
std::variant<Timeline, std::string> make_timeline(const impl::Trace& trace);

}  // namespace wherry::replay
