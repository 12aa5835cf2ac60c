// Carries many pages from pool to pool at a time, or bytes between pools and this process's memory,
// without holding a lock: what a flight (pages/block.h) does between its beginning and its end.
// Knows nothing of page states; who uses it sees to it that nobody may write pages that are under
// way, and that the target holds none of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/lock.h"
#include "base/page.h"
#include "base/processor.h"
#include "memory/pool.h"

namespace wherry::impl {

struct PageTransfer {
  enum class Kind {
    move,    // copied, then punched out of the source's pool
    copy,    // the source keeps it
    create,  // zero pages; there is no source
  };

  Kind kind = Kind::move;
  PageSpan span;  // inside one block
  Processor from;
  Processor to;
};

// Bytes of pages that exist, and stay where they are until they are delivered; or of this process's
// memory, which need not exist.
struct ByteTransfer {
  struct InPool {
    Processor pool;
    std::uint64_t offset = 0;
  };
  // Of a memory file that is no pool; whoever uses the carrier keeps it open.
  struct InFile {
    int fd = -1;
    std::uint64_t offset = 0;
  };
  using Place = std::variant<std::byte*, InPool, InFile>;

  Place to = nullptr;
  Place from = nullptr;   // nothing is written there
  std::size_t bytes = 0;  // at most a block's, and in a file inside one
};

struct TransferResult {
  unsigned slot = 0;
  // ok: the target's pool holds all of it. Otherwise it may hold some, and the source still holds
  // everything. no_memory: there is none for the target; bad_address: this process has no such
  // memory; incomplete: another attempt may go better.
  OpStatus status = OpStatus::ok;
  bool released = false;  // the source's pool is known to hold nothing of it any more
};

// One thread's own.
class CopyBackend {
 public:
  virtual ~CopyBackend() = default;
  // How many loads can be under way. They are carried in the order in which they were given.
  virtual unsigned slots() const = 0;
  // Requires: nothing is under way in the slot.
  virtual void begin(unsigned slot, const PageTransfer& transfer) = 0;
  virtual void begin(unsigned slot, const ByteTransfer& transfer) = 0;
  // Waits until one has arrived, or failed. Requires: something is under way.
  virtual TransferResult next() = 0;
};

// How bytes get into the target's pool. A write locks the file against other writers but does not
// have to clear the pages first; a read into a mapping of the file locks nothing. One copier that
// writes and others that read together move more than copiers of one kind do.
enum class CopyMethod {
  write,
  read,
};

// pools[i] is processor i's; they outlive the carrier. With io_uring where it is permitted. To be
// called by the thread that will use it.
std::unique_ptr<CopyBackend> make_copy_backend(
    std::span<const std::unique_ptr<MemoryPoolFile>> pools, CopyMethod method);
// The same without io_uring: the calling thread does the work.
std::unique_ptr<CopyBackend> make_plain_backend(
    std::span<const std::unique_ptr<MemoryPoolFile>> pools, CopyMethod method);

// What make() returns. Null, and a line in the log the first time, where it throws: this process
// has no mappings left, or no memory.
std::unique_ptr<CopyBackend> try_to_make(const std::function<std::unique_ptr<CopyBackend>()>& make);

// Carriers with nothing under way, for threads that need one for a moment. Any thread.
class IdleBackends {
 public:
  using Make = std::function<std::unique_ptr<CopyBackend>()>;

  explicit IdleBackends(Make make) : make_(std::move(make)) {}

  // One that nobody else uses meanwhile. Null: this process has no mappings left, or no memory.
  std::unique_ptr<CopyBackend> borrow() EXCLUDES(lock_);
  void give_back(std::unique_ptr<CopyBackend> backend) EXCLUDES(lock_);

 private:
  const Make make_;
  Mutex lock_{LockOrder::copy_backends};
  std::vector<std::unique_ptr<CopyBackend>> idle_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
