// A copy backend between the pools of a FakeMachine (fake_machine.h) and the test's memory, which
// can fail on demand.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <variant>
#include <vector>

#include "memory/copy_backend.h"
#include "os/files/file_io.h"
#include "support/fake_machine.h"

namespace wherry::test {

// What happens to one transfer instead of its completion.
struct Mishap {
  // With ok the pages arrive, but are not released at the source.
  OpStatus status = OpStatus::incomplete;
  std::uint64_t pages = 0;  // how many pages arrive before the failure
};

// State that several backends share.
struct Haulage {
  explicit Haulage(FakeMachine& of) : machine(of) {}

  FakeMachine& machine;
  // Called during a page transfer, between its begin and its end.
  std::function<void(const PageTransfer&)> on_the_way;
  std::function<void(const ByteTransfer&)> byte_transfer_under_way;
  std::mutex lock;
  std::deque<Mishap> mishaps;  // each applies to the next transfer, in order
  int carried = 0;
};

class FakeBackend final : public CopyBackend {
 public:
  explicit FakeBackend(Haulage& haulage) : haulage_(haulage) {}

  unsigned slots() const override { return 2; }
  void begin(unsigned slot, const PageTransfer& transfer) override {
    under_way_.push_back({slot, transfer});
  }
  void begin(unsigned slot, const ByteTransfer& transfer) override {
    under_way_.push_back({slot, transfer});
  }

  TransferResult next() override {
    const UnderWay first = under_way_.front();
    under_way_.pop_front();
    return std::visit([&](const auto& load) { return carry(first.slot, load); }, first.load);
  }

 private:
  struct UnderWay {
    unsigned slot;
    std::variant<PageTransfer, ByteTransfer> load;
  };

  TransferResult carry(unsigned slot, const PageTransfer& transfer) {
    if (haulage_.on_the_way) haulage_.on_the_way(transfer);
    Mishap mishap{OpStatus::ok, transfer.span.count};
    bool arrives = true;
    {
      const std::lock_guard guard(haulage_.lock);
      ++haulage_.carried;
      if (!haulage_.mishaps.empty()) {
        mishap = haulage_.mishaps.front();
        haulage_.mishaps.pop_front();
        arrives = false;
      }
    }
    FakeProcessor& source = haulage_.machine.at(transfer.from.index);
    FakeProcessor& target = haulage_.machine.at(transfer.to.index);
    const PageSpan part{transfer.span.first, mishap.status == OpStatus::ok
                                                 ? transfer.span.count
                                                 : std::min(mishap.pages, transfer.span.count)};
    const OpResult result = transfer.kind == PageTransfer::Kind::create ? target.fill_zero(part)
                            : part.empty()                              ? OpResult{}
                                           : target.fill(part, source.alias(part.first));
    if (!result) return {slot, OpStatus::incomplete, false};
    if (mishap.status != OpStatus::ok) return {slot, mishap.status, false};
    const bool releases = arrives && transfer.kind == PageTransfer::Kind::move;
    return {slot, OpStatus::ok, releases && source.punch(transfer.span) == 0};
  }

  // A mishap's pages are ignored: no byte arrives.
  TransferResult carry(unsigned slot, const ByteTransfer& transfer) {
    if (haulage_.byte_transfer_under_way) haulage_.byte_transfer_under_way(transfer);
    {
      const std::lock_guard guard(haulage_.lock);
      ++haulage_.carried;
      if (!haulage_.mishaps.empty()) {
        const OpStatus status = haulage_.mishaps.front().status;
        haulage_.mishaps.pop_front();
        return {slot, status, false};
      }
    }
    return {slot, byte_transfer_arrives(transfer) ? OpStatus::ok : OpStatus::incomplete, false};
  }
  bool byte_transfer_arrives(const ByteTransfer& transfer) {
    std::vector<std::byte> bytes(transfer.bytes);
    if (const auto* const from = std::get_if<ByteTransfer::InFile>(&transfer.from)) {
      if (!is_all(impl::read_at(from->fd, from->offset, bytes), transfer)) return false;
    } else {
      std::memcpy(bytes.data(), bytes_at(transfer.from), transfer.bytes);
    }
    if (const auto* const to = std::get_if<ByteTransfer::InFile>(&transfer.to))
      return is_all(impl::write_at(to->fd, to->offset, bytes), transfer);
    std::memcpy(bytes_at(transfer.to), bytes.data(), transfer.bytes);
    return true;
  }
  static bool is_all(int done, const ByteTransfer& transfer) {
    return done >= 0 && static_cast<std::size_t>(done) == transfer.bytes;
  }
  std::byte* bytes_at(const ByteTransfer::Place& place) {
    const auto* const pooled = std::get_if<ByteTransfer::InPool>(&place);
    if (pooled == nullptr) return std::get<std::byte*>(place);
    FakeProcessor& pool = haulage_.machine.at(pooled->pool.index);
    const std::lock_guard guard(haulage_.machine.lock);
    if (!pool.holds(pooled->offset / page_size)) throw std::logic_error("a page that is not there");
    return const_cast<std::byte*>(pool.alias(0)) + pooled->offset;
  }

  Haulage& haulage_;
  std::deque<UnderWay> under_way_;
};

}  // namespace wherry::test
