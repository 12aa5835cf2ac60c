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

namespace wherry::impl {
namespace {

// A second one keeps the copier busy while the first is mapped at its target. More would only make those wait longer
// who touch what is under way.
constexpr unsigned ring_slots = 2;
// A copy and a punch.
constexpr unsigned operations_per_slot = 2;

OpStatus status_of(int result, std::size_t wanted) {
  if (result >= 0)
    return static_cast<std::size_t>(result) == wanted ? OpStatus::ok : OpStatus::incomplete;
  // EFAULT: a page of the target could not be created where the bytes were to go.
  return result == -ENOSPC || result == -ENOMEM || result == -EFAULT ? OpStatus::no_memory
                                                                     : OpStatus::incomplete;
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
  // Whether a punch is sure to free what was carried: Linux may not be able to take a huge page apart at the moment.
  bool leaves_nothing(const Cargo& cargo) const {
    return cargo.kind == Cargo::Kind::move &&
           (cargo.span.count == pages_per_block || !source(cargo).has_huge_pages());
  }
  std::span<std::byte> window(unsigned slot) const { return windows_[slot].shown(); }
  void close_window(unsigned slot) { windows_[slot].hide(); }

  const MemoryFile& source(const Cargo& cargo) const { return pool(cargo.from).file(); }
  const MemoryFile& target(const Cargo& cargo) const { return pool(cargo.to).file(); }

 private:
  const MemoryPoolFile& pool(Processor p) const {
    return *pools_[static_cast<std::size_t>(p.index)];
  }

  Pools pools_;
  const CopyMethod method_;
  std::vector<FileWindow> windows_;
};

class RingCarrier final : public PoolCarrier {
 public:
  RingCarrier(Pools pools, CopyMethod method, std::unique_ptr<IoRing> ring)
      : PoolCarrier(pools, method, ring_slots), ring_(std::move(ring)) {}

  unsigned slots() const override { return ring_slots; }

  void begin(unsigned slot, const Cargo& cargo) override {
    const auto method = prepare(slot, cargo);
    if (!method) {
      failed_.push_back({slot, OpStatus::no_memory, false});
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
    ring_->submit();
    under_way_[slot] = {moves ? 2u : 1u,
                        cargo.kind == Cargo::Kind::create ? 0 : cargo.span.bytes(),
                        leaves_nothing(cargo),
                        {slot, OpStatus::ok, false}};
  }

  Delivery next() override {
    if (!failed_.empty()) {
      const Delivery delivery = failed_.front();
      failed_.pop_front();
      return delivery;
    }
    for (;;) {
      const IoRing::Done done = ring_->wait();
      UnderWay& one = under_way_[done.tag / operations_per_slot];
      if (done.tag % operations_per_slot == 0) {
        one.delivery.status = status_of(done.result, one.bytes);
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
    unsigned operations = 0;  // that have not reported yet
    std::size_t bytes = 0;    // what the first is to report
    bool whole = false;       // a punch leaves nothing behind
    Delivery delivery;
  };

  static std::uint64_t tag(unsigned slot, unsigned operation) {
    return slot * operations_per_slot + operation;
  }

  const std::unique_ptr<IoRing> ring_;
  std::array<UnderWay, ring_slots> under_way_;
  std::deque<Delivery> failed_;
};

class PlainCarrier final : public PoolCarrier {
 public:
  PlainCarrier(Pools pools, CopyMethod method) : PoolCarrier(pools, method, 1) {}

  unsigned slots() const override { return 1; }
  void begin(unsigned slot, const Cargo& cargo) override {
    WHERRY_CHECK(slot == 0, "there is one slot");
    cargo_ = cargo;
  }

  Delivery next() override {
    const auto method = prepare(0, cargo_);
    if (!method) return {0, OpStatus::no_memory, false};
    const std::uint64_t offset = cargo_.span.offset();
    Delivery delivery;
    if (cargo_.kind == Cargo::Kind::create) {
      delivery.status = status_of(populate(window(0)), 0);
    } else {
      const int result = *method == CopyMethod::write
                             ? write_at(target(cargo_).fd(), offset, window(0))
                             : read_at(source(cargo_).fd(), offset, window(0));
      delivery.status = status_of(result, cargo_.span.bytes());
    }
    if (delivery.status == OpStatus::ok && cargo_.kind == Cargo::Kind::move)
      delivery.released =
          source(cargo_).punch(offset, cargo_.span.bytes()) == 0 && leaves_nothing(cargo_);
    close_window(0);
    return delivery;
  }

 private:
  Cargo cargo_;
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

}  // namespace wherry::impl
