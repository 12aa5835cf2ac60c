// A memory cgroup for one test: Linux counts separately what the test's processes leave behind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace wherry::test {

class MemoryGroup {
 public:
  // Returns nullptr if this process may not create one.
  static std::unique_ptr<MemoryGroup> make();
  ~MemoryGroup();  // requires: processes in it have ended
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // Adds the calling process, and those that it forks from now on.
  void join() const;
  // Bytes of memory files that processes of the group created, also after the processes ended.
  std::uint64_t file_memory() const;
  // Whether the group contains a process.
  bool is_used() const;

 private:
  explicit MemoryGroup(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
};

}  // namespace wherry::test
