// A kernel that runs until the test ends it.
#pragma once

#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/session.h"

namespace wherry::test {

class Busy {
 public:
  // Launches the kernel. Requires: a current context.
  explicit Busy(CUstream stream) {
    CUdeviceptr memory = 0;
    // Never freed: freeing would wait for other busy kernels, too.
    WHERRY_TRY(cuMemAllocManaged(&memory, sizeof(Flags), CU_MEM_ATTACH_GLOBAL));
    flags_ = reinterpret_cast<Flags*>(memory);
    WHERRY_TRY(wherryLaunchKernel(
        stream,
        [](const void* args, std::size_t, std::size_t) {
          Flags& flags = **static_cast<Flags* const*>(args);
          flags.begun = 1;
          while (flags.leave == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        },
        &flags_, sizeof flags_, 1));
  }
  ~Busy() { leave(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  bool has_begun() const { return flags_->begun != 0; }
  // Throws std::runtime_error if it does not begin within a minute.
  void wait_until_begun() const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!has_begun() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    expect(has_begun(), "the kernel does not begin");
  }
  void leave() { flags_->leave = 1; }

 private:
  struct Flags {
    std::atomic<int> begun;
    std::atomic<int> leave;
  };

  Flags* flags_ = nullptr;
};

}  // namespace wherry::test
