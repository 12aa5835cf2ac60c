// What the tests of coherent devices on a Stage share: threads of the program that count as
// devices, and pages that are not where they should be.
#pragma once

#include <cstddef>
#include <thread>
#include <wherry/wherry.hpp>

#include "support/stage.h"

namespace wherry::test {

// Runs function() on a thread that counts as the processor.
template <typename Function>
void on_thread_of(int processor, const Function& function) {
  std::thread([&] {
    if (processor == host) return function();
    const attached counts{wherry::device(processor)};
    function();
  }).join();
}

inline std::size_t pages_not_at(const Stage& stage, const Words& words, int where) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words)
    if (stage.residents(&words[i]) != bit_of(where)) ++wrong;
  return wrong;
}

}  // namespace wherry::test
