#include "memory/carrier.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <exception>

#include "base/check.h"
#include "base/log.h"
#include "os/file_io.h"
#include "os/file_window.h"
#include "os/io_ring.h"
#include "os/write_hold.h"

namespace wherry::impl {
namespace {

// A second one keeps the copier busy while the first is mapped at its target. More would only make
// those wait longer who touch what is under way.
constexpr unsigned ring_slots = 2;
// A copy and a punch.
constexpr unsigned operations_per_slot = 2;

// To change a mapping takes longer than to copy less.
constexpr std::size_t window_bytes_min = 64 << 10;

OpStatus status_of(int result, std::size_t wanted) {
  if (result >= 0)
    return static_cast<std::size_t>(result) == wanted ? OpStatus::ok : OpStatus::incomplete;
  // EFAULT: a page of the target could not be created where the bytes were to go.
  return result == -ENOSPC || result == -ENOMEM || result == -EFAULT ? OpStatus::no_memory
                                                                     : OpStatus::incomplete;
}

// What became of a copy to or from the program's memory.
OpStatus status_at_host(int result, std::size_t wanted) {
  return result == -EFAULT ? OpStatus::bad_address : status_of(result, wanted);
}

bool in_memory(const Parcel::Place& place) {
  return std::holds_alternative<std::byte*>(place);
}
// Requires: the place is in this process's memory.
std::span<std::byte> in_memory(const Parcel& parcel, const Parcel::Place& place) {
  return {std::get<std::byte*>(place), parcel.bytes};
}

// How often a copy is made again that met a hold on the program's memory. Each hold has ended, so
// these came one after the other.
constexpr int held_attempts_max = 1000;

// The copy, which writes to the program's memory perhaps: where that is held for a moment the
// kernel may not wait, and the copy has to be made again.
template <typename Copy>
int despite_holds(std::size_t wanted, const Copy& copy) {
  for (int attempt = 1;; ++attempt) {
    HoldWatch watch;
    const int result = copy();
    const bool whole = result >= 0 && static_cast<std::size_t>(result) == wanted;
    if (whole || attempt == held_attempts_max || !watch.saw_one()) return result;
  }
}

// What both carriers share: which way a cargo takes, and the window that it needs for that.
class PoolCarrier : public Carrier {
 protected:
  using Pools = std::span<const std::unique_ptr<MemoryPoolFile>>;

  PoolCarrier(Pools pools, CopyMethod method, unsigned slots) : pools_(pools), method_(method) {
    for (unsigned i = 0; i < slots; ++i) windows_.emplace_back(block_size);
  }

  // How to carry it, with the slot's window ready; nothing: the window could not be had.
  std::optional<CopyMethod> prepare(unsigned slot, const Cargo& cargo) {
    const bool whole_block = cargo.span.count == pages_per_block;
    const bool huge = target(cargo).has_huge_pages();
    // A write of less could create all of a huge page, where others have pages in their pools.
    const bool writes = cargo.kind != Cargo::Kind::create && method_ == CopyMethod::write &&
                        (whole_block || !huge) &&
                        may_write_to(cargo.span.offset() + cargo.span.bytes());
    const auto use = writes        ? FileWindow::Use::reading
                     : whole_block ? FileWindow::Use::creating_pages
                                   : FileWindow::Use::creating_small_pages;
    const int fd = writes ? source(cargo).fd() : target(cargo).fd();
    if (windows_[slot].show(fd, cargo.span.offset(), cargo.span.bytes(), use) != 0)
      return std::nullopt;
    return writes ? CopyMethod::write : CopyMethod::read;
  }
  // Whether a punch is sure to free what was carried: Linux may not be able to take a huge page
  // apart at the moment.
  bool leaves_nothing(const Cargo& cargo) const {
    return cargo.kind == Cargo::Kind::move &&
           (cargo.span.count == pages_per_block || !source(cargo).has_huge_pages());
  }
  // A write takes the file's bytes from memory, a read brings them there. Nothing: the bytes are
  // not a file's, or have to be put into it by hand, and that is done.
  struct FileCopy {
    CopyMethod method;
    int fd;
    std::uint64_t offset;
    std::span<std::byte> memory;
  };
  // How to carry the parcel; in place of that, what has become of it.
  std::variant<FileCopy, OpStatus> prepare(unsigned slot, const Parcel& parcel) {
    const auto to = in_file(parcel.to);
    const auto from = in_file(parcel.from);
    if (!to && !from)
      return status_at_host(despite_holds(parcel.bytes,
                                          [&] {
                                            return copy_memory(in_memory(parcel, parcel.to),
                                                               in_memory(parcel, parcel.from));
                                          }),
                            parcel.bytes);
    if (!to)
      return FileCopy{CopyMethod::read, from->fd, from->offset, in_memory(parcel, parcel.to)};
    const bool writes = may_write_to(to->offset + parcel.bytes);
    if (!from && writes)
      return FileCopy{CopyMethod::write, to->fd, to->offset, in_memory(parcel, parcel.from)};
    if (!from) {
      const auto shown = show(slot, *to, parcel.bytes, FileWindow::Use::creating_small_pages);
      if (shown.empty()) return OpStatus::no_memory;
      const int result = copy_memory(shown, in_memory(parcel, parcel.from));
      close_window(slot);
      return status_at_host(result, parcel.bytes);
    }
    // Little is read where the pool is mapped anyway.
    const auto* const pooled = std::get_if<Parcel::InPool>(&parcel.from);
    if (writes && pooled != nullptr && parcel.bytes < window_bytes_min)
      return FileCopy{CopyMethod::write, to->fd, to->offset, alias(*pooled, parcel.bytes)};
    const bool reads = !writes || method_ == CopyMethod::read;
    const auto shown =
        show(slot, reads ? *to : *from, parcel.bytes,
             reads ? FileWindow::Use::creating_small_pages : FileWindow::Use::reading);
    if (shown.empty()) return OpStatus::no_memory;
    if (reads) return FileCopy{CopyMethod::read, from->fd, from->offset, shown};
    return FileCopy{CopyMethod::write, to->fd, to->offset, shown};
  }
  // What is prepared, by the calling thread.
  Delivery carry_here(unsigned slot, const Cargo& cargo, CopyMethod method) {
    const std::uint64_t offset = cargo.span.offset();
    Delivery delivery{slot};
    if (cargo.kind == Cargo::Kind::create) {
      delivery.status = impl::status_of(populate(window(slot)), 0);
    } else {
      const int result = method == CopyMethod::write
                             ? write_at(target(cargo).fd(), offset, window(slot))
                             : read_at(source(cargo).fd(), offset, window(slot));
      delivery.status = impl::status_of(result, cargo.span.bytes());
    }
    if (delivery.status == OpStatus::ok && cargo.kind == Cargo::Kind::move)
      delivery.released =
          source(cargo).punch(offset, cargo.span.bytes()) == 0 && leaves_nothing(cargo);
    close_window(slot);
    return delivery;
  }
  // Linux holds a lock of the pool's file while it writes to it. A source that Linux must wait for
  // (a file of a network, swap) is brought first: who moves other pages of that pool would wait for
  // the lock.
  static bool must_fetch(const Parcel& parcel, const FileCopy& copy) {
    return copy.method == CopyMethod::write && in_memory(parcel.from) && !is_at_hand(copy.memory);
  }
  static int copy_here(const FileCopy& copy) {
    return despite_holds(copy.memory.size(), [&] {
      return copy.method == CopyMethod::write ? write_at(copy.fd, copy.offset, copy.memory)
                                              : read_at(copy.fd, copy.offset, copy.memory);
    });
  }
  Delivery carry_here(unsigned slot, const Parcel& parcel, const FileCopy& copy) {
    if (must_fetch(parcel, copy)) fetch(copy.memory);
    const int result = copy_here(copy);
    close_window(slot);
    return {slot, status_of(parcel, result), false};
  }
  // What the result of such a copy means.
  static OpStatus status_of(const Parcel& parcel, int result) {
    const bool at_host = in_memory(parcel.to) || in_memory(parcel.from);
    return at_host ? status_at_host(result, parcel.bytes) : impl::status_of(result, parcel.bytes);
  }

  std::span<std::byte> window(unsigned slot) const { return windows_[slot].shown(); }
  void close_window(unsigned slot) { windows_[slot].hide(); }

  const MemoryFile& source(const Cargo& cargo) const { return pool(cargo.from).file(); }
  const MemoryFile& target(const Cargo& cargo) const { return pool(cargo.to).file(); }

 private:
  const MemoryPoolFile& pool(Processor p) const {
    return *pools_[static_cast<std::size_t>(p.index)];
  }
  // Nothing: it is in this process's memory.
  std::optional<Parcel::InFile> in_file(const Parcel::Place& place) const {
    if (const auto* const pooled = std::get_if<Parcel::InPool>(&place))
      return Parcel::InFile{pool(pooled->pool).file().fd(), pooled->offset};
    if (const auto* const filed = std::get_if<Parcel::InFile>(&place)) return *filed;
    return std::nullopt;
  }
  std::span<std::byte> alias(const Parcel::InPool& place, std::size_t bytes) const {
    return {const_cast<std::byte*>(pool(place.pool).alias(0)) + place.offset, bytes};
  }
  // The bytes in the slot's window; none: it could not be had.
  std::span<std::byte> show(unsigned slot, const Parcel::InFile& place, std::size_t bytes,
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

// The calling thread does the work of a ring that takes none.
void say_once_that_ring_is_busy() {
  static std::atomic_flag said;
  if (!said.test_and_set())
    log_line(
        "io_uring takes no work at the moment (the machine is short of memory?): the library "
        "copies by itself meanwhile");
}

class RingCarrier final : public PoolCarrier {
 public:
  RingCarrier(Pools pools, CopyMethod method, std::unique_ptr<IoRing> ring)
      : PoolCarrier(pools, method, ring_slots), ring_(std::move(ring)) {}

  unsigned slots() const override { return ring_slots; }

  void begin(unsigned slot, const Cargo& cargo) override {
    const auto method = prepare(slot, cargo);
    if (!method) {
      over_.push_back({slot, OpStatus::no_memory, false});
      return;
    }
    const std::uint64_t offset = cargo.span.offset();
    const bool moves = cargo.kind == Cargo::Kind::move;
    const auto link = moves ? IoRing::Link::next : IoRing::Link::none;
    if (cargo.kind == Cargo::Kind::create)
      ring_->populate(window(slot), tag(slot, 0));
    else if (*method == CopyMethod::write)
      ring_->write(target(cargo).fd(), offset, window(slot), tag(slot, 0), link);
    else
      ring_->read(source(cargo).fd(), offset, window(slot), tag(slot, 0), link);
    if (moves) ring_->punch(source(cargo).fd(), offset, cargo.span.bytes(), tag(slot, 1));
    if (!ring_->submit()) {
      say_once_that_ring_is_busy();
      over_.push_back(carry_here(slot, cargo, *method));
      return;
    }
    under_way_[slot] = {moves ? 2u : 1u,
                        [bytes = cargo.kind == Cargo::Kind::create ? 0 : cargo.span.bytes()](
                            int result) { return impl::status_of(result, bytes); },
                        leaves_nothing(cargo),
                        {slot, OpStatus::ok, false}};
  }

  void begin(unsigned slot, const Parcel& parcel) override {
    const auto way = prepare(slot, parcel);
    if (const auto* const status = std::get_if<OpStatus>(&way)) {
      over_.push_back({slot, *status, false});
      return;
    }
    const auto& copy = std::get<FileCopy>(way);
    HoldWatch watch;
    const bool fetches = must_fetch(parcel, copy);
    if (fetches) ring_->fetch(copy.memory, tag(slot, 1), IoRing::Link::after);
    if (copy.method == CopyMethod::write)
      ring_->write(copy.fd, copy.offset, copy.memory, tag(slot, 0), IoRing::Link::none);
    else
      ring_->read(copy.fd, copy.offset, copy.memory, tag(slot, 0), IoRing::Link::none);
    if (!ring_->submit()) {
      say_once_that_ring_is_busy();
      over_.push_back(carry_here(slot, parcel, copy));
      return;
    }
    under_way_[slot] = {fetches ? 2u : 1u,
                        [parcel, copy, watch](int result) mutable {
                          const bool whole = result == static_cast<int>(parcel.bytes);
                          if (!whole && watch.saw_one()) result = copy_here(copy);
                          return PoolCarrier::status_of(parcel, result);
                        },
                        false,
                        {slot, OpStatus::ok, false}};
  }

  Delivery next() override {
    if (!over_.empty()) {
      const Delivery delivery = over_.front();
      over_.pop_front();
      return delivery;
    }
    for (;;) {
      const IoRing::Done done = ring_->wait();
      UnderWay& one = under_way_[done.tag / operations_per_slot];
      if (done.tag % operations_per_slot == 0) {
        one.delivery.status = one.meaning(done.result);
      } else {
        one.delivery.released = done.result == 0 && one.whole;
      }
      if (--one.operations != 0) continue;
      close_window(one.delivery.slot);
      return one.delivery;
    }
  }

 private:
  struct UnderWay {
    unsigned operations = 0;                      // that have not reported yet
    std::function<OpStatus(int result)> meaning;  // of what the first reports
    bool whole = false;                           // a punch leaves nothing behind
    Delivery delivery;
  };

  static std::uint64_t tag(unsigned slot, unsigned operation) {
    return slot * operations_per_slot + operation;
  }

  const std::unique_ptr<IoRing> ring_;
  std::array<UnderWay, ring_slots> under_way_;
  std::deque<Delivery> over_;  // that never were under way
};

class PlainCarrier final : public PoolCarrier {
 public:
  PlainCarrier(Pools pools, CopyMethod method) : PoolCarrier(pools, method, 1) {}

  unsigned slots() const override { return 1; }
  void begin(unsigned slot, const Cargo& cargo) override {
    WHERRY_CHECK(slot == 0, "there is one slot");
    load_ = cargo;
  }
  void begin(unsigned slot, const Parcel& parcel) override {
    WHERRY_CHECK(slot == 0, "there is one slot");
    load_ = parcel;
  }
  Delivery next() override {
    return std::visit([this](const auto& load) { return carry(load); }, load_);
  }

 private:
  Delivery carry(const Cargo& cargo) {
    const auto method = prepare(0, cargo);
    if (!method) return {0, OpStatus::no_memory, false};
    return carry_here(0, cargo, *method);
  }
  Delivery carry(const Parcel& parcel) {
    const auto way = prepare(0, parcel);
    if (const auto* const status = std::get_if<OpStatus>(&way)) return {0, *status, false};
    return carry_here(0, parcel, std::get<FileCopy>(way));
  }

  std::variant<Cargo, Parcel> load_;
};

}  // namespace

std::unique_ptr<Carrier> make_carrier(std::span<const std::unique_ptr<MemoryPoolFile>> pools,
                                      CopyMethod method) {
  if (auto ring = IoRing::create(ring_slots * operations_per_slot))
    return std::make_unique<RingCarrier>(pools, method, std::move(ring));
  return make_plain_carrier(pools, method);
}

std::unique_ptr<Carrier> make_plain_carrier(std::span<const std::unique_ptr<MemoryPoolFile>> pools,
                                            CopyMethod method) {
  return std::make_unique<PlainCarrier>(pools, method);
}

std::unique_ptr<Carrier> try_to_make(const std::function<std::unique_ptr<Carrier>()>& make) {
  try {
    return make();
  } catch (const std::exception& failure) {
    static std::atomic_flag said;
    if (!said.test_and_set())
      log_line("memory cannot be moved by whole blocks: {}", failure.what());
    return nullptr;
  }
}

std::unique_ptr<Carrier> IdleCarriers::borrow() {
  {
    const LockGuard guard(lock_);
    if (!idle_.empty()) {
      auto carrier = std::move(idle_.back());
      idle_.pop_back();
      return carrier;
    }
  }
  return try_to_make(make_);
}

void IdleCarriers::give_back(std::unique_ptr<Carrier> carrier) {
  const LockGuard guard(lock_);
  idle_.push_back(std::move(carrier));
}

}  // namespace wherry::impl
