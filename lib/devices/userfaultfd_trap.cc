#include "devices/userfaultfd_trap.h"

#include "os/memory/mapping.h"
#include "trap/userfaultfd_source.h"

namespace wherry::impl {
namespace {

void register_with(const Userfaultfd& uffd, std::uintptr_t start, std::size_t bytes) {
  if (const int error = uffd.register_range(start, bytes))
    throw_errno(error, "cannot register the arena with userfaultfd");
}

}  // namespace

UserfaultfdTrap::Part::Part(const UserfaultfdTrap& trap, Processor p)
    : mapper(
          *trap.parts_.layout,
          [this, p](std::uintptr_t address, std::size_t bytes) {
            if (p.is_host()) return set_access(address, bytes, Access::none);
            return static_cast<DeviceViewChanger&>(*changer).process()->forbid(address, bytes);
          },
          p.is_host() ? std::function<void()>()
                      : [this] { static_cast<DeviceViewChanger&>(*changer).process()->give_up(); }),
      changer(make_changer(trap.parts_, p)) {}

UserfaultfdTrap::UserfaultfdTrap(Parts parts) : parts_(std::move(parts)) {
  for (int i = 0; i < static_cast<int>(parts_.pools.size()); ++i)
    all_.push_back(std::make_unique<Part>(*this, Processor{i}));
}

std::shared_ptr<const Userfaultfd> UserfaultfdTrap::trap_layout(Processor p, Fd fresh,
                                                                pid_t process) {
  auto uffd = std::make_shared<const Userfaultfd>(std::move(fresh));
  const ArenaLayout& layout = *parts_.layout;
  register_with(*uffd, layout.base(), layout.bytes());
  layout.for_each_placed([&](const PlacedPages& placed) {
    register_with(*uffd, placed.address, placed.pages.bytes());
    return 0;
  });
  part(p).mapper.attach(uffd, process);
  return uffd;
}

std::shared_ptr<const FaultSource> UserfaultfdTrap::attach_host() {
  const Processor host = Processor::host();
  host_ = trap_layout(host, Userfaultfd::create(*parts_.mode.userfaultfd), 0);
  static_cast<HostViewChanger&>(changer(host)).attach(host_);
  return std::make_shared<const UserfaultfdSource>(host_);
}

void UserfaultfdTrap::attach_host_pages(const PlacedPages& placed) {
  register_with(*host_, placed.address, placed.pages.bytes());
}

std::shared_ptr<const FaultSource> UserfaultfdTrap::attach_device(
    int device, std::shared_ptr<DeviceProcess> process) {
  const Processor p = Processor::device(device);
  static_cast<DeviceViewChanger&>(changer(p)).attach(process);
  return std::make_shared<const UserfaultfdSource>(
      trap_layout(p, process->take_fault_fd(), process->pid()));
}

void UserfaultfdTrap::detach_device(int device) {
  part(Processor::device(device)).mapper.detach();
}

}  // namespace wherry::impl
