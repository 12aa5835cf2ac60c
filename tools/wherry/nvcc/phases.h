// Splits the body of a kernel at its barriers: instead of one stack for each thread, the threads of
// a block run in one loop for each part of the body. Within a part no thread waits, so the threads
// may run in any order.
//
// Variables that a later part uses become arrays with an element for each thread, or are computed
// again if that gives the same value. Loops and conditions around barriers must be the same for all
// threads, as CUDA requires; the text must show that: they use parameters, blockIdx, constants and
// the like. Other kernels run each thread on its own stack (a fiber).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "nvcc/device_code.h"
#include "nvcc/guard.h"

namespace wherry::tool {

// Replaces the bytes [begin, end) of the source.
struct Edit {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text;
};

// For kernels without barriers: splits the body at loops that are the same for all threads of a row
// and in which neighbouring threads use neighbouring elements. So the loop over the threads becomes
// the inner one, which the compiler can vectorize. Returns nullopt if there is no such loop.
// `guard`: the kernel's; the edits remove it.
std::optional<std::vector<Edit>> split_into_rows(const Tokens& tokens, const DeviceCode& code,
                                                 const DeviceFunction& kernel,
                                                 const std::optional<Guard>& guard);

// Whether the kernel waits nowhere but in barriers of the block that are statements of its own
// body.
bool waits_in_barriers_only(const Tokens& tokens, const DeviceCode& code,
                            const DeviceFunction& kernel);

// Returns nullopt if the kernel cannot be split. Requires: waits_in_barriers_only().
std::optional<std::vector<Edit>> split_into_phases(const Tokens& tokens, const DeviceCode& code,
                                                   const DeviceFunction& kernel);

}  // namespace wherry::tool
