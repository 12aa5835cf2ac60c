#include "measure/bare_collapse.h"

#include <algorithm>

namespace wherry::bench {

BareCollapse::BareCollapse(std::size_t bytes, std::size_t stride, std::size_t granularity,
                           int devices)
    : bytes_(bytes),
      stride_(stride),
      granularity_(granularity),
      pool_(bytes),
      alias_(pool_.map()),
      memory_(pool_.map()),
      uffd_(open_userfaultfd()) {
  for (int i = 0; i < devices; ++i) devices_.emplace_back(memory_, bytes, granularity);
  write();
  register_range(uffd_, memory_, bytes);
  trap_.emplace(std::vector<int>{uffd_},
                [this](std::size_t, std::uintptr_t address) { collapse(address); });
}

void BareCollapse::duplicate() const {
  set_write_protection(uffd_, start(), bytes_, true);
  for (const BareDevice& device : devices_) {
    for (std::size_t offset = 0; offset < bytes_; offset += std::max(stride_, granularity_))
      copy_write_protected(device.uffd(), start() + offset, alias_ + offset, granularity_);
  }
}

double BareCollapse::write() const {
  return timed_touch(memory_, bytes_, stride_);
}

void BareCollapse::collapse(std::uintptr_t address) const {
  const std::uintptr_t first = address & ~(std::uintptr_t{granularity_} - 1);
  for (const BareDevice& device : devices_) device.pool().punch(first - start(), granularity_);
  set_write_protection(uffd_, first, granularity_, false);
  wake(uffd_, first, granularity_);
}

}  // namespace wherry::bench
