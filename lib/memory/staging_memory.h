// Memory of the library's own for bytes that wait until their turn in a stream comes. Never managed
// memory, and never inherited by fork(). The amount is bounded. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace wherry::impl {

class StagingMemory {
 public:
  explicit StagingMemory(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // Room for `bytes` > 0, which is free again when the last reference ends; that may be after the
  // end of this object. Returns null if the bound would be passed, or if Linux has no memory.
  std::shared_ptr<std::byte> take(std::size_t bytes);
  std::size_t bytes_taken() const { return *taken_; }

 private:
  const std::size_t bytes_max_;
  const std::shared_ptr<std::atomic<std::size_t>> taken_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace wherry::impl
