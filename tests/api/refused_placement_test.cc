// Containers may forbid the system calls that place memory. Advice and prefetches of memory that
// the library did not allocate are answered there as elsewhere.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <wherry/cuda.h>

#include <cstring>

#include "support/catch.h"
#include "support/child.h"
#include "support/seccomp_filter.h"
#include "support/session.h"

namespace wherry::test::refused_placement_test {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t length = 16 * page;

int attribute(const void* memory, CUmem_range_attribute which) {
  int value = -777;
  WHERRY_TRY(cuMemRangeGetAttribute(&value, sizeof value, which,
                                    reinterpret_cast<CUdeviceptr>(memory), length));
  return value;
}

void use_memory() {
  for (const long number : {SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy, SYS_move_pages})
    forbid_system_call(number, FilterAction::refuse_eperm);
  const Session session("kind=coherent,capacity=16M");
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  char* const memory = static_cast<char*>(
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  expect(memory != MAP_FAILED, "mmap");
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  std::memset(memory, 'm', page);

  WHERRY_TRY(cuMemAdvise(address, length, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
  WHERRY_TRY(cuMemPrefetchAsync(address, length, device, 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  expect(attribute(memory, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == 0, "no preference");
  expect(attribute(memory, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION) == 0, "no prefetch");
  unsigned char present = 0;
  expect(::mincore(memory + length - page, page, &present) == 0 && (present & 1) != 0,
         "the prefetch has not created the last page");
  expect(memory[0] == 'm' && memory[length - 1] == 0, "other contents");

  WHERRY_TRY(cuMemAdvise(address, length, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, device));
  expect(attribute(memory, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == CU_DEVICE_INVALID,
         "the preference is still there");
}

}  // namespace

TEST_CASE("where Linux refuses to place memory, advice and prefetches are answered all the same",
          "[api]") {
  const Outcome outcome = in_fresh_process(use_memory);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::refused_placement_test
