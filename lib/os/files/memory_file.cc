#include "os/files/memory_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string_view>

#include "base/page.h"
#include "os/files/file_identity.h"
#include "os/files/file_io.h"
#include "os/files/hole_probe.h"
#include "os/files/huge_tmpfs.h"
#include "os/memory/mapping.h"
#include "os/memory/numa.h"
#include "os/process/interposer_hooks.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::uint64_t allocated_bytes_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

// Calls `act`, which returns 0 or an errno, with an inaccessible mapping of this part of the file.
// Returns its result.
template <typename Act>
int in_view(int fd, std::uint64_t offset, std::uint64_t bytes, const Act& act) {
  void* view =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (view == MAP_FAILED) return errno;
  int error = leave_out_of_core_dumps(reinterpret_cast<std::uintptr_t>(view), bytes);
  (void)::madvise(view, bytes, MADV_NOHUGEPAGE);  // Linux shall fill no holes because of this view
  if (error == 0) error = act(view);
  ::munmap(view, bytes);
  return error;
}

// Whether an access to a memfd creates more than one page, as the machine is configured.
bool memfds_have_huge_pages() {
  static const bool have = [] {
    const Fd file(::memfd_create("wherry-probe", MFD_CLOEXEC));
    const Mapping place = Mapping::reserve(huge_page, huge_page);
    return file && set_file_size(file.get(), huge_page) == 0 &&
           map_closed(place.address(), {file.get(), 0, huge_page}) == 0 &&
           prepare_view(place.address(), huge_page, /*huge_pages=*/true) == 0 &&
           set_access(place.address(), huge_page, Access::write) == 0 &&
           populate({place.data(), page_size}) == 0 && allocated_bytes_of(file.get()) > page_size;
  }();
  return have;
}

HoleGuard guard_of(HugePages wanted) {
  return wanted == HugePages::where_whole ? HoleGuard::small_mapping : HoleGuard::userfaultfd;
}

}  // namespace

MemoryFile::MemoryFile(Fd fd, bool huge)
    : fd_(std::move(fd)), identity_(identify_file(fd_.get())), huge_(huge) {}

MemoryFile::MemoryFile(const std::string& name, std::size_t bytes, HugePages wanted)
    : MemoryFile(std::move(create(name, bytes, wanted, 1).front())) {}

std::vector<MemoryFile> MemoryFile::create(const std::string& name, std::size_t bytes,
                                           HugePages wanted, unsigned count) {
  attach_interposers();  // mlockall() must not populate the files
  std::vector<Fd> fds;
  if (wanted != HugePages::never && probe_holes(guard_of(wanted)).keeps_holes())
    fds = create_on_huge_tmpfs(name, count).files;
  const bool huge = !fds.empty() || memfds_have_huge_pages();
  fds.resize(count);
  std::vector<MemoryFile> files;
  for (Fd& fd : fds) {
    if (!fd) fd = Fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
    if (!fd) throw_errno(errno, "memfd_create " + name);
    if (const int error = set_file_size(fd.get(), bytes))
      throw_errno(error, "cannot size pool file " + name);
    files.push_back(MemoryFile(std::move(fd), huge));
  }
  return files;
}

int MemoryFile::punch(std::uint64_t offset, std::uint64_t bytes) const {
  while (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int MemoryFile::allocate(std::uint64_t offset, std::uint64_t bytes) const {
  while (::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

bool MemoryFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

bool MemoryFile::is_shown_by(const MappedRange& mapping) const {
  return mapping.shared && FileIdentity{mapping.device, mapping.inode} == identity_;
}

int MemoryFile::prefer_nodes(std::uint64_t offset, std::uint64_t bytes,
                             std::span<const int> nodes) const {
  return in_view(fd_.get(), offset, bytes,
                 [&](void* view) { return prefer_shared(view, bytes, nodes); });
}

int MemoryFile::bind_nodes(std::uint64_t offset, std::uint64_t bytes,
                           std::span<const int> nodes) const {
  return in_view(fd_.get(), offset, bytes,
                 [&](void* view) { return bind_shared(view, bytes, nodes); });
}

std::uint64_t MemoryFile::first_data(std::uint64_t offset, std::uint64_t end) const {
  const off_t found = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
  return found < 0 ? end : std::min(static_cast<std::uint64_t>(found), end);
}

std::optional<FoundMemoryFile> find_memory_file(int fd) {
  struct stat status {};
  struct statfs system {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || ::fstatfs(fd, &system) != 0 ||
      system.f_type != TMPFS_MAGIC)
    return std::nullopt;
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  if (length <= 0) return std::nullopt;
  // "/memfd:NAME (deleted)", or "/NAME (deleted)" on a private tmpfs.
  std::string_view name(path, static_cast<std::size_t>(length));
  for (const std::string_view start : {"/", "memfd:"})
    if (name.starts_with(start)) name.remove_prefix(start.size());
  constexpr std::string_view end = " (deleted)";
  if (!name.ends_with(end)) return std::nullopt;
  name.remove_suffix(end.size());
  return FoundMemoryFile{std::string(name), static_cast<std::size_t>(status.st_size)};
}

}  // namespace wherry::impl
