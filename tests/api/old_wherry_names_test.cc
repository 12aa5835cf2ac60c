// The earlier names of Wherry's own functions and types: programs that use them compile, link, and
// get the same answers.
#include <dlfcn.h>
#include <wherry/events.h>
#include <wherry/explain.h>
#include <wherry/policy.hpp>
#include <wherry/wherry.hpp>

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::old_wherry_names_test {

static_assert(std::is_same_v<wherryPageInfo_t, wherryPageState>);
static_assert(std::is_same_v<decltype(&wherryLaunch), decltype(&wherryLaunchKernel)>);
static_assert(std::is_same_v<decltype(&wherryPageInfo), decltype(&wherryGetPageState)>);
static_assert(std::is_same_v<decltype(&wherryPin), decltype(&wherryPinPages)>);
static_assert(std::is_same_v<decltype(&wherryUnpin), decltype(&wherryUnpinPages)>);
static_assert(std::is_same_v<decltype(&wherryP2PGetPages), decltype(&wherryGetP2PPages)>);
static_assert(std::is_same_v<decltype(&wherryP2PPutPages), decltype(&wherryPutP2PPages)>);
static_assert(std::is_same_v<decltype(&wherryTouch), decltype(&wherryTouchPages)>);
static_assert(std::is_same_v<decltype(&wherryDeviceProcess), decltype(&wherryGetDeviceProcess)>);
static_assert(std::is_same_v<decltype(&wherryEventsStart), decltype(&wherryStartEvents)>);
static_assert(std::is_same_v<decltype(&wherryEventsStop), decltype(&wherryStopEvents)>);
static_assert(std::is_same_v<decltype(&wherryEventsRead), decltype(&wherryReadEvents)>);
static_assert(std::is_same_v<decltype(&wherryEventsDropped), decltype(&wherryCountDroppedEvents)>);
static_assert(std::is_same_v<decltype(&wherryExplain), decltype(&wherryExplainPage)>);
static_assert(std::is_same_v<decltype(&wherryExplainText), decltype(&wherryDescribePage)>);

// The layout that compiled programs use.
static_assert(sizeof(wherryEvent) == 80);
static_assert(offsetof(wherryEvent, value) == 44);
static_assert(offsetof(wherryEvent, value) == offsetof(wherryEvent, launch));
static_assert(offsetof(wherryEvent, value) == offsetof(wherryEvent, pages_dropped));
static_assert(offsetof(wherryEvent, value) == offsetof(wherryEvent, node_plus_one));
static_assert(offsetof(wherryEvent, kind) == 48);
static_assert(sizeof(wherryDecision) == 56);
static_assert(offsetof(wherryDecision, toucher) == offsetof(wherryDecision, faulting_processor));
static_assert(offsetof(wherry::page_fault, toucher) == 0);
static_assert(offsetof(wherry::page_fault, faulting_processor) == 0);

static_assert(WHERRY_EVENT_NOBODY == WHERRY_NO_PROCESSOR);
static_assert(WHERRY_REASON_TOUCHED == WHERRY_REASON_FAULTING_PROCESSOR);
static_assert(WHERRY_REASON_THERE == WHERRY_REASON_RESIDENT);
static_assert(WHERRY_REASON_POLICY_STAY == WHERRY_REASON_TEMPORARY_PIN);
static_assert(WHERRY_REASON_NO_ROOM == WHERRY_REASON_NO_SPACE);

namespace {

const Session& session() {
  static const Session instance{"capacity=64M"};
  return instance;
}

CUdeviceptr address_of(const void* pointer) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

void set_to_seven(const void* args, std::size_t, std::size_t) {
  **static_cast<int* const*>(args) = 7;
}

}  // namespace

TEST_CASE("earlier names of functions give the answers of the new ones", "[api]") {
  session();
  const Managed<int> number(1);
  int* const pointer = number.data();
  const CUdeviceptr address = address_of(pointer);

  CHECK(wherryLaunch(nullptr, set_to_seven, &pointer, sizeof pointer, 1) == CUDA_SUCCESS);
  CHECK(wherryLaunch(nullptr, nullptr, nullptr, 0, 1) ==
        wherryLaunchKernel(nullptr, nullptr, nullptr, 0, 1));
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);

  wherryPageInfo_t info{};
  wherryPageState state{};
  info.size = state.size = sizeof info;
  CHECK(wherryPageInfo(pointer, &info) == CUDA_SUCCESS);
  CHECK(wherryGetPageState(pointer, &state) == CUDA_SUCCESS);
  CHECK(std::memcmp(&info, &state, sizeof info) == 0);
  CHECK(wherryPageInfo(nullptr, &info) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherry::runtime().page_info(pointer).resident ==
        wherry::runtime().page_state(pointer).resident);
  CHECK(*pointer == 7);

  CHECK(wherryTouch(pointer, sizeof(int), WHERRY_TOUCH_WRITE) == CUDA_SUCCESS);
  CHECK(wherryTouch(pointer, sizeof(int), 0) == CUDA_ERROR_INVALID_VALUE);

  CHECK(wherryPin(address, sizeof(int)) == CUDA_SUCCESS);
  wherryExplanation old_explanation{};
  wherryExplanation explanation{};
  old_explanation.size = explanation.size = sizeof explanation;
  CHECK(wherryExplain(address, &old_explanation) == CUDA_SUCCESS);
  CHECK(wherryExplainPage(address, &explanation) == CUDA_SUCCESS);
  CHECK(old_explanation.pinned == 1);
  CHECK(std::memcmp(&old_explanation, &explanation, sizeof explanation) == 0);
  std::size_t needed = 0;
  CHECK(wherryExplainText(address, nullptr, 0, &needed) == CUDA_SUCCESS);
  CHECK(needed > 1);
  CHECK(wherryUnpin(address, sizeof(int)) == CUDA_SUCCESS);

  pid_t old_process = 0;
  pid_t process = 0;
  CHECK(wherryDeviceProcess(0, &old_process) == CUDA_SUCCESS);
  CHECK(wherryGetDeviceProcess(0, &process) == CUDA_SUCCESS);
  CHECK(old_process == process);
  CHECK(wherryDeviceProcess(9, &old_process) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("earlier names of functions record events and hand pages to third parties", "[api]") {
  session();
  REQUIRE(wherryEventsStart(WHERRY_EVENT_BIT(WHERRY_EVENT_ALLOCATION), 0) == CUDA_SUCCESS);
  const Managed<int> number(1);
  std::vector<wherryEvent> events(4);
  events[0].size = sizeof events[0];
  std::size_t read = 0;
  CHECK(wherryEventsRead(events.data(), events.size(), &read) == CUDA_SUCCESS);
  CHECK(read == 1);
  std::uint64_t dropped = 1;
  CHECK(wherryEventsDropped(WHERRY_EVENT_ALLOCATION, &dropped) == CUDA_SUCCESS);
  CHECK(dropped == 0);
  CHECK(wherryEventsStop() == CUDA_SUCCESS);

  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens{};
  const CUdeviceptr address = address_of(number.data());
  REQUIRE(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, address) == CUDA_SUCCESS);
  wherryPageExtent extent{};
  std::size_t count = 1;
  CHECK(wherryP2PGetPages(tokens.p2pToken, tokens.vaSpaceToken, address, sizeof(int), &extent,
                          &count) == CUDA_SUCCESS);
  CHECK(count == 1);
  CHECK(wherryP2PPutPages(tokens.p2pToken, tokens.vaSpaceToken, address, sizeof(int)) ==
        CUDA_SUCCESS);
  CHECK(wherryP2PPutPages(tokens.p2pToken, tokens.vaSpaceToken, address, sizeof(int)) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("earlier names of functions are symbols of the library", "[api]") {
  for (const char* name :
       {"wherryLaunch", "wherryLaunch_ptsz", "wherryGetStats", "wherryPageInfo", "wherryPin",
        "wherryUnpin", "wherryP2PGetPages", "wherryP2PPutPages", "wherryTouch",
        "wherryDeviceProcess", "wherryEventsStart", "wherryEventsStop", "wherryEventsRead",
        "wherryEventsDropped", "wherryExplain", "wherryExplainText"}) {
    INFO(name);
    CHECK(::dlsym(RTLD_DEFAULT, name) != nullptr);
  }
}

}  // namespace wherry::test::old_wherry_names_test
