// One host thread of the model test. It executes its operations of a script in order, on the
// library and on the model. If two pieces of work use the same bytes and one writes, the lane
// orders them as a program must: by streams, by events or by waiting. Other work runs unordered.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "stress/model_world.h"

namespace wherry::test {

class Lane {
 public:
  Lane(World& world, unsigned number);

  void run(const Script& script);

 private:
  static constexpr unsigned streams = model_devices * streams_per_device;
  static constexpr std::size_t touches_max = 64;  // of a launch

  // A stream of this lane. The first stream of each device is its legacy default stream.
  struct Stream {
    CUstream handle = nullptr;
    CUevent event = nullptr;
  };
  // Work that may not have finished yet.
  struct Pending {
    unsigned slot = 0;
    std::size_t first = 0, end = 0;  // bytes
    bool writes = false;
    unsigned stream = 0;
    std::uint64_t number = 0;  // increases with each piece of work
  };
  struct Use {
    unsigned slot;
    const View& view;
    bool writes;
  };
  struct Kernel {
    Board* board = nullptr;
    Touch touches[touches_max];
  };

  static unsigned stream_of(const Operation& operation);
  static int device_of(unsigned stream) { return static_cast<int>(stream / streams_per_device); }
  // Whether streams order the two pieces of work implicitly, because of the kinds of the streams.
  static bool ordered_by_kind(unsigned later, unsigned earlier);

  void step(const Operation& operation);
  void meet(const Operation& operation);
  void allocate(const Operation& operation);
  void free(const Operation& operation);
  void touch(const Operation& operation);
  void count_up(const Operation& operation);
  void add_to_kernel(unsigned stream, const Touch& touch, const Use& use);
  void copy(const Operation& operation);
  CUresult copy_rows(const Operation& operation, unsigned stream, const View& from, const View& to);
  CUresult copy_bytes(const Operation& operation, unsigned stream, const View& from,
                      const View& to);
  void fill(const Operation& operation);
  void advise(const Operation& operation);
  void query(const Operation& operation);
  void prefetch(const Operation& operation);
  void discard(const Operation& operation);
  void pin(const Operation& operation);
  void host_touch(const Operation& operation);
  void host_function(const Operation& operation);
  void system_calls(const Operation& operation);
  void fork_child(const Operation& operation);

  Slot& slot(unsigned number) { return world_.slot(number); }
  // Whether the slot is shared or belongs to this lane.
  bool may_use(unsigned number) const;
  // The bytes of the slot that the operation refers to, in multiples of `unit`.
  std::optional<View> view_of(const Operation& operation, std::size_t unit);
  void touched(unsigned slot, const View& view);

  // Launches a kernel with the accesses gathered so far.
  void launch();
  // Makes later work of the stream, or of the host, wait for all work that conflicts with the use.
  void order_in(unsigned stream, const Use& use, unsigned variant);
  void order_here(const Use& use, unsigned variant);
  bool conflicts(const Pending& pending, const Use& use) const;
  void is_pending(unsigned stream, const Use& use);
  void forget_slot(unsigned slot);
  // Waits for all work of the stream. `variant` selects one of several functions.
  void wait_for(unsigned stream, unsigned variant);
  void synchronize_all(unsigned variant);
  void renew(unsigned stream, unsigned variant);
  void make_stream(unsigned stream);
  CUevent recorded(unsigned stream);
  void make_current(int device);
  void call(CUresult result, const char* what) { world_.check(result, what, current_); }

  World& world_;
  const unsigned number_;
  std::size_t current_ = 0;  // index of the current operation in the script
  std::array<Stream, streams> streams_;
  std::vector<Pending> pending_;
  std::uint64_t last_number_ = 0;
  // The last work number of stream `earlier` that `later` waits for: [later][earlier].
  std::uint64_t waited_for_[streams][streams] = {};
  Kernel kernel_;
  std::vector<Pending> kernel_uses_;
  unsigned kernel_stream_ = 0;
  int current_device_ = -1;
};

#define LANE_TRY(call_) call((call_), #call_)

}  // namespace wherry::test
