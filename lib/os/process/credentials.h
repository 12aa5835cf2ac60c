// The calling thread's credentials in Linux: user and group ids, supplementary groups,
// capabilities.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <vector>

namespace wherry::impl {

struct Credentials {
  std::array<uid_t, 3> users{};   // real, effective, saved
  std::array<gid_t, 3> groups{};  // real, effective, saved
  std::vector<gid_t> supplementary;
  std::array<std::uint64_t, 3> capabilities{};  // effective, permitted, inheritable

  static Credentials of_this_thread();
  bool operator==(const Credentials&) const = default;
};

}  // namespace wherry::impl
