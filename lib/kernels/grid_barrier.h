// The barrier at which the blocks of a cooperative launch wait for each other. Each block has a
// worker of its own, which waits. A block that has ended is not waited for, so no block waits for
// ever unless another one does not end.
#pragma once

#include <atomic>
#include <cstdint>

namespace wherry::impl {

// Lies in memory that all workers of the device share.
class GridBarrier {
 public:
  // At most 65,535 blocks; 0 if the launch is not cooperative.
  explicit GridBarrier(std::uint32_t blocks = 0) : counts_(blocks) {}

  // Waits until every block that has not ended is here.
  void wait();
  // Called when the calling worker's block has ended.
  void leave();

 private:
  void release();

  // Bits 0 to 15: blocks that have not ended. Bits 16 to 31: those of them that wait.
  std::atomic<std::uint32_t> counts_;
  std::atomic<std::uint32_t> round_{0};  // changes when all are here
};

// The barrier of the launch whose block the calling worker runs; null if it is not cooperative.
GridBarrier*& grid_barrier_of_this_thread();

}  // namespace wherry::impl
