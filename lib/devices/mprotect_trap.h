// Trap by page protection: an access that is not permitted raises SIGSEGV in the accessing thread,
// whose signal handler reports the fault and waits for the answer.
#pragma once

#include "devices/trap.h"
#include "devices/view_changers.h"
#include "trap/counted_view_changer.h"
#include "trap/fault_board.h"
#include "trap/protection_mapper.h"

namespace wherry::impl {

class MprotectTrap final : public Trap {
 public:
  explicit MprotectTrap(Parts parts);
  ~MprotectTrap() override;

  Mapper& mapper(Processor p) override { return part(p).mapper; }
  ViewChanger& changer(Processor p) override { return part(p).counted_changer; }
  bool opens_arena() const override { return false; }
  std::shared_ptr<const FaultSource> attach_host() override;
  std::shared_ptr<const FaultSource> attach_device(int device,
                                                   std::shared_ptr<DeviceProcess> process) override;
  void attach_host_pages(const PlacedPages& placed) override;
  void detach_device(int device) override;
  void serve_host(FaultService& service) override;

 private:
  struct Part {
    Part(const MprotectTrap& trap, Processor p);

    ProtectionMapper mapper;
    const std::unique_ptr<ViewChanger> changer;  // a HostViewChanger or a DeviceViewChanger
    CountedViewChanger counted_changer;
  };

  Part& part(Processor p) { return *all_[static_cast<std::size_t>(p.index)]; }

  const Parts parts_;
  std::vector<std::unique_ptr<Part>> all_;
};

}  // namespace wherry::impl
