// Devices with access to each other's device memory: the pages stay, and the peer's page table maps
// them exactly while it has access.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <future>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/session.h"
#include "support/stage.h"

namespace wherry::test::peer_access_test {

namespace {

Stage& stage() {
  static Stage the_stage("capacity=16M,workers=2;capacity=16M,workers=2");
  return the_stage;
}
Session& session() {
  return stage().session();
}

// Device memory of the device.
class Own {
 public:
  Own(int device, std::size_t bytes) {
    WHERRY_TRY(cuCtxPushCurrent(session().context(device)));
    WHERRY_TRY(cuMemAlloc(&address_, bytes));
    WHERRY_TRY(cuCtxPopCurrent(nullptr));
  }
  ~Own() { cuMemFree(address_); }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(address_); }

 private:
  CUdeviceptr address_ = 0;
};

CUresult enable(int by, int of) {
  WHERRY_TRY(cuCtxSetCurrent(session().context(by)));
  return cuCtxEnablePeerAccess(session().context(of), 0);
}
CUresult disable(int by, int of) {
  WHERRY_TRY(cuCtxSetCurrent(session().context(by)));
  return cuCtxDisablePeerAccess(session().context(of));
}

CUresult touch(int device, std::uint64_t* word) {
  session().launch(device, 1, [word](std::size_t) { *word += 1; });
  return session().wait(device);
}
// Checks that the device has no access, and resets it.
void check_refused(int device, std::uint64_t* word) {
  CHECK(stage().witness().mappers(word) == bit_of(device == device0 ? device1 : device0));
  CHECK(touch(device, word) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(device);
}

}  // namespace

TEST_CASE("a peer accesses device memory where it is, at the same address", "[system]") {
  const Own before((stage(), device0), mebibyte);
  stage().write(device0, before.words(), 6);
  REQUIRE(enable(device1, device0) == CUDA_SUCCESS);
  const Own after(device0, mebibyte);
  for (const Own* own : {&before, &after}) {
    stage().write(device1, own->words() + 1, 7);
    CHECK(stage().read(device0, own->words() + 1) == 7);
    stage().write(device0, own->words() + 2, 8);
    CHECK(stage().read(device1, own->words() + 2) == 8);
    CHECK(stage().residents(own->words()) == bit_of(device0));
    CHECK(stage().witness().writers(own->words()) == (bit_of(device0) | bit_of(device1)));
    CHECK(stage().same_frame(device0, device1, own->words()));
  }
  CHECK(stage().read(device1, before.words()) == 6);
  REQUIRE(disable(device1, device0) == CUDA_SUCCESS);
  check_refused(device1, before.words());
  CHECK(stage().read(device0, before.words()) == 6);
}

TEST_CASE("peer access is one way, and does not include the host", "[system]") {
  REQUIRE((stage(), enable(device1, device0)) == CUDA_SUCCESS);
  const Own other(device1, mebibyte);
  check_refused(device0, other.words());
  // The reset of device 0 has ended peer access to it.
  CHECK(disable(device1, device0) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

TEST_CASE("a peer sees a large allocation with few faults", "[system]") {
  const Own own((stage(), device0), 8 * mebibyte);
  stage().write_pages(device0, own.words(), 8 * mebibyte, 3);
  REQUIRE(enable(device1, device0) == CUDA_SUCCESS);
  const std::uint64_t before = Stage::faults(device1);
  CHECK(stage().read_pages(device1, own.words(), 8 * mebibyte) == 3 * 8 * mebibyte / page_bytes);
  // One fault for each block of 2 MiB, and a few during changes of views.
  CHECK(Stage::faults(device1) - before <= 64);
  REQUIRE(disable(device1, device0) == CUDA_SUCCESS);
}

TEST_CASE("after a peer's memory is freed an access to it is an error", "[system]") {
  REQUIRE((stage(), enable(device1, device0)) == CUDA_SUCCESS);
  std::uint64_t* word = nullptr;
  {
    const Own own(device0, mebibyte);
    word = own.words();
    CHECK(touch(device1, word) == CUDA_SUCCESS);
  }
  CHECK(stage().witness().mappers(word) == 0);
  CHECK(touch(device1, word) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(device1);
}

TEST_CASE("peer access ends with either context", "[system]") {
  const Own own((stage(), device0), mebibyte);
  const bool which = GENERATE(false, true);
  CUcontext ends = nullptr;
  WHERRY_TRY(cuCtxCreate(&ends, nullptr, 0, which ? device1 : device0));
  WHERRY_TRY(cuCtxSetCurrent(which ? ends : session().context(device1)));
  WHERRY_TRY(cuCtxEnablePeerAccess(which ? session().context(device0) : ends, 0));
  CHECK(touch(device1, own.words()) == CUDA_SUCCESS);
  WHERRY_TRY(cuCtxDestroy(ends));
  check_refused(device1, own.words());
}

TEST_CASE("access of the next primary context does not end with the previous context", "[system]") {
  const Own theirs(1, mebibyte);
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
  const auto wait = [](void* gate) {
    static_cast<std::shared_future<void>*>(gate)->wait_for(std::chrono::seconds(30));
  };
  WHERRY_TRY(cuLaunchHostFunc(session().stream(0), wait, &opened));
  auto releasing = std::async(std::launch::async, [] { return cuDevicePrimaryCtxRelease(0); });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  unsigned flags = 0;
  int active = 1;
  while (active != 0 && std::chrono::steady_clock::now() < limit)
    WHERRY_TRY(cuDevicePrimaryCtxGetState(0, &flags, &active));
  REQUIRE(active == 0);

  CUcontext next = nullptr;
  WHERRY_TRY(cuDevicePrimaryCtxRetain(&next, 0));
  CHECK(next == session().context(0));
  CHECK(enable(0, 1) == CUDA_SUCCESS);
  CHECK(releasing.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  open.set_value();
  CHECK(releasing.get() == CUDA_SUCCESS);
  session().renew_stream(0);
  CHECK(enable(0, 1) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  CHECK(touch(0, theirs.words()) == CUDA_SUCCESS);
  CHECK(disable(0, 1) == CUDA_SUCCESS);
}

TEST_CASE("access that two contexts of a device have ends when both have ended it", "[system]") {
  const Own own((stage(), device0), mebibyte);
  REQUIRE(enable(device1, device0) == CUDA_SUCCESS);
  CUcontext second = nullptr;
  WHERRY_TRY(cuCtxCreate(&second, nullptr, 0, device1));
  WHERRY_TRY(cuCtxEnablePeerAccess(session().context(device0), 0));
  CHECK(cuCtxEnablePeerAccess(session().context(device0), 0) ==
        CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  WHERRY_TRY(cuCtxDestroy(second));
  CHECK(touch(device1, own.words()) == CUDA_SUCCESS);
  REQUIRE(disable(device1, device0) == CUDA_SUCCESS);
  check_refused(device1, own.words());
}

TEST_CASE("a device that died has no peer access after its reset", "[system]") {
  const Own own((stage(), device0), mebibyte);
  REQUIRE(enable(device1, device0) == CUDA_SUCCESS);
  CHECK(touch(device1, own.words()) == CUDA_SUCCESS);
  ::kill(device_process(device1), SIGKILL);
  REQUIRE(ends_within(device_process(device1), 5000));
  // The device that owns the memory is not affected.
  CHECK(stage().read(device0, own.words()) == 1);
  session().reset(device1);
  check_refused(device1, own.words());
  REQUIRE(enable(device1, device0) == CUDA_SUCCESS);
  CHECK(touch(device1, own.words()) == CUDA_SUCCESS);
  REQUIRE(disable(device1, device0) == CUDA_SUCCESS);
}

TEST_CASE("both devices count in the same words, while access comes and goes", "[system]") {
  constexpr std::size_t words = 3 * mebibyte / sizeof(std::uint64_t) / 64;
  const Own own((stage(), device0), 3 * mebibyte);
  const std::uint64_t rounds = scaled(40);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    REQUIRE(enable(device1, device0) == CUDA_SUCCESS);
    for (const int device : {device0, device1})
      session().launch(device, words, [data = own.words()](std::size_t i) {
        std::atomic_ref<std::uint64_t>(data[64 * i]).fetch_add(1);
      });
    // disable() waits for the launch above.
    REQUIRE(disable(device1, device0) == CUDA_SUCCESS);
    CHECK(stage().witness().mappers(own.words()) == bit_of(device0));
  }
  REQUIRE(session().wait(device1) == CUDA_SUCCESS);
  const Words wrong(1);
  session().run(device0, [data = own.words(), result = wrong.data(), rounds] {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < words; ++i) count += data[64 * i] != 2 * rounds;
    *result = count;
  });
  CHECK(wrong[0] == 0);
}

}  // namespace wherry::test::peer_access_test
