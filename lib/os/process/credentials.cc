#include "os/process/credentials.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace wherry::impl {

Credentials Credentials::of_this_thread() {
  Credentials own;
  ::getresuid(&own.users[0], &own.users[1], &own.users[2]);
  ::getresgid(&own.groups[0], &own.groups[1], &own.groups[2]);
  if (const int count = ::getgroups(0, nullptr); count > 0) {
    own.supplementary.resize(static_cast<std::size_t>(count));
    const int got = ::getgroups(count, own.supplementary.data());
    own.supplementary.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> words{};
  ::syscall(SYS_capget, &header, words.data());
  const auto joined = [](std::uint32_t low, std::uint32_t high) {
    return std::uint64_t{high} << 32 | low;
  };
  own.capabilities = {joined(words[0].effective, words[1].effective),
                      joined(words[0].permitted, words[1].permitted),
                      joined(words[0].inheritable, words[1].inheritable)};
  return own;
}

}  // namespace wherry::impl
