// A small trace with an example of everything, and its file.
#pragma once

#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "trace/trace_chunks.h"

namespace wherry::test {

inline impl::TraceBytes bytes_of(std::initializer_list<unsigned> numbers) {
  impl::TraceBytes bytes;
  for (const unsigned number : numbers) bytes.push_back(std::byte(number));
  return bytes;
}

inline impl::TraceMachine sample_machine() {
  impl::TraceMachine machine;
  machine.start_ns = 1'000'000;
  machine.start_unix_ns = 1'700'000'000'000'000'000;
  machine.process = 4711;
  machine.page_bytes = 4096;
  machine.block_bytes = 2 << 20;
  machine.region_bytes = 65536;
  machine.arena_base = 0x7e0000000000;
  machine.arena_bytes = std::uint64_t{1} << 40;
  machine.program = "./program";
  machine.trap = "userfaultfd";
  machine.processors = {{impl::TraceProcessor::Kind::host, true, 0, 0, {0, 3}},
                        {impl::TraceProcessor::Kind::isolated, false, 64 << 20, 2, {1}}};
  return machine;
}

inline impl::TraceSettings sample_settings() {
  return {.policy = "auto",
          .policy_in_force = "uvm",
          .version = "0.1.0",
          .kernel = "6.1.0",
          .cpu = "A CPU",
          .cpus = 2,
          .nodes = 1,
          .environment = {"WHERRY_ARENA=", "WHERRY_TRACE=x=y.trace"}};
}

// Sorted by time.
inline std::vector<impl::TraceEvent> sample_events() {
  using namespace impl;
  const std::uint64_t base = sample_machine().arena_base;
  std::vector<TraceEvent> events{
      {.time_ns = 1'000'100, .address = base, .bytes = 65536, .kind = EventKind::allocation},
      {.time_ns = 1'000'200,
       .duration_ns = 7'000,
       .address = base + 5,
       .bytes = 65536,
       .thread = 4712,
       .kind = EventKind::fault,
       .access = EventAccess::write,
       .detail = code_of(FaultDetail::write_protect) | fault_refused,
       .destination = 1},
      {.time_ns = 1'000'300,
       .duration_ns = 500,
       .address = base + 4096,
       .bytes = 4096,
       .kind = EventKind::migration,
       .cause = EventCause::eviction,
       .source = 1,
       .destination = 0},
      {.time_ns = 1'000'400, .address = base, .kind = EventKind::thrashing, .processors = 3},
      {.time_ns = 1'000'450,
       .address = base + 8192,
       .bytes = 8192,
       .kind = EventKind::held,
       .cause = EventCause::release,
       .source = 1},
      {.time_ns = 1'000'500, .address = base, .bytes = 65536, .kind = EventKind::free},
      // The largest possible numbers.
      {.time_ns = 1'000'600,
       .duration_ns = std::numeric_limits<std::uint64_t>::max(),
       .address = std::numeric_limits<std::uint64_t>::max(),
       .bytes = std::numeric_limits<std::uint64_t>::max(),
       .thread = std::numeric_limits<std::uint32_t>::max(),
       .value = std::numeric_limits<std::uint32_t>::max(),
       .kind = EventKind::advice,
       .cause = EventCause::release,
       .access = EventAccess::read,
       .detail = 63,
       .source = 0,
       .destination = 0,
       .processors = std::numeric_limits<std::uint16_t>::max()}};
  return events;
}

inline std::vector<impl::TraceName> sample_names() {
  return {{impl::TraceName::Kind::range, 1'000'150, sample_machine().arena_base, 65536, "matrix"},
          {impl::TraceName::Kind::kernel, 0, 0x401000, 0, "scale"}};
}

inline impl::TraceDrops sample_drops() {
  impl::TraceDrops drops{};
  drops[0] = 3;
  drops[impl::event_kinds - 1] = std::numeric_limits<std::uint64_t>::max();
  return drops;
}

inline constexpr std::uint64_t sample_end_ns = 2'000'000;

// Two chunks of events, the later ones first.
inline impl::TraceBytes sample_file() {
  const auto events = sample_events();
  impl::TraceBytes file;
  impl::append_trace_header(file);
  impl::append_machine(file, sample_machine());
  impl::append_settings(file, sample_settings());
  impl::append_events(file, std::span(events).subspan(2));
  impl::append_names(file, sample_names());
  impl::append_events(file, std::span(events).first(2));
  impl::append_drops(file, sample_drops());
  impl::append_end(file, sample_end_ns);
  return file;
}

}  // namespace wherry::test
