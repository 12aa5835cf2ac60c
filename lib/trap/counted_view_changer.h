// ViewChanger that reports its changes to the ProtectionMapper of the same process: both use up the
// process's mappings.
#pragma once

#include "trap/protection_mapper.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class CountedViewChanger final : public ViewChanger {
 public:
  // `real` and `mapper` must outlive it.
  CountedViewChanger(ViewChanger& real, ProtectionMapper& mapper) : real_(real), mapper_(mapper) {}

  int change_view(PageSpan span, Processor owner) override {
    mapper_.count_others(1);
    return real_.change_view(span, owner);
  }
  int forget_entries(std::span<const PageSpan> runs) override {
    mapper_.count_others(runs.size());
    return real_.forget_entries(runs);
  }
  bool is_overdue() override { return real_.is_overdue(); }
  std::uint64_t count_mappings() override { return real_.count_mappings(); }

 private:
  ViewChanger& real_;
  ProtectionMapper& mapper_;
};

}  // namespace wherry::impl
