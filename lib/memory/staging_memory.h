// The library's own memory for bytes that wait for their turn in a stream. It is never managed
// memory, fork() does not pass it on, and its total size is bounded. Any thread may call.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace wherry::impl {

class StagingMemory {
 public:
  explicit StagingMemory(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // Returns memory for `bytes` > 0 bytes. The memory is freed with its last reference, which may
  // outlive this object. Returns null if the bound would be passed, or if Linux has no memory.
  std::shared_ptr<std::byte> take(std::size_t bytes);
  std::size_t bytes_taken() const { return *taken_; }

 private:
  const std::size_t bytes_max_;
  const std::shared_ptr<std::atomic<std::size_t>> taken_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace wherry::impl
