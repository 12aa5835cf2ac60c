// With strict overcommit (vm.overcommit_memory=2) the library starts, and managed memory is used on
// all processors. Runs in the virtual machine, where the test may change kernel settings.
#include <fstream>
#include <string>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::commit_limit_test {

namespace {

constexpr std::uint64_t mebibyte = 1 << 20;

// A setting of Linux, until the end of the object.
class Setting {
 public:
  Setting(const char* path, int value) : path_(path) {
    std::ifstream(path_) >> before_;
    write(value);
  }
  ~Setting() { write(before_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  void write(int value) const {
    std::ofstream file(path_);
    file << value << std::flush;
    CHECK(file.good());
  }

  const char* const path_;
  int before_ = 0;
};

std::uint64_t committed_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Committed_AS:"))
      return std::stoull(line.substr(line.find_first_of("0123456789"))) * 1024;
  FAIL("/proc/meminfo has no Committed_AS");
  return 0;
}

}  // namespace

TEST_CASE("the library works with strict overcommit", "[guest]") {
  // The virtual machine has 1.5 GiB and no swap.
  const Setting ratio("/proc/sys/vm/overcommit_ratio", 80);
  const Setting strict("/proc/sys/vm/overcommit_memory", 2);
  const std::uint64_t before = committed_bytes();
  const Session session("capacity=16M;capacity=16M");
  const Managed<std::uint64_t> words(8 * mebibyte / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
  for (const int device : {0, 1})
    session.run(device, [to = words.data(), count = words.size()] {
      for (std::size_t i = 0; i < count; ++i) to[i] += 1;
    });
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) wrong += words[i] != i + 2;
  CHECK(wrong == 0);
  CHECK(committed_bytes() - before < 512 * mebibyte);
}

}  // namespace wherry::test::commit_limit_test
