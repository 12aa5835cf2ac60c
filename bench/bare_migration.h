// The bare sequence of a fault-driven migration between the host and one forked device process,
// without any bookkeeping: write-protect at the source, copy write-protected and unwoken, punch the
// source, drop protection, wake.
//
// Every page must be in one of the two pools, and only one thread may touch at a time: nothing here
// keeps track.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "bare_trap.h"

namespace wherry::bench {

class BareMigration {
 public:
  // bytes, granularity: multiples of 4096, of each other, at most 2 MiB for the latter. Starts
  // filled, at the host.
  BareMigration(std::size_t bytes, std::size_t granularity);
  ~BareMigration();
  BareMigration(const BareMigration&) = delete;
  BareMigration& operator=(const BareMigration&) = delete;

  // Touches everything, one write per granule, at the host or in the device process: nanoseconds.
  double touch_at_host() const;
  double touch_at_device() const;

 private:
  struct Side {
    explicit Side(std::size_t bytes) : pool(bytes), alias(pool.map()) {}

    BarePool pool;
    std::byte* alias;  // the host's second mapping: where copies read from
    int uffd = -1;
  };

  void start_device();
  [[noreturn]] void serve_device(int socket);
  void migrate(std::size_t to, std::uintptr_t address);

  std::size_t bytes_;
  std::size_t granularity_;
  std::array<Side, 2> sides_;  // [0] the host, [1] the device
  std::byte* memory_;
  int device_socket_ = -1;
  pid_t device_ = -1;
  std::optional<BareTrap> trap_;
};

}  // namespace wherry::bench
