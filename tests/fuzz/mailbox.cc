// Memory shared by device and host, with a device that may write any bytes into it at any time: the
// launch mailbox, the failure record and the fault slots. The input is a list of steps: bytes that
// the device writes, and the host's actions between them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "devices/launch_board.h"
#include "fuzz/target.h"
#include "os/process/poll.h"
#include "streams/failure_text.h"
#include "trap/fault_board.h"

namespace {

using namespace wherry;
using namespace wherry::impl;

struct Boards {
  LaunchBoard launches{};
  FaultBoard faults{};
};

class Steps {
 public:
  explicit Steps(std::span<const std::byte> bytes) : left_(bytes) {}
  bool empty() const { return left_.empty(); }
  unsigned take(std::size_t bytes = 1) {
    unsigned value = 0;
    for (; bytes > 0 && !left_.empty(); --bytes, left_ = left_.subspan(1))
      value = value << 8 | std::to_integer<unsigned>(left_.front());
    return value;
  }
  std::span<const std::byte> take_bytes(std::size_t count) {
    const auto taken = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> left_;
};

void write_over(void* place, std::size_t size, std::size_t at, std::span<const std::byte> bytes) {
  if (at >= size) at %= size;
  std::memcpy(static_cast<std::byte*>(place) + at, bytes.data(), std::min(bytes.size(), size - at));
}

void nothing(const void*, std::size_t, std::size_t) {}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto boards = std::make_unique<Boards>();
  new (boards.get()) Boards{};
  LaunchPoster poster(boards->launches, 4);
  const Fd notifier = make_semaphore();
  const BoardSource source(nullptr, boards->faults, notifier);
  std::set<std::uint64_t> posted;
  std::uint64_t last = 0;
  for (Steps steps(test::bytes_of(data, size)); !steps.empty();) {
    switch (steps.take() % 8) {
      case 0: {  // the device writes anywhere
        const unsigned at = steps.take(3);
        write_over(boards.get(), sizeof(Boards), at, steps.take_bytes(steps.take() % 64));
        break;
      }
      case 1: {  // the device writes into the launch slots
        const unsigned at = steps.take();
        write_over(&boards->launches, offsetof(LaunchBoard, slots), at * 8, steps.take_bytes(8));
        break;
      }
      case 2: {
        const unsigned slot = steps.take() % FaultBoard::slots_max;
        write_over(&boards->faults.slots[slot], sizeof(FaultSlot), steps.take() % 64,
                   steps.take_bytes(8));
        break;
      }
      case 3: {
        LaunchRequest request;
        request.id = ++last;
        request.address = reinterpret_cast<std::uintptr_t>(nothing);
        request.items = steps.take();
        request.priority = -static_cast<int>(steps.take() % launch_levels);
        std::byte args[64] = {};
        request.args = args;
        request.args_size = steps.take() % sizeof args;
        if (poster.try_post(request)) posted.insert(last);
        break;
      }
      case 4:
        for (const std::uint64_t id : poster.take_completed())
          test::require(posted.erase(id) == 1, "a launch finished that was not posted");
        break;
      case 5:
        signal_eventfd(notifier);
        if (const auto message = source.read_message()) {
          test::require(message->slot < FaultBoard::slots_max, "a message outside the slots");
          (void)source.attend(*message);
          source.answered(*message, steps.take() % 2 != 0);
        }
        break;
      case 6:
        if (const auto failure = read_failure(boards->launches.failure)) {
          const std::string line = describe_failure(0, 1, *failure, 0);
          test::require(line.find('\n') == std::string::npos, "a failure is more than one line");
        }
        break;
      case 7:  // a worker of the device
        if (const auto piece = try_take_piece(boards->launches)) {
          test::require(piece->slot < launch_slots, "a piece outside the slots");
          (void)finish_piece(boards->launches, *piece);
        }
        break;
    }
  }
  return 0;
}
