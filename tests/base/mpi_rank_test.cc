#include "base/mpi_rank.h"

#include <cstdlib>

#include "support/catch.h"

namespace wherry::test::mpi_rank_test {

using namespace wherry::impl;

namespace {

constexpr const char* in_order[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                    "MV2_COMM_WORLD_RANK", "SLURM_PROCID"};

void forget_ranks() {
  for (const char* name : in_order) ::unsetenv(name);
}

}  // namespace

TEST_CASE("the rank is the number in the first variable that has one") {
  forget_ranks();
  CHECK_FALSE(mpi_rank());
  unsigned rank = 10;
  for (auto name = std::rbegin(in_order); name != std::rend(in_order); ++name) {
    INFO(*name);
    ::setenv(*name, std::to_string(++rank).c_str(), 1);
    CHECK(mpi_rank() == rank);
  }
  for (const char* name : in_order) {
    CHECK(mpi_rank() == rank--);
    ::unsetenv(name);
  }
}

TEST_CASE("what is no number is no rank") {
  for (const char* text : {"", "x", "-1", "1x", " 1", "../1", "99999999999"}) {
    INFO(text);
    forget_ranks();
    ::setenv("PMI_RANK", text, 1);
    CHECK_FALSE(mpi_rank());
    ::setenv("PMIX_RANK", "0", 1);
    CHECK(mpi_rank() == 0u);
  }
  forget_ranks();
}

TEST_CASE("Slurm alone does not mean MPI") {
  forget_ranks();
  ::setenv("SLURM_PROCID", "3", 1);
  CHECK(mpi_rank() == 3u);
  CHECK_FALSE(is_started_by_mpi());
  ::setenv("PMIX_RANK", "3", 1);
  CHECK(is_started_by_mpi());
  forget_ranks();
}

}  // namespace wherry::test::mpi_rank_test
