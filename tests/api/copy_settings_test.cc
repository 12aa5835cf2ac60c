#include "machine/copy_settings.h"

#include <cstdlib>

#include "support/catch.h"

namespace wherry::test::copy_settings_test {

using namespace wherry::impl;

namespace {

CopySettings chosen(std::string_view copiers, std::string_view huge_pages, std::size_t cpus = 8) {
  return std::get<CopySettings>(choose_copy_settings(copiers, huge_pages, cpus));
}

std::string refused(std::string_view copiers, std::string_view huge_pages) {
  return std::get<std::string>(choose_copy_settings(copiers, huge_pages, 8));
}

}  // namespace

TEST_CASE(
    "by default there are as many copiers as CPUs, up to sixteen, and huge pages where possible") {
  CHECK(chosen("", "", 1).copiers == 1);
  CHECK(chosen("", "", 2).copiers == 2);
  CHECK(chosen("", "", 64).copiers == 16);
  CHECK(chosen("", "", 0).copiers == 1);
  CHECK(chosen("", "").huge_pages == HugePages::if_possible);
}

TEST_CASE("both can be set") {
  CHECK(chosen("1", "").copiers == 1);
  CHECK(chosen("16", "auto").copiers == 16);
  CHECK(chosen("", "auto").huge_pages == HugePages::if_possible);
  CHECK(chosen("", "auto").consolidates);
  CHECK(chosen("", "never").huge_pages == HugePages::never);
  CHECK(chosen("", "arriving").huge_pages == HugePages::if_possible);
  CHECK_FALSE(chosen("", "arriving").consolidates);
}

TEST_CASE("an invalid setting is refused with a line that names the valid values") {
  for (const char* wrong : {"0", "17", "-1", "two", "2 ", " 2", "2x", "99999999999999999999"}) {
    INFO(wrong);
    CHECK(refused(wrong, "").find("WHERRY_COPIERS: '" + std::string(wrong) +
                                  "' is not a number from 1 to 16") == 0);
  }
  for (const char* wrong : {"always", "Never", "1", "auto "}) {
    INFO(wrong);
    CHECK(refused("", wrong) ==
          "WHERRY_HUGE_PAGES: '" + std::string(wrong) + "' is not 'auto', 'arriving' or 'never'");
  }
}

TEST_CASE("a rank of MPI has small pages where other ranks' reads would not wait for a fault") {
  ::unsetenv("WHERRY_HUGE_PAGES");
  CHECK(huge_pages_setting(true).empty());
  CHECK(huge_pages_setting(false).empty());
  ::setenv("PMI_RANK", "1", 1);
  CHECK(huge_pages_setting(true).empty());
  CHECK(huge_pages_setting(false) == "never");
  for (const char* value : {"auto", "arriving", "nonsense"}) {
    ::setenv("WHERRY_HUGE_PAGES", value, 1);
    CHECK(huge_pages_setting(true) == value);
    CHECK(huge_pages_setting(false) == value);
  }
  ::unsetenv("PMI_RANK");
  ::unsetenv("WHERRY_HUGE_PAGES");
}

}  // namespace wherry::test::copy_settings_test
