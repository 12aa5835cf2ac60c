#include "kept_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/cache_file.h"
#include "trial_file.h"

namespace wherry::tool {

std::string why_not_saved(const std::string& path) {
  if (path.empty()) return "there is no home directory for the cost file: name a file with -o FILE";
  std::error_code error;
  // A rename would put a file in the place of a device or a pipe.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error) &&
      !std::filesystem::is_directory(path, error))
    return fmt::format("cannot write {}: it is no regular file", path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder == std::filesystem::path(impl::cache_file("")).parent_path())
    std::filesystem::create_directories(folder, error);
  if (!error) error.assign(try_create_in_place_of(path), std::generic_category());
  return error ? fmt::format("cannot write {}: {}", path, error.message()) : std::string();
}

std::string save_kept(const std::string& text, const std::string& path) {
  if (const std::string wrong = why_not_saved(path); !wrong.empty()) return wrong;
  std::error_code error, ignored;
  // A symbolic link to a file stays, and that file is replaced.
  const std::string target = std::filesystem::weakly_canonical(path, ignored).string();
  const std::string unfinished = target + ".new";
  {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) error.assign(errno == 0 ? EIO : errno, std::generic_category());
  }
  if (!error) std::filesystem::rename(unfinished, target, error);
  if (!error) return {};
  std::filesystem::remove(unfinished, ignored);
  return fmt::format("cannot write {}: {}", path, error.message());
}

}  // namespace wherry::tool
