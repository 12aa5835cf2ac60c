#include "support/kernel_view.h"

#include <fcntl.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/descriptors.h"

namespace wherry::test {
namespace {

constexpr std::uint64_t page_bytes = 4096;

[[noreturn]] void no_answer(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

const void* page_start(const void* address) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(address) &
                                       ~(page_bytes - 1));
}

// One line of /proc/PID/maps.
struct MappingLine {
  std::uint64_t start = 0, end = 0, offset = 0;
  std::string permissions;

  explicit MappingLine(const std::string& line) {
    char dash = 0;
    std::istringstream{line} >> std::hex >> start >> dash >> end >> permissions >> offset;
  }
  bool contains(std::uint64_t address) const { return address >= start && address < end; }
};

// A mapping, from /proc/PID/smaps.
struct DetailedMapping {
  MappingLine line;
  std::string text;              // the line
  std::uint64_t huge_bytes = 0;  // mapped by huge page-table entries
  bool permits_huge_pages = true;
};

std::vector<DetailedMapping> detailed_mappings(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/smaps";
  std::ifstream smaps(path);
  if (!smaps) no_answer(path);
  std::vector<DetailedMapping> found;
  for (std::string line; std::getline(smaps, line);) {
    std::uint64_t begin = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      found.push_back({MappingLine(line), line});
    else if (std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &kib) == 1)
      found.back().huge_bytes = kib * 1024;
    else if (line.starts_with("VmFlags:"))
      found.back().permits_huge_pages = line.find(" nh") == std::string::npos;
  }
  return found;
}

// The node of a mapped page, or move_pages' negative errno for an absent page.
int node_or_error(pid_t process, const void* address) {
  void* page = const_cast<void*>(page_start(address));
  int status = INT_MIN;
  if (::move_pages(process, 1, &page, nullptr, &status, 0) < 0) no_answer("move_pages");
  return status;
}

// Requires: the file holds the page at this offset.
bool is_zeros(int fd, off_t offset) {
  std::array<char, page_bytes> page;
  if (::pread(fd, page.data(), page.size(), offset) != page_bytes) no_answer("pread of a pool");
  return std::ranges::count(page, '\0') == page_bytes;
}

}  // namespace

std::string pool_name(int processor) {
  return processor == 0 ? "wherry-pool-host" : "wherry-pool-dev" + std::to_string(processor - 1);
}

PoolFile::PoolFile(int processor) {
  const std::string wanted = pool_name(processor);
  std::set<std::pair<dev_t, ino_t>> known;
  for (const int fd : open_descriptors()) {
    // The link is "/memfd:NAME (deleted)", or a path that ends in "NAME (deleted)".
    std::string name = file_of_descriptor(fd);
    name = name.substr(0, name.find(" (deleted)"));
    name = name.substr(name.find_last_of("/:") + 1);
    struct stat status {};
    if (name != wanted || ::fstat(fd, &status) != 0) continue;
    // Other objects of this class have descriptors of the same files.
    if (known.emplace(status.st_dev, status.st_ino).second) files_.push_back(::dup(fd));
  }
  if (files_.empty()) throw std::runtime_error("no descriptor of this process is " + wanted);
}

PoolFile::~PoolFile() {
  for (const int fd : files_) ::close(fd);
}

int PoolFile::file_with(const void* address) const {
  const auto offset = static_cast<off_t>(pool_offset(address));
  for (const int fd : files_) {
    const off_t data = ::lseek(fd, offset, SEEK_DATA);
    if (data < 0 && errno != ENXIO) no_answer("SEEK_DATA");
    if (data == offset) return fd;
  }
  return -1;
}

bool PoolFile::holds(const void* address) const {
  return file_with(address) >= 0;
}

bool PoolFile::holds_zeros(const void* address) const {
  const int fd = file_with(address);
  if (fd < 0) throw std::runtime_error("the pool holds no page for this address");
  return is_zeros(fd, static_cast<off_t>(pool_offset(address)));
}

std::uint64_t PoolFile::allocated_bytes() const {
  std::uint64_t bytes = 0;
  for (const int fd : files_) bytes += test::allocated_bytes(fd);
  return bytes;
}

std::uint64_t PoolFile::bytes_of_zeros() const {
  std::uint64_t bytes = 0;
  for (const int fd : files_) {
    for (off_t page = ::lseek(fd, 0, SEEK_DATA); page >= 0;
         page = ::lseek(fd, page + static_cast<off_t>(page_bytes), SEEK_DATA)) {
      if (is_zeros(fd, page)) bytes += page_bytes;
    }
    if (errno != ENXIO) no_answer("SEEK_DATA");
  }
  return bytes;
}

int PoolFile::files_in_use() const {
  return static_cast<int>(
      std::ranges::count_if(files_, [](int fd) { return test::allocated_bytes(fd) != 0; }));
}

std::uint64_t PoolFile::first_data(std::uint64_t offset, std::uint64_t end) const {
  std::uint64_t first = end;
  for (const int fd : files_) {
    const off_t data = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
    if (data < 0 && errno != ENXIO) no_answer("SEEK_DATA");
    if (data >= 0) first = std::min(first, static_cast<std::uint64_t>(data));
  }
  return first;
}

std::uint64_t PoolFile::first_hole(std::uint64_t offset) const {
  while (first_data(offset, offset + 1) == offset) {
    for (const int fd : files_) {
      const off_t hole = ::lseek(fd, static_cast<off_t>(offset), SEEK_HOLE);
      if (hole < 0) no_answer("SEEK_HOLE");
      offset = static_cast<std::uint64_t>(hole);
    }
  }
  return offset;
}

int PoolFile::node_of(const void* address) const {
  const int fd = file_with(address);
  if (fd < 0) throw std::runtime_error("the pool holds no page for this address");
  const auto offset = static_cast<off_t>(pool_offset(address));
  void* page = ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, fd, offset);
  if (page == MAP_FAILED) no_answer("mmap of a pool");
  static_cast<void>(*static_cast<const volatile char*>(page));
  const int node = node_or_error(0, page);
  ::munmap(page, page_bytes);
  if (node < 0) {
    errno = -node;
    no_answer("move_pages");
  }
  return node;
}

int PoolFile::merge(const void* address) const {
  constexpr int collapse = 25;  // MADV_COLLAPSE
  constexpr std::size_t block = std::size_t{2} << 20;
  void* const room =
      ::mmap(nullptr, 2 * block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return errno;
  const auto start = (reinterpret_cast<std::uintptr_t>(room) + block - 1) / block * block;
  void* const place = reinterpret_cast<void*>(start);
  const bool merged =
      ::mmap(place, block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_with(address),
             static_cast<off_t>(pool_offset(address))) != MAP_FAILED &&
      ::madvise(place, block, MADV_HUGEPAGE) == 0 && ::madvise(place, block, collapse) == 0;
  const int error = merged ? 0 : errno;
  ::munmap(room, 2 * block);
  return error;
}

std::uint64_t pool_offset(const void* address) {
  // Mappings of the arena never change their offsets, so the last result is valid for neighbouring
  // addresses.
  thread_local MappingLine last{""};
  const auto wanted = reinterpret_cast<std::uintptr_t>(page_start(address));
  if (last.contains(wanted)) return wanted - last.start + last.offset;

  // Linux does not read the list at one instant: a mapping that is split meanwhile may be left out.
  constexpr int attempts_max = 100;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    std::ifstream maps{"/proc/self/maps"};
    for (std::string line; std::getline(maps, line);) {
      if (line.find("wherry-pool-") == std::string::npos) continue;
      const MappingLine mapping{line};
      if (!mapping.contains(wanted)) continue;
      last = mapping;
      return wanted - mapping.start + mapping.offset;
    }
  }
  throw std::runtime_error("no mapping of a pool contains this address");
}

PageEntry page_entry(pid_t process, const void* address) {
  const std::string path = "/proc/" + std::to_string(process) + "/pagemap";
  const int pagemap = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) no_answer(path);
  std::uint64_t bits = 0;
  const auto number = reinterpret_cast<std::uintptr_t>(address) / page_bytes;
  const ssize_t got =
      ::pread(pagemap, &bits, sizeof bits, static_cast<off_t>(number * sizeof bits));
  ::close(pagemap);
  if (got != sizeof bits) no_answer(path);

  constexpr std::uint64_t frame_mask = (std::uint64_t{1} << 55) - 1;
  PageEntry entry;
  entry.present = (bits >> 63 & 1) != 0;
  entry.write_protected = (bits >> 57 & 1) != 0;
  entry.frame = entry.present ? bits & frame_mask : 0;
  return entry;
}

Permissions permissions_of(pid_t process, const void* address) {
  const std::string path = "/proc/" + std::to_string(process) + "/maps";
  std::ifstream maps{path};
  if (!maps) no_answer(path);
  for (std::string line; std::getline(maps, line);) {
    const MappingLine mapping{line};
    if (!mapping.contains(reinterpret_cast<std::uintptr_t>(address))) continue;
    return {mapping.permissions.at(0) == 'r', mapping.permissions.at(1) == 'w'};
  }
  return {};
}

bool userfaultfd_tracks_memory() {
  std::ifstream smaps{"/proc/self/smaps"};
  if (!smaps) no_answer("smaps");
  for (std::string line; std::getline(smaps, line);) {
    if (line.starts_with("VmFlags:") && line.find(" ui") != std::string::npos) return true;
  }
  return false;
}

std::optional<bool> is_in_huge_page(std::uint64_t frame) {
  if (frame == 0) return {};
  const int flags_of_frames = ::open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
  if (flags_of_frames < 0) return {};
  std::uint64_t flags = 0;
  const ssize_t got =
      ::pread(flags_of_frames, &flags, sizeof flags, static_cast<off_t>(frame * sizeof flags));
  ::close(flags_of_frames);
  constexpr int huge_page_bit = 22;  // KPF_THP
  if (got != sizeof flags) return {};
  return (flags >> huge_page_bit & 1) != 0;
}

std::uint64_t huge_entries(pid_t process, const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  const std::vector<DetailedMapping> mappings = detailed_mappings(process);
  const auto found = std::ranges::find_if(
      mappings, [&](const DetailedMapping& one) { return one.line.contains(wanted); });
  if (found == mappings.end()) no_answer("smaps");
  std::uint64_t bytes = 0;
  for (const DetailedMapping& one : mappings)
    if (one.line.start - one.line.offset == found->line.start - found->line.offset)
      bytes += one.huge_bytes;
  return bytes;
}

bool merges_entries() {
  utsname names{};
  unsigned major = 0, minor = 0;
  if (::uname(&names) != 0 || std::sscanf(names.release, "%u.%u", &major, &minor) != 2)
    no_answer("uname");
  return std::pair(major, minor) >= std::pair(6u, 14u);
}

std::optional<std::string> fillable_hole(pid_t process, int processors) {
  constexpr std::uint64_t block = std::uint64_t{2} << 20;
  for (const DetailedMapping& one : detailed_mappings(process)) {
    if (!one.permits_huge_pages) continue;
    for (int p = 0; p < processors; ++p) {
      // "/memfd:NAME (deleted)", or "/NAME (deleted)".
      if (one.text.find(pool_name(p) + " ") == std::string::npos) continue;
      const PoolFile pool(p);
      // Linux merges 2 MiB that are aligned in memory and in the file.
      const std::uint64_t first = (one.line.offset + block - 1) / block * block;
      const std::uint64_t end = one.line.offset + (one.line.end - one.line.start);
      for (std::uint64_t at = pool.first_data(first, end) / block * block; at + block <= end;
           at = pool.first_data(at + block, end) / block * block)
        if (const std::uint64_t hole = pool.first_hole(at); hole < at + block)
          return pool_name(p) + " has a hole at " + std::to_string(hole);
    }
  }
  return std::nullopt;
}

std::optional<int> mapped_node(pid_t process, const void* address) {
  const int node = node_or_error(process, address);
  if (node == -ENOENT || node == -EFAULT) return {};
  if (node < 0) {
    errno = -node;
    no_answer("move_pages");
  }
  return node;
}

}  // namespace wherry::test
