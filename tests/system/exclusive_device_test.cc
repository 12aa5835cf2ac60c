// While a context exists on a device that cannot use managed memory concurrently with the host, no
// processor gets read copies. Device 0 is such a device.
#include <bit>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::exclusive_device_test {

namespace {

// The stage, without a context on device 0; the context of device 1 is current.
Stage& stage() {
  static Stage the_stage{"capacity=64M,concurrent=0;capacity=64M"};
  static const bool released = [] {
    WHERRY_TRY(cuCtxSetCurrent(the_stage.session().context(device1)));
    WHERRY_TRY(cuDevicePrimaryCtxRelease(device0));
    return true;
  }();
  expect(released, "the contexts cannot be released");
  return the_stage;
}

class ExclusiveContext {
 public:
  ExclusiveContext() {
    stage();
    WHERRY_TRY(cuCtxCreate(&context_, nullptr, 0, device0));
    WHERRY_TRY(cuCtxSetCurrent(stage().session().context(device1)));
  }
  ~ExclusiveContext() { destroy(); }
  ExclusiveContext(const ExclusiveContext&) = delete;
  ExclusiveContext& operator=(const ExclusiveContext&) = delete;

  void destroy() {
    if (context_ != nullptr) CHECK(cuCtxDestroy(context_) == CUDA_SUCCESS);
    context_ = nullptr;
  }

 private:
  CUcontext context_ = nullptr;
};

// Read-mostly words that the host has written.
struct ReadMostly : Words {
  explicit ReadMostly(std::uint64_t value) : Words((stage(), region_words)) {
    advise(*this, CU_MEM_ADVISE_SET_READ_MOSTLY);
    stage().write(host, data(), value);
  }
};

constexpr std::uint32_t both = bit_of(host) | bit_of(device1);

void check_duplicates(const Words& words, std::uint64_t value) {
  Stage& s = stage();
  CHECK(s.read(host, words.data()) == value);
  CHECK(s.read(device1, words.data()) == value);
  check_page(s, words.data(), both, 0);
}

void check_moves(const Words& words, std::uint64_t value) {
  Stage& s = stage();
  for (const int reader : {host, device1, host}) {
    CHECK(s.read(reader, words.data()) == value);
    check_page(s, words.data(), bit_of(reader), bit_of(reader));
  }
}

}  // namespace

TEST_CASE("a device with concurrent=0 reports it", "[system]") {
  stage();
  int concurrent = -1;
  WHERRY_TRY(
      cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device0));
  CHECK(concurrent == 0);
  WHERRY_TRY(
      cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device1));
  CHECK(concurrent == 1);
}

TEST_CASE("without a context on such a device pages are duplicated", "[system]") {
  const ReadMostly words{1};
  check_duplicates(words, 1);
}

TEST_CASE("while a context on such a device exists nothing is duplicated", "[system]") {
  const ExclusiveContext context;
  const ReadMostly words{2};
  check_moves(words, 2);
}

TEST_CASE("copies end when such a context is created", "[system]") {
  const ReadMostly words{3};
  check_duplicates(words, 3);
  const ExclusiveContext context;
  CHECK(std::popcount(stage().residents(words.data())) == 1);
  check_moves(words, 3);
}

TEST_CASE("pages are duplicated again when all such contexts are destroyed", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  ExclusiveContext first;
  ExclusiveContext second;
  s.write(host, words.data(), 4);
  check_moves(words, 4);
  first.destroy();
  check_moves(words, 4);
  second.destroy();
  check_duplicates(words, 4);
  s.write(device1, words.data(), 5);
  check_duplicates(words, 5);
}

TEST_CASE("a device's primary context counts, too", "[system]") {
  const ReadMostly words{6};
  CUcontext primary = nullptr;
  WHERRY_TRY(cuDevicePrimaryCtxRetain(&primary, device0));
  check_moves(words, 6);
  WHERRY_TRY(cuDevicePrimaryCtxRelease(device0));
  check_duplicates(words, 6);
}

TEST_CASE("advice given meanwhile is remembered, and other advice has its effect", "[system]") {
  Stage& s = stage();
  const Words words{region_words};
  ExclusiveContext context;
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  int read_mostly = 0;
  WHERRY_TRY(cuMemRangeGetAttribute(&read_mostly, sizeof read_mostly,
                                    CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address_of(words),
                                    words.bytes()));
  CHECK(read_mostly == 1);
  // Read-mostly would override this preference if it were in effect.
  advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device1);
  s.write(host, words.data(), 7);
  CHECK(s.residents(words.data()) == bit_of(device1));
  context.destroy();
  check_duplicates(words, 7);
}

}  // namespace wherry::test::exclusive_device_test
