// Limits that this process does not have, described as values.
#include "machine/arena_size.h"

#include "base/page.h"
#include "os/process/resource_limits.h"
#include "support/catch.h"

namespace wherry::test::arena_size_test {

using namespace wherry::impl;

namespace {

constexpr std::size_t gib = std::size_t{1} << 30;
constexpr std::size_t mib = std::size_t{1} << 20;

constexpr ArenaSurroundings machine(std::uint64_t file_size_limit,
                                    std::uint64_t address_space_limit) {
  return {16 * gib, 3, file_size_limit, address_space_limit, 10 * mib};
}
constexpr ArenaSurroundings free_machine = machine(unlimited, unlimited);

std::size_t chosen(std::string_view text, const ArenaSurroundings& surroundings) {
  const ArenaSize size = choose_arena_size(text, surroundings);
  if (const auto* wrong = std::get_if<std::string>(&size)) FAIL(*wrong);
  return std::get<std::size_t>(size);
}

std::string refused(std::string_view text, const ArenaSurroundings& surroundings) {
  const ArenaSize size = choose_arena_size(text, surroundings);
  if (std::holds_alternative<std::size_t>(size)) FAIL("accepted: " << text);
  return std::get<std::string>(size);
}

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("without limits an arena is a tebibyte, or the size in WHERRY_ARENA") {
  CHECK(chosen("", free_machine) == 1024 * gib);
  CHECK(chosen(" ", free_machine) == 1024 * gib);
  CHECK(chosen("64M", free_machine) == 64 * mib);
  CHECK(chosen("3G", free_machine) == 3 * gib);
}

TEST_CASE("an arena is a multiple of a block, and from one GiB on a multiple of one GiB") {
  CHECK(chosen("65M", free_machine) == 64 * mib);
  CHECK(chosen("2500M", free_machine) == 2 * gib);
}

TEST_CASE("a malformed arena is refused with the variable's name") {
  for (const char* wrong : {"much", "63M", "100T", "-1", "1G;"})
    CHECK(has(refused(wrong, free_machine), "WHERRY_ARENA"));
}

TEST_CASE(
    "an arena shrinks to the size limit of files (RLIMIT_FSIZE), unless its size was requested") {
  const ArenaSurroundings limited = machine(10 * gib + 5, unlimited);
  CHECK(chosen("", limited) == 10 * gib);
  CHECK(chosen("4G", limited) == 4 * gib);
  const std::string line = refused("11G", limited);
  CHECK(has(line, "RLIMIT_FSIZE"));
  CHECK(has(line, "WHERRY_ARENA=10G"));
}

TEST_CASE(
    "a file size limit below the smallest arena is refused; the message has its value and the "
    "minimum") {
  const std::string line = refused("", machine(1 * mib, unlimited));
  CHECK(has(line, "RLIMIT_FSIZE (ulimit -f) is 1M"));
  CHECK(has(line, "64M"));
}

TEST_CASE(
    "an address space limit is refused; the message has its value, the minimum, and an arena that "
    "fits") {
  const ArenaSurroundings limited = machine(unlimited, 16 * gib);
  const std::string line = refused("", limited);
  CHECK(has(line, "RLIMIT_AS (ulimit -v) is 16384M"));
  const std::size_t at = line.find("WHERRY_ARENA=");
  REQUIRE(at != std::string::npos);
  const std::string offered = line.substr(at + std::string("WHERRY_ARENA=").size());
  const std::size_t fits = chosen(offered, limited);
  CHECK(fits >= gib);
  CHECK(limited.address_space_in_use + address_space_needed(fits, limited.processors) <=
        limited.address_space_limit);
}

TEST_CASE("where no arena fits into the address space, the message suggests none") {
  const std::string line = refused("", machine(unlimited, 200 * mib));
  CHECK(has(line, "RLIMIT_AS"));
  CHECK_FALSE(has(line, "WHERRY_ARENA="));
}

}  // namespace wherry::test::arena_size_test
