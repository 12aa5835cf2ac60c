#include "measure/bare_migration.h"

#include <cstring>

namespace wherry::bench {

BareMigration::BareMigration(std::size_t bytes, std::size_t granularity)
    : bytes_(bytes),
      granularity_(granularity),
      pool_(bytes),
      alias_(pool_.map()),
      memory_(pool_.map()),
      device_(memory_, bytes, granularity),
      uffd_(open_userfaultfd()) {
  std::memset(alias_, 1, bytes);
  register_range(uffd_, memory_, bytes);
  const Side host{pool_, alias_, uffd_};
  const Side device{device_.pool(), device_.alias(), device_.uffd()};
  trap_.emplace(std::vector<int>{uffd_, device_.uffd()},
                [this, host, device](std::size_t to, std::uintptr_t address) {
                  if (to == 0)
                    migrate(device, host, address);
                  else
                    migrate(host, device, address);
                });
}

double BareMigration::touch_at_host() const {
  return timed_touch(memory_, bytes_, granularity_);
}

void BareMigration::migrate(const Side& source, const Side& target, std::uintptr_t address) const {
  const std::uintptr_t start = address & ~(std::uintptr_t{granularity_} - 1);
  const std::size_t offset = start - reinterpret_cast<std::uintptr_t>(memory_);
  set_write_protection(source.uffd, start, granularity_, true);
  // If the pages are there already, another handler answers the same fault.
  if (!copy_write_protected(target.uffd, start, source.alias + offset, granularity_)) return;
  source.pool.punch(offset, granularity_);
  set_write_protection(target.uffd, start, granularity_, false);
  wake(target.uffd, start, granularity_);
}

}  // namespace wherry::bench
