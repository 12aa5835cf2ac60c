// Environment variables in programs with more privileges than their user. WHERRY_TEST_CLIENT names
// a program that starts the library.
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "support/catch.h"
#include "support/child.h"
#include "support/nobody.h"
#include "support/session.h"

namespace fs = std::filesystem;

namespace wherry::test {
namespace {

// A folder that every user may enter, with a copy of the program and a file that only root may
// write.
class Place {
 public:
  Place() {
    std::string name = (fs::temp_directory_path() / "wherry-privileged-XXXXXX").string();
    expect(::mkdtemp(name.data()) != nullptr, "mkdtemp");
    folder_ = name;
    expect(::chmod(name.c_str(), 0755) == 0, "chmod");
    const char* const client = std::getenv("WHERRY_TEST_CLIENT");
    expect(client != nullptr, "WHERRY_TEST_CLIENT is not set");
    fs::copy_file(client, program());
    expect(::chmod(program().c_str(), 0755) == 0, "chmod");
    std::ofstream(victim()) << "root's";
    fs::permissions(victim(), fs::perms::owner_read | fs::perms::owner_write);
  }
  ~Place() { fs::remove_all(folder_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  std::string program() const { return folder_ / "program"; }
  std::string victim() const { return folder_ / "victim"; }
  std::string victim_text() const {
    std::ostringstream text;
    text << std::ifstream(victim()).rdbuf();
    return text.str();
  }
  bool ignores_privileges() const {
    struct statvfs status {};
    expect(::statvfs(folder_.c_str(), &status) == 0, "statvfs");
    return (status.f_flag & (ST_NOSUID | ST_NOEXEC)) != 0;
  }

 private:
  fs::path folder_;
};

// The reason why a file here cannot give privileges, or nothing.
std::optional<std::string> why_impossible(const Place& place) {
  if (::geteuid() != 0) return "only root can give a file privileges";
  if (place.ignores_privileges()) return "the temporary folder is mounted nosuid or noexec";
  return std::nullopt;
}

// Runs the program as an ordinary user whose environment names a policy and a trace file that
// belongs to root.
Outcome run_by_nobody(const Place& place) {
  return in_fresh_process([&] {
    ::setenv("WHERRY_DEVICES", "capacity=4M", 1);
    ::setenv("WHERRY_POLICY", "/nowhere/policy.so", 1);
    ::setenv("WHERRY_TRACE", place.victim().c_str(), 1);
    become_nobody();
    ::execl(place.program().c_str(), "program", nullptr);
    expect(false, "the program cannot be started");
  });
}

void check_that_nothing_was_opened(const Place& place, const Outcome& outcome) {
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err,
             Catch::Matchers::ContainsSubstring("wherry: WHERRY_POLICY, WHERRY_TRACE: not read: "));
  CHECK_THAT(outcome.err, !Catch::Matchers::ContainsSubstring("cannot load a policy"));
  CHECK_THAT(outcome.err, !Catch::Matchers::ContainsSubstring("no trace"));
  CHECK(place.victim_text() == "root's");
}

}  // namespace

TEST_CASE(
    "a set-uid program loads no policy and writes no trace that its user's environment names") {
  const Place place;
  if (const auto why = why_impossible(place)) {
    WARN("skipped: " << *why);
    return;
  }
  REQUIRE(::chmod(place.program().c_str(), 04755) == 0);
  const Outcome outcome = run_by_nobody(place);
  check_that_nothing_was_opened(place, outcome);
  CHECK(outcome.out == "CUDA_SUCCESS\n");
}

TEST_CASE("a program with file capabilities loads no policy and writes no trace, either") {
  const Place place;
  if (const auto why = why_impossible(place)) {
    WARN("skipped: " << *why);
    return;
  }
  const std::string command =
      "setcap cap_dac_override,cap_sys_nice=ep " + place.program() + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    WARN("skipped: setcap cannot give the file capabilities");
    return;
  }
  check_that_nothing_was_opened(place, run_by_nobody(place));
}

TEST_CASE("the same program without privileges reads both variables") {
  const Place place;
  const Outcome outcome = run_by_nobody(place);
  INFO(outcome.describe());
  CHECK_THAT(outcome.err,
             Catch::Matchers::ContainsSubstring("cannot load a policy: /nowhere/policy.so"));
  CHECK_THAT(outcome.err, !Catch::Matchers::ContainsSubstring("not read"));
}

TEST_CASE("cuInit says which variables are misspelt, once") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_DEVICE", "capacity=4M", 1);
    const Session session("capacity=4M");
    WHERRY_TRY(cuInit(0));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err ==
        "wherry: WHERRY_DEVICE is not a setting of Wherry: did you mean WHERRY_DEVICES?\n");
}

}  // namespace wherry::test
