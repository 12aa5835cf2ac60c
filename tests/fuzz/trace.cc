// Traces, as `wherry trace`, `wherry replay` and `wherry report` read them. The fuzzer corrects the
// checksums first: they detect accidental damage, not files made to do harm.
#include <cstring>
#include <variant>
#include <vector>

#include "fuzz/target.h"
#include "report/trace_report.h"
#include "trace_reader.h"

namespace {

void put_word(std::vector<std::byte>& file, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) file[at + i] = static_cast<std::byte>(value >> 8 * i);
}

std::uint32_t word_at(const std::vector<std::byte>& file, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= std::to_integer<std::uint32_t>(file[at + i]) << 8 * i;
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace wherry;
  using namespace wherry::impl;
  using namespace wherry::tool;
  const auto given = test::bytes_of(data, size);
  std::vector<std::byte> file(given.begin(), given.end());
  for (std::size_t at = trace_header_bytes; at + chunk_header_bytes <= file.size();) {
    const std::size_t bytes = word_at(file, at + 4);
    const std::size_t begin = at + chunk_header_bytes;
    if (bytes > chunk_payload_max || bytes > file.size() - begin) break;
    const std::span<const std::byte> all(file);
    put_word(file, at + 8, crc32(all.subspan(begin, bytes), crc32(all.subspan(at, 8))));
    at = begin + bytes;
  }
  const auto result = read_trace(file);
  const auto report = report::make_report([&] { return reader_of(file); });
  if (const auto* error = std::get_if<TraceError>(&result)) {
    test::require(!error->message.empty(), "an error without a reason");
    test::require(std::holds_alternative<std::string>(report), "a report on what is no trace");
    return 0;
  }
  const auto& trace = std::get<Trace>(result);
  const auto processors = static_cast<int>(trace.machine.processors.size());
  for (const TraceEvent& event : trace.events)
    test::require(event.destination < processors && event.source < processors,
                  "an event of a processor that does not exist");
  return 0;
}
