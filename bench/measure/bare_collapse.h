// The bare sequence of Linux's calls that ends the copies of a page which the host writes: punch
// the pools of the devices that hold copies, drop the host's write protection, wake.
//
// Only one thread may write at a time, because no page state is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "measure/bare_device.h"
#include "measure/bare_trap.h"

namespace wherry::bench {

class BareCollapse {
 public:
  // bytes, stride, granularity: multiples of 4096 and of each other. The host writes and has mapped
  // one page for each `stride`. `devices` forked processes hold copies of these pages and of the
  // other pages of their granules.
  BareCollapse(std::size_t bytes, std::size_t stride, std::size_t granularity, int devices);

  // Gives each device its copies, and maps them there. Requires: there are no copies.
  void duplicate() const;
  // The host writes one page for each stride. Returns nanoseconds.
  double write() const;

 private:
  void collapse(std::uintptr_t address) const;
  std::uintptr_t start() const { return reinterpret_cast<std::uintptr_t>(memory_); }

  std::size_t bytes_;
  std::size_t stride_;
  std::size_t granularity_;
  BarePool pool_;
  std::byte* alias_;  // copies are read from here
  std::byte* memory_;
  std::deque<BareDevice> devices_;  // deque: its elements do not move
  int uffd_;
  std::optional<BareTrap> trap_;
};

}  // namespace wherry::bench
