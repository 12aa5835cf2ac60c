// Memory without the library, as a baseline: private to this process, or a file in memory.
#pragma once

#include <cstddef>

namespace wherry::bench {

class PlainMemory {
 public:
  enum class Pages {
    small,
    huge,  // as far as Linux permits it
  };

  // Private memory of this process, as malloc gives for large sizes.
  PlainMemory(std::size_t bytes, Pages pages);
  // A file in memory that Linux makes huge pages for only where `pages` asks for them. `fd`: an
  // empty file, which this object closes; -1: a new memfd.
  PlainMemory(std::size_t bytes, Pages pages, int fd);
  ~PlainMemory();
  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  // Makes every page resident.
  void fill();
  // Frees all pages; the next access creates new ones.
  void clear();

 private:
  void map(Pages pages, int sharing);

  std::size_t bytes_;
  int fd_ = -1;  // -1: no file
  void* mapping_ = nullptr;
  std::byte* data_ = nullptr;  // aligned to 2 MiB
};

// Copies with several threads, each a part of its own. Returns nanoseconds.
double copy_by_threads(std::byte* to, const std::byte* from, std::size_t bytes, int threads);

}  // namespace wherry::bench
