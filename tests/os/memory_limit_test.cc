// Control groups that this machine need not have, as folders of files.
#include "os/memory/memory_limit.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "os/process/process.h"
#include "support/catch.h"

namespace wherry::test::memory_limit_test {

using namespace wherry::impl;

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

class Root {
 public:
  Root()
      : path_(fs::temp_directory_path() / ("wherry-memory-limit-" + std::to_string(own_pid()))) {}
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() { fs::remove_all(path_); }

  void write(const std::string& name, const std::string& text) const {
    const fs::path file = path_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void write(const std::string& name, std::uint64_t number) const {
    write(name, std::to_string(number) + "\n");
  }
  std::string path() const { return path_.string(); }

 private:
  const fs::path path_;
};

// Sets up control groups of version 2, at their usual place.
void second(const Root& root, const std::string& group) {
  root.write("proc/self/cgroup", "0::" + group + "\n");
  root.write("proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
}

// Sets up control groups of version 1, where each controller has a hierarchy of its own.
void first(const Root& root, const std::string& group) {
  root.write("proc/self/cgroup", "3:cpuset:/elsewhere\n2:memory:" + group + "\n1:cpu:/\n");
  root.write("proc/self/mountinfo",
             "31 25 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
             "32 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
}

}  // namespace

TEST_CASE("a machine without control groups has no limit") {
  const Root root;
  CHECK_FALSE(read_memory_limit(root.path()));
  second(root, "/");
  CHECK_FALSE(read_memory_limit(root.path()));
}

TEST_CASE("a group of version 2 without a number has no limit") {
  const Root root;
  second(root, "/app");
  root.write("sys/fs/cgroup/app/memory.max", "max\n");
  root.write("sys/fs/cgroup/app/memory.high", "max\n");
  root.write("sys/fs/cgroup/app/memory.current", 5 * mib);
  CHECK_FALSE(read_memory_limit(root.path()));
}

TEST_CASE(
    "the smaller of memory.max and memory.high is the limit, and cached files are available") {
  const Root root;
  second(root, "/app");
  root.write("sys/fs/cgroup/app/memory.max", 200 * mib);
  root.write("sys/fs/cgroup/app/memory.high", 120 * mib);
  root.write("sys/fs/cgroup/app/memory.current", 50 * mib);
  root.write("sys/fs/cgroup/app/memory.stat",
             "anon 1\nfile 99\ninactive_file 10485760\nactive_file 5242880\n");
  const auto limit = read_memory_limit(root.path());
  REQUIRE(limit);
  CHECK(limit->bytes == 120 * mib);
  CHECK(limit->available == (120 - 50 + 15) * mib);
  CHECK(limit->file == root.path() + "/sys/fs/cgroup/app/memory.high");
}

TEST_CASE("the tightest limit among all ancestors counts, and so does the least available memory") {
  const Root root;
  second(root, "/slice/app/inner");
  root.write("sys/fs/cgroup/slice/memory.max", 300 * mib);
  // Other processes of the slice use it.
  root.write("sys/fs/cgroup/slice/memory.current", 290 * mib);
  root.write("sys/fs/cgroup/slice/app/memory.max", 100 * mib);
  root.write("sys/fs/cgroup/slice/app/memory.current", 20 * mib);
  root.write("sys/fs/cgroup/slice/app/inner/memory.max", "max\n");
  const auto limit = read_memory_limit(root.path());
  REQUIRE(limit);
  CHECK(limit->bytes == 100 * mib);
  CHECK(limit->file == root.path() + "/sys/fs/cgroup/slice/app/memory.max");
  CHECK(limit->available == 10 * mib);
}

TEST_CASE("a group of version 1 is found in the hierarchy of the memory controller") {
  const Root root;
  first(root, "/docker/1234");
  root.write("sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", 120 * mib);
  root.write("sys/fs/cgroup/memory/docker/1234/memory.soft_limit_in_bytes",
             std::uint64_t{9223372036854771712u});
  root.write("sys/fs/cgroup/memory/docker/1234/memory.usage_in_bytes", 30 * mib);
  root.write("sys/fs/cgroup/memory/docker/1234/memory.stat",
             "inactive_file 1\ntotal_inactive_file 10485760\ntotal_active_file 0\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::uint64_t{9223372036854771712u});
  const auto limit = read_memory_limit(root.path());
  REQUIRE(limit);
  CHECK(limit->bytes == 120 * mib);
  CHECK(limit->available == 100 * mib);
}

TEST_CASE("a container that sees the machine's group names uses the mounted group") {
  const Root root;
  root.write("proc/self/cgroup", "2:memory:/docker/1234\n");
  root.write("proc/self/mountinfo",
             "32 25 0:28 /docker/1234 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 64 * mib);
  const auto limit = read_memory_limit(root.path());
  REQUIRE(limit);
  CHECK(limit->bytes == 64 * mib);
  CHECK(limit->available == 64 * mib);
}

TEST_CASE("a group above the visible ones is treated as the top of the hierarchy") {
  const Root root;
  second(root, "/../../other");
  root.write("sys/fs/cgroup/memory.max", 77 * mib);
  const auto limit = read_memory_limit(root.path());
  REQUIRE(limit);
  CHECK(limit->bytes == 77 * mib);
}

TEST_CASE("what is available is the machine's rest, or less where a group permits less") {
  const Root root;
  CHECK(available_memory(root.path()) == 0);
  root.write("proc/meminfo", "MemTotal:  8192 kB\nMemFree:  512 kB\nMemAvailable:   4096 kB\n");
  CHECK(available_memory(root.path()) == 4 * mib);
  second(root, "/job");
  root.write("sys/fs/cgroup/job/memory.max", 16 * mib);
  root.write("sys/fs/cgroup/job/memory.current", 2 * mib);
  CHECK(available_memory(root.path()) == 4 * mib);
  root.write("sys/fs/cgroup/job/memory.current", 13 * mib);
  CHECK(available_memory(root.path()) == 3 * mib);
}

}  // namespace wherry::test::memory_limit_test
