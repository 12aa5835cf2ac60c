// Accesses to memory that another tool recorded, in whatever format: what csv_accesses.h,
// damon_accesses.h and perf_accesses.h read, and access_trace_writer.h writes as a trace.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "text_lines.h"
#include "trace/event.h"

namespace wherry::importing {

// One access, of any number of bytes.
struct Access {
  static constexpr std::int8_t unknown_processor = -1;

  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // not 0; the last byte has an address
  // The address space, for example a process: equal addresses in two spaces are different memory.
  std::uint64_t space = 0;
  std::uint32_t thread = 0;  // 0: unknown
  std::uint32_t name = 0;    // of the thread, in Accesses::names
  std::int8_t processor = unknown_processor;
  impl::EventAccess kind = impl::EventAccess::none;
};

struct Accesses {
  std::vector<Access> all;                // in any order
  std::vector<std::string> names = {""};  // of threads; the first is that of threads without one
  std::uint64_t end_ns = 0;               // when recording ended; 0 for the last access
  std::uint64_t left_out = 0;             // records without an address of the program
};

// The accesses, or the error at the first wrong line.
using SourceResult = std::variant<Accesses, tool::TextError>;

struct SourceSettings {
  // The bytes of an access for which the file gives no size: a power of two, from 4 KiB to 2 MiB.
  std::uint64_t page_bytes = 0;
  int devices_max = 0;  // the file may name no more devices
};

// Reads the stream up to its end. Throws std::bad_alloc.
using ReadAccesses = SourceResult (*)(std::FILE* stream, const SourceSettings& settings);

// Returns what read() returns, or the error that read() has thrown as tool::MalformedText.
template <typename Read>
SourceResult unless_malformed(const Read& read) {
  try {
    return read();
  } catch (const tool::MalformedText& malformed) {
    return malformed.error;
  }
}

// An access to the whole page of page_bytes around the address.
inline Access page_access(std::uint64_t address, const SourceSettings& settings) {
  return {.address = address & ~(settings.page_bytes - 1), .bytes = settings.page_bytes};
}

}  // namespace wherry::importing
