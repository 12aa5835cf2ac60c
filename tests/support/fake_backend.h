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
struct BackendState {
  explicit BackendState(FakeMachine& of) : machine(of) {}

  FakeMachine& machine;
  // Called during a page transfer, between its begin and its end.
  std::function<void(const PageTransfer&)> during_page_transfer;
  std::function<void(const ByteTransfer&)> during_byte_transfer;
  std::mutex lock;
  std::deque<Mishap> mishaps;  // each applies to the next transfer, in order
  int transfers = 0;
};

class FakeBackend final : public CopyBackend {
 public:
  explicit FakeBackend(BackendState& state) : state_(state) {}

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
    return std::visit([&](const auto& transfer) { return run(first.slot, transfer); },
                      first.transfer);
  }

 private:
  struct UnderWay {
    unsigned slot;
    std::variant<PageTransfer, ByteTransfer> transfer;
  };

  TransferResult run(unsigned slot, const PageTransfer& transfer) {
    if (state_.during_page_transfer) state_.during_page_transfer(transfer);
    Mishap mishap{OpStatus::ok, transfer.span.count};
    bool arrives = true;
    {
      const std::lock_guard guard(state_.lock);
      ++state_.transfers;
      if (!state_.mishaps.empty()) {
        mishap = state_.mishaps.front();
        state_.mishaps.pop_front();
        arrives = false;
      }
    }
    FakeProcessor& source = state_.machine.at(transfer.from.index);
    FakeProcessor& target = state_.machine.at(transfer.to.index);
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
  TransferResult run(unsigned slot, const ByteTransfer& transfer) {
    if (state_.during_byte_transfer) state_.during_byte_transfer(transfer);
    {
      const std::lock_guard guard(state_.lock);
      ++state_.transfers;
      if (!state_.mishaps.empty()) {
        const OpStatus status = state_.mishaps.front().status;
        state_.mishaps.pop_front();
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
    FakeProcessor& pool = state_.machine.at(pooled->pool.index);
    const std::lock_guard guard(state_.machine.lock);
    if (!pool.holds(page_at_offset(pooled->offset)))
      throw std::logic_error("a page that is not there");
    return const_cast<std::byte*>(pool.alias({})) + pooled->offset;
  }

  BackendState& state_;
  std::deque<UnderWay> under_way_;
};

}  // namespace wherry::test
