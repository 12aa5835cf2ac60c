#include "trace/trace_name.h"

#include "support/catch.h"

namespace wherry::test::trace_name_test {

using namespace wherry::impl;

namespace {

std::string name_of(std::string_view pattern) {
  return std::get<std::string>(trace_file_name(pattern, 1234, 5));
}

std::string refused(std::string_view pattern) {
  return std::get<TraceNameError>(trace_file_name(pattern, 1234, 5)).message;
}

}  // namespace

TEST_CASE("a name has the process for %p, the rank for %r and a percent sign for %%") {
  CHECK(name_of("trace") == "trace");
  CHECK(name_of("%p") == "1234");
  CHECK(name_of("a/%r.trace") == "a/5.trace");
  CHECK(name_of("%r%r-%p-100%%%%p") == "55-1234-100%%p");
}

TEST_CASE("another letter after a percent sign is refused, and so is none") {
  CHECK(refused("trace.%h") == "'%h' is not %p (process), %r (MPI rank) or %% (a percent sign)");
  CHECK(refused("%r%").starts_with("'%' is not "));
  CHECK(refused("%R").starts_with("'%R' is not "));
}

TEST_CASE("every name has a pattern that stands for it") {
  for (const char* name : {"trace", "100%", "%p/%%r"})
    CHECK(name_of(trace_pattern_of(name)) == name);
}

}  // namespace wherry::test::trace_name_test
