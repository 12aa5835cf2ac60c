// Events, through the C functions.
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <chrono>
#include <future>
#include <thread>

#include "support/busy.h"
#include "support/catch.h"
#include "support/own.h"
#include "support/session.h"

namespace wherry::test::event_test {

using namespace std::chrono_literals;

namespace {

const Session& session() {
  static const Session the_session("capacity=64M,workers=4;capacity=64M,workers=4");
  return the_session;
}

void sleep_a_while(void*) {
  std::this_thread::sleep_for(20ms);
}

}  // namespace

TEST_CASE("events are created with valid combinations of flags only", "[api]") {
  session();
  for (const unsigned flags : {0u, 1u, 2u, 3u}) {
    CUevent event = nullptr;
    CHECK(cuEventCreate(&event, flags) == CUDA_SUCCESS);
    CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
  }
  CUevent event = nullptr;
  for (const unsigned flags : {4u, 5u, 8u, 99u, ~0u}) {
    CHECK(cuEventCreate(&event, flags) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
  CHECK(cuEventCreate(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  std::thread([&] { CHECK(cuEventCreate(&event, 0) == CUDA_ERROR_INVALID_CONTEXT); }).join();
}

TEST_CASE("an event that was never recorded stands for no work", "[api]") {
  session();
  const NewEvent event;
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
}

TEST_CASE("an event stands for the work given to the stream before its recording", "[api]") {
  const Session& s = session();
  const NewEvent event;
  Busy before(s.stream(0));
  REQUIRE(cuEventRecord(event, s.stream(0)) == CUDA_SUCCESS);
  Busy after(s.stream(0));
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  auto waiting = std::async(std::launch::async, [&] { return cuEventSynchronize(event); });
  CHECK(waiting.wait_for(20ms) == std::future_status::timeout);
  before.leave();
  CHECK(waiting.get() == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(s.stream(0)) == CUDA_ERROR_NOT_READY);
  after.leave();
  CHECK(s.wait(0) == CUDA_SUCCESS);
}

TEST_CASE("a second recording replaces the first", "[api]") {
  const Session& s = session();
  const NewEvent event;
  Busy before(s.stream(0));
  WHERRY_TRY(cuEventRecord(event, s.stream(0)));
  REQUIRE(cuEventRecordWithFlags(event, nullptr, CU_EVENT_RECORD_DEFAULT) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  before.leave();
  CHECK(s.wait(0) == CUDA_SUCCESS);
}

TEST_CASE("an event and the stream that records it must be of one context", "[api]") {
  const Session& s = session();
  const NewEvent event;
  CHECK(cuEventRecord(event, s.stream(1)) == CUDA_ERROR_INVALID_HANDLE);
  WHERRY_TRY(cuCtxSetCurrent(s.context(1)));
  CHECK(cuEventRecord(event, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventRecord(event, s.stream(0)) == CUDA_SUCCESS);  // the current context does not matter
  CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
  WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
}

TEST_CASE("an invalid event is an invalid handle", "[api]") {
  const Session& s = session();
  CUevent gone = nullptr;
  WHERRY_TRY(cuEventCreate(&gone, 0));
  CHECK(cuEventDestroy(gone) == CUDA_SUCCESS);
  const NewEvent good;
  WHERRY_TRY(cuEventRecord(good, nullptr));
  float time = 0;
  for (const CUevent wrong : {gone, CUevent{nullptr}, reinterpret_cast<CUevent>(s.stream(0))}) {
    CHECK(cuEventRecord(wrong, nullptr) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventQuery(wrong) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventSynchronize(wrong) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventElapsedTime(&time, wrong, good) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventElapsedTime(&time, good, wrong) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuEventDestroy(wrong) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(cuEventRecord(good, reinterpret_cast<CUstream>(0x3)) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventRecordWithFlags(good, nullptr, CU_EVENT_RECORD_EXTERNAL) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuEventRecordWithFlags(good, nullptr, 99) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the time between two events covers the work between them", "[api]") {
  const Session& s = session();
  const NewEvent start;
  const NewEvent end;
  const auto before = std::chrono::steady_clock::now();
  WHERRY_TRY(cuEventRecord(start, s.stream(0)));
  WHERRY_TRY(cuLaunchHostFunc(s.stream(0), sleep_a_while, nullptr));
  WHERRY_TRY(cuEventRecord(end, s.stream(0)));
  WHERRY_TRY(cuEventSynchronize(end));
  const auto after = std::chrono::steady_clock::now();
  float time = 0;
  REQUIRE(cuEventElapsedTime(&time, start, end) == CUDA_SUCCESS);
  CHECK(time >= 20.0f);
  CHECK(time <= std::chrono::duration<float, std::milli>(after - before).count());
  float back = 0;
  CHECK(cuEventElapsedTime(&back, end, start) == CUDA_SUCCESS);
  CHECK(back == -time);
  CHECK(cuEventElapsedTime(&time, start, start) == CUDA_SUCCESS);
  CHECK(time == 0.0f);
}

TEST_CASE("a time between events without timing, or not complete yet, is an error", "[api]") {
  const Session& s = session();
  float time = 0;
  const NewEvent recorded;
  WHERRY_TRY(cuEventRecord(recorded, s.stream(0)));
  const NewEvent never;
  CHECK(cuEventElapsedTime(&time, recorded, never) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventElapsedTime(&time, never, recorded) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventElapsedTime(nullptr, recorded, recorded) == CUDA_ERROR_INVALID_VALUE);
  const NewEvent timeless(CU_EVENT_DISABLE_TIMING);
  WHERRY_TRY(cuEventRecord(timeless, s.stream(0)));
  CHECK(cuEventElapsedTime(&time, recorded, timeless) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventElapsedTime(&time, timeless, recorded) == CUDA_ERROR_INVALID_HANDLE);

  const NewEvent pending;
  Busy busy(s.stream(0));
  WHERRY_TRY(cuEventRecord(pending, s.stream(0)));
  CHECK(cuEventElapsedTime(&time, recorded, pending) == CUDA_ERROR_NOT_READY);
  busy.leave();
  WHERRY_TRY(cuEventSynchronize(pending));
  CHECK(cuEventElapsedTime(&time, recorded, pending) == CUDA_SUCCESS);

  WHERRY_TRY(cuCtxSetCurrent(s.context(1)));
  const NewEvent elsewhere;
  WHERRY_TRY(cuEventRecord(elsewhere, s.stream(1)));
  WHERRY_TRY(cuEventSynchronize(elsewhere));
  CHECK(cuEventElapsedTime(&time, recorded, elsewhere) == CUDA_ERROR_INVALID_HANDLE);
  WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
}

TEST_CASE("a thread that waits for an event goes on waiting after its destruction", "[api]") {
  const Session& s = session();
  CUevent event = nullptr;
  WHERRY_TRY(cuEventCreate(&event, CU_EVENT_DEFAULT));
  Busy before(s.stream(0));
  WHERRY_TRY(cuEventRecord(event, s.stream(0)));
  WHERRY_TRY(cuStreamWaitEvent(s.stream(1), event, 0));
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamQuery(s.stream(1)) == CUDA_ERROR_NOT_READY);
  before.leave();
  CHECK(s.wait(1) == CUDA_SUCCESS);
}

TEST_CASE("events end with their context", "[api]") {
  session();
  CUcontext context = nullptr;
  CUevent event = nullptr;
  WHERRY_TRY(cuCtxCreate(&context, nullptr, 0, 0));
  WHERRY_TRY(cuEventCreate(&event, 0));
  WHERRY_TRY(cuEventRecord(event, nullptr));
  WHERRY_TRY(cuCtxDestroy(context));
  CHECK(cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventDestroy(event) == CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace wherry::test::event_test
