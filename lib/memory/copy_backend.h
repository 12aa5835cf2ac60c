// Copies many pages at a time from pool to pool, or bytes between pools and the memory of this
// process, without a lock: the copying part of an in-flight transfer (pages/block.h). A copy
// backend knows no page states. Its user ensures that no thread can write to the pages during the
// transfer, and that the target's pool holds none of them.
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
#include "base/page_mask.h"
#include "base/processor.h"
#include "memory/pool.h"
#include "trace/event.h"

namespace wherry::impl {

// Pages of a block that are brought to a pool while the block is not locked.
struct PageTransfer {
  enum class Kind {
    move,    // copied; the source's pages leave, see TransferResult::released
    copy,    // copied; the source keeps its pages
    create,  // zero pages; there is no source
  };

  Kind kind = Kind::move;
  PageSpan span = {};   // within one block
  Processor from = {};  // where the pages are; unused where they are created
  Processor to = {};
  EventCause cause = EventCause::prefetch;
  std::uint64_t begun_ns = 0;  // its start, for its event; 0: such events are not recorded

  // The pages' place in their block.
  PageRun run() const { return run_in_block(block_of(span.first), span); }
};

// A copy of bytes. A side may be resident pages, which must stay where they are until the transfer
// completes, a file, or this process's memory, which need not exist.
struct ByteTransfer {
  struct InPool {
    Processor pool;
    std::uint64_t offset = 0;
  };
  // In a memory file that is not a pool. The user of the backend keeps the file open.
  struct InFile {
    int fd = -1;
    std::uint64_t offset = 0;
  };
  using Place = std::variant<std::byte*, InPool, InFile>;

  Place to = nullptr;
  Place from = nullptr;   // only read
  std::size_t bytes = 0;  // at most 2 MiB; within one block of a pool or file
};

struct TransferResult {
  unsigned slot = 0;
  // ok: the target holds all of it. In every other case the target may hold a part, and the source
  // still holds everything. no_memory: the target has no memory for it. bad_address: this process
  // has no memory at that address. incomplete: another attempt may succeed.
  OpStatus status = OpStatus::ok;
  // True: the backend has punched the source's pages. False: the user of the backend does that.
  bool released = false;
};

// Used by one thread only.
class CopyBackend {
 public:
  virtual ~CopyBackend() = default;
  // How many transfers can be in flight. They are carried out in the order of the begin() calls.
  virtual unsigned slots() const = 0;
  // Requires: no transfer is in flight in this slot.
  virtual void begin(unsigned slot, const PageTransfer& transfer) = 0;
  virtual void begin(unsigned slot, const ByteTransfer& transfer) = 0;
  // Waits until a transfer has completed or failed. Requires: one is in flight.
  virtual TransferResult next() = 0;
};

// How bytes get into the target's pool. A write locks the file against other writers, but Linux
// need not clear the pages first. A read into a mapping of the file takes no such lock. Some
// threads that write and some that read copy more together than threads of one kind.
enum class CopyMethod {
  write,
  read,
};

// The backend uses io_uring where that is permitted. pools[i] belongs to processor i; the pools
// outlive the backend. To be called by the thread that will use the backend.
std::unique_ptr<CopyBackend> make_copy_backend(
    std::span<const std::unique_ptr<SparsePoolFile>> pools, CopyMethod method);
// A backend without io_uring: the thread that uses it copies.
std::unique_ptr<CopyBackend> make_plain_backend(
    std::span<const std::unique_ptr<SparsePoolFile>> pools, CopyMethod method);

// Returns the result of make(). Returns null if make() throws because the process has no mappings
// or no memory left; the first failure is logged.
std::unique_ptr<CopyBackend> try_to_make(const std::function<std::unique_ptr<CopyBackend>()>& make);

// Idle copy backends, for threads that need one for a short time. Any thread may call.
class IdleBackends {
 public:
  using Make = std::function<std::unique_ptr<CopyBackend>()>;

  explicit IdleBackends(Make make) : make_(std::move(make)) {}

  // Returns a backend for the caller alone. Returns null if the process has no mappings or no
  // memory left.
  std::unique_ptr<CopyBackend> borrow() EXCLUDES(lock_);
  void give_back(std::unique_ptr<CopyBackend> backend) EXCLUDES(lock_);

 private:
  const Make make_;
  Mutex lock_{LockOrder::copy_backends};
  std::vector<std::unique_ptr<CopyBackend>> idle_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
