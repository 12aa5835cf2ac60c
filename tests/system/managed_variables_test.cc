// Variables in managed memory, checked against Linux's pools and page tables: on every processor,
// at their own addresses, with their initial contents.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "support/catch.h"
#include "support/loaded_object.h"
#include "support/session.h"
#include "support/witness.h"

extern "C" {
extern __attribute__((weak)) int library_numbers[3000];
extern __attribute__((weak)) char library_large[(3 << 20) + 5];
int* library_secret_place();
void library_kernel(const void*, std::size_t, std::size_t);
}

namespace {

constexpr std::size_t page = 4096;

// Managed variables between ordinary ones, which must not change.
int ordinary_before = 1;
WHERRY_MANAGED int small = 5;
WHERRY_MANAGED char large[40 * page] = "large";
static WHERRY_MANAGED double unnamed[700] = {0, 1.5};
WHERRY_MANAGED std::uint32_t shared_counter;
int ordinary_after = 2;
int ordinary_zero[64];

}  // namespace

namespace wherry::test {
namespace {

constexpr std::uint32_t host_bit = 1;
CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// Runs before the library starts, which moves the variables to managed memory.
struct Before {
  Before() { unnamed[2] = 2.5; }
};
const Before before;

Session& session() {
  static Session instance{"capacity=64M;capacity=64M"};
  return instance;
}

void check_page(const void* address, std::uint32_t where) {
  static const Witness witness;
  const wherryPageState info = page_state(address);
  CHECK(info.resident == where);
  CHECK(witness.residents(address) == where);
  CHECK(info.mapped_read == where);
  CHECK(witness.mappers(address) == where);
  CHECK(witness.writers(address) == (std::has_single_bit(where) ? where : 0));
}

std::pair<CUdeviceptr, std::size_t> range_of(const void* address) {
  CUdeviceptr base = 0;
  std::size_t size = 0;
  WHERRY_TRY(cuMemGetAddressRange(&base, &size, address_of(address)));
  return {base, size};
}

}  // namespace

TEST_CASE("each variable is an allocation of its own that is never freed") {
  session();
  CHECK(range_of(&small) == std::pair{address_of(&small), sizeof small});
  CHECK(range_of(large + 5 * page) == std::pair{address_of(large), sizeof large});
  CHECK(range_of(unnamed) == std::pair{address_of(unnamed), sizeof unnamed});
  CHECK(range_of(library_numbers) == std::pair{address_of(library_numbers), 3000 * sizeof(int)});
  CHECK(range_of(library_secret_place()) ==
        std::pair{address_of(library_secret_place()), sizeof(int)});
  CHECK(cuMemFree(address_of(large)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(address_of(large) + page) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr base = 0;
  CHECK(cuMemGetAddressRange(&base, nullptr, address_of(&ordinary_before)) == CUDA_ERROR_NOT_FOUND);
  CHECK(cuMemGetAddressRange(&base, nullptr, address_of(&ordinary_after)) == CUDA_ERROR_NOT_FOUND);
  CHECK(cuMemGetAddressRange(&base, nullptr, address_of(ordinary_zero)) == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("variables keep their contents, and devices see them at the same address") {
  session();
  CHECK(small == 5);
  CHECK(std::strcmp(large, "large") == 0);
  CHECK(unnamed[1] == 1.5);
  CHECK(unnamed[2] == 2.5);
  CHECK(library_numbers[0] == 11);
  const Managed<int> seen{4};
  for (int device = 0; device < 2; ++device) {
    session().run(device, [out = seen.data()] {
      out[0] = small;
      out[1] = large[2];
      out[2] = static_cast<int>(unnamed[2] * 2);
      out[3] = *library_secret_place();
      small += 1;
    });
    CHECK(seen[0] == 5 + device);
    CHECK(seen[1] == 'r');
    CHECK(seen[2] == 5);
    CHECK(seen[3] == 1000);
  }
  CHECK(small == 7);
  small = 5;
}

TEST_CASE("a library's kernel uses the library's variables") {
  const Managed<int> seen{2};
  const int first = library_numbers[2];
  const int secret = *library_secret_place();
  int* const out = seen.data();
  WHERRY_TRY(wherryLaunchKernel(session().stream(1), library_kernel, &out, sizeof out, 1));
  WHERRY_TRY(session().wait(1));
  CHECK(seen[0] == 22);
  CHECK(seen[1] == secret);
  CHECK(library_numbers[2] == first + 1);
  CHECK(*library_secret_place() == secret + 1);
  *library_secret_place() = secret;
}

TEST_CASE("pages move to the accessing processor, and no other processor has them") {
  session();
  for (const int device : {0, 1}) {
    session().run(device, [] { large[20 * page] = 'd'; });
    check_page(large + 20 * page, bit_of(device));
    CHECK(large[20 * page] == 'd');
    check_page(large + 20 * page, host_bit);
  }
}

TEST_CASE("ordinary variables stay a device's own snapshot") {
  session();
  session().run(0, [] {
    ordinary_before = 70;
    ordinary_after = 80;
    std::ranges::fill(ordinary_zero, 90);
  });
  CHECK(ordinary_before == 1);
  CHECK(ordinary_after == 2);
  CHECK(ordinary_zero[0] == 0);
}

TEST_CASE("advice and prefetches work on variables") {
  session();
  CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUdeviceptr start = address_of(large);
  large[0] = 'l';
  WHERRY_TRY(cuMemAdvise(start, sizeof large, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  session().run(
      0, [] { [[maybe_unused]] const char read = *const_cast<const volatile char*>(large); });
  check_page(large, host_bit | bit_of(0));
  int value = 0;
  WHERRY_TRY(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, start,
                                    sizeof large));
  CHECK(value == 1);
  large[0] = 'L';
  check_page(large, host_bit);
  WHERRY_TRY(cuMemAdvise(start, sizeof large, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));

  WHERRY_TRY(cuMemPrefetchAsync(start, sizeof large, device, 0, session().stream(0)));
  WHERRY_TRY(session().wait(0));
  for (std::size_t i = 0; i < sizeof large; i += page) check_page(large + i, bit_of(0));
  WHERRY_TRY(cuMemRangeGetAttribute(
      &value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, start, sizeof large));
  CHECK(value == 0);

  WHERRY_TRY(cuMemAdvise(start, sizeof large, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
  large[3 * page] = 'r';
  CHECK(page_state(large + 3 * page).resident == bit_of(0));
  CHECK((page_state(large + 3 * page).mapped_write & host_bit) != 0);
  WHERRY_TRY(cuMemAdvise(start, sizeof large, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, device));
  WHERRY_TRY(cuMemPrefetchAsync(start, sizeof large, {CU_MEM_LOCATION_TYPE_HOST, 0}, 0,
                                session().stream(0)));
  WHERRY_TRY(session().wait(0));
  for (std::size_t i = 0; i < sizeof large; i += page) {
    // Accesses the page first: the switch of the host's view back to its own pool may be
    // unfinished.
    auto* const touched = const_cast<volatile char*>(large + i);
    *touched = *touched;
    check_page(large + i, host_bit);
  }
  CHECK(large[0] == 'L');
  CHECK(large[3 * page] == 'r');
}

TEST_CASE("a variable may span several blocks") {
  session();
  constexpr std::size_t bytes = sizeof library_large;
  for (std::size_t i = 0; i < bytes; i += page) library_large[i] = static_cast<char>(i / page);
  library_large[bytes - 1] = 77;
  const CUdeviceptr start = address_of(library_large);
  WHERRY_TRY(
      cuMemPrefetchAsync(start, bytes, {CU_MEM_LOCATION_TYPE_DEVICE, 1}, 0, session().stream(1)));
  WHERRY_TRY(session().wait(1));
  const Witness witness;
  for (std::size_t i = 0; i < bytes; i += page)
    REQUIRE(witness.residents(library_large + i) == bit_of(1));
  session().run(1, [] {
    for (std::size_t i = 0; i < bytes; i += page) library_large[i] += 1;
  });
  for (std::size_t i = 0; i < bytes - page; i += page)
    REQUIRE(library_large[i] == static_cast<char>(i / page + 1));
  CHECK(library_large[bytes - 1] == 77);
}

TEST_CASE("no increment is lost when all processors write one variable") {
  session();
  constexpr int rounds = 2000;
  shared_counter = 0;
  const auto add = [](std::size_t) {
    for (int i = 0; i < rounds; ++i) __atomic_fetch_add(&shared_counter, 1, __ATOMIC_RELAXED);
  };
  session().launch(0, 1, add);
  session().launch(1, 1, add);
  add(0);
  WHERRY_TRY(session().wait(0));
  WHERRY_TRY(session().wait(1));
  CHECK(shared_counter == 3 * rounds);
}

TEST_CASE("system calls are prepared for variables as for all managed memory") {
  session();
  session().run(0, [] { std::memcpy(large + 8 * page, "from a device", 13); });
  CHECK(wherryTouchPages(large + 8 * page, page, WHERRY_TOUCH_READ) == CUDA_SUCCESS);
  CHECK(page_state(large + 8 * page).resident == host_bit);
  CHECK(wherryTouchPages(large, sizeof large + page, WHERRY_TOUCH_READ) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(&ordinary_zero, sizeof ordinary_zero, WHERRY_TOUCH_READ) == CUDA_SUCCESS);
  // A device can touch the pages of a variable, too.
  const Managed<int> result{1};
  session().run(1, [out = result.data()] {
    *out = wherryTouchPages(large + 8 * page, page, WHERRY_TOUCH_WRITE);
  });
  CHECK(result[0] == CUDA_SUCCESS);
  CHECK(page_state(large + 8 * page).resident == bit_of(1));
  CHECK(std::memcmp(large + 8 * page, "from a device", 13) == 0);
}

TEST_CASE("killing a device, and starting it again, changes no variable's contents") {
  session().run(0, [] { large[30 * page] = 'k'; });
  REQUIRE(page_state(large + 30 * page).resident == bit_of(0));
  ::kill(device_process(0), SIGKILL);
  CHECK(large[30 * page] == 'k');
  small = 6;
  WHERRY_TRY(cuDevicePrimaryCtxReset(0));
  session().renew_stream(0);
  session().run(0, [] {
    small += 10;
    large[30 * page] += 1;
  });
  check_page(large + 30 * page, bit_of(0));
  CHECK(small == 16);
  CHECK(large[30 * page] == 'l');
  small = 5;
}

TEST_CASE("a library that is loaded later has its variables from the first launch on") {
  session();
  LoadedObject library(WHERRY_LATE_LIBRARY);
  auto* const numbers = library.symbol<int*>("library_numbers");
  auto* const kernel = library.symbol<wherryKernel>("library_kernel");
  auto* const secret = library.symbol<int* (*)()>("library_secret_place")();
  REQUIRE(numbers != library_numbers);
  numbers[1] = 220;
  const Managed<int> seen{2};
  int* const out = seen.data();
  for (int device = 0; device < 2; ++device) {
    WHERRY_TRY(wherryLaunchKernel(session().stream(device), kernel, &out, sizeof out, 1));
    WHERRY_TRY(session().wait(device));
    CHECK(seen[0] == 220);
    CHECK(seen[1] == 1000 + device);
    check_page(numbers, bit_of(device));
  }
  CHECK(numbers[2] == 35);
  CHECK(*secret == 1002);
  CHECK(range_of(numbers) == std::pair{address_of(numbers), 3000 * sizeof(int)});
  // The object stays loaded after close().
  library.close();
  CHECK(numbers[1] == 220);
  WHERRY_TRY(cuDevicePrimaryCtxReset(1));
  session().renew_stream(1);
  WHERRY_TRY(wherryLaunchKernel(session().stream(1), kernel, &out, sizeof out, 1));
  WHERRY_TRY(session().wait(1));
  CHECK(seen[0] == 220);
  CHECK(numbers[2] == 36);
}

TEST_CASE("a call gets the address of a variable in a library that was just loaded") {
  session();
  const LoadedObject library(WHERRY_SECOND_LATE_LIBRARY);
  auto* const numbers = library.symbol<int*>("library_numbers");
  CHECK(range_of(numbers) == std::pair{address_of(numbers), 3000 * sizeof(int)});
  check_page(numbers, host_bit);
  session().run(1, [numbers] { numbers[0] += 1; });
  CHECK(numbers[0] == 12);
}

TEST_CASE("a child of the program has copies of its own") {
  session();
  session().run(0, [] { large[page] = 'M'; });  // one page at the device, the others at the host
  REQUIRE(large[0] == 'L');
  const pid_t child = ::fork();
  if (child == 0) {
    const bool same = large[0] == 'L' && large[page] == 'M';
    ordinary_zero[0] = ordinary_after;  // the ordinary variable right beside
    large[0] = 'c';
    std::exit(same && large[0] == 'c' ? 0 : 1);  // runs the loader's destructors, too
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(large[0] == 'L');
}

}  // namespace wherry::test
