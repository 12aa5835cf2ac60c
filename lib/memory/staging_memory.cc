#include "memory/staging_memory.h"

#include <system_error>
#include <utility>

#include "base/page.h"
#include "os/memory/mapping.h"

namespace wherry::impl {
namespace {

// Bytes counted towards the bound until this object ends.
class Share {
 public:
  Share(std::shared_ptr<std::atomic<std::size_t>> taken, std::size_t bytes)
      : taken_(std::move(taken)), bytes_(bytes), sum_(taken_->fetch_add(bytes) + bytes) {}
  ~Share() { taken_->fetch_sub(bytes_); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  std::size_t sum() const { return sum_; }  // sum of all shares when this one was taken

 private:
  const std::shared_ptr<std::atomic<std::size_t>> taken_;
  const std::size_t bytes_;
  const std::size_t sum_;
};

struct Staged {
  Share share;
  Mapping memory;
};

}  // namespace

std::shared_ptr<std::byte> StagingMemory::take(std::size_t bytes) {
  if (bytes > bytes_max_) return nullptr;
  const std::size_t whole = round_up(bytes, page_size);
  const auto staged = std::shared_ptr<Staged>(new Staged{{taken_, whole}, {}});
  if (staged->share.sum() > bytes_max_) return nullptr;
  try {
    staged->memory = Mapping::zeroed(whole);
  } catch (const std::system_error&) {
    return nullptr;
  }
  return {staged, staged->memory.data()};
}

}  // namespace wherry::impl
