// A file whose data comes when the test says so, of a file system of its own (FUSE). Whoever reads
// from it with O_DIRECT holds the pages that he reads into until then, so that a test knows that
// pages are held while it does something else.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

namespace wherry::test {

class SlowFile {
 public:
  // Makes the file, of `bytes` bytes with the content of byte_at(). Moves the calling process into
  // a mount namespace of its own, in which the file is. Requires: the process has one thread.
  // Returns null, and prints why, if this machine or user has no FUSE.
  static std::unique_ptr<SlowFile> make(std::size_t bytes);
  ~SlowFile();
  SlowFile(const SlowFile&) = delete;
  SlowFile& operator=(const SlowFile&) = delete;

  static char byte_at(std::size_t offset) { return static_cast<char>(offset * 7 % 253); }
  // Whether memory has the file's content from `offset` on.
  static bool has_content(const char* memory, std::size_t bytes, std::size_t offset) {
    for (std::size_t i = 0; i < bytes; ++i)
      if (memory[i] != byte_at(offset + i)) return false;
    return true;
  }
  const std::string& path() const { return path_; }
  // Opens the file for reading, with further flags. Throws std::runtime_error.
  int open(int flags) const;
  // Reads of data wait from now on, until release().
  void hold() { is_held_ = true; }
  void release() { is_held_ = false; }
  // Waits until Linux has asked for data that it does not get: the reader holds its pages. Returns
  // false after 20 seconds.
  bool is_read() const;

 private:
  SlowFile(std::size_t bytes, std::string path, int device);
  void serve();

  const std::size_t bytes_;
  const std::string path_;
  const int device_;
  std::atomic<bool> is_held_ = false;
  std::atomic<bool> is_ending_ = false;
  std::atomic<int> waiting_ = 0;
  std::thread server_;
};

}  // namespace wherry::test
