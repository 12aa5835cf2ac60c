#include "trap/userfaultfd_trap.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "os/memory/mapping.h"
#include "os/process/poll.h"
#include "trap/signalled_faults.h"
#include "trap/userfaultfd_mapper.h"
#include "trap/view_changers.h"

namespace wherry::impl {
namespace {

// Reads Linux's messages. It answers nothing: the mapper wakes the threads, or poisons their pages.
class UserfaultfdSource final : public FaultSource {
 public:
  explicit UserfaultfdSource(std::shared_ptr<const Userfaultfd> uffd) : uffd_(std::move(uffd)) {}

  int fd() const override { return uffd_->fd(); }
  std::optional<FaultMessage> read_message() const override { return uffd_->read_message(); }
  void answered(const FaultMessage&, bool) const override {}

 private:
  const std::shared_ptr<const Userfaultfd> uffd_;
};

// The faults that threads post themselves, beside a userfaultfd that has no messages about faults.
class SignalledSource final : public FaultSource {
 public:
  SignalledSource(std::shared_ptr<const FaultSource> posted,
                  std::shared_ptr<const Userfaultfd> uffd)
      : posted_(std::move(posted)),
        uffd_(std::move(uffd)),
        both_(make_union({posted_->fd(), uffd_->fd()})) {}

  int fd() const override { return both_.get(); }
  std::optional<FaultMessage> read_message() const override {
    // A thread that moves a mapping waits until the userfaultfd's message about it has been read.
    (void)uffd_->read_message();
    return posted_->read_message();
  }
  FaultSlot* attend(const FaultMessage& message) const override { return posted_->attend(message); }
  void answered(const FaultMessage& message, bool refused) const override {
    posted_->answered(message, refused);
  }

 private:
  const std::shared_ptr<const FaultSource> posted_;
  const std::shared_ptr<const Userfaultfd> uffd_;
  const Fd both_;
};

void register_with(const Userfaultfd& uffd, std::uintptr_t start, std::size_t bytes) {
  if (const int error = uffd.register_range(start, bytes))
    throw_errno(error, "cannot register the arena with userfaultfd");
}

class UserfaultfdTrap final : public Trap {
 public:
  explicit UserfaultfdTrap(Parts parts);
  ~UserfaultfdTrap() override {
    if (signals_host()) release_host_faults();
  }

  Mapper& mapper(Processor p) override { return p.is_host() ? host_.mapper : device(p).mapper; }
  ViewChanger& changer(Processor p) override {
    if (p.is_host()) return host_.changer;
    return device(p).changer;
  }
  std::shared_ptr<const FaultSource> attach_host() override;
  std::shared_ptr<const FaultSource> attach_device(
      int device, std::shared_ptr<TrappedProcess> process) override;
  void attach_host_pages(const PlacedPages& placed) override;
  int open_host(PageSpan pages) override { return host_.changer.open(pages, true); }
  void detach_device(int device) override;
  void serve_host(InThreadResolver resolver) override {
    if (signals_host()) resolve_host_faults_by(resolver);
  }

 private:
  struct Host {
    explicit Host(const Parts& parts);

    UserfaultfdMapper mapper;
    HostViewChanger changer;
    std::shared_ptr<const Userfaultfd> uffd;  // null until attach_host()
  };
  struct Device {
    explicit Device(const ArenaLayout& layout);

    DeviceViewChanger changer;
    UserfaultfdMapper mapper;
  };

  bool signals_host() const { return traits_of(parts_.mode.kind).signals_host; }
  Device& device(Processor p) { return *devices_[static_cast<std::size_t>(p.ordinal())]; }
  // Registers all pages of the layout with the userfaultfd, and gives it to the mapper. `process`:
  // the process that created it, or 0 for this one.
  std::shared_ptr<const Userfaultfd> trap_layout(UserfaultfdMapper& mapper, Userfaultfd fresh,
                                                 pid_t process);

  const Parts parts_;
  Host host_;
  std::vector<std::unique_ptr<Device>> devices_;
};

UserfaultfdTrap::Host::Host(const Parts& parts)
    : mapper(*parts.layout,
             [](std::uintptr_t address, std::size_t bytes) {
               return set_access(address, bytes, Access::none);
             }),
      changer(*parts.layout, parts.pool_files(), parts.huge_pages) {}

UserfaultfdTrap::Device::Device(const ArenaLayout& layout)
    : changer(layout),
      mapper(
          layout,
          [this](std::uintptr_t address, std::size_t bytes) {
            return changer.process()->forbid(address, bytes);
          },
          [this] { changer.process()->give_up(); }) {}

UserfaultfdTrap::UserfaultfdTrap(Parts parts) : parts_(std::move(parts)), host_(parts_) {
  for (std::size_t i = 1; i < parts_.pools.size(); ++i)
    devices_.push_back(std::make_unique<Device>(*parts_.layout));
}

std::shared_ptr<const Userfaultfd> UserfaultfdTrap::trap_layout(UserfaultfdMapper& mapper,
                                                                Userfaultfd fresh, pid_t process) {
  auto uffd = std::make_shared<const Userfaultfd>(std::move(fresh));
  const ArenaLayout& layout = *parts_.layout;
  register_with(*uffd, layout.base(), layout.bytes());
  layout.for_each_placed([&](const PlacedPages& placed) {
    register_with(*uffd, placed.address, placed.pages.bytes());
    return 0;
  });
  mapper.attach(uffd, process);
  return uffd;
}

std::shared_ptr<const FaultSource> UserfaultfdTrap::attach_host() {
  // The signal is caught before the first access can raise it.
  const auto posted =
      signals_host() ? catch_host_faults(*parts_.layout, AccessSignal::bus) : nullptr;
  Userfaultfd fresh(Userfaultfd::create(*parts_.mode.userfaultfd), signals_host());
  host_.uffd = trap_layout(host_.mapper, std::move(fresh), 0);
  host_.changer.attach(host_.uffd);
  if (posted) return std::make_shared<const SignalledSource>(posted, host_.uffd);
  return std::make_shared<const UserfaultfdSource>(host_.uffd);
}

void UserfaultfdTrap::attach_host_pages(const PlacedPages& placed) {
  register_with(*host_.uffd, placed.address, placed.pages.bytes());
}

std::shared_ptr<const FaultSource> UserfaultfdTrap::attach_device(
    int device, std::shared_ptr<TrappedProcess> process) {
  Device& attached = this->device(Processor::device(device));
  attached.changer.attach(process);
  return std::make_shared<const UserfaultfdSource>(
      trap_layout(attached.mapper, Userfaultfd(process->take_userfaultfd()), process->pid()));
}

void UserfaultfdTrap::detach_device(int device) {
  this->device(Processor::device(device)).mapper.detach();
}

// If the program has dropped privileges since cuInit, it may be permitted a userfaultfd for user
// mode only. Throws std::system_error.
Fd create_permitted(UffdAccess access) {
  try {
    return Userfaultfd::create(access);
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    if (access == UffdAccess::user_mode_only || (code != EPERM && code != EACCES)) throw;
    return Userfaultfd::create(UffdAccess::user_mode_only);
  }
}

class UserfaultfdDeviceTrap final : public DeviceTrap {
 public:
  explicit UserfaultfdDeviceTrap(UffdAccess access) : userfaultfd_(create_permitted(access)) {}

  int userfaultfd() const override { return userfaultfd_.get(); }

 private:
  const Fd userfaultfd_;
};

}  // namespace

std::unique_ptr<Trap> make_userfaultfd_trap(Trap::Parts parts) {
  return std::make_unique<UserfaultfdTrap>(std::move(parts));
}

std::unique_ptr<DeviceTrap> make_userfaultfd_device_trap(DeviceTrap::Parts parts) {
  return std::make_unique<UserfaultfdDeviceTrap>(*parts.mode.userfaultfd);
}

}  // namespace wherry::impl
