// The bare sequence of Linux's calls of a fault-driven migration between the host and one forked
// device process: write-protect at the source, copy write-protected without waking, punch the
// source, drop protection, wake.
//
// Every page must be in one of the two pools, and only one thread may touch at a time, because no
// page state is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "measure/bare_device.h"
#include "measure/bare_trap.h"

namespace wherry::bench {

class BareMigration {
 public:
  // bytes, granularity: multiples of 4096 and of each other; granularity at most 2 MiB. All pages
  // start at the host, filled.
  BareMigration(std::size_t bytes, std::size_t granularity);

  // One write for each granule, at the host or in the device process. Returns the time of all of
  // them in nanoseconds.
  double touch_at_host() const;
  double touch_at_device() const { return device_.touch(); }

 private:
  struct Side {
    const BarePool& pool;
    std::byte* alias;
    int uffd;
  };

  void migrate(const Side& source, const Side& target, std::uintptr_t address) const;

  std::size_t bytes_;
  std::size_t granularity_;
  BarePool pool_;
  std::byte* alias_;  // the host's second mapping, from which copies are read
  std::byte* memory_;
  BareDevice device_;
  int uffd_;
  std::optional<BareTrap> trap_;
};

}  // namespace wherry::bench
