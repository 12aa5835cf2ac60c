// The decoding of a trace's numbers.
#include "trace_source.h"

#include <limits>

#include "support/catch.h"
#include "support/sample_trace.h"

namespace wherry::test::trace_source_test {

using namespace wherry::impl;
using wherry::test::bytes_of;
using wherry::tool::TraceSource;

namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

}  // namespace

TEST_CASE("numbers are decoded to their values") {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{1} << 63, most}) {
    CAPTURE(value);
    TraceBytes bytes;
    TraceSink sink(bytes);
    sink.put(value);
    sink.put_step(5, value);
    sink.put_step(value, 5);
    TraceSource source(bytes);
    CHECK(source.take() == value);
    CHECK(source.take_step(5) == value);
    CHECK(source.take_step(value) == 5);
    CHECK(source.good());
    CHECK(source.empty());
  }
}

TEST_CASE("a missing or too large number is an error, and so is every number after it") {
  for (const TraceBytes& bytes :
       {bytes_of({}), bytes_of({0x80}), bytes_of({255, 255, 255, 255, 255, 255, 255, 255, 255, 2}),
        bytes_of({128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0})}) {
    TraceSource source(bytes);
    CHECK(source.take() == 0);
    CHECK_FALSE(source.good());
    CHECK(source.take_byte() == 0);
    CHECK(source.take_text().empty());
  }
  const TraceBytes text = bytes_of({3, 'a', 'b'});
  TraceSource source(text);
  CHECK(source.take_text().empty());
  CHECK_FALSE(source.good());
  const TraceBytes large = bytes_of({0xac, 2});
  TraceSource limited(large);
  CHECK(limited.take_up_to(std::uint8_t{255}) == 0);
  CHECK_FALSE(limited.good());
}

}  // namespace wherry::test::trace_source_test
