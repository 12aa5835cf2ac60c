#include "trap/trap_choice.h"

#include <cerrno>

#include "support/catch.h"

namespace wherry::impl::trap_choice_test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Verdict = Answer::Verdict;

constexpr Answer yes{Verdict::permitted, 0};
constexpr Answer refused{Verdict::refused, EPERM};
constexpr Answer killed{Verdict::killed, 0};
constexpr const char* remedy = "the remedy";

Permissions answers(const Answer& call, const Answer& device, const Answer& user_mode) {
  return {{call, device, user_mode, yes}, 0};
}
const Permissions everything = answers(yes, yes, yes);
const Permissions by_device = answers(killed, yes, killed);
const Permissions user_mode = answers(refused, refused, yes);
const Permissions nothing = answers(refused, refused, refused);

TrapChoice chosen(std::string_view setting, const Permissions& permissions) {
  return std::get<TrapChoice>(choose_trap(setting, permissions, remedy));
}

TrapError wrong(std::string_view setting, const Permissions& permissions) {
  return std::get<TrapError>(choose_trap(setting, permissions, remedy));
}

bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos;
}

}  // namespace

TEST_CASE("auto, which is the default, chooses the best permitted trap") {
  for (const char* setting : {"", "auto"}) {
    INFO(setting);
    CHECK(chosen(setting, everything).mode.userfaultfd == UffdAccess::full);
    CHECK(chosen(setting, by_device).mode.userfaultfd == UffdAccess::device);
    CHECK(chosen(setting, user_mode).mode.userfaultfd == UffdAccess::user_mode_only);
    CHECK(chosen(setting, nothing).mode.kind == TrapKind::mprotect);
  }
}

TEST_CASE("userfaultfd is used in its best available mode, or an error gives the reason") {
  CHECK(chosen("userfaultfd", everything).mode.userfaultfd == UffdAccess::full);
  CHECK(chosen("userfaultfd", by_device).mode.userfaultfd == UffdAccess::device);
  CHECK(chosen("userfaultfd", user_mode).mode.userfaultfd == UffdAccess::user_mode_only);

  const TrapError error = wrong("userfaultfd", nothing);
  CHECK(error.not_permitted);
  CHECK(error.message ==
        "WHERRY_TRAP=userfaultfd: userfaultfd is refused (Operation not permitted); to enable: the "
        "remedy");
  CHECK_THAT(wrong("userfaultfd", answers(killed, refused, killed)).message,
             ContainsSubstring("kills the calling process (a seccomp filter)"));
  CHECK_THAT(wrong("userfaultfd", {}).message, ContainsSubstring("was not tried"));
}

TEST_CASE("mprotect is used whatever else is permitted") {
  for (const Permissions* permissions : {&everything, &by_device, &user_mode, &nothing}) {
    CHECK(chosen("mprotect", *permissions).mode.kind == TrapKind::mprotect);
    CHECK(chosen("mprotect", *permissions).reason == "WHERRY_TRAP=mprotect");
  }
}

TEST_CASE(
    "sigbus is used only if it is set, in the best available mode, or an error gives the reason") {
  for (const Permissions* permissions : {&everything, &by_device, &user_mode, &nothing})
    CHECK(chosen("auto", *permissions).mode.kind != TrapKind::sigbus);
  CHECK(chosen("sigbus", everything).mode.userfaultfd == UffdAccess::full);
  CHECK(chosen("sigbus", by_device).mode.userfaultfd == UffdAccess::device);
  CHECK(chosen("sigbus", user_mode).mode.userfaultfd == UffdAccess::user_mode_only);
  for (const Permissions* permissions : {&everything, &by_device, &user_mode}) {
    CHECK(chosen("sigbus", *permissions).mode.kind == TrapKind::sigbus);
    CHECK(chosen("sigbus", *permissions).reason == "WHERRY_TRAP=sigbus");
    CHECK_FALSE(serves_system_calls(chosen("sigbus", *permissions).mode));
    CHECK(to_string(chosen("sigbus", *permissions).mode) == "sigbus");
  }
  const TrapError error = wrong("sigbus", nothing);
  CHECK(error.not_permitted);
  CHECK(error.message ==
        "WHERRY_TRAP=sigbus: userfaultfd is refused (Operation not permitted); to enable: the "
        "remedy");
}

TEST_CASE("an invalid setting is refused with a line that lists the valid ones") {
  for (const char* setting : {"uffd", "Auto", "mprotect ", "userfaultfd,mprotect", "0"}) {
    for (const Permissions* permissions : {&everything, &nothing}) {
      INFO(setting);
      const TrapError error = wrong(setting, *permissions);
      CHECK_FALSE(error.not_permitted);
      CHECK(error.message == "WHERRY_TRAP: '" + std::string(setting) +
                                 "' is none of 'userfaultfd', 'mprotect', 'sigbus' and 'auto'");
    }
  }
}

TEST_CASE("a choice gives its reason, and how to enable a better one") {
  for (const char* setting : {"auto", "mprotect"}) {
    for (const Permissions* permissions : {&everything, &by_device, &user_mode, &nothing})
      CHECK(is_one_line(chosen(setting, *permissions).reason));
  }
  CHECK(chosen("auto", user_mode).reason ==
        "userfaultfd for faults inside system calls is refused (Operation not permitted)");
  CHECK(chosen("auto", nothing).reason == "userfaultfd is refused (Operation not permitted)");
  CHECK(chosen("auto", answers({}, {}, {Verdict::not_tried, EAGAIN})).reason ==
        "userfaultfd could not be tried (Resource temporarily unavailable)");
  for (const Permissions* permissions : {&user_mode, &nothing})
    CHECK(chosen("auto", *permissions).remedy == remedy);
  CHECK(chosen("mprotect", nothing).remedy == remedy);
  CHECK(chosen("mprotect", user_mode).remedy == "unset WHERRY_TRAP");
  CHECK(chosen("sigbus", everything).remedy == "unset WHERRY_TRAP");
  CHECK(chosen("sigbus", user_mode).remedy == remedy);
  CHECK(std::get<TrapChoice>(choose_trap("auto", everything, "")).remedy.empty());
}

}  // namespace wherry::impl::trap_choice_test
