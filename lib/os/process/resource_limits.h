// Limits that a process was given (getrlimit) and that memory meets: read anew by each call. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace wherry::impl {

inline constexpr std::uint64_t unlimited = ~std::uint64_t{0};

// How large files may become (RLIMIT_FSIZE), files in memory too.
std::uint64_t file_size_limit();
// How much address space the process may have (RLIMIT_AS), and has.
std::uint64_t address_space_limit();
std::uint64_t address_space_in_use();

// Sets a file's size. Returns 0 or an errno. Beyond RLIMIT_FSIZE that is EFBIG; Linux would send
// SIGXFSZ besides, which ends most programs.
[[nodiscard]] int set_file_size(int fd, std::size_t bytes);

// The limits in force that may keep memory or threads from a process, as a line says them:
// "RLIMIT_AS (ulimit -v) is 4096M, RLIMIT_NPROC (ulimit -u) is 100". Empty: there are none.
std::string limits_in_force();

// "4096M", with the largest of the suffixes K, M and G that leaves a whole number.
std::string size_text(std::uint64_t bytes);

}  // namespace wherry::impl
