// Where an engine is told from outside that something its streams wait for is over: an operation
// that somebody else carries out, an event of another device. Whoever tells takes no engine's lock,
// so that it may hold its own engine's, or any other; the engine takes what came when it next
// looks. Outlives the engine for as long as somebody may still tell it something. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/lock.h"
#include "os/files/fd.h"
#include "os/process/poll.h"
#include "streams/stream.h"

namespace wherry::impl {

class Completions {
 public:
  // The front of a stream, if it still is that piece of work, is over.
  struct Entry {
    std::shared_ptr<Stream> stream;
    std::uint64_t ticket = 0;
    WorkStatus status = WorkStatus::ok;
  };

  // Readable while there is something to take.
  int fd() const { return fd_.get(); }
  void add(Entry entry) EXCLUDES(lock_);
  std::vector<Entry> take() EXCLUDES(lock_);
  // Nobody takes any more: what comes is dropped.
  void close() EXCLUDES(lock_);

 private:
  const Fd fd_ = make_eventfd();
  Mutex lock_{LockOrder::completions};
  bool closed_ GUARDED_BY(lock_) = false;
  std::vector<Entry> entries_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
