// A stopped device (SIGSTOP) delays operations that need it, and no others.
#include <signal.h>

#include <catch2/catch.hpp>

#include "support/child.h"
#include "support/session.h"
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

}  // namespace wherry::test::stopped_device_test
