// A folder for the files of a command, which ends with this object.
#pragma once

#include <filesystem>
#include <string>

namespace wherry::tool {

class TemporaryFolder {
 public:
  // `name`: how its name begins. Throws std::system_error.
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace wherry::tool
