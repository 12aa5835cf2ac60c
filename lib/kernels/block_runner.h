// Runs the threads of one block of a CUDA kernel as fibers of one worker, so that they can wait at
// barriers of the block, and at barriers and exchanges of a warp. Each worker has one object, which
// keeps the stacks. It knows nothing of kernels but their function.
//
// A thread runs until it waits or ends. Then the thread runs that has been ready for longest. No
// order is guaranteed, as on a GPU, but the order is the same in each run.
#pragma once

#include <wherry/detail/kernel_code.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/fiber.h"
#include "os/memory/mapping.h"

namespace wherry::impl {

inline constexpr unsigned warp_lanes = 32;

class BlockRunner {
 public:
  // The calling worker's runner.
  static BlockRunner& of_this_thread();

  // See kernel_code.h. Throws std::system_error if there is no memory for the stacks.
  void run(const wherryKernelBlock& block, void (*function)(void*), void* closure);

  // Whether a block runs whose threads can wait.
  bool is_running() const { return current_ != nullptr; }

  unsigned block_barrier(int predicate, int* all);
  // A barrier of all blocks of a cooperative launch.
  void grid_barrier();
  void warp_barrier(unsigned mask);
  // `size`: of the tile, in threads; a power of two, several warps.
  void tile_barrier(unsigned size);
  const unsigned long long* warp_exchange(unsigned mask, unsigned long long value);
  unsigned active_lanes(const void* place);

 private:
  enum class State {
    ready,
    at_block_barrier,
    at_warp_barrier,
    at_tile_barrier,
    at_active_lanes,
    ended
  };
  struct Thread {
    wherryKernelThread visible{};
    Fiber fiber;
    State state = State::ended;
    unsigned mask = 0;            // lanes of its warp barrier, or the active lanes
    const void* place = nullptr;  // where it asks for active lanes
    Thread* next = nullptr;       // in the list that it is in
    std::byte* stack = nullptr;
  };
  // A list of threads: first in, first out.
  class List {
   public:
    void push(Thread& thread);
    Thread* pop();
    void append(List& other);  // empties the other
    template <typename Body>
    void for_each(const Body& body) const {
      for (Thread* thread = first_; thread != nullptr; thread = thread->next) body(*thread);
    }
    void clear() { first_ = last_ = nullptr; }

   private:
    Thread* first_ = nullptr;
    Thread* last_ = nullptr;
  };
  struct Warp {
    unsigned live = 0;        // lanes that have not ended
    unsigned running = 0;     // those of them that do not wait
    unsigned at_barrier = 0;  // lanes at a warp barrier
    unsigned asking = 0;      // lanes that ask for active lanes
    // Of the tile whose first warp this is: its threads, and how many of them wait; 0: none.
    unsigned tile_size = 0;
    unsigned tile_waiting = 0;
    std::array<unsigned long long, warp_lanes> values{};
  };

  static void begin_fiber(boost::context::detail::transfer_t from);
  [[noreturn]] void run_threads();
  void prepare(std::size_t threads);
  // Lets others run until the calling thread is made ready.
  void wait(Thread& thread, State state);
  void end_of(Thread& thread);
  void check_stack(const Thread& thread) const;
  void release_block();
  // Makes the lanes of a complete barrier ready, except for `self`.
  void release_warp(Warp& warp, std::size_t first, unsigned mask, const Thread* self);
  // Makes the threads of a tile ready if all that have not ended wait. Returns whether it did.
  bool release_tile(std::size_t first, unsigned size, const Thread* self);
  // Answers the lanes that ask for active lanes, if all others of the warp wait or have ended.
  void answer_active_lanes(Warp& warp, std::size_t first, const Thread* self);
  void make_ready(Thread& thread);
  // Leaves `fiber` for the thread that is ready for longest; for the worker if all have ended.
  void switch_from(Fiber& fiber);
  [[noreturn]] void report_deadlock();

  Warp& warp_of(const Thread& thread) { return warps_[thread.visible.rank / warp_lanes]; }

  const wherryKernelBlock* block_ = nullptr;
  void (*function_)(void*) = nullptr;
  void* closure_ = nullptr;
  Mapping stacks_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  Fiber worker_;
  Thread* current_ = nullptr;
  List ready_;
  List at_block_barrier_;
  unsigned live_ = 0;
  unsigned waiting_ = 0;   // at the block barrier
  unsigned at_tiles_ = 0;  // threads at barriers of tiles
  unsigned count_ = 0;     // true predicates of those that wait
  unsigned last_count_ = 0;
  bool last_all_ = false;
  // The threads at the block barrier wait for other blocks, too.
  bool waits_for_grid_ = false;
};

}  // namespace wherry::impl
