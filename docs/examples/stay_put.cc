// An example of a policy: a page that has moved too often is pinned for a while, and others map it.
#include <array>
#include <bit>
#include <cstdlib>
#include <wherry/policy.hpp>

class StayPut final : public wherry::policy {
 public:
  StayPut(const wherry::policy_machine&, const char* parameters)
      : moves_max_(*parameters == '\0' ? 4 : std::atoi(parameters)) {}

  wherry::opinion on_fault(const wherry::page_fault& fault,
                           std::unique_ptr<wherry::block_history>& history) override {
    wherry::opinion opinion;
    const auto* const seen = static_cast<const Moves*>(history.get());
    if (seen == nullptr || seen->of_page[fault.page] < moves_max_) return opinion;
    opinion.destination = std::countr_zero(fault.residents) - 1;
    opinion.stays_until_ns = fault.now_ns + 50'000'000;
    return opinion;
  }

  bool on_arrival(const wherry::page_arrival& arrival,
                  std::unique_ptr<wherry::block_history>& history) override {
    if (arrival.why != wherry::page_arrival::cause::fault) return false;
    if (!history) history = std::make_unique<Moves>();
    auto& moves = static_cast<Moves&>(*history).of_page;
    for (unsigned i = 0; i < arrival.run.count; ++i) ++moves[arrival.run.first + i];
    return false;
  }

 private:
  struct Moves final : wherry::block_history {
    std::array<int, wherry::block_pages> of_page{};
  };
  const int moves_max_;
};

WHERRY_POLICY_PLUGIN(StayPut);
