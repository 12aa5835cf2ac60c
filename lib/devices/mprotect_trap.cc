#include "devices/mprotect_trap.h"

#include "base/page.h"
#include "faults/host_faults.h"

namespace wherry::impl {

MprotectTrap::Part::Part(const MprotectTrap& trap, Processor p)
    : mapper(*trap.parts_.pools[static_cast<std::size_t>(p.index)],
             trap.parts_.layout->bytes() / page_size, trap.parts_.mappings_budget),
      changer(make_changer(trap.parts_, p)),
      counted_changer(*changer, mapper) {}

MprotectTrap::MprotectTrap(Parts parts) : parts_(std::move(parts)) {
  for (int i = 0; i < static_cast<int>(parts_.pools.size()); ++i)
    all_.push_back(std::make_unique<Part>(*this, Processor{i}));
}

MprotectTrap::~MprotectTrap() {
  HostFaults::let_go();
}

std::shared_ptr<const FaultSource> MprotectTrap::attach_host() {
  part(Processor::host()).mapper.attach(std::make_shared<OwnProtector>(*parts_.layout));
  return HostFaults::catch_faults(*parts_.layout);
}

void MprotectTrap::attach_host_pages(const PlacedPages&) {}

std::shared_ptr<const FaultSource> MprotectTrap::attach_device(
    int device, std::shared_ptr<DeviceProcess> process) {
  Part& of_device = part(Processor::device(device));
  static_cast<DeviceViewChanger&>(*of_device.changer).attach(process);
  of_device.mapper.attach(std::make_shared<BoardProtector>(
      process, process->fault_board(), process->pid(), duplicate_fd(process->pidfd()),
      [process] { process->kill(); }, *parts_.layout));
  return std::make_shared<const BoardSource>(process, process->fault_board(),
                                             process->take_fault_fd());
}

void MprotectTrap::detach_device(int device) {
  part(Processor::device(device)).mapper.detach();
}

void MprotectTrap::serve_host(FaultService& service) {
  HostFaults::serve(service);
}

}  // namespace wherry::impl
