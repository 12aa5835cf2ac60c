// A process of the model test: the library with three devices, all slots, and what lanes do when
// they meet. Lane 0 calls the functions that require that the other lanes wait.
#pragma once

#include <barrier>
#include <string>
#include <vector>

#include "stress/model_memory.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test {

class World {
 public:
  // Requires: the environment of `settings` is set. Starts the library.
  World(const Settings& settings, Board& board);

  const Settings& settings() const { return settings_; }
  Board& board() const { return board_; }
  const Session& session() const { return session_; }
  const Witness& witness() const { return witness_; }
  Slot& slot(unsigned number) { return slots_[number]; }
  void wait_for_lanes() { lanes_.arrive_and_wait(); }

  // Counts the call, and fails the process unless it succeeded.
  void check(CUresult result, const char* call, std::size_t operation) const;

  // Allocates `pages` pages of memory of a kind that `variant` selects. The slot stays empty if the
  // API returns "out of memory". Requires: the slot is empty, and the device's context is current.
  // Memory of a pool is initialized in `stream`.
  void allocate(unsigned number, unsigned pages, unsigned variant, int device, CUstream stream,
                std::size_t operation);
  // Frees the slot's memory, if it has any. Memory of a pool is freed in the stream.
  void release(unsigned number, CUstream stream, std::size_t operation);

  // The next three require that all lanes wait and that their work has finished.
  // Compares all memory with the model.
  void compare(unsigned variant, std::size_t operation);
  void allocate_shared(unsigned number, unsigned pages, std::size_t operation);
  // Makes a kernel fail, checks that the device's context reports the error, and resets the device.
  void fail_device(int device, std::size_t operation);

  // Frees everything, and checks that no pool has a page.
  void finish();

 private:
  Slot make_host_memory(std::size_t bytes, unsigned flags, std::size_t operation);
  Slot make_registered(std::size_t bytes, std::size_t operation);
  Slot make_mapped(int device, bool for_host, std::size_t operation);
  void let_peers_in(int device);
  void compare(Slot& slot, unsigned number, unsigned variant, std::size_t operation);
  void note_processes();

  const Settings settings_;
  Board& board_;
  Session session_;
  const Witness witness_;
  std::barrier<> lanes_;
  std::vector<Slot> slots_;
};

#define MODEL_TRY(world, operation, call) (world).check((call), #call, operation)

}  // namespace wherry::test
