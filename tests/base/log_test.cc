// Writing to stderr never blocks the thread that logs.
#include "base/log.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "base/check.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::log_test {

using namespace wherry::impl;
using wherry::test::expect;
using wherry::test::in_fresh_process;
using wherry::test::Outcome;

namespace {

// A full pipe as this process's stderr.
class FullPipe {
 public:
  FullPipe() {
    int ends[2];
    expect(::pipe(ends) == 0, "a pipe");
    from_ = ends[0];
    expect(::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0, "no waiting");
    std::string filler(4096, '.');
    while (::write(ends[1], filler.data(), filler.size()) > 0) continue;
    while (::write(ends[1], filler.data(), 1) > 0) continue;
    expect(::fcntl(ends[1], F_SETFL, 0) == 0, "waiting");
    expect(::dup2(ends[1], STDERR_FILENO) == STDERR_FILENO, "stderr");
    ::close(ends[1]);
  }

  // Removes and returns the contents of the pipe.
  std::string drain() const {
    expect(::fcntl(from_, F_SETFL, O_NONBLOCK) == 0, "the pipe cannot be made non-blocking");
    std::string text;
    char piece[4096];
    for (ssize_t got; (got = ::read(from_, piece, sizeof piece)) > 0;)
      text.append(piece, static_cast<std::size_t>(got));
    return text;
  }

 private:
  int from_ = -1;
};

void require_passed(const Outcome& outcome) {
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
}

}  // namespace

TEST_CASE("a line that does not fit into a full pipe is dropped, and the next one reports that",
          "[base]") {
  constexpr int limit_ms = 10'000;
  require_passed(in_fresh_process(
      [] {
        const FullPipe pipe;
        log_line("one");
        log_line("two");
        expect(pipe.drain().find("wherry") == std::string::npos,
               "a line was written to the full pipe");
        log_line("three");
        expect(
            pipe.drain() == "wherry: 2 earlier lines were lost: stderr was full\nwherry: three\n",
            "the report on lost lines is wrong");
        log_line("four");
        expect(pipe.drain() == "wherry: four\n", "the loss was reported twice");
      },
      limit_ms));
}

TEST_CASE("a line to a pipe that has no reader raises no signal", "[base]") {
  require_passed(in_fresh_process([] {
    int ends[2];
    expect(::pipe(ends) == 0 && ::dup2(ends[1], STDERR_FILENO) == STDERR_FILENO, "a pipe");
    ::close(ends[1]);
    ::close(ends[0]);
    log_line("no reader gets this");
  }));
}

TEST_CASE("a line to a closed stderr is dropped", "[base]") {
  require_passed(in_fresh_process([] {
    ::close(STDERR_FILENO);
    log_line("no reader gets this");
  }));
}

TEST_CASE("a line that is too long is cut and ends with a newline", "[base]") {
  const Outcome outcome = in_fresh_process([] { log_line("{}", std::string(10'000, 'x')); });
  REQUIRE(outcome.passed());
  CHECK(outcome.err.size() == log_line_max);
  CHECK(outcome.err.starts_with("wherry: xxx"));
  CHECK(outcome.err.ends_with("x\n"));
}

TEST_CASE("a failed check is reported with its values", "[base]") {
  const Outcome outcome = in_fresh_process([] {
    const int value = 3;
    WHERRY_CHECK(value == 4, "the value is {}", value);
  });
  CHECK(outcome.signal == SIGABRT);
  CHECK(outcome.err.find("`value == 4`: the value is 3\n") != std::string::npos);
}

}  // namespace wherry::test::log_test
