// What the library says on stderr never holds up the thread that says it.
#include "base/log.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "base/check.h"
#include "support/child.h"
#include "support/session.h"

using namespace wherry::impl;
using wherry::test::expect;
using wherry::test::in_fresh_process;
using wherry::test::Outcome;

namespace {

// A pipe that is this process's stderr and that holds all it can.
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

  // What is in it.
  std::string drain() const {
    expect(::fcntl(from_, F_SETFL, O_NONBLOCK) == 0, "no waiting");
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

TEST_CASE("a line that a full pipe has no room for is dropped, and the next one says so",
          "[base]") {
  constexpr int limit_ms = 10'000;
  require_passed(in_fresh_process(
      [] {
        const FullPipe pipe;
        log_line("one");
        log_line("two");
        expect(pipe.drain().find("wherry") == std::string::npos, "a line had room");
        log_line("three");
        expect(
            pipe.drain() == "wherry: 2 earlier lines were lost: stderr was full\nwherry: three\n",
            "what was said of the loss");
        log_line("four");
        expect(pipe.drain() == "wherry: four\n", "the loss was said twice");
      },
      limit_ms));
}

TEST_CASE("a line to a pipe that has no reader raises no signal", "[base]") {
  require_passed(in_fresh_process([] {
    int ends[2];
    expect(::pipe(ends) == 0 && ::dup2(ends[1], STDERR_FILENO) == STDERR_FILENO, "a pipe");
    ::close(ends[1]);
    ::close(ends[0]);
    log_line("nobody hears this");
  }));
}

TEST_CASE("a line to a closed stderr is dropped", "[base]") {
  require_passed(in_fresh_process([] {
    ::close(STDERR_FILENO);
    log_line("nobody hears this");
  }));
}

TEST_CASE("a line that is too long is cut and ends with a newline", "[base]") {
  const Outcome outcome = in_fresh_process([] { log_line("{}", std::string(10'000, 'x')); });
  REQUIRE(outcome.passed());
  CHECK(outcome.err.size() == log_line_max);
  CHECK(outcome.err.starts_with("wherry: xxx"));
  CHECK(outcome.err.ends_with("x\n"));
}

TEST_CASE("a condition that does not hold is told with its values", "[base]") {
  const Outcome outcome = in_fresh_process([] {
    const int value = 3;
    WHERRY_CHECK(value == 4, "the value is {}", value);
  });
  CHECK(outcome.signal == SIGABRT);
  CHECK(outcome.err.find("`value == 4`: the value is 3\n") != std::string::npos);
}
