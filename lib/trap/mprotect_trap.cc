#include "trap/mprotect_trap.h"

#include <thread>
#include <utility>

#include "base/page.h"
#include "os/memory/page_table.h"
#include "os/process/poll.h"
#include "os/process/thread.h"
#include "trap/counted_view_changer.h"
#include "trap/protection_mapper.h"
#include "trap/signalled_faults.h"
#include "trap/view_changers.h"

namespace wherry::impl {
namespace {

class MprotectTrap final : public Trap {
 public:
  explicit MprotectTrap(Parts parts);
  ~MprotectTrap() override { release_host_faults(); }

  Mapper& mapper(Processor p) override { return p.is_host() ? host_.mapper : device(p).mapper; }
  ViewChanger& changer(Processor p) override {
    return p.is_host() ? host_.counted_changer : device(p).counted_changer;
  }
  std::shared_ptr<const FaultSource> attach_host() override;
  std::shared_ptr<const FaultSource> attach_device(
      int device, std::shared_ptr<TrappedProcess> process) override;
  void attach_host_pages(const PlacedPages&) override {}
  int open_host(PageSpan pages) override { return host_.changer.open(pages, false); }
  void detach_device(int device) override;
  void serve_host(InThreadResolver resolver) override { resolve_host_faults_by(resolver); }

 private:
  template <typename Changer>
  struct Side {
    template <typename... ChangerArguments>
    explicit Side(const Parts& parts, Processor p, ChangerArguments&&... arguments)
        : mapper(*parts.pools[static_cast<std::size_t>(p.index)].filler,
                 parts.layout->bytes() / page_size, parts.mappings_budget),
          changer(std::forward<ChangerArguments>(arguments)...) {}

    ProtectionMapper mapper;
    Changer changer;
    CountedViewChanger counted_changer{changer, mapper};
  };
  using Host = Side<HostViewChanger>;
  using Device = Side<DeviceViewChanger>;

  Device& device(Processor p) { return *devices_[static_cast<std::size_t>(p.ordinal())]; }

  const Parts parts_;
  Host host_;
  std::vector<std::unique_ptr<Device>> devices_;
};

MprotectTrap::MprotectTrap(Parts parts)
    : parts_(std::move(parts)),
      host_(parts_, Processor::host(), *parts_.layout, parts_.pool_files(), parts_.huge_pages) {
  for (int i = 1; i < static_cast<int>(parts_.pools.size()); ++i)
    devices_.push_back(std::make_unique<Device>(parts_, Processor{i}, *parts_.layout));
}

std::shared_ptr<const FaultSource> MprotectTrap::attach_host() {
  host_.mapper.attach(std::make_shared<OwnProtector>(*parts_.layout));
  return catch_host_faults(*parts_.layout, AccessSignal::segv);
}

std::shared_ptr<const FaultSource> MprotectTrap::attach_device(
    int device, std::shared_ptr<TrappedProcess> process) {
  Device& attached = this->device(Processor::device(device));
  attached.changer.attach(process);
  attached.mapper.attach(std::make_shared<BoardProtector>(
      process, process->fault_board(), process->pid(), duplicate_fd(process->pidfd()),
      [process] { process->kill(); }, *parts_.layout));
  return std::make_shared<const BoardSource>(process, process->fault_board(),
                                             process->fault_notifier());
}

void MprotectTrap::detach_device(int device) {
  this->device(Processor::device(device)).mapper.detach();
}

// Faulting threads post their own faults, and change protections for the host while they wait. One
// more thread changes protections while no thread waits; it never waits for a fault itself.
class MprotectDeviceTrap final : public DeviceTrap {
 public:
  explicit MprotectDeviceTrap(Parts parts) {
    post_device_faults(*parts.layout, *parts.board, std::move(parts.notifier), page_table_);
    std::thread([&board = *parts.board, &page_table = page_table_] {
      name_this_thread("wherry-protect");
      const SignalBlock no_signals;
      change_protection_for_host(board, page_table);
    }).detach();
  }

  int userfaultfd() const override { return -1; }

 private:
  const PageTable page_table_{0};
};

}  // namespace

std::unique_ptr<Trap> make_mprotect_trap(Trap::Parts parts) {
  return std::make_unique<MprotectTrap>(std::move(parts));
}

std::unique_ptr<DeviceTrap> make_mprotect_device_trap(DeviceTrap::Parts parts) {
  return std::make_unique<MprotectDeviceTrap>(std::move(parts));
}

}  // namespace wherry::impl
