// Events that two programs share: each waits for the other's work, and gets an error when the other
// program has ended before completing it.
#include <chrono>
#include <csignal>
#include <cstring>
#include <future>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/stage.h"
#include "system/ipc_peer.h"

using namespace wherry::test;
using namespace std::chrono_literals;

namespace {

CUstream stream(int device = device0) {
  return stage().session().stream(device);
}

// An event of this program that the other program has opened.
struct SharedEvent {
  explicit SharedEvent(Peer& peer) {
    WHERRY_TRY(cuEventCreate(&here, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CUipcEventHandle handle{};
    WHERRY_TRY(cuIpcGetEventHandle(&handle, here));
    Request request{Ask::open_event_handle};
    std::memcpy(&request.handle, &handle, sizeof handle);
    there = peer.get(request);
  }
  ~SharedEvent() { cuEventDestroy(here); }
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  CUevent here = nullptr;
  std::uint64_t there = 0;
};

// Whether the call returns before the limit.
template <typename Call>
bool returns(std::future<Call>& call, std::chrono::milliseconds limit) {
  return call.wait_for(limit) == std::future_status::ready;
}

}  // namespace

TEST_CASE("an event stands for the work of the program that recorded it last", "[system]") {
  Peer peer;
  SharedEvent event(peer);
  CHECK(peer.ask({Ask::query, device0, event.there}).result == CUDA_SUCCESS);
  peer.get({Ask::hold, device0});
  peer.get({Ask::record, device0, event.there});
  CHECK(cuEventQuery(event.here) == CUDA_ERROR_NOT_READY);
  CHECK(peer.ask({Ask::query, device0, event.there}).result == CUDA_ERROR_NOT_READY);
  auto wait = std::async(std::launch::async, [&] { return cuEventSynchronize(event.here); });
  CHECK(!returns(wait, 250ms));
  peer.get({Ask::release});
  REQUIRE(returns(wait, 20s));
  CHECK(wait.get() == CUDA_SUCCESS);
  CHECK(cuEventQuery(event.here) == CUDA_SUCCESS);

  // After a record here the event no longer depends on the other program's work.
  peer.get({Ask::hold, device0});
  peer.get({Ask::record, device0, event.there});
  WHERRY_TRY(cuEventRecord(event.here, stream()));
  CHECK(cuEventSynchronize(event.here) == CUDA_SUCCESS);
  CHECK(peer.ask({Ask::query, device0, event.there}).result == CUDA_SUCCESS);
  peer.get({Ask::release});
}

TEST_CASE("a stream waits for an event of another program", "[system]") {
  Peer peer;
  SharedEvent event(peer);
  peer.get({Ask::hold, device0});
  peer.get({Ask::record, device0, event.there});
  WHERRY_TRY(cuStreamWaitEvent(stream(), event.here, 0));
  WHERRY_TRY(cuStreamWaitEvent(stream(device1), event.here, 0));
  CHECK(cuStreamQuery(stream()) == CUDA_ERROR_NOT_READY);
  auto wait = std::async(std::launch::async, [&] { return cuStreamSynchronize(stream()); });
  CHECK(!returns(wait, 250ms));
  peer.get({Ask::release});
  REQUIRE(returns(wait, 20s));
  CHECK(wait.get() == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(stream(device1)) == CUDA_SUCCESS);
}

TEST_CASE("two programs take turns by events", "[system]") {
  Peer peer;
  SharedEvent mine(peer);
  SharedEvent its(peer);
  CUdeviceptr word = 0;
  WHERRY_TRY(cuMemAlloc(&word, page_bytes));
  CUipcMemHandle handle{};
  WHERRY_TRY(cuIpcGetMemHandle(&handle, word));
  const std::uint64_t there =
      peer.get({Ask::open_handle, device0, 0, 0, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, handle});
  auto* const place = reinterpret_cast<std::uint64_t*>(word);
  const std::uint64_t rounds = scaled(300);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    stage().session().launch(device0, 1, [place, round](std::size_t) { *place = 2 * round; });
    WHERRY_TRY(cuEventRecord(mine.here, stream()));
    peer.get({Ask::wait_event, device0, mine.there});
    REQUIRE(peer.get({Ask::read, device0, there}) == 2 * round);
    peer.get({Ask::write, device0, there, 2 * round + 1});
    peer.get({Ask::record, device0, its.there});
    WHERRY_TRY(cuStreamWaitEvent(stream(), its.here, 0));
    REQUIRE(stage().read(device0, place) == 2 * round + 1);
  }
  WHERRY_TRY(cuMemFree(word));
}

TEST_CASE("a thread or stream that waits for a program that is killed gets an error", "[system]") {
  Peer peer;
  SharedEvent event(peer);
  peer.get({Ask::hold, device0});
  peer.get({Ask::record, device0, event.there});
  auto wait = std::async(std::launch::async, [&] {
    WHERRY_TRY(cuCtxSetCurrent(stage().session().context(device0)));
    return cuEventSynchronize(event.here);
  });
  CHECK(!returns(wait, 250ms));
  SECTION("a thread gets an error") {
    peer.kill();
    REQUIRE(returns(wait, 20s));
    CHECK(wait.get() == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cuEventQuery(event.here) == CUDA_ERROR_LAUNCH_FAILED);
    // The event can be recorded again.
    WHERRY_TRY(cuEventRecord(event.here, stream()));
    CHECK(cuEventSynchronize(event.here) == CUDA_SUCCESS);
  }
  SECTION("a stream's context fails") {
    WHERRY_TRY(cuStreamWaitEvent(stream(device1), event.here, 0));
    peer.kill();
    REQUIRE(returns(wait, 20s));
    CHECK(cuStreamSynchronize(stream(device1)) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cuStreamSynchronize(stream(device0)) == CUDA_SUCCESS);
    WHERRY_TRY(cuDevicePrimaryCtxReset(device1));
    stage().session().renew_stream(device1);
    CHECK(cuStreamSynchronize(stream(device1)) == CUDA_SUCCESS);
  }
}

TEST_CASE("an event outlives its creator in programs that have it open", "[system]") {
  Peer peer;
  const std::uint64_t its = peer.get({Ask::make_event, device0});
  const Answer answer = peer.ask({Ask::get_event_handle, device0, its});
  CUipcEventHandle handle{};
  std::memcpy(&handle, &answer.handle, sizeof handle);
  CUevent here = nullptr, late = nullptr;
  REQUIRE(cuIpcOpenEventHandle(&here, handle) == CUDA_SUCCESS);
  CHECK(cuIpcGetEventHandle(&handle, here) == CUDA_ERROR_INVALID_HANDLE);
  peer.get({Ask::destroy_event, device0, its});
  CHECK(cuIpcOpenEventHandle(&late, handle) == CUDA_ERROR_MAP_FAILED);
  peer.kill();
  CHECK(cuIpcOpenEventHandle(&late, handle) == CUDA_ERROR_MAP_FAILED);
  CHECK(cuEventQuery(here) == CUDA_SUCCESS);
  WHERRY_TRY(cuEventRecord(here, stream()));
  CHECK(cuEventSynchronize(here) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(here) == CUDA_SUCCESS);
}

TEST_CASE("a record that is refused has no effect on other programs", "[system]") {
  Peer peer;
  const Answer got = peer.ask({Ask::get_event_handle, device0, peer.get({Ask::make_event})});
  check(got.result, "cuIpcGetEventHandle");
  WHERRY_TRY(cuCtxSetCurrent(stage().session().context(device1)));
  CUipcEventHandle handle{};
  std::memcpy(&handle, &got.handle, sizeof handle);
  CUevent here = nullptr;
  WHERRY_TRY(cuIpcOpenEventHandle(&here, handle));
  stage().session().launch(device1, 1, [](std::size_t) { ::raise(SIGKILL); });
  CHECK(stage().session().wait(device1) == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(cuEventRecord(here, stream(device1)) == CUDA_ERROR_LAUNCH_FAILED);
  CUevent again = nullptr;
  WHERRY_TRY(cuCtxSetCurrent(stage().session().context(device0)));
  WHERRY_TRY(cuIpcOpenEventHandle(&again, handle));
  CHECK(cuEventQuery(again) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(again) == CUDA_SUCCESS);
  WHERRY_TRY(cuDevicePrimaryCtxReset(device1));
  stage().session().renew_stream(device1);
}
