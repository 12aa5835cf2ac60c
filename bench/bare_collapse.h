// The bare sequence that ends the copies of a page which the host writes, without any bookkeeping:
// punch the pools of the devices that hold copies, drop the host's write protection, wake.
//
// Only one thread may write at a time: nothing here keeps track.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "bare_device.h"
#include "bare_trap.h"

namespace wherry::bench {

class BareCollapse {
 public:
  // bytes, stride, granularity: multiples of 4096, of each other. The host has the pages that are
  // written, one each `stride`, mapped; `devices` forked processes will have copies of them, and of
  // their neighbours in the granule.
  BareCollapse(std::size_t bytes, std::size_t stride, std::size_t granularity, int devices);

  // Gives each device its copies, mapped there. Requires: there are none.
  void duplicate() const;
  // Writes at the host: nanoseconds.
  double write() const;

 private:
  void collapse(std::uintptr_t address) const;
  std::uintptr_t start() const { return reinterpret_cast<std::uintptr_t>(memory_); }

  std::size_t bytes_;
  std::size_t stride_;
  std::size_t granularity_;
  BarePool pool_;
  std::byte* alias_;  // where copies are read from
  std::byte* memory_;
  std::deque<BareDevice> devices_;  // which do not move
  int uffd_;
  std::optional<BareTrap> trap_;
};

}  // namespace wherry::bench
