// ViewChanger for the host, which changes its own mappings, and for a device, whose agent does it.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/lock.h"
#include "os/memory/userfaultfd.h"
#include "pages/arena_layout.h"
#include "trap/pool_view.h"
#include "trap/trapped_process.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class HostViewChanger final : public ViewChanger {
 public:
  // `pools`: those of all processors. `huge_pages`: see prepare_view().
  HostViewChanger(const ArenaLayout& layout, std::vector<PoolFiles> pools, bool huge_pages)
      : layout_(layout), pools_(std::move(pools)), huge_pages_(huge_pages) {}

  // Sets the userfaultfd with which the arena is registered; not called if there is none. Call it
  // before the first change.
  void attach(std::shared_ptr<const Userfaultfd> uffd) { uffd_ = std::move(uffd); }

  // See Trap::open_host(). `accessible`: see open_pool_view().
  [[nodiscard]] int open(PageSpan pages, bool accessible) const;
  int change_view(PageSpan span, Processor owner) override;
  int forget_entries(std::span<const PageSpan> runs) override;
  std::uint64_t count_mappings() override;

 private:
  int userfaultfd() const { return uffd_ ? uffd_->fd() : -1; }

  const ArenaLayout& layout_;
  const std::vector<PoolFiles> pools_;
  const bool huge_pages_;
  std::shared_ptr<const Userfaultfd> uffd_;
};

class DeviceViewChanger final : public ViewChanger {
 public:
  explicit DeviceViewChanger(const ArenaLayout& layout) : layout_(layout) {}

  // Sets the device's process, also when a new one replaces it.
  void attach(std::shared_ptr<TrappedProcess> process) EXCLUDES(lock_);
  std::shared_ptr<TrappedProcess> process() const EXCLUDES(lock_);

  int change_view(PageSpan span, Processor owner) override EXCLUDES(lock_);
  int forget_entries(std::span<const PageSpan> runs) override EXCLUDES(lock_);
  bool is_overdue() override;
  std::uint64_t count_mappings() override EXCLUDES(lock_);

 private:
  const ArenaLayout& layout_;
  mutable Mutex lock_{LockOrder::view_changer};
  std::shared_ptr<TrappedProcess> process_ GUARDED_BY(lock_);
  std::atomic<bool> was_overdue_{false};  // at the last look
};

}  // namespace wherry::impl
