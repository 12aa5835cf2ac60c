#include "stress/model_lane.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "stress/model_advice.h"

namespace wherry::test {
namespace {

using Kind = OperationKind;

enum : unsigned {
  legacy,
  non_blocking,
  blocking
};

// In shared memory: device processes read it, too.
struct KernelHead {
  Board* board;
  Touch touches[1];
};

void run_kernel(const void* args, std::size_t begin, std::size_t end) {
  const auto& kernel = *static_cast<const KernelHead*>(args);
  for (std::size_t i = begin; i < end; ++i) perform(*kernel.board, kernel.touches[i]);
}

}  // namespace

Lane::Lane(World& world, unsigned number) : world_(world), number_(number) {
  kernel_.board = &world.board();
  for (unsigned stream = 0; stream < streams; ++stream) make_stream(stream);
}

unsigned Lane::stream_of(const Operation& operation) {
  const int device = operation.device >= 0 ? operation.device
                                           : static_cast<int>(operation.variant % model_devices);
  return static_cast<unsigned>(device) * streams_per_device + operation.stream;
}

bool Lane::ordered_by_kind(unsigned later, unsigned earlier) {
  if (later == earlier) return true;
  if (device_of(later) != device_of(earlier)) return false;
  const unsigned one = later % streams_per_device, other = earlier % streams_per_device;
  return (one == legacy && other == blocking) || (one == blocking && other == legacy);
}

void Lane::run(const Script& script) {
  for (current_ = 0; current_ < script.size(); ++current_) {
    const Operation& operation = script[current_];
    if (world_.board().state.load(std::memory_order_relaxed) == Board::failed)
      ::_exit(Board::exit_code);
    if (is_meeting(operation.kind))
      meet(operation);
    else if (operation.lane == number_)
      step(operation);
  }
  launch();
  synchronize_all(0);
}

void Lane::meet(const Operation& operation) {
  launch();
  synchronize_all(operation.variant);
  world_.wait_for_lanes();
  const int device = std::max(operation.device, 0);
  if (number_ == 0) {
    make_current(0);
    const unsigned number = operation.slot % shared_slots;
    if (operation.kind == Kind::meet) world_.compare(operation.variant, current_);
    if (operation.kind == Kind::allocate_shared)
      world_.allocate_shared(number, operation.count, current_);
    if (operation.kind == Kind::free_shared) world_.release(number, streams_[0].handle, current_);
    if (operation.kind == Kind::fail_device) world_.fail_device(device, current_);
  }
  world_.wait_for_lanes();
  current_device_ = -1;
  if (operation.kind != Kind::fail_device) return;
  for (unsigned n = 0; n < streams_per_device; ++n)
    make_stream(static_cast<unsigned>(device) * streams_per_device + n);
}

void Lane::step(const Operation& operation) {
  switch (operation.kind) {
    case Kind::write:
    case Kind::read:
    case Kind::increment:
      return touch(operation);
    case Kind::count_up:
      return count_up(operation);
    default:
      launch();
  }
  switch (operation.kind) {
    case Kind::allocate:
      return allocate(operation);
    case Kind::free:
      return free(operation);
    case Kind::copy:
      return copy(operation);
    case Kind::fill:
      return fill(operation);
    case Kind::advise:
      return advise(operation);
    case Kind::query:
      return query(operation);
    case Kind::prefetch:
      return prefetch(operation);
    case Kind::discard:
      return discard(operation);
    case Kind::pin:
    case Kind::unpin:
      return pin(operation);
    case Kind::touch:
      return host_touch(operation);
    case Kind::host_function:
      return host_function(operation);
    case Kind::system_calls:
      return system_calls(operation);
    case Kind::synchronize:
      return wait_for(stream_of(operation), operation.variant);
    case Kind::renew_stream:
      return renew(stream_of(operation), operation.variant);
    case Kind::fork:
      return fork_child(operation);
    default:
      break;
  }
}

// ---- streams

void Lane::make_current(int device) {
  if (current_device_ == device) return;
  LANE_TRY(cuCtxSetCurrent(world_.session().context(device)));
  current_device_ = device;
}

void Lane::make_stream(unsigned stream) {
  make_current(device_of(stream));
  Stream made;
  const unsigned kind = stream % streams_per_device;
  if (kind != legacy) {
    LANE_TRY(cuStreamCreate(&made.handle,
                            kind == blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
  }
  LANE_TRY(cuEventCreate(&made.event, CU_EVENT_DISABLE_TIMING));
  streams_[stream] = made;
}

void Lane::renew(unsigned stream, unsigned variant) {
  if (stream % streams_per_device == legacy) return;
  const Stream old = streams_[stream];
  const CUevent event = recorded(stream);
  LANE_TRY(cuStreamDestroy(old.handle));
  make_stream(stream);
  if (variant % 2 == 0)
    LANE_TRY(cuStreamWaitEvent(streams_[stream].handle, event, 0));
  else
    LANE_TRY(cuEventSynchronize(event));
  LANE_TRY(cuEventDestroy(event));
}

CUevent Lane::recorded(unsigned stream) {
  make_current(device_of(stream));
  LANE_TRY(cuEventRecord(streams_[stream].event, streams_[stream].handle));
  return streams_[stream].event;
}

void Lane::wait_for(unsigned stream, unsigned variant) {
  make_current(device_of(stream));
  const auto poll = [&](auto query, const char* what) {
    CUresult result = CUDA_ERROR_NOT_READY;
    while ((result = query()) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    call(result, what);
  };
  const CUstream handle = streams_[stream].handle;
  bool whole_device = false;
  switch (variant % 8) {
    case 0:
    case 1:
    case 2:
      LANE_TRY(cuStreamSynchronize(handle));
      break;
    case 3:
    case 4:
      LANE_TRY(cuEventSynchronize(recorded(stream)));
      break;
    case 5:
      poll([&] { return cuStreamQuery(handle); }, "cuStreamQuery");
      break;
    case 6:
      recorded(stream);
      poll([&] { return cuEventQuery(streams_[stream].event); }, "cuEventQuery");
      break;
    default:
      LANE_TRY(cuCtxSynchronize());
      whole_device = true;
  }
  // Waiting for the default stream waits for the blocking streams, but not the other way round.
  const bool whole_default = stream % streams_per_device == legacy;
  std::erase_if(pending_, [&](const Pending& pending) {
    return pending.stream == stream || (whole_default && ordered_by_kind(stream, pending.stream)) ||
           (whole_device && device_of(pending.stream) == device_of(stream));
  });
}

void Lane::synchronize_all(unsigned variant) {
  for (unsigned stream = 0; stream < streams; ++stream)
    wait_for(stream, variant % 2 == 0 ? 0 : variant >> stream);
}

bool Lane::conflicts(const Pending& pending, const Use& use) const {
  return pending.slot == use.slot && (pending.writes || use.writes) &&
         pending.first < use.view.end() && use.view.offset < pending.end;
}

void Lane::order_in(unsigned stream, const Use& use, unsigned variant) {
  for (std::size_t i = 0; i < pending_.size();) {
    const Pending pending = pending_[i++];
    if (!conflicts(pending, use) || ordered_by_kind(stream, pending.stream) ||
        pending.number <= waited_for_[stream][pending.stream])
      continue;
    if (variant % 4 == 0) {
      wait_for(pending.stream, variant / 4);
      i = 0;
      continue;
    }
    const CUevent event = recorded(pending.stream);
    make_current(device_of(stream));
    LANE_TRY(cuStreamWaitEvent(streams_[stream].handle, event, 0));
    waited_for_[stream][pending.stream] = last_number_;
  }
}

void Lane::order_here(const Use& use, unsigned variant) {
  for (std::size_t i = 0; i < pending_.size();) {
    if (!conflicts(pending_[i], use)) {
      ++i;
      continue;
    }
    wait_for(pending_[i].stream, variant);
    i = 0;
  }
}

void Lane::is_pending(unsigned stream, const Use& use) {
  pending_.push_back(
      {use.slot, use.view.offset, use.view.end(), use.writes, stream, ++last_number_});
}

void Lane::forget_slot(unsigned number) {
  std::erase_if(pending_, [&](const Pending& pending) { return pending.slot == number; });
}

// ---- memory

void Lane::allocate(const Operation& operation) {
  const unsigned number = shared_slots + number_ * private_slots + operation.slot % private_slots;
  if (slot(number).exists()) return;
  const unsigned stream = stream_of(operation);
  make_current(device_of(stream));
  world_.allocate(number, std::clamp(operation.count, 1u, 1u << 12), operation.variant / 16,
                  device_of(stream), streams_[stream].handle, current_);
  if (slot(number).memory() != Memory::pool) return;
  is_pending(stream, {number, {0, slot(number).bytes(), 1, 0}, true});
}

void Lane::free(const Operation& operation) {
  const unsigned number = shared_slots + number_ * private_slots + operation.slot % private_slots;
  if (!slot(number).exists()) return;
  const View all{0, slot(number).bytes(), 1, 0};
  const unsigned stream = stream_of(operation);
  if (slot(number).memory() == Memory::pool)
    order_in(stream, {number, all, true}, operation.variant);
  else if (slot(number).memory() == Memory::pageable || slot(number).memory() == Memory::registered)
    order_here({number, all, true}, operation.variant);
  make_current(device_of(stream));
  world_.release(number, streams_[stream].handle, current_);
  forget_slot(number);
}

bool Lane::may_use(unsigned number) const {
  return number < shared_slots || (number - shared_slots) / private_slots == number_;
}

std::optional<View> Lane::view_of(const Operation& operation, std::size_t unit) {
  if (!may_use(operation.slot)) return {};
  return slot(operation.slot).view(number_, operation.first, operation.count, unit);
}

void Lane::touched(unsigned number, const View& view) {
  Slot& used = slot(number);
  if (used.is_shared() || used.memory() != Memory::managed) return;
  for (std::size_t i = view.offset / model_page; i < (view.end() + model_page - 1) / model_page;
       ++i)
    used.pages()[i].touched = true;
}

// ---- accesses

void Lane::touch(const Operation& operation) {
  if (operation.slot == counter_slot) return;
  Slot& used = slot(operation.slot);
  const auto view = view_of(operation, word_bytes);
  if (!view) return;
  const bool writes = operation.kind != Kind::read;
  const auto kind = operation.kind == Kind::write  ? Touch::Kind::write
                    : operation.kind == Kind::read ? Touch::Kind::read
                                                   : Touch::Kind::increment;
  const Use use{operation.slot, *view, writes};
  if (operation.device >= 0) {
    if (!used.is_for_device(operation.device)) return;
    const unsigned stream = stream_of(operation);
    const bool collides = std::any_of(kernel_uses_.begin(), kernel_uses_.end(),
                                      [&](const Pending& other) { return conflicts(other, use); });
    if (collides || stream != kernel_stream_) launch();
    order_in(stream, use, operation.variant);
    add_to_kernel(stream, used.touch(kind, *view, used.for_kernels(), current_), use);
  } else {
    if (used.for_host() == nullptr) return;
    launch();
    order_here(use, operation.variant);
    perform(world_.board(), used.touch(kind, *view, used.for_host(), current_));
    world_.board().count();
  }
  touched(operation.slot, *view);
}

void Lane::count_up(const Operation& operation) {
  Slot& counters = slot(counter_slot);
  if (!counters.exists()) return;
  const Touch touch = counters.count_up(operation.first, operation.count / word_bytes + 1,
                                        counters.for_kernels(), current_);
  const View nothing{0, 0, 1, 0};
  if (operation.device >= 0)
    return add_to_kernel(stream_of(operation), touch, {counter_slot, nothing, true});
  perform(world_.board(), touch);
  world_.board().count();
}

void Lane::add_to_kernel(unsigned stream, const Touch& touch, const Use& use) {
  if (stream != kernel_stream_ || kernel_uses_.size() == touches_max) launch();
  kernel_stream_ = stream;
  kernel_.touches[kernel_uses_.size()] = touch;
  kernel_uses_.push_back({use.slot, use.view.offset, use.view.end(), use.writes, stream, 0});
}

void Lane::launch() {
  if (kernel_uses_.empty()) return;
  const std::size_t count = kernel_uses_.size();
  static_assert(sizeof(Kernel) <= WHERRY_MAX_ARGS_SIZE);
  make_current(device_of(kernel_stream_));
  LANE_TRY(wherryLaunchKernel(streams_[kernel_stream_].handle, run_kernel, &kernel_,
                              offsetof(Kernel, touches) + count * sizeof(Touch), count));
  world_.board().count(count);
  for (Pending& pending : kernel_uses_) {
    pending.number = ++last_number_;
    pending_.push_back(pending);
  }
  kernel_uses_.clear();
}

namespace {

struct HostWork {
  Board& board;
  Touch touch;
};

void CUDA_CB run_host_work(void* data) {
  const std::unique_ptr<HostWork> work{static_cast<HostWork*>(data)};
  perform(work->board, work->touch);
}

}  // namespace

void Lane::host_function(const Operation& operation) {
  Slot& used = slot(operation.slot);
  const auto view = view_of(operation, word_bytes);
  if (!view || operation.slot == counter_slot || used.for_host() == nullptr) return;
  const bool writes = operation.variant / 32 % 2 == 0;
  const Use use{operation.slot, *view, writes};
  const unsigned stream = stream_of(operation);
  order_in(stream, use, operation.variant);
  auto work = std::make_unique<HostWork>(
      HostWork{world_.board(), used.touch(writes ? Touch::Kind::write : Touch::Kind::read, *view,
                                          used.for_host(), current_)});
  make_current(device_of(stream));
  LANE_TRY(cuLaunchHostFunc(streams_[stream].handle, run_host_work, work.get()));
  [[maybe_unused]] HostWork* const given_away = work.release();
  is_pending(stream, use);
  touched(operation.slot, *view);
}

void Lane::host_touch(const Operation& operation) {
  Slot& used = slot(operation.slot);
  const auto view = view_of(operation, word_bytes);
  if (!view || used.memory() != Memory::managed) return;
  const bool writes = operation.variant % 2 == 0;
  LANE_TRY(wherryTouchPages(used.for_host() + view->offset, view->end() - view->offset,
                            writes ? WHERRY_TOUCH_WRITE : WHERRY_TOUCH_READ));
}

}  // namespace wherry::test
