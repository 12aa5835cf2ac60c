// A stopped device (SIGSTOP) delays operations that need it, and no others.
#include <signal.h>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/waiting.h"
#include "support/witness.h"

namespace wherry::test::stopped_device_test {

TEST_CASE("while one device is stopped, another one gets the remote mappings that it needs",
          "[system]") {
  const auto outcome = in_fresh_process([] {
    const Session session{"capacity=16M,workers=1;capacity=16M,workers=1"};
    const Managed<int> for_stopped{1024};
    const Managed<int> for_other{1024};
    const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
    for (const auto* memory : {&for_stopped, &for_other}) {
      const auto pointer = reinterpret_cast<CUdeviceptr>(memory->data());
      WHERRY_TRY(
          cuMemAdvise_v2(pointer, memory->bytes(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
      (*memory)[0] = 1;
    }
    const pid_t stopped = device_process(0);
    expect(::kill(stopped, SIGSTOP) == 0, "SIGSTOP");
    // Needs a change of the stopped device's view, but returns without waiting for it.
    const CUmemLocation first{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    WHERRY_TRY(cuMemAdvise_v2(reinterpret_cast<CUdeviceptr>(for_stopped.data()),
                              for_stopped.bytes(), CU_MEM_ADVISE_SET_ACCESSED_BY, first));
    session.run(1, [at = for_other.data()] { at[0] += 1; });
    // The page has stayed at its preferred location: device 1 maps it remotely.
    const Witness witness;
    expect(witness.residents(for_other.data()) == 1, "the page has moved");
    expect((witness.mappers(for_other.data()) & 4) != 0, "device 1 has no mapping of it");
    expect(process_status(stopped, "State")->starts_with("T"),
           "the stopped device is not stopped any more");
    expect(::kill(stopped, SIGCONT) == 0, "SIGCONT");
    session.run(0, [at = for_stopped.data()] { at[0] += 1; });
    expect(for_stopped[0] == 2 && for_other[0] == 2, "a write was lost");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

// The library ends a device that has left a command without an answer for 5 s. So the device still
// lives at the end only if the host has waited for it once, and not at each fault.
TEST_CASE("a stopped device that is advised to access memory delays the host once", "[system]") {
  const auto outcome = in_fresh_process([] {
    const Session session{"capacity=16M,workers=1"};
    constexpr std::size_t faults = 12;
    constexpr std::size_t stride = std::size_t{2} << 20;
    const Managed<std::byte> memory{(faults + 1) * stride};
    const CUmemLocation first{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    WHERRY_TRY(cuMemAdvise_v2(reinterpret_cast<CUdeviceptr>(memory.data()), memory.bytes(),
                              CU_MEM_ADVISE_SET_ACCESSED_BY, first));
    memory[0] = std::byte{1};
    const pid_t stopped = device_process(0);
    expect(::kill(stopped, SIGSTOP) == 0, "SIGSTOP");
    for (std::size_t i = 1; i <= faults; ++i) memory[i * stride] = std::byte{1};
    expect(process_status(stopped, "State")->starts_with("T"), "the device has been ended");
    expect(::kill(stopped, SIGCONT) == 0, "SIGCONT");
    // It answers, and others wait for it again.
    session.run(0, [at = memory.data()] { at[stride] = std::byte{2}; });
    expect(memory[stride] == std::byte{2}, "a write was lost");
    const Witness witness;
    expect(comes_true([&] { return (witness.mappers(memory.data() + faults * stride) & 2) != 0; }),
           "the device has no mapping of a page that came while it was stopped");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::stopped_device_test
