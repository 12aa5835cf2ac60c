// A program that drops its user id, groups or capabilities: kernels do not run with credentials
// that the program has dropped.
#include <grp.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <map>
#include <string>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::credentials_test {
namespace {

constexpr const char* one_device = "capacity=16M,workers=1";
constexpr unsigned nobody = 65534;

void give_up_user() {
  expect(::setresuid(nobody, nobody, nobody) == 0, "setresuid");
}
void give_up_groups() {
  const gid_t other = 12345;
  expect(::setgroups(1, &other) == 0, "setgroups");
}
void give_up_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3]{};
  expect(::syscall(SYS_capset, &header, words) == 0, "capset");
}
void give_up_all() {
  expect(::setgroups(0, nullptr) == 0 && ::setresgid(nobody, nobody, nobody) == 0, "setresgid");
  give_up_user();
}

// The credentials that /proc shows for the process.
std::string credentials_of(pid_t process) {
  std::string all;
  for (const char* key : {"Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapInh"})
    all += process_status(process, key).value_or("?") + ";";
  return all;
}

CUresult launch_nothing(const Session& session) {
  return wherryLaunchKernel(
      session.stream(0), [](const void*, std::size_t, std::size_t) {}, nullptr, 0, 1);
}

}  // namespace

TEST_CASE(
    "after a change of credentials a launch is refused, and a device that is reset "
    "has the new ones",
    "[system]") {
  if (::geteuid() != 0) {
    WARN("SKIP: only root has credentials to drop");
    return;
  }
  const std::map<std::string, void (*)()> changes = {{"user", give_up_user},
                                                     {"groups", give_up_groups},
                                                     {"capabilities", give_up_capabilities},
                                                     {"all", give_up_all}};
  for (const auto& [name, change] : changes) {
    INFO(name);
    const auto outcome = in_fresh_process([change = change] {
      Session session{one_device};
      const Managed<int> numbers{100'000};
      session.run(0, [to = numbers.data()] {
        for (int i = 0; i < 100'000; ++i) to[i] = i;
      });
      expect(credentials_of(device_process(0)) == credentials_of(::getpid()),
             "device and host differ at the start");
      change();
      expect(credentials_of(device_process(0)) != credentials_of(::getpid()),
             "the credentials did not change");
      expect(launch_nothing(session) == CUDA_ERROR_NOT_PERMITTED, "a launch was not refused");
      expect(launch_nothing(session) == CUDA_ERROR_NOT_PERMITTED,
             "a second launch was not refused");
      // Nothing else fails: the context works, and memory keeps its contents.
      WHERRY_TRY(cuCtxSynchronize());
      expect(numbers[5] == 5, "memory was lost");
      const pid_t before = device_process(0);
      WHERRY_TRY(cuDevicePrimaryCtxReset(0));
      session.renew_stream(0);
      expect(!is_running(before), "the old process still runs");
      expect(credentials_of(device_process(0)) == credentials_of(::getpid()),
             "device and host differ after the reset");
      const Managed<int> wrong{1};
      session.run(0, [from = numbers.data(), to = wrong.data()] {
        for (int i = 0; i < 100'000; ++i) *to += from[i] != i ? 1 : 0;
        from[7] = -7;
      });
      expect(wrong[0] == 0, "memory was lost in the reset");
      expect(numbers[7] == -7, "the new process does not write");
    });
    INFO(outcome.describe());
    CHECK(outcome.passed());
    const auto said = outcome.err.find("cuDevicePrimaryCtxReset");
    CHECK(said != std::string::npos);
    // The message appears once in each process.
    CHECK(outcome.err.find("cuDevicePrimaryCtxReset", said + 1) == std::string::npos);
  }
}

}  // namespace wherry::test::credentials_test
