// The encoding of a trace's numbers.
#include "trace/trace_bytes.h"

#include <span>

#include "support/catch.h"
#include "support/sample_trace.h"

namespace wherry::test::trace_bytes_test {

using namespace wherry::impl;
using wherry::test::bytes_of;

TEST_CASE("numbers are encoded as the format specifies") {
  TraceBytes bytes;
  TraceSink sink(bytes);
  sink.put(0);
  sink.put(127);
  sink.put(300);
  sink.put_word(0x01020304);
  sink.put_step(10, 7);
  sink.put_text("ab");
  CHECK(bytes == bytes_of({0, 127, 0xac, 2, 4, 3, 2, 1, 5, 2, 'a', 'b'}));
}

TEST_CASE("the checksum is zlib's, however the bytes are divided") {
  const char text[] = "123456789";
  const auto bytes = std::as_bytes(std::span(text, 9));
  CHECK(crc32(bytes) == 0xcbf43926);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    CHECK(crc32(bytes.subspan(cut), crc32(bytes.first(cut))) == 0xcbf43926);
  CHECK(crc32({}) == 0);
  CHECK(crc32({}, 0xcbf43926) == 0xcbf43926);
}

}  // namespace wherry::test::trace_bytes_test
