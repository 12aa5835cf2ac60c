#include "os/files/small_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/catch.h"

namespace wherry::test::small_file_test {

using namespace wherry::impl;

TEST_CASE("a small file is read as a whole; anything else is refused, and nothing changes") {
  std::string folder = std::filesystem::temp_directory_path() / "wherry-small-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string file = folder + "/file", pipe = folder + "/pipe";
  std::ofstream(file) << "text\nof 16 bytes\n";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);

  std::string text = "as before";
  CHECK(read_small_file(file, 16, text) == EFBIG);
  CHECK(read_small_file(folder + "/none", 16, text) == ENOENT);
  CHECK(read_small_file(folder, 16, text) == EINVAL);
  CHECK(read_small_file(pipe, 16, text) == EINVAL);
  CHECK(text == "as before");
  CHECK(read_small_file(file, 17, text) == 0);
  CHECK(text == "text\nof 16 bytes\n");
  std::filesystem::remove_all(folder);
}

}  // namespace wherry::test::small_file_test
