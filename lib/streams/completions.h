// Tells an engine that something that its streams wait for is over: an operation that another
// thread carries out, or an event of another device. The notifying thread takes no engine's lock,
// so it may hold any lock; the engine takes the entries the next time it looks. The object lives
// until the last thread that may notify has dropped it, maybe after the engine's end. Any thread
// may call.
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
  // The work with this ticket is over. Ignored if it is not at the stream's front any more.
  struct Entry {
    std::shared_ptr<Stream> stream;
    std::uint64_t ticket = 0;
    WorkStatus status = WorkStatus::ok;
  };

  // Readable while there are entries.
  int fd() const { return fd_.get(); }
  void add(Entry entry) EXCLUDES(lock_);
  std::vector<Entry> take() EXCLUDES(lock_);
  // Drops all entries, also later ones: no engine takes them any more.
  void close() EXCLUDES(lock_);

 private:
  const Fd fd_ = make_eventfd();
  Mutex lock_{LockOrder::completions};
  bool closed_ GUARDED_BY(lock_) = false;
  std::vector<Entry> entries_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
