#include "devices/trap.h"

#include <algorithm>

#include "devices/mprotect_trap.h"
#include "devices/userfaultfd_trap.h"
#include "devices/view_changers.h"

namespace wherry::impl {

std::unique_ptr<Trap> make_trap(Trap::Parts parts) {
  switch (parts.mode.kind) {
    case TrapKind::mprotect:
      return std::make_unique<MprotectTrap>(std::move(parts));
    case TrapKind::userfaultfd:
      break;
  }
  return std::make_unique<UserfaultfdTrap>(std::move(parts));
}

std::unique_ptr<ViewChanger> make_changer(const Trap::Parts& parts, Processor p) {
  if (!p.is_host()) return std::make_unique<DeviceViewChanger>(*parts.layout);
  std::vector<int> fds;
  for (const MemoryPoolFile* pool : parts.pools) fds.push_back(pool->file().fd());
  return std::make_unique<HostViewChanger>(*parts.layout, std::move(fds), parts.huge_pages);
}

}  // namespace wherry::impl
