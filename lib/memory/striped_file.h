// The files of one pool (pages/stripes.h). A range of bytes that a function gets lies within one
// block, and so in one file, unless a comment says otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/page.h"
#include "os/files/memory_file.h"
#include "pages/stripes.h"

namespace wherry::impl {

class StripedFile {
 public:
  // All files have the same name, size and kind of pages. Throws std::system_error.
  StripedFile(const std::string& name, std::size_t bytes, HugePages wanted, const Stripes& stripes)
      : stripes_(stripes),
        bytes_(bytes),
        files_(MemoryFile::create(name, bytes, wanted, stripes.files())) {}

  const Stripes& stripes() const { return stripes_; }
  const std::vector<MemoryFile>& files() const { return files_; }
  std::size_t bytes() const { return bytes_; }  // of the pool, and of each file
  // The file that this byte of the pool belongs to.
  const MemoryFile& at(std::uint64_t offset) const { return files_[stripes_.file_of(offset)]; }
  int fd_at(std::uint64_t offset) const { return at(offset).fd(); }
  PoolFiles descriptors() const;

  bool has_huge_pages() const { return files_.front().has_huge_pages(); }
  [[nodiscard]] int punch(std::uint64_t offset, std::uint64_t bytes) const {
    return at(offset).punch(offset, bytes);
  }
  std::uint64_t first_data(std::uint64_t offset, std::uint64_t end) const {
    return at(offset).first_data(offset, end);
  }
  // Calls MemoryFile::prefer_nodes() for pages that may be in several files.
  [[nodiscard]] int prefer_nodes(PageSpan pages, std::span<const int> nodes) const;

 private:
  const Stripes stripes_;
  const std::size_t bytes_;
  std::vector<MemoryFile> files_;
};

}  // namespace wherry::impl
