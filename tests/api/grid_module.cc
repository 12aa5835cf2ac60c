// A module for cuModuleLoad: kernels, and variables of every storage class.
#include "grid_module.h"

#include <cstdint>
#include <stdexcept>

using wherry::test::Large;
using wherry::test::Seen;

extern "C" {

WHERRY_MANAGED char managed[16384] = "managed";
__attribute__((aligned(16))) char ordinary[4096] = "ordinary";
int constructed = 0;
static int calls = 0;
__attribute__((used)) const int constant = 3;

// The same kernel as in the recordings of the real driver, with undeclared parameters.
void touch(const wherryLaunchInfo* info, void** params) {
  char* base = *static_cast<char**>(params[0]);
  const std::uint32_t pages = *static_cast<std::uint32_t*>(params[1]);
  const std::uint32_t mode = *static_cast<std::uint32_t*>(params[2]);
  for (std::size_t thread = info->begin; thread < info->end; ++thread)
    for (std::size_t i = thread; i < pages; i += info->threads) {
      auto* word = reinterpret_cast<volatile std::uint32_t*>(base + i * 4096);
      const std::uint32_t value = *word;
      if (mode != 0) *word = value + 1;
    }
}

// Reports its arguments and launch.
void report(const wherryLaunchInfo* info, void** params) {
  Seen& seen = **static_cast<Seen**>(params[0]);
  seen.threads += info->end - info->begin;
  if (info->begin != 0) return;
  seen.info = *info;
  seen.numbers[0] = *static_cast<signed char*>(params[1]);
  seen.numbers[1] = static_cast<int>(static_cast<Large*>(params[2])->values[19]);
  seen.numbers[2] = *static_cast<int*>(params[3]);
}
WHERRY_KERNEL_PARAMS(report, sizeof(Seen*), sizeof(char), sizeof(Large), sizeof(int));

// Reads and writes the module's variables.
void use_variables(const wherryLaunchInfo* info, void** params) {
  if (info->begin != 0) return;
  Seen& seen = **static_cast<Seen**>(params[0]);
  for (int i = 0; ordinary[i] != '\0'; ++i) seen.text[i] = ordinary[i];
  seen.constructed = constructed;
  seen.calls = ++calls;
  seen.third = params[2];
  managed[0] = 'M';
  ordinary[0] = 'O';
}

void catch_own(const wherryLaunchInfo* info, void** params) {
  if (info->begin != 0) return;
  try {
    if (info->threads > 0) throw std::runtime_error("caught");
  } catch (const std::exception& error) {
    (*static_cast<Seen**>(params[0]))->text[0] = *error.what();
  }
}

void throw_out(const wherryLaunchInfo*, void**) {
  throw std::runtime_error("out of the kernel");
}

void touch_nothing(const wherryLaunchInfo*, void**) {
  const volatile std::uintptr_t nothing = 16;
  *reinterpret_cast<volatile int*>(nothing) = 1;
}
}

namespace {
struct Constructor {
  Constructor() { constructed = 42; }
} constructor;
}  // namespace
