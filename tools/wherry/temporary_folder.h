// A folder for the files of a command. The destructor removes it.
#pragma once

#include <filesystem>
#include <string>

namespace wherry::tool {

class TemporaryFolder {
 public:
  // `name`: the start of its name. Throws std::system_error.
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace wherry::tool
