#include "os/files/elf_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace wherry::impl {

std::optional<ElfFile> ElfFile::open(const std::string& path) {
  ElfFile file(Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  Header& header = file.header_;
  struct stat status {};
  if (!file.file_ || ::fstat(file.file_.get(), &status) != 0) return {};
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  if (!file.read_at(&header, sizeof header, 0) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof(Section) ||
      header.e_phentsize != sizeof(Segment))
    return {};
  file.sections_ =
      file.read_table<Section>(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Section));
  return file;
}

std::vector<ElfFile::Segment> ElfFile::segments() const {
  return read_table<Segment>(header_.e_phoff, std::uint64_t{header_.e_phnum} * sizeof(Segment));
}

std::vector<char> ElfFile::strings(const Section& section) const {
  auto text = table<char>(section);
  if (!text.empty()) text.back() = '\0';
  return text;
}

bool ElfFile::read_at(void* target, std::size_t bytes, std::uint64_t offset) const {
  auto* place = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t got = ::pread(file_.get(), place, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    place += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace wherry::impl
