// A memory cgroup of a test's own: Linux counts what its processes leave behind, apart from all
// others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace wherry::test {

class MemoryGroup {
 public:
  // Returns nullptr where this process may make none.
  static std::unique_ptr<MemoryGroup> make();
  ~MemoryGroup();  // processes in it have ended
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // The calling process, and those that it forks from now on, belong to it.
  void join() const;
  // Bytes of files in memory that processes of the group have made, also after their end.
  std::uint64_t file_memory() const;
  // Whether a process is in it.
  bool is_used() const;

 private:
  explicit MemoryGroup(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
};

}  // namespace wherry::test
