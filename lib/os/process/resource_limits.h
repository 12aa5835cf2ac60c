// Resource limits of this process (getrlimit) that concern memory. Each call reads them again. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace wherry::impl {

inline constexpr std::uint64_t unlimited = ~std::uint64_t{0};

// The maximum size of a file (RLIMIT_FSIZE); it applies to in-memory files too.
std::uint64_t file_size_limit();
// Whether RLIMIT_FSIZE permits a write up to `end`. A write beyond it raises SIGXFSZ, which ends
// the program.
inline bool may_write_to(std::uint64_t end) {
  return file_size_limit() >= end;
}
// How much address space the process may use (RLIMIT_AS), and how much it uses.
std::uint64_t address_space_limit();
std::uint64_t address_space_in_use();

// How many descriptors the process may have (RLIMIT_NOFILE).
std::uint64_t descriptors_limit();

// Sets a file's size. Returns 0 or an errno. Returns EFBIG above RLIMIT_FSIZE without calling
// Linux, which would also send SIGXFSZ; that ends most programs.
[[nodiscard]] int set_file_size(int fd, std::size_t bytes);

// The limits in force that may deny the process memory or threads, as text: "RLIMIT_AS (ulimit -v)
// is 4096M, RLIMIT_NPROC (ulimit -u) is 100". Empty if there are none.
std::string limits_in_force();

// Returns for example "4096M", with the largest suffix of K, M and G that leaves a whole number.
std::string size_text(std::uint64_t bytes);

}  // namespace wherry::impl
