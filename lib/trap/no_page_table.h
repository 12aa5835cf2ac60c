// The Mapper of a coherent device, which has no page table of its own: its threads are threads of
// the host process, and the host's mapper maps its pages. The page engine never asks it to map.
#pragma once

#include "base/check.h"
#include "trap/mapper.h"

namespace wherry::impl {

class NoPageTable final : public Mapper {
 public:
  bool punch_unmaps() const override { return true; }
  unsigned grain() const override { return 1; }
  OpResult unmap(PageSpan, FaultSlot*) override { never_asked(); }
  OpResult copy_protected(PageSpan, const std::byte*, FaultSlot*) override { never_asked(); }
  OpResult zero(PageSpan, FaultSlot*) override { never_asked(); }
  OpResult map_resident(PageSpan, bool, FaultSlot*) override { never_asked(); }
  OpResult map_whole(PageSpan, FaultSlot*) override { never_asked(); }
  OpResult write_protect(PageSpan, FaultSlot*) override { never_asked(); }
  OpResult write_unprotect(PageSpan, FaultSlot*) override { never_asked(); }
  OpResult forbid(PageSpan, PageIndex) override { never_asked(); }
  OpResult hide(PageSpan) override { never_asked(); }
  OpResult wake(PageSpan) override { never_asked(); }

 private:
  [[noreturn]] static void never_asked() {
    WHERRY_FAIL("a coherent device has no page table of its own");
  }
};

}  // namespace wherry::impl
