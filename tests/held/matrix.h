// Every holder with every way in which pages leave a pool. A row is one such pair, at one place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "held/holders.h"
#include "held/places.h"
#include "support/stage.h"

namespace wherry::test {

enum class Mover {
  fault,           // an access of the other processor
  prefetch,        // of a part, to the other processor
  prefetch_whole,  // of whole blocks
  evict,           // the device needs space for other memory
  discard,
  collapse,     // a write of the other processor to duplicated pages
  merge,        // the consolidator makes one huge page of a block; then a part is prefetched
  free_beside,  // of another allocation in the block
  free_held,    // of the held allocation, in a block with another allocation
  free_whole,   // of the held allocation, which has its blocks to itself
};
const char* name_of(Mover mover);

struct Row {
  HolderKind holder = HolderKind::vmsplice;
  Mover mover = Mover::fault;
  bool pinned = false;       // by wherryPinPages
  bool at_device = false;    // the memory is in the device's pool, otherwise in the host's
  bool through_map = false;  // the holder's process maps the pages in the other processor's pool

  std::string describe() const;
};

// `huge`: the pools have huge pages.
std::vector<Row> all_rows(bool huge);

struct RowResult {
  std::string missing = {};   // not empty: why the row cannot run here
  std::string failures = {};  // not empty: what was wrong
  std::uint64_t held = 0;     // by how much the library's counter rose while the holder held
  std::uint64_t moved = 0;    // pages that left their pool while the holder held
};

// Says what is being done at the moment, so that a wait that does not end can be reported.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void step(const char* what) = 0;
};

class Matrix {
 public:
  struct Setting {
    bool huge = false;            // the pools have huge pages
    bool serves_host = false;     // faults inside system calls are answered: of the host
    bool serves_devices = false;  // of devices
    bool protects = false;        // the trap is page protection
    pid_t idle_thread = -1;       // a thread of this process that does nothing
  };

  Matrix(Stage& stage, const Peer& peer, const Setting& setting, Progress& progress);

  // Two runs with the same seed choose the same pages.
  RowResult run(const Row& row, std::uint64_t seed);

 private:
  Stage& stage_;
  const Places places_;
  const Setting setting_;
  Progress& progress_;
  HoldAnswer* const answer_;
};

// For Matrix: call it before the library starts, since devices keep what is mapped then.
HoldAnswer* shared_answer();

}  // namespace wherry::test
