// Programs that know nothing of Wherry, with and without `wherry run`: what they compute, and the
// share of local pages among those that their threads use. Linux says where pages are.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"

namespace {

struct Pages {
  unsigned long local = 0;
  unsigned long all = 0;

  double share() const { return static_cast<double>(local) / static_cast<double>(all); }
};

struct Outcome {
  unsigned long long checksum = 0;
  Pages first;
  Pages last;
};

Outcome run(const std::string& how, const std::string& command) {
  CAPTURE(command);
  std::FILE* const output = ::popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  Outcome outcome;
  unsigned passes = 0, wrong = 0;
  const int found = std::fscanf(output,
                                "checksum %llx passes %u, of them wrong %u "
                                "first: %lu of %lu pages local last: %lu of %lu pages local",
                                &outcome.checksum, &passes, &wrong, &outcome.first.local,
                                &outcome.first.all, &outcome.last.local, &outcome.last.all);
  CHECK(::pclose(output) == 0);
  REQUIRE(found == 7);
  std::printf("%s: %.2f local at first, %.2f at last (%u passes)\n", how.c_str(),
              outcome.first.share(), outcome.last.share(), passes);
  CHECK(wrong == 0);
  CHECK(outcome.last.all >= 500);  // of 1,024 or more: some are not mapped just then
  return outcome;
}

// Switches Linux's NUMA balancing, which also moves pages to the threads that use them.
void set_balancing(bool on) {
  std::ofstream("/proc/sys/kernel/numa_balancing") << on << std::flush;
}

void check_placement(const std::string& program) {
  // In this emulated machine the answer to a sampled access takes tens of milliseconds, on a real
  // one some tenths of one. The default, 2 % of the program's time, would allow too few samples.
  ::setenv("WHERRY_SAMPLING", "50", 1);
  ::setenv("OMP_PLACES", "threads", 1);
  ::setenv("OMP_PROC_BIND", "close", 1);
  const std::string path = WHERRY_PROGRAMS + program;
  set_balancing(false);
  const Outcome plain = run(program + " alone, Linux moves no pages", path + " 0.5");
  std::vector<std::string> policies{"auto"};
  if (wherry::test::scale() >= 1) {
    set_balancing(true);
    (void)run(program + " alone, Linux balances nodes", path + " 2");
    policies.push_back("migrate-always");
  }
  for (const std::string& policy : policies) {
    const auto managed_for = [&](const char* seconds) {
      return run(program + " with wherry run, " + policy,
                 WHERRY_TOOL " run --policy " + policy + " -- " + path + " " + seconds);
    };
    // On a busy machine, few accesses are sampled in a short time.
    Outcome managed;
    for (const char* const seconds : {"3", "12", "40"})
      if (managed.last.all == 0 || managed.last.share() < 0.8) managed = managed_for(seconds);
    CHECK(managed.checksum == plain.checksum);
    CHECK(managed.last.share() >= 0.8);
    CHECK(managed.last.share() >= plain.last.share() + 0.25);
  }
}

}  // namespace

TEST_CASE("wherry run brings the pages of a program to the threads that use them", "[guest]") {
  // The rows of a stencil come to the threads that compute them, those of a matrix to the OpenMP
  // threads that sum them, and buffers to the threads that sort in them.
  const std::array programs{"stencil", "matrix_sum", "sort"};
  for (const std::size_t i : wherry::test::one_of(programs.size(), "programs"))
    check_placement(programs[i]);
}
