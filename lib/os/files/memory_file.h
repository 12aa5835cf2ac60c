// A named in-memory file for pools: sparse, as large as the arena, with holes punched page by page.
// It has 2 MiB pages where Linux can make them: on a private tmpfs (huge_tmpfs.h), or as a memfd if
// the machine is configured for that. Otherwise it is a plain memfd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "os/files/fd.h"
#include "os/files/file_identity.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

enum class HugePages {
  never,
  // Mappings may permit huge pages anywhere, because a userfaultfd tracks the holes.
  if_possible,
  // Mappings permit huge pages only where the file holds, or shall hold, all pages.
  where_whole,
};

class MemoryFile {
 public:
  // `name` appears as /memfd:NAME or /NAME in /proc/PID/maps and /proc/PID/fd. Throws
  // std::system_error.
  MemoryFile(const std::string& name, std::size_t bytes, HugePages wanted);
  // Creates several such files. All of them have huge pages, or none has.
  static std::vector<MemoryFile> create(const std::string& name, std::size_t bytes,
                                        HugePages wanted, unsigned count);

  int fd() const { return fd_.get(); }
  // Whether the file may have huge pages. Then a write, or an access through a mapping that permits
  // huge pages, can create the whole 2 MiB around it; callers do either only where all of it shall
  // exist.
  bool has_huge_pages() const { return huge_; }
  // Frees the pages and removes them from the page tables of all processes. Returns 0 or an errno.
  [[nodiscard]] int punch(std::uint64_t offset, std::uint64_t bytes) const;
  // Creates the absent pages of this part. Returns 0 or an errno: ENOSPC, ENOMEM.
  [[nodiscard]] int allocate(std::uint64_t offset, std::uint64_t bytes) const;
  // Reads from the file; holes read as zeros. Returns false if not everything could be read.
  [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> to) const;
  // Whether `mapping` is a mapping of the file.
  bool is_shown_by(const MappedRange& mapping) const;
  // Pages that are created in this part of the file from now on are placed on one of `nodes` if
  // they have free memory. Uses a temporary mapping: Linux would split a lasting one at the borders
  // of every policy. Returns 0 or an errno.
  [[nodiscard]] int prefer_nodes(std::uint64_t offset, std::uint64_t bytes,
                                 std::span<const int> nodes) const;
  // Pages that are created in this part of the file from now on are placed only on `nodes`. Returns
  // 0 or an errno.
  [[nodiscard]] int bind_nodes(std::uint64_t offset, std::uint64_t bytes,
                               std::span<const int> nodes) const;
  // Returns the first byte of the first page that the file holds in [offset, end), or `end` if it
  // holds none.
  std::uint64_t first_data(std::uint64_t offset, std::uint64_t end) const;

 private:
  MemoryFile(Fd fd, bool huge);

  Fd fd_;
  FileIdentity identity_;
  bool huge_ = false;
};

// The name and size of a file that MemoryFile created, in this process or another one.
struct FoundMemoryFile {
  std::string name;
  std::size_t bytes = 0;
};
std::optional<FoundMemoryFile> find_memory_file(int fd);

}  // namespace wherry::impl
