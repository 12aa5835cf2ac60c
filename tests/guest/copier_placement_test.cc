// On a machine with three NUMA nodes prefetches are copied by CPUs of the host's node, also by
// Linux's kernel threads.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::copier_placement_test {

namespace {

constexpr const char* cpus_of_node_1 = "2-3";
constexpr std::size_t many_words = 2048 * page_words;

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The CPUs that each thread of this process may use whose name begins with `begin`, by name.
std::map<std::string, std::string> cpus_of_threads(const std::string& begin) {
  std::map<std::string, std::string> found;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string name = first_line(thread.path() / "comm");
    if (name.compare(0, begin.size(), begin) != 0) continue;
    std::ifstream status(thread.path() / "status");
    for (std::string word; status >> word;)
      if (word == "Cpus_allowed_list:") status >> found[name];
  }
  return found;
}

}  // namespace

TEST_CASE("copiers, and the kernel threads that copy for them, run on the host's node", "[guest]") {
  expect(::setenv("WHERRY_HOST_NODES", "1", 1) == 0, "setenv");
  ::setenv("WHERRY_COPIERS", "1", 1);
  Stage s{"node=2,capacity=64M"};
  const Words words{many_words};
  for (std::size_t i = 0; i < words.size(); i += page_words) words[i] = 1;
  WHERRY_TRY(cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(words.data()), words.bytes(),
                                location_of(device0), 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  const auto copiers = cpus_of_threads("wherry-copy");
  REQUIRE(copiers.size() == 1);
  CHECK(copiers.begin()->second == cpus_of_node_1);
  const auto workers = cpus_of_threads("iou-wrk");
  CHECK_FALSE(workers.empty());
  for (const auto& [name, cpus] : workers) CHECK(cpus == cpus_of_node_1);
}

}  // namespace wherry::test::copier_placement_test
