// A stream is an ordered queue of kernels, host functions, operations and events of one context; a
// context is a set of streams that fail together. To callers both are handles. All mutable fields
// belong to the device's engine and are guarded by its lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "devices/device_process.h"
#include "os/process/spin.h"
#include "streams/stream_order.h"

namespace wherry::impl {

class DeviceEngine;
class Recording;
class WorkContext;

// How work was accepted, or how it ended. The statuses from illegal_address to context_destroyed
// are permanent.
enum class WorkStatus {
  ok,
  // A kernel of the context accessed memory that the device cannot see.
  illegal_address,
  // An assertion of a kernel of the context failed.
  assertion_failed,
  // A kernel ended the device process in another way, the process was lost, or work of the context
  // waited for a context that failed.
  launch_failed,
  // The context has been destroyed.
  context_destroyed,
  // The device cannot find the kernel's code. Only this call fails.
  unknown_kernel,
  // The device has credentials that the caller has given up. Only this call fails.
  other_credentials,
};

enum class StreamKind {
  context_default,  // ordered with all blocking streams of its context
  blocking,         // ordered with the context's default stream
  non_blocking,     // not ordered with other streams
};

using HostFunction = void (*)(void* data);

// Reports that an operation is over: once, from any thread, which may hold any lock. It does
// nothing if the context has failed since or the engine is gone. Any status other than ok fails the
// context.
class Completion {
 public:
  Completion() = default;
  explicit Completion(std::function<void(WorkStatus)> say) : say_(std::move(say)) {}

  void operator()(WorkStatus status = WorkStatus::ok) const { say_(status); }
  explicit operator bool() const { return say_ != nullptr; }

 private:
  std::function<void(WorkStatus)> say_;
};
// Begins an operation that another thread carries out. Called under the engine's lock: it hands the
// work over, does not wait, and calls no engine.
using Operation = std::function<void(Completion done)>;

struct KernelWork {
  KernelFunction kernel = nullptr;
  std::uintptr_t address = 0;  // the kernel's address in the device
  std::vector<std::byte> args;
  std::size_t items = 0;
};

struct HostWork {
  std::function<void(WorkStatus)> call;
  bool even_if_failed = false;  // true: if the context fails, it is called with the context's error
};

// Records an event, or waits for a recording of any stream, also of another device.
struct RecordWork {
  std::shared_ptr<Recording> recording;
};
struct WaitWork {
  std::shared_ptr<Recording> recording;
};

// One entry of a stream's queue.
struct Work {
  std::uint64_t ticket = 0;  // counts the context's work; earlier work has a smaller one
  std::variant<KernelWork, HostWork, Operation, RecordWork, WaitWork> what;
};

class Stream {
 public:
  Stream(std::shared_ptr<WorkContext> context, StreamKind kind, int priority)
      : context_(std::move(context)), kind_(kind), priority_(priority), id_(++last_id_) {}

  // These never change.
  const std::weak_ptr<WorkContext>& context() const { return context_; }
  StreamKind kind() const { return kind_; }
  int priority() const { return priority_; }
  std::uint64_t id() const { return id_; }  // unique in the process, never reused

 private:
  friend class DeviceEngine;

  inline static std::atomic<std::uint64_t> last_id_ = 0;

  const std::weak_ptr<WorkContext> context_;
  const StreamKind kind_;
  const int priority_;
  const std::uint64_t id_;
  std::deque<Work> queue_;   // unfinished work, oldest first; the front may be running
  bool running_ = false;     // the front runs in the device, or another thread carries it out
  bool starved_ = false;     // true: the front waits for a launch slot in the engine's line
  bool destroyed_ = false;   // true: forget the stream when the queue is empty
  std::uint64_t epoch_ = 0;  // counts how often the queue was dropped
  std::shared_ptr<const StreamOrder> order_;  // what it comes after; null: unknown
  std::uint32_t prefetch_epoch_ = 0;          // 0: prefetch_epoch() assigns a new number
};

class WorkContext {
 public:
  WorkContext() = default;

  // How long a thread that waits for the context's work looks for its end before it sleeps, if no
  // other thread needs the CPU. A short kernel ends sooner than Linux wakes a thread. Any thread
  // may call.
  void set_wait_spin(std::uint64_t ns) { wait_spin_ns_.store(ns, std::memory_order_relaxed); }
  std::uint64_t wait_spin_ns() const { return wait_spin_ns_.load(std::memory_order_relaxed); }

 private:
  friend class DeviceEngine;

  std::atomic<std::uint64_t> wait_spin_ns_ = usual_spin_ns;

  // The status that calls return from now on. Written under the lock, but read by each call without
  // it.
  std::atomic<WorkStatus> status_ = WorkStatus::ok;
  // The context is being destroyed: its work is waited for, and it accepts no more.
  bool closing_ = false;
  std::uint64_t last_ticket_ = 0;
  std::shared_ptr<Stream> default_stream_;
  // Live streams, the default one first, and destroyed ones with unfinished work.
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace wherry::impl
