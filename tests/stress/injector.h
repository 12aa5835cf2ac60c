// Wraps the interfaces between the page engine and Linux, one wrapper per processor, and delays or
// fails single steps of every transition. A step is one call of a Mapper or a PoolFile, or one
// transfer of a CopyBackend. Any thread may call it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "memory/copy_backend.h"
#include "memory/pool.h"
#include "trap/mapper.h"
#include "trap/view_changer.h"

namespace wherry::test {

enum class Step {
  copy,
  zero,
  map,
  protect,
  unprotect,
  wake,
  punch,
  fill,
  change_view,
  merge,
  forget,
  transfer,
  split,  // splits a huge page, or copies its pages to new frames
};
inline constexpr std::array all_steps{Step::copy,        Step::zero,  Step::map,    Step::protect,
                                      Step::unprotect,   Step::wake,  Step::punch,  Step::fill,
                                      Step::change_view, Step::merge, Step::forget, Step::transfer,
                                      Step::split};
const char* to_string(Step step);

enum class Trouble {
  none,
  delay_before,
  delay_after,
  again,     // "try again" (a view: no more mappings), nothing done; affects half of the calls
  partial,   // half of the pages done, then "try again"; affects every call for more than one page
  occupied,  // "a page is there already", nothing done; affects half of the calls (copy and zero)
  kept,      // a transfer copies the pages, but does not remove them from the source's pool
};
inline constexpr std::array all_troubles{Trouble::delay_before, Trouble::delay_after,
                                         Trouble::again,        Trouble::partial,
                                         Trouble::occupied,     Trouble::kept};
const char* to_string(Trouble trouble);
// Whether Linux can answer the step in this way: a wake or a punch can only be delayed.
bool can_happen(Step step, Trouble trouble);

struct Injection {
  Step step = Step::copy;
  Trouble trouble = Trouble::none;
  int processor = -1;  // the processor whose steps are affected; -1: every processor
  int delay_us = 100;

  std::string describe() const;
};

class Injector {
 public:
  // Replaces the previous injection; takes effect with the next step.
  void set(const Injection& injection);
  // How many steps were delayed or failed since set().
  std::uint64_t hits() const { return hits_.load(); }
  // How often a huge page of the processor's pool has become small pages, so that a part of it
  // could leave: split, or copied into new frames. Since the start.
  std::uint64_t separated(int processor) const {
    return separated_.at(static_cast<std::size_t>(processor)).load();
  }

  std::unique_ptr<wherry::impl::Mapper> wrap(wherry::impl::Processor processor,
                                             wherry::impl::Mapper& mapper);
  std::unique_ptr<wherry::impl::PoolFile> wrap(wherry::impl::Processor processor,
                                               wherry::impl::PoolFile& pool);

  std::unique_ptr<wherry::impl::ViewChanger> wrap(wherry::impl::Processor processor,
                                                  wherry::impl::ViewChanger& changer);

  std::unique_ptr<wherry::impl::CopyBackend> wrap(
      std::unique_ptr<wherry::impl::CopyBackend> backend);

  // For the wrappers: the trouble for this call.
  Trouble trouble_for(Step step, int processor);
  void note_separated(int processor) { ++separated_.at(static_cast<std::size_t>(processor)); }
  void delay() const;

 private:
  std::atomic<Step> step_{Step::copy};
  std::atomic<Trouble> trouble_{Trouble::none};
  std::atomic<int> processor_{-1};
  std::atomic<int> delay_us_{0};
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> hits_{0};
  std::array<std::atomic<std::uint64_t>, wherry::impl::max_processors> separated_{};
};

}  // namespace wherry::test
