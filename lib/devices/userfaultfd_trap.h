// Trap by userfaultfd, one for each process.
#pragma once

#include "devices/trap.h"
#include "devices/view_changers.h"
#include "trap/userfaultfd_mapper.h"

namespace wherry::impl {

class UserfaultfdTrap final : public Trap {
 public:
  explicit UserfaultfdTrap(Parts parts);

  Mapper& mapper(Processor p) override { return part(p).mapper; }
  ViewChanger& changer(Processor p) override { return *part(p).changer; }
  bool opens_arena() const override { return true; }
  std::shared_ptr<const FaultSource> attach_host() override;
  std::shared_ptr<const FaultSource> attach_device(int device,
                                                   std::shared_ptr<DeviceProcess> process) override;
  void attach_host_pages(const PlacedPages& placed) override;
  void detach_device(int device) override;
  void serve_host(FaultService&) override {}

 private:
  struct Part {
    Part(const UserfaultfdTrap& trap, Processor p);

    UserfaultfdMapper mapper;
    const std::unique_ptr<ViewChanger> changer;  // a HostViewChanger or a DeviceViewChanger
  };

  Part& part(Processor p) { return *all_[static_cast<std::size_t>(p.index)]; }
  std::shared_ptr<const Userfaultfd> trap_layout(Processor p, Fd fresh, pid_t process);

  const Parts parts_;
  std::vector<std::unique_ptr<Part>> all_;
  std::shared_ptr<const Userfaultfd> host_;
};

}  // namespace wherry::impl
