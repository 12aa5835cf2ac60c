// Reads a small file as a whole.
#pragma once

#include <cstddef>
#include <string>

namespace wherry::impl {

// Reads the regular file at `path` into `text`. Returns 0, or an errno: EFBIG if it has more than
// `bytes_max` bytes, EINVAL if it is not a regular file. Never waits for another process. Any
// thread.
[[nodiscard]] int read_small_file(const std::string& path, std::size_t bytes_max,
                                  std::string& text);

}  // namespace wherry::impl
