// A file that is written from its start to its end, in place of one of the same name if there is
// one. Functions return 0 or an errno unless they say otherwise.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

// Creates an empty file beside `path` and then gives it that name, so that what had it before is
// there until the new one is. What is no regular file stays: EISDIR, or EINVAL. Where `path` is a
// link, what it leads to is replaced.
[[nodiscard]] int create_in_place_of(const std::string& path, Fd& file);

// What create_in_place_of() would return: makes the new file, and removes it again. Whether the
// disk has room is not known.
[[nodiscard]] int try_create_in_place_of(const std::string& path);

// Writes all of it where the last call ended. A signal would say that the file may not be that
// long: the caller blocks it. On an error a part may have been written.
[[nodiscard]] int append_all(const Fd& file, std::span<const std::byte> bytes);

}  // namespace wherry::impl
