// Work in order: a stream is a queue of kernels, host functions, operations and events of one
// context; a context is a set of streams that share a fate. Both are handles to the outside; every
// field belongs to the device's engine and is guarded by its lock.
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

namespace wherry::impl {

class DeviceEngine;
class Recording;
class WorkContext;

// How work was taken, or ended. All but the first and the last two are for good.
enum class WorkStatus {
  ok,
  illegal_address,  // a kernel of the context touched memory that the device cannot see
  launch_failed,    // a kernel ended the device process otherwise, or the process was lost; or work
                    // of the context waited for a context that failed
  context_destroyed,  // the context is gone
  unknown_kernel,     // the device cannot find the kernel's code; nothing else is wrong
  other_credentials,  // the device has credentials that the caller has given up; nothing else is
                      // wrong
};

enum class StreamKind {
  context_default,  // ordered with all blocking streams of its context
  blocking,         // ordered with the context's default stream
  non_blocking,     // ordered with nothing
};

using HostFunction = void (*)(void* data);

// Says that an operation is over: once, from any thread, holding any lock, at any time; also when
// the context has failed since or the engine is gone, and then it does nothing. Another status than
// ok fails the context.
class Completion {
 public:
  Completion() = default;
  explicit Completion(std::function<void(WorkStatus)> say) : say_(std::move(say)) {}

  void operator()(WorkStatus status = WorkStatus::ok) const { say_(status); }
  explicit operator bool() const { return say_ != nullptr; }

 private:
  std::function<void(WorkStatus)> say_;
};
// Begins an operation that somebody else carries out. Called under the engine's lock: it hands the
// work on, waits for nothing and calls no engine.
using Operation = std::function<void(Completion done)>;

struct KernelWork {
  KernelFunction kernel = nullptr;
  std::uintptr_t address = 0;  // of the kernel, in the device
  std::vector<std::byte> args;
  std::size_t items = 0;
};

struct HostWork {
  std::function<void(WorkStatus)> call;
  bool even_if_failed = false;  // then it is called with the context's error
};

// The moment that an event records, and a wait for one of any stream, also another device's.
struct RecordWork {
  std::shared_ptr<Recording> recording;
};
struct WaitWork {
  std::shared_ptr<Recording> recording;
};

// One entry of a stream.
struct Work {
  std::uint64_t ticket = 0;  // counts the context's work; earlier work has a smaller one
  std::variant<KernelWork, HostWork, Operation, RecordWork, WaitWork> what;
};

class Stream {
 public:
  Stream(std::shared_ptr<WorkContext> context, StreamKind kind, int priority)
      : context_(std::move(context)), kind_(kind), priority_(priority), id_(++last_id_) {}

  // Set when the stream is made, and never after.
  const std::weak_ptr<WorkContext>& context() const { return context_; }
  StreamKind kind() const { return kind_; }
  int priority() const { return priority_; }
  std::uint64_t id() const { return id_; }  // of no other stream of the process, ever

 private:
  friend class DeviceEngine;

  inline static std::atomic<std::uint64_t> last_id_ = 0;

  const std::weak_ptr<WorkContext> context_;
  const StreamKind kind_;
  const int priority_;
  const std::uint64_t id_;
  std::deque<Work> queue_;            // unfinished work, oldest first; the front may be running
  bool running_ = false;              // the front is in the device, or with whoever carries it out
  bool starved_ = false;              // it stands in the engine's line for a launch slot
  bool destroyed_ = false;            // to be forgotten when the queue is empty
  std::uint64_t epoch_ = 0;           // counts how often the queue was thrown away
  std::uint32_t prefetch_epoch_ = 0;  // 0: to be numbered when next asked for
};

class WorkContext {
 public:
  WorkContext() = default;

 private:
  friend class DeviceEngine;

  // What every call answers from now on. Written under the lock; each call asks, so it is read
  // without.
  std::atomic<WorkStatus> status_ = WorkStatus::ok;
  bool closing_ = false;  // it is being destroyed: what it has is waited for, and it takes no more
  std::uint64_t last_ticket_ = 0;
  std::shared_ptr<Stream> default_stream_;
  // Live streams, the default one first, and destroyed ones with unfinished work.
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace wherry::impl
