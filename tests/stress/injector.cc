#include "stress/injector.h"

#include <time.h>

#include <cerrno>

#include "support/capabilities.h"

namespace wherry::test {
namespace {

using impl::ByteTransfer;
using impl::CopyBackend;
using impl::FaultSlot;
using impl::Mapper;
using impl::OpResult;
using impl::OpStatus;
using impl::PageIndex;
using impl::PageSpan;
using impl::PageTransfer;
using impl::Processor;
using impl::TransferResult;
using impl::ViewChanger;

// Returns the call's result, with a delay before or after the call.
template <typename Call>
auto with_delay(const Injector& injector, Trouble trouble, Call call) {
  if (trouble == Trouble::delay_before) injector.delay();
  const auto result = call();
  if (trouble == Trouble::delay_after) injector.delay();
  return result;
}

class TroubledMapper final : public Mapper {
 public:
  TroubledMapper(Injector& injector, Processor processor, Mapper& real)
      : injector_(injector), processor_(processor.index), real_(real) {}

  bool punch_unmaps() const override { return real_.punch_unmaps(); }
  unsigned grain() const override { return real_.grain(); }
  // The traps without write protection begin a change by unmapping instead of protecting. Unmapping
  // can only be delayed, not failed.
  OpResult unmap(PageSpan span, FaultSlot* waiter) override {
    const Trouble trouble = injector_.trouble_for(Step::protect, processor_);
    return with_delay(injector_, trouble, [&] { return real_.unmap(span, waiter); });
  }
  OpResult copy_protected(PageSpan span, const std::byte* source, FaultSlot* waiter) override {
    return step(Step::copy, span,
                [&](PageSpan part) { return real_.copy_protected(part, source, waiter); });
  }
  OpResult zero(PageSpan span, FaultSlot* waiter) override {
    return step(Step::zero, span, [&](PageSpan part) { return real_.zero(part, waiter); });
  }
  OpResult map_resident(PageSpan span, bool write_protected, FaultSlot* waiter) override {
    return step(Step::map, span,
                [&](PageSpan part) { return real_.map_resident(part, write_protected, waiter); });
  }
  OpResult map_whole(PageSpan block, FaultSlot* waiter) override {
    return step(Step::map, block, [&](PageSpan part) {
      return part.count == block.count ? real_.map_whole(part, waiter)
                                       : OpResult{OpStatus::incomplete, 0};
    });
  }
  OpResult write_protect(PageSpan span, FaultSlot* waiter) override {
    return step(Step::protect, span,
                [&](PageSpan part) { return real_.write_protect(part, waiter); });
  }
  OpResult write_unprotect(PageSpan span, FaultSlot* waiter) override {
    return step(Step::unprotect, span,
                [&](PageSpan part) { return real_.write_unprotect(part, waiter); });
  }
  OpResult remove_entries(PageSpan block) override {
    const Trouble trouble = injector_.trouble_for(Step::split, processor_);
    return with_delay(injector_, trouble, [&] { return real_.remove_entries(block); });
  }
  OpResult split_folios(PageSpan span) override { return real_.split_folios(span); }
  OpResult forbid(PageSpan span, PageIndex page) override { return real_.forbid(span, page); }
  OpResult hide(PageSpan span) override { return real_.hide(span); }
  OpResult wake(PageSpan span) override {
    return step(Step::wake, span, [&](PageSpan part) { return real_.wake(part); });
  }

 private:
  template <typename Call>
  OpResult step(Step step, PageSpan span, Call call) {
    switch (injector_.trouble_for(step, processor_)) {
      case Trouble::none:
        break;
      case Trouble::delay_before:
        injector_.delay();
        break;
      case Trouble::delay_after: {
        const OpResult result = call(span);
        injector_.delay();
        return result;
      }
      case Trouble::again:
        return {OpStatus::incomplete, 0};
      case Trouble::occupied:
        return {OpStatus::occupied, 0};
      case Trouble::kept:
        break;
      case Trouble::partial: {
        if (span.count < 2) break;
        const OpResult result = call({span.first, span.count / 2});
        return result ? OpResult{OpStatus::incomplete, span.count / 2 * impl::page_size} : result;
      }
    }
    return call(span);
  }

  Injector& injector_;
  const int processor_;
  Mapper& real_;
};

// A hash of the call's number, so that the results of consecutive calls are unrelated.
std::uint64_t scattered(std::uint64_t call) {
  std::uint64_t value = (call + 1) * 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// Delays a change of a view, or fails it as if the process had no mappings left.
class TroubledChanger final : public ViewChanger {
 public:
  TroubledChanger(Injector& injector, Processor processor, ViewChanger& real)
      : injector_(injector), processor_(processor.index), real_(real) {}

  int change_view(PageSpan span, Processor owner) override {
    const Trouble trouble = injector_.trouble_for(Step::change_view, processor_);
    if (trouble == Trouble::again) return ENOMEM;
    return with_delay(injector_, trouble, [&] { return real_.change_view(span, owner); });
  }
  int forget_entries(std::span<const PageSpan> runs) override {
    const Trouble trouble = injector_.trouble_for(Step::forget, processor_);
    if (trouble == Trouble::again) return EAGAIN;
    return with_delay(injector_, trouble, [&] { return real_.forget_entries(runs); });
  }
  std::uint64_t count_mappings() override { return real_.count_mappings(); }

 private:
  Injector& injector_;
  const int processor_;
  ViewChanger& real_;
};

class TroubledPool final : public impl::PoolFile {
 public:
  TroubledPool(Injector& injector, Processor processor, impl::PoolFile& real)
      : injector_(injector), processor_(processor.index), real_(real) {}

  int punch(PageSpan span) override {
    const Trouble trouble = injector_.trouble_for(Step::punch, processor_);
    return with_delay(injector_, trouble, [&] { return real_.punch(span); });
  }
  int punch_from_full_block(PageSpan span) override {
    const Trouble trouble = injector_.trouble_for(Step::punch, processor_);
    return with_delay(injector_, trouble, [&] { return real_.punch_from_full_block(span); });
  }
  void left(PageSpan span) override { real_.left(span); }
  impl::Folios folios(PageSpan span, const impl::PageMask& resident) override {
    return real_.folios(span, resident);
  }
  PageSpan folios_around(PageSpan span) const override { return real_.folios_around(span); }
  void remove_own_entries(PageSpan block) override { real_.remove_own_entries(block); }
  OpStatus split(PageSpan span) override {
    const Trouble trouble = injector_.trouble_for(Step::split, processor_);
    return noted(with_delay(injector_, trouble, [&] { return real_.split(span); }));
  }
  void was_split(PageSpan block) override {
    real_.was_split(block);
    injector_.note_separated(processor_);
  }
  OpStatus rebuild(PageSpan span, const impl::PageMask& resident) override {
    const Trouble trouble = injector_.trouble_for(Step::split, processor_);
    return noted(with_delay(injector_, trouble, [&] { return real_.rebuild(span, resident); }));
  }
  OpResult fill(PageSpan span, const std::byte* source) override {
    return step([&] { return real_.fill(span, source); });
  }
  OpResult fill_zero(PageSpan span) override {
    return step([&] { return real_.fill_zero(span); });
  }
  void move_to_node(PageSpan span, int node) override { real_.move_to_node(span, node); }
  int merge(PageSpan block) override {
    const Trouble trouble = injector_.trouble_for(Step::merge, processor_);
    if (trouble == Trouble::again) return EAGAIN;
    return with_delay(injector_, trouble, [&] { return real_.merge(block); });
  }
  bool maps_huge_pages() const override { return real_.maps_huge_pages(); }
  const std::byte* alias(PageIndex page) const override { return real_.alias(page); }

 private:
  OpStatus noted(OpStatus status) const {
    if (status == OpStatus::ok) injector_.note_separated(processor_);
    return status;
  }
  template <typename Call>
  OpResult step(Call call) {
    // With the protection trap a move copies into the pool file first, and maps the copy
    // afterwards.
    const bool is_copy = traps_by_protection();
    Trouble trouble = injector_.trouble_for(Step::fill, processor_);
    if (trouble == Trouble::none && is_copy)
      trouble = injector_.trouble_for(Step::copy, processor_);
    if (trouble == Trouble::again) return {OpStatus::incomplete, 0};
    if (trouble == Trouble::occupied) return {OpStatus::occupied, 0};
    return with_delay(injector_, trouble, call);
  }

  Injector& injector_;
  const int processor_;
  impl::PoolFile& real_;
};

// Delays the start or the completion of a transfer, copies only half of it, or leaves the pages at
// their source as well. The copied part is a real copy.
class TroubledBackend final : public CopyBackend {
 public:
  TroubledBackend(Injector& injector, std::unique_ptr<CopyBackend> real)
      : injector_(injector), real_(std::move(real)), troubles_(real_->slots()) {}

  unsigned slots() const override { return real_->slots(); }
  void begin(unsigned slot, const PageTransfer& transfer) override {
    const Trouble trouble = injector_.trouble_for(Step::transfer, transfer.to.index);
    troubles_[slot] = trouble;
    if (trouble == Trouble::delay_before) injector_.delay();
    if (trouble == Trouble::again) {
      failed_.push_back(slot);
      return;
    }
    PageTransfer changed = transfer;
    const bool stays = trouble == Trouble::partial || trouble == Trouble::kept;
    if (stays && transfer.kind == PageTransfer::Kind::move) changed.kind = PageTransfer::Kind::copy;
    if (trouble == Trouble::partial) changed.span.count = (transfer.span.count + 1) / 2;
    real_->begin(slot, changed);
  }
  // Only delays or fails byte transfers: a half-copied byte transfer cannot be told from the rest
  // of the target.
  void begin(unsigned slot, const ByteTransfer& transfer) override {
    const auto* const pooled = std::get_if<ByteTransfer::InPool>(&transfer.to);
    const Trouble trouble =
        injector_.trouble_for(Step::transfer, pooled == nullptr ? 0 : pooled->pool.index);
    troubles_[slot] = trouble == Trouble::kept ? Trouble::delay_after : trouble;
    if (trouble == Trouble::delay_before) injector_.delay();
    if (trouble == Trouble::again || trouble == Trouble::partial)
      failed_.push_back(slot);
    else
      real_->begin(slot, transfer);
  }
  TransferResult next() override {
    if (!failed_.empty()) {
      const unsigned slot = failed_.back();
      failed_.pop_back();
      return {slot, OpStatus::incomplete, false};
    }
    TransferResult outcome = real_->next();
    const Trouble trouble = troubles_[outcome.slot];
    if (trouble == Trouble::delay_after || trouble == Trouble::kept) injector_.delay();
    if (trouble == Trouble::partial) outcome.status = OpStatus::incomplete;
    return outcome;
  }

 private:
  Injector& injector_;
  const std::unique_ptr<CopyBackend> real_;
  std::vector<Trouble> troubles_;  // by slot
  std::vector<unsigned> failed_;
};

}  // namespace

const char* to_string(Step step) {
  switch (step) {
    case Step::copy:
      return "copy";
    case Step::zero:
      return "zero";
    case Step::map:
      return "map";
    case Step::protect:
      return "write-protect";
    case Step::unprotect:
      return "lift protection";
    case Step::wake:
      return "wake";
    case Step::punch:
      return "punch";
    case Step::fill:
      return "write into the pool";
    case Step::change_view:
      return "change a view";
    case Step::merge:
      return "merge";
    case Step::forget:
      return "forget the entries";
    case Step::transfer:
      return "transfer";
    case Step::split:
      return "split a huge page";
  }
  return "?";
}

const char* to_string(Trouble trouble) {
  switch (trouble) {
    case Trouble::none:
      return "no trouble";
    case Trouble::delay_before:
      return "delay before";
    case Trouble::delay_after:
      return "delay after";
    case Trouble::again:
      return "EAGAIN from";
    case Trouble::partial:
      return "half of";
    case Trouble::occupied:
      return "EEXIST from";
    case Trouble::kept:
      return "no release after";
  }
  return "?";
}

bool can_happen(Step step, Trouble trouble) {
  switch (trouble) {
    case Trouble::none:
    case Trouble::delay_before:
    case Trouble::delay_after:
      return true;
    case Trouble::again:
      return step == Step::copy || step == Step::zero || step == Step::map ||
             step == Step::protect || step == Step::unprotect || step == Step::change_view ||
             step == Step::merge || step == Step::forget || step == Step::transfer;
    case Trouble::partial:
      return step == Step::copy || step == Step::zero || step == Step::map ||
             step == Step::transfer;
    case Trouble::occupied:
      return step == Step::copy || step == Step::zero;
    case Trouble::kept:
      return step == Step::transfer;
  }
  return false;
}

std::string Injection::describe() const {
  const std::string whose = processor < 0    ? "every processor's"
                            : processor == 0 ? "the host's"
                                             : "device " + std::to_string(processor - 1) + "'s";
  return std::string{to_string(trouble)} + " " + whose + " " + to_string(step);
}

void Injector::set(const Injection& injection) {
  trouble_ = Trouble::none;
  step_ = injection.step;
  processor_ = injection.processor;
  delay_us_ = injection.delay_us;
  calls_ = 0;
  hits_ = 0;
  trouble_ = injection.trouble;
}

Trouble Injector::trouble_for(Step step, int processor) {
  const Trouble trouble = trouble_.load();
  if (trouble == Trouble::none || step_.load() != step) return Trouble::none;
  const int wanted = processor_.load();
  if (wanted >= 0 && wanted != processor) return Trouble::none;
  // Fails a pseudo-random half of the calls. With a fixed order a transition that calls a step
  // twice could fail on every attempt, and never end.
  const bool half = trouble == Trouble::again || trouble == Trouble::occupied;
  if (half && scattered(calls_.fetch_add(1)) % 2 != 0) return Trouble::none;
  hits_.fetch_add(1);
  return trouble;
}

void Injector::delay() const {
  const timespec time{0, delay_us_.load() * 1000L};
  ::nanosleep(&time, nullptr);
}

std::unique_ptr<Mapper> Injector::wrap(Processor processor, Mapper& mapper) {
  return std::make_unique<TroubledMapper>(*this, processor, mapper);
}

std::unique_ptr<ViewChanger> Injector::wrap(Processor processor, ViewChanger& changer) {
  return std::make_unique<TroubledChanger>(*this, processor, changer);
}

std::unique_ptr<impl::PoolFile> Injector::wrap(Processor processor, impl::PoolFile& pool) {
  return std::make_unique<TroubledPool>(*this, processor, pool);
}

std::unique_ptr<CopyBackend> Injector::wrap(std::unique_ptr<CopyBackend> backend) {
  return std::make_unique<TroubledBackend>(*this, std::move(backend));
}

}  // namespace wherry::test
