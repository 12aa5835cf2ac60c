#include "memory/copy_backend.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <exception>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "os/files/file_io.h"
#include "os/files/file_window.h"
#include "os/files/io_ring.h"
#include "os/memory/write_freeze.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {
namespace {

// A second transfer keeps the copier busy while the first one is being mapped at its target. More
// would only lengthen the wait of threads that fault on pages in flight.
constexpr unsigned ring_slots = 2;
// Each slot has at most a copy and a punch, or a fetch and a copy.
constexpr unsigned operations_per_slot = 2;

// Fewer bytes from a pool are copied without a window (FileWindow): mapping it would take longer
// than the copy.
constexpr std::size_t window_bytes_min = 64 << 10;

// How many threads may write to a file: one writes, and one waits for the file's lock.
constexpr unsigned writers_max = 2;

OpStatus status_of(int result, std::size_t wanted) {
  if (result >= 0)
    return static_cast<std::size_t>(result) == wanted ? OpStatus::ok : OpStatus::incomplete;
  // EFAULT: Linux could not create a page of the target at which the bytes were to go.
  return result == -ENOSPC || result == -ENOMEM || result == -EFAULT ? OpStatus::no_memory
                                                                     : OpStatus::incomplete;
}

// The status of a copy to or from the program's memory.
OpStatus status_at_host(int result, std::size_t wanted) {
  return result == -EFAULT ? OpStatus::bad_address : status_of(result, wanted);
}

bool in_memory(const ByteTransfer::Place& place) {
  return std::holds_alternative<std::byte*>(place);
}
// Requires: `place` is in this process's memory.
std::span<std::byte> in_memory(const ByteTransfer& transfer, const ByteTransfer::Place& place) {
  return {std::get<std::byte*>(place), transfer.bytes};
}

// How often a copy is repeated that failed because of a WriteFreeze on the program's memory. Each
// attempt met a different freeze, since the previous one had ended.
constexpr int freeze_attempts_max = 1000;

// Repeats a copy that may write to the program's memory. While writes to it are frozen, Linux may
// fail the copy instead of waiting.
template <typename Copy>
int retry_after_freezes(std::size_t wanted, const Copy& copy) {
  for (int attempt = 1;; ++attempt) {
    FreezeWatch watch;
    const int result = copy();
    const bool whole = result >= 0 && static_cast<std::size_t>(result) == wanted;
    if (whole || attempt == freeze_attempts_max || !watch.saw_one()) return result;
  }
}

// The common part of both backends: choosing the copy method, and the memory that it needs.
class PoolBackend : public CopyBackend {
 protected:
  using Pools = std::span<const std::unique_ptr<SparsePoolFile>>;

  PoolBackend(Pools pools, CopyMethod method, unsigned slots) : pools_(pools), method_(method) {
    for (unsigned i = 0; i < slots; ++i) windows_.emplace_back(block_size);
  }

  // How a transfer of pages is made, and the memory from which a write or into which a read copies.
  struct PageCopy {
    CopyMethod method;
    std::span<std::byte> memory;
    WriteTurn turn = {};
  };
  // Chooses the method and maps the memory. Returns nullopt if Linux cannot map it.
  std::optional<PageCopy> prepare(unsigned slot, const PageTransfer& transfer) {
    const bool whole_block = transfer.span.count == pages_per_block;
    const bool huge = target(transfer).has_huge_pages();
    // A write of less than a block could create a whole huge page, and other processors may hold
    // pages of that block in their pools.
    bool writes = transfer.kind != PageTransfer::Kind::create && method_ == CopyMethod::write &&
                  (whole_block || !huge) &&
                  may_write_to(transfer.span.offset() + transfer.span.bytes());
    WriteTurn turn;
    if (writes) writes = begin_write(transfer, turn);
    const CopyMethod method = writes ? CopyMethod::write : CopyMethod::read;
    const SparsePoolFile& seen = pool(writes ? transfer.from : transfer.to);
    if (whole_block && huge) pool(transfer.to).may_become_folio(transfer.span);
    if (whole_block && seen.has_block_alias()) {
      const std::span<std::byte> memory = seen.block_alias(transfer.span);
      // Has Linux enter the source pages first. A write that meets a source page without an entry
      // would clear the page that it is about to fill, and begin again.
      if (writes) fetch(memory);
      return PageCopy{method, memory, std::move(turn)};
    }
    const auto use = writes ? FileWindow::Use::reading
                     : whole_block && seen.maps_huge_pages()
                         ? FileWindow::Use::creating_huge_pages
                         : FileWindow::Use::creating_small_pages;
    if (windows_[slot].show(seen.file().fd_at(transfer.span.offset()), transfer.span.offset(),
                            transfer.span.bytes(), use) != 0)
      return std::nullopt;
    return PageCopy{method, windows_[slot].shown(), std::move(turn)};
  }
  // Whether this thread may use write(2), which copiers prefer where a pool has several files. If
  // `writers_max` threads already write to the range's file, this returns false: then this copier
  // does not wait, and lets Linux create the pages.
  bool begin_write(const PageTransfer& transfer, WriteTurn& turn) const {
    const SparsePoolFile& to = pool(transfer.to);
    if (to.file().stripes().files() == 1) return true;
    auto begun = to.begin_write(transfer.span, writers_max);
    if (begun) turn = std::move(*begun);
    return begun.has_value();
  }
  // Whether the backend punches the source's pages. If the file has huge pages, it punches whole
  // blocks only: the punch of a part of a huge page would clear that part (PoolFile::punch()).
  bool punches(const PageTransfer& transfer) const {
    return transfer.kind == PageTransfer::Kind::move &&
           (transfer.span.count == pages_per_block || !source(transfer).has_huge_pages());
  }
  // A write copies from memory to the file, a read copies from the file to memory.
  struct FileCopy {
    CopyMethod method;
    int fd;
    std::uint64_t offset;
    std::span<std::byte> memory;
  };
  // Prepares the transfer. Returns the copy to make, or the final status if there is nothing left
  // to do: the copy is done already, or it is not possible.
  std::variant<FileCopy, OpStatus> prepare(unsigned slot, const ByteTransfer& transfer) {
    const auto to = in_file(transfer.to);
    const auto from = in_file(transfer.from);
    if (!to && !from)
      return status_at_host(retry_after_freezes(transfer.bytes,
                                                [&] {
                                                  return copy_memory(
                                                      in_memory(transfer, transfer.to),
                                                      in_memory(transfer, transfer.from));
                                                }),
                            transfer.bytes);
    if (!to)
      return FileCopy{CopyMethod::read, from->fd, from->offset, in_memory(transfer, transfer.to)};
    const bool writes = may_write_to(to->offset + transfer.bytes);
    if (!from && writes)
      return FileCopy{CopyMethod::write, to->fd, to->offset, in_memory(transfer, transfer.from)};
    if (!from) {
      const auto shown = show(slot, *to, transfer.bytes, FileWindow::Use::creating_small_pages);
      if (shown.empty()) return OpStatus::no_memory;
      const int result = copy_memory(shown, in_memory(transfer, transfer.from));
      close_window(slot);
      return status_at_host(result, transfer.bytes);
    }
    // A small source is read through the pool's alias, which is mapped anyway.
    const auto* const pooled = std::get_if<ByteTransfer::InPool>(&transfer.from);
    if (writes && pooled != nullptr && transfer.bytes < window_bytes_min)
      return FileCopy{CopyMethod::write, to->fd, to->offset, alias(*pooled, transfer.bytes)};
    const bool reads = !writes || method_ == CopyMethod::read;
    const auto shown =
        show(slot, reads ? *to : *from, transfer.bytes,
             reads ? FileWindow::Use::creating_small_pages : FileWindow::Use::reading);
    if (shown.empty()) return OpStatus::no_memory;
    if (reads) return FileCopy{CopyMethod::read, from->fd, from->offset, shown};
    return FileCopy{CopyMethod::write, to->fd, to->offset, shown};
  }
  // Performs the prepared copy in the calling thread.
  TransferResult transfer_here(unsigned slot, const PageTransfer& transfer, const PageCopy& copy) {
    const std::uint64_t offset = transfer.span.offset();
    TransferResult outcome{slot};
    if (transfer.kind == PageTransfer::Kind::create) {
      outcome.status = impl::status_of(populate(copy.memory), 0);
    } else {
      const int result = copy.method == CopyMethod::write
                             ? write_at(target(transfer).fd(), offset, copy.memory)
                             : read_at(source(transfer).fd(), offset, copy.memory);
      outcome.status = impl::status_of(result, transfer.span.bytes());
    }
    if (outcome.status == OpStatus::ok && punches(transfer))
      outcome.released = source(transfer).punch(offset, transfer.span.bytes()) == 0;
    close_window(slot);
    return outcome;
  }
  // While Linux writes to a pool's file it holds a lock of that file. If Linux must first wait for
  // the source (a network file, swap), the source is fetched before the write, so that transfers of
  // other pages of that pool do not wait for the lock.
  static bool must_fetch(const ByteTransfer& transfer, const FileCopy& copy) {
    return copy.method == CopyMethod::write && in_memory(transfer.from) && !is_at_hand(copy.memory);
  }
  static int copy_here(const FileCopy& copy) {
    return retry_after_freezes(copy.memory.size(), [&] {
      return copy.method == CopyMethod::write ? write_at(copy.fd, copy.offset, copy.memory)
                                              : read_at(copy.fd, copy.offset, copy.memory);
    });
  }
  TransferResult transfer_here(unsigned slot, const ByteTransfer& transfer, const FileCopy& copy) {
    if (must_fetch(transfer, copy)) fetch(copy.memory);
    const int result = copy_here(copy);
    close_window(slot);
    return {slot, status_of(transfer, result), false};
  }
  // Returns the status for the result of a copy of bytes.
  static OpStatus status_of(const ByteTransfer& transfer, int result) {
    const bool at_host = in_memory(transfer.to) || in_memory(transfer.from);
    return at_host ? status_at_host(result, transfer.bytes)
                   : impl::status_of(result, transfer.bytes);
  }

  void close_window(unsigned slot) { windows_[slot].hide(); }

  const MemoryFile& source(const PageTransfer& transfer) const {
    return pool(transfer.from).file().at(transfer.span.offset());
  }
  const MemoryFile& target(const PageTransfer& transfer) const {
    return pool(transfer.to).file().at(transfer.span.offset());
  }

 private:
  SparsePoolFile& pool(Processor p) const { return *pools_[static_cast<std::size_t>(p.index)]; }
  // Returns nullopt if the place is in this process's memory.
  std::optional<ByteTransfer::InFile> in_file(const ByteTransfer::Place& place) const {
    if (const auto* const pooled = std::get_if<ByteTransfer::InPool>(&place))
      return ByteTransfer::InFile{pool(pooled->pool).file().fd_at(pooled->offset), pooled->offset};
    if (const auto* const filed = std::get_if<ByteTransfer::InFile>(&place)) return *filed;
    return std::nullopt;
  }
  std::span<std::byte> alias(const ByteTransfer::InPool& place, std::size_t bytes) const {
    return {const_cast<std::byte*>(pool(place.pool).alias({})) + place.offset, bytes};
  }
  // Maps the bytes in the slot's window. Returns an empty span if that fails.
  std::span<std::byte> show(unsigned slot, const ByteTransfer::InFile& place, std::size_t bytes,
                            FileWindow::Use use) {
    const std::uint64_t first = round_down(place.offset, page_size);
    const std::uint64_t end = round_up(place.offset + bytes, page_size);
    if (windows_[slot].show(place.fd, first, end - first, use) != 0) return {};
    return windows_[slot].shown().subspan(place.offset - first, bytes);
  }

  Pools pools_;
  const CopyMethod method_;
  std::vector<FileWindow> windows_;
};

// Called when Linux accepts no work for the ring, which the calling thread then does itself.
void say_once_that_ring_is_busy() {
  static std::atomic_flag said;
  if (!said.test_and_set())
    log_line(
        "io_uring accepts no work at the moment (is the machine short of memory?): the library's "
        "threads copy meanwhile");
}

// Linux refuses a submission while it has no memory for it. The limit is short, because the calling
// thread can copy without io_uring, and other threads wait for the copied data.
constexpr int submit_attempts_max = 20;
constexpr std::chrono::milliseconds submit_pause{1};

class RingBackend final : public PoolBackend {
 public:
  RingBackend(Pools pools, CopyMethod method, std::unique_ptr<IoRing> ring)
      : PoolBackend(pools, method, ring_slots), ring_(std::move(ring)) {
    over_.reserve(ring_slots);
  }

  unsigned slots() const override { return ring_slots; }

  void begin(unsigned slot, const PageTransfer& transfer) override {
    const auto copy = prepare(slot, transfer);
    if (!copy) {
      over_.push_back({slot, OpStatus::no_memory, false});
      return;
    }
    const std::uint64_t offset = transfer.span.offset();
    const bool punches = this->punches(transfer);
    const auto link = punches ? IoRing::Link::next : IoRing::Link::none;
    if (transfer.kind == PageTransfer::Kind::create)
      ring_->populate(copy->memory, tag(slot, 0));
    else if (copy->method == CopyMethod::write)
      ring_->write(target(transfer).fd(), offset, copy->memory, tag(slot, 0), link);
    else
      ring_->read(source(transfer).fd(), offset, copy->memory, tag(slot, 0), link);
    if (punches) ring_->punch(source(transfer).fd(), offset, transfer.span.bytes(), tag(slot, 1));
    if (!submit()) {
      say_once_that_ring_is_busy();
      over_.push_back(transfer_here(slot, transfer, *copy));
      return;
    }
    const std::uint64_t bytes =
        transfer.kind == PageTransfer::Kind::create ? 0 : transfer.span.bytes();
    under_way_[slot] = {punches ? 2u : 1u, bytes, {slot, OpStatus::ok, false}};
  }

  void begin(unsigned slot, const ByteTransfer& transfer) override {
    const auto way = prepare(slot, transfer);
    if (const auto* const status = std::get_if<OpStatus>(&way)) {
      over_.push_back({slot, *status, false});
      return;
    }
    const auto& copy = std::get<FileCopy>(way);
    FreezeWatch watch;
    const bool fetches = must_fetch(transfer, copy);
    if (fetches) ring_->fetch(copy.memory, tag(slot, 1), IoRing::Link::after);
    if (copy.method == CopyMethod::write)
      ring_->write(copy.fd, copy.offset, copy.memory, tag(slot, 0), IoRing::Link::none);
    else
      ring_->read(copy.fd, copy.offset, copy.memory, tag(slot, 0), IoRing::Link::none);
    if (!submit()) {
      say_once_that_ring_is_busy();
      over_.push_back(transfer_here(slot, transfer, copy));
      return;
    }
    under_way_[slot] = {
        fetches ? 2u : 1u, OfBytes{transfer, copy, watch}, {slot, OpStatus::ok, false}};
  }

  TransferResult next() override {
    if (!over_.empty()) {
      const TransferResult outcome = over_.front();
      over_.erase(over_.begin());
      return outcome;
    }
    for (;;) {
      const IoRing::Done done = ring_->wait();
      UnderWay& one = under_way_[done.tag / operations_per_slot];
      if (done.tag % operations_per_slot == 0) {
        one.outcome.status = meaning(one, done.result);
      } else {
        one.outcome.released = done.result == 0;
      }
      if (--one.operations != 0) continue;
      close_window(one.outcome.slot);
      return one.outcome;
    }
  }

 private:
  struct OfBytes {
    ByteTransfer transfer;
    FileCopy copy;
    FreezeWatch watch;
  };
  // Filled while Linux carries out the operations, so filling it must not need memory.
  struct UnderWay {
    unsigned operations = 0;  // not yet reported
    // For pages: how many bytes the first operation copies. For bytes: the transfer.
    std::variant<std::uint64_t, OfBytes> what;
    TransferResult outcome;
  };

  // Translates the result of the first operation.
  static OpStatus meaning(UnderWay& one, int result) {
    if (const auto* const bytes = std::get_if<std::uint64_t>(&one.what))
      return impl::status_of(result, *bytes);
    auto& [transfer, copy, watch] = std::get<OfBytes>(one.what);
    const bool whole = result == static_cast<int>(transfer.bytes);
    if (!whole && watch.saw_one()) result = copy_here(copy);
    return PoolBackend::status_of(transfer, result);
  }

  // Returns false, and has discarded the operations, if the ring does not accept them.
  bool submit() {
    for (int attempt = 0; attempt < submit_attempts_max; ++attempt) {
      if (ring_->submit()) return true;
      std::this_thread::sleep_for(submit_pause);
    }
    ring_->discard();
    return false;
  }
  static std::uint64_t tag(unsigned slot, unsigned operation) {
    return slot * operations_per_slot + operation;
  }

  const std::unique_ptr<IoRing> ring_;
  std::array<UnderWay, ring_slots> under_way_;
  // Transfers that were over before they reached the ring. Has room for one in each slot.
  std::vector<TransferResult> over_;
};

class PlainBackend final : public PoolBackend {
 public:
  PlainBackend(Pools pools, CopyMethod method) : PoolBackend(pools, method, 1) {}

  unsigned slots() const override { return 1; }
  void begin(unsigned slot, const PageTransfer& transfer) override {
    WHERRY_CHECK(slot == 0, "the backend has one slot");
    transfer_ = transfer;
  }
  void begin(unsigned slot, const ByteTransfer& transfer) override {
    WHERRY_CHECK(slot == 0, "the backend has one slot");
    transfer_ = transfer;
  }
  TransferResult next() override {
    return std::visit([this](const auto& transfer) { return run(transfer); }, transfer_);
  }

 private:
  TransferResult run(const PageTransfer& transfer) {
    const auto copy = prepare(0, transfer);
    if (!copy) return {0, OpStatus::no_memory, false};
    return transfer_here(0, transfer, *copy);
  }
  TransferResult run(const ByteTransfer& transfer) {
    const auto way = prepare(0, transfer);
    if (const auto* const status = std::get_if<OpStatus>(&way)) return {0, *status, false};
    return transfer_here(0, transfer, std::get<FileCopy>(way));
  }

  std::variant<PageTransfer, ByteTransfer> transfer_;
};

}  // namespace

std::unique_ptr<CopyBackend> make_copy_backend(
    std::span<const std::unique_ptr<SparsePoolFile>> pools, CopyMethod method) {
  if (auto ring = IoRing::create(ring_slots * operations_per_slot))
    return std::make_unique<RingBackend>(pools, method, std::move(ring));
  return make_plain_backend(pools, method);
}

std::unique_ptr<CopyBackend> make_plain_backend(
    std::span<const std::unique_ptr<SparsePoolFile>> pools, CopyMethod method) {
  return std::make_unique<PlainBackend>(pools, method);
}

std::unique_ptr<CopyBackend> try_to_make(
    const std::function<std::unique_ptr<CopyBackend>()>& make) {
  try {
    return make();
  } catch (const std::exception& failure) {
    static std::atomic_flag said;
    if (!said.test_and_set())
      log_line("whole blocks cannot be moved: no copy backend: {}", failure.what());
    return nullptr;
  }
}

std::unique_ptr<CopyBackend> IdleBackends::borrow() {
  {
    const LockGuard guard(lock_);
    if (!idle_.empty()) {
      auto backend = std::move(idle_.back());
      idle_.pop_back();
      return backend;
    }
  }
  return try_to_make(make_);
}

void IdleBackends::give_back(std::unique_ptr<CopyBackend> backend) {
  const LockGuard guard(lock_);
  idle_.push_back(std::move(backend));
}

}  // namespace wherry::impl
