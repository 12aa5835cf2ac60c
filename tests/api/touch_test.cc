// Results of wherryTouchPages. system/touch_test tests its effect on pages.
#include <wherry/wherry.hpp>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::touch_test {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr unsigned both = WHERRY_TOUCH_READ | WHERRY_TOUCH_WRITE;

const Session& session() {
  static const Session the_session("capacity=16M;capacity=16M");
  return the_session;
}

}  // namespace

TEST_CASE("before cuInit and in a forked child no memory can be touched", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    char local = 0;
    expect(wherryTouchPages(&local, 1, both) == CUDA_ERROR_NOT_INITIALIZED, "before cuInit");
    const Session fresh("capacity=16M");
    const Managed<char> memory(page_bytes);
    Child child([&] {
      expect(wherryTouchPages(memory.data(), 1, both) == CUDA_ERROR_NOT_INITIALIZED,
             "managed memory");
      expect(wherryTouchPages(&local, 1, both) == CUDA_ERROR_NOT_INITIALIZED, "other memory");
    });
    const Outcome in_child = child.wait(20'000);
    expect(in_child.passed(), in_child.describe());
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("wherryTouchPages works in a new device process", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    Session fresh("capacity=16M");
    const Managed<CUresult> answer(1);
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    fresh.renew_stream(0);
    fresh.run(0, [to = answer.data()] { *to = wherryTouchPages(to, sizeof *to, both); });
    expect(answer[0] == CUDA_SUCCESS, name_of(answer[0]));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a range inside one managed allocation is touched", "[api]") {
  session();
  const Managed<char> memory(3 * page_bytes + 100);
  for (const unsigned flags : {WHERRY_TOUCH_READ, WHERRY_TOUCH_WRITE, both}) {
    CAPTURE(flags);
    CHECK(wherryTouchPages(memory.data(), memory.bytes(), flags) == CUDA_SUCCESS);
    CHECK(wherryTouchPages(memory.data() + 7, 1, flags) == CUDA_SUCCESS);
    CHECK(wherryTouchPages(memory.data() + memory.size() - 1, 1, flags) == CUDA_SUCCESS);
    CHECK(wherryTouchPages(memory.data() + page_bytes - 1, page_bytes + 2, flags) == CUDA_SUCCESS);
  }
}

TEST_CASE("memory that is not managed is ignored", "[api]") {
  session();
  char local = 1;
  CHECK(wherryTouchPages(&local, 1, WHERRY_TOUCH_WRITE) == CUDA_SUCCESS);
  CHECK(wherryTouchPages("constant", 8, WHERRY_TOUCH_WRITE) == CUDA_SUCCESS);
  CHECK(wherryTouchPages(reinterpret_cast<void*>(page_bytes), page_bytes, both) == CUDA_SUCCESS);
}

TEST_CASE("invalid ranges, and flags without an access, are refused", "[api]") {
  session();
  const Managed<char> memory(page_bytes);
  CHECK(wherryTouchPages(nullptr, 1, WHERRY_TOUCH_READ) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(memory.data(), 0, WHERRY_TOUCH_READ) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(memory.data(), SIZE_MAX, WHERRY_TOUCH_READ) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(memory.data(), 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(memory.data(), 1, 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(memory.data(), 1, 4 | WHERRY_TOUCH_READ) == CUDA_ERROR_INVALID_VALUE);
  char local = 0;
  CHECK(wherryTouchPages(&local, 1, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a range that leaves its allocation is refused, and nothing is touched", "[api]") {
  session();
  const Managed<char> memory(16 * page_bytes), neighbour(16 * page_bytes);
  CHECK(wherryTouchPages(memory.data(), 17 * page_bytes, both) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(neighbour.data(), 17 * page_bytes, both) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(memory.data() - page_bytes, 2 * page_bytes, both) ==
        CUDA_ERROR_INVALID_VALUE);
  // From far below the arena to far above it.
  CHECK(wherryTouchPages(reinterpret_cast<void*>(page_bytes),
                         (std::size_t{1} << 47) - 2 * page_bytes,
                         both) == CUDA_ERROR_INVALID_VALUE);
  const Witness witness;
  CHECK(witness.residents(memory.data()) == 0);
  CHECK(witness.residents(neighbour.data()) == 0);
}

TEST_CASE("freed memory is refused, and device memory except in kernels of its device", "[api]") {
  session();
  const Managed<CUresult> answers(3);
  CUdeviceptr own = 0;
  WHERRY_TRY(cuMemAlloc(&own, page_bytes));
  Managed<char> memory(16 * page_bytes);
  char* const start = memory.data();
  memory.free();
  CHECK(wherryTouchPages(start, 1, WHERRY_TOUCH_READ) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryTouchPages(reinterpret_cast<void*>(own), 1, both) == CUDA_ERROR_INVALID_VALUE);
  // A kernel may touch its own device's memory.
  session().run(0, [to = answers.data(), own, start] {
    to[0] = wherryTouchPages(reinterpret_cast<void*>(own), page_bytes, both);
    to[1] = wherryTouchPages(to, sizeof *to, both);
    to[2] = wherryTouchPages(start, 1, both);
  });
  CHECK(answers[0] == CUDA_SUCCESS);
  CHECK(answers[1] == CUDA_SUCCESS);
  CHECK(answers[2] == CUDA_ERROR_INVALID_VALUE);
  session().run(1, [to = answers.data(), own] {
    to[0] = wherryTouchPages(reinterpret_cast<void*>(own), page_bytes, both);
  });
  CHECK(answers[0] == CUDA_ERROR_INVALID_VALUE);
  WHERRY_TRY(cuMemFree(own));
}

TEST_CASE("host functions may touch", "[api]") {
  const Managed<char> memory((session(), page_bytes));
  struct Work {
    char* memory;
    CUresult result;
  } work{memory.data(), CUDA_ERROR_UNKNOWN};
  WHERRY_TRY(cuLaunchHostFunc(
      session().stream(0),
      [](void* data) {
        Work& own = *static_cast<Work*>(data);
        own.result = wherryTouchPages(own.memory, page_bytes, WHERRY_TOUCH_WRITE);
      },
      &work));
  WHERRY_TRY(session().wait(0));
  CHECK(work.result == CUDA_SUCCESS);
}

TEST_CASE("C++ programs touch the memory of spans", "[api]") {
  session();
  wherry::managed_array<int> array(5000);
  wherry::touch_for_writing(array.span());
  CHECK(Witness{}.writers(&array[4999]) == 1);
  wherry::touch_for_reading(std::span<const int>(array.span()));
  wherry::touch_for_reading(std::span<const int>());
  const int* const freed = array.data();
  array = {};
  CHECK_THROWS_AS(wherry::touch_for_reading(std::span(freed, 1)), wherry::error);
}

}  // namespace wherry::test::touch_test
