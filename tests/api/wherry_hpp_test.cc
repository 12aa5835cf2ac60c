#include <wherry/wherry.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.h"

namespace wherry::test::wherry_hpp_test {

namespace {

const wherry::runtime& library() {
  ::setenv("WHERRY_DEVICES", "capacity=64M;capacity=64M", 1);
  static const wherry::runtime the_library;
  return the_library;
}

bool is_managed(const void* address) {
  wherryPageState info{};
  info.size = sizeof info;
  return wherryGetPageState(address, &info) == CUDA_SUCCESS;
}

}  // namespace

TEST_CASE("a lambda runs once for every index, on the device", "[api]") {
  const auto devices = library().devices();
  REQUIRE(devices.size() == 2);
  for (const wherry::device& device : devices) {
    wherry::stream stream(device);
    wherry::managed_array<int> hits(10'000);
    wherry::managed_array<pid_t> pids(1);
    stream.parallel_for(hits.size(), [hits = hits.span(), pids = pids.data()](std::size_t i) {
      hits[i] += 1;
      if (i == 0) *pids = ::getpid();
    });
    stream.synchronize();
    CHECK(std::all_of(hits.begin(), hits.end(), [](int n) { return n == 1; }));
    CHECK(pids[0] == device.process());
    CHECK(stream.idle());
  }
}

TEST_CASE("a lambda that takes a range gets pieces that cover it", "[api]") {
  library();
  wherry::stream stream(wherry::device(0));
  wherry::managed_array<std::atomic<std::size_t>> sums(2);
  stream.parallel_for(1000, [sums = sums.data()](std::size_t begin, std::size_t end) {
    sums[0] += end - begin;
    for (std::size_t i = begin; i < end; ++i) sums[1] += i;
  });
  stream.synchronize();
  CHECK(sums[0] == 1000);
  CHECK(sums[1] == 999 * 1000 / 2);
}

TEST_CASE("streams keep their order, with host functions in between", "[api]") {
  library();
  wherry::stream stream(wherry::device(1));
  wherry::managed_array<int> value{1};
  int seen = 0;
  stream.parallel_for(1, [v = value.data()](std::size_t) { *v = *v * 3; });
  stream.then([&] { seen = value[0]; });
  stream.parallel_for(1, [v = value.data()](std::size_t) { *v = *v + 4; });
  stream.synchronize();
  CHECK(seen == 3);
  CHECK(value[0] == 7);

  SECTION("and can be moved during their work") {
    stream.parallel_for(1, [v = value.data()](std::size_t) { *v += 1; });
    wherry::stream moved(std::move(stream));
    moved.parallel_for(1, [v = value.data()](std::size_t) { *v += 1; });
    stream = wherry::stream(wherry::device(0));
    moved.synchronize();
    stream.synchronize();
    CHECK(value[0] == 9);
  }
}

TEST_CASE("a stream waits for another's event, and events return the time between them", "[api]") {
  library();
  const wherry::device here(0);
  const wherry::device there(1);
  wherry::stream first(here);
  wherry::stream second(there, CU_STREAM_NON_BLOCKING, -1);
  wherry::managed_array<int> values(2);
  wherry::event start(here);
  wherry::event middle(here);
  wherry::event end(there, CU_EVENT_DISABLE_TIMING);
  CHECK(start.done());
  first.record(start);
  first.then([&] { values[0] = 17; });
  first.record(middle);
  second.wait(middle);
  second.parallel_for(1, [values = values.data()](std::size_t) { values[1] = values[0] + 1; });
  second.record(end);
  const wherry::event moved = std::move(end);
  moved.synchronize();
  CHECK(values[1] == 18);
  CHECK(middle.done());
  CHECK(middle.milliseconds_since(start) >= 0.0f);
  CHECK_THROWS_AS(second.record(middle), wherry::error);  // an event of another device
}

TEST_CASE("a stream that will not call a function still destroys it", "[api]") {
  library();
  const wherry::device device(1);
  const auto held = std::make_shared<int>(0);
  wherry::stream stream(device);
  wherry::managed_array<std::atomic<int>> go(1);
  stream.parallel_for(1, [go = go.data()](std::size_t) {
    while (*go == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::abort();
  });
  stream.then([held] { *held = 1; });
  CHECK(held.use_count() > 1);
  go[0] = 1;
  CHECK_THROWS_AS(stream.synchronize(), wherry::error);
  for (int i = 0; i < 20'000 && held.use_count() > 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(held.use_count() == 1);
  CHECK(*held == 0);
  device.reset();
}

TEST_CASE("arrays are zero at first, take values, and move without copying", "[api]") {
  library();
  wherry::managed_array<double> zeros(5000);
  CHECK(std::accumulate(zeros.begin(), zeros.end(), 0.0) == 0.0);
  const std::vector<int> values{3, 1, 4, 1, 5};
  wherry::managed_array<int> array{std::span<const int>(values)};
  CHECK(std::equal(values.begin(), values.end(), array.begin(), array.end()));
  const int* place = array.data();
  wherry::managed_array<int> moved(std::move(array));
  CHECK(moved.data() == place);
  CHECK(array.empty());
  CHECK(is_managed(place));
  CHECK(moved.address() == reinterpret_cast<CUdeviceptr>(place));
  moved = wherry::managed_array<int>{2, 7};
  CHECK(moved.size() == 2);
  CHECK(moved[1] == 7);
  CHECK_FALSE(is_managed(place));
  CHECK(wherry::managed_array<int>().empty());
  CHECK(wherry::managed_array<int>(std::size_t{0}).empty());
}

TEST_CASE("containers live in managed memory through the allocator and the resource", "[api]") {
  library();
  std::vector<double, wherry::managed_allocator<double>> numbers(1000, 1.5);
  CHECK(is_managed(numbers.data()));
  wherry::managed_resource resource;
  std::pmr::vector<int> ints(1000, 2, &resource);
  CHECK(is_managed(ints.data()));
  CHECK(resource == wherry::managed_resource());
  CHECK_FALSE(resource == *std::pmr::new_delete_resource());
  CHECK(wherry::managed_allocator<int>() == wherry::managed_allocator<double>());

  wherry::stream stream(wherry::device(0));
  stream.parallel_for(
      1000, [n = std::span(numbers), i = std::span(ints)](std::size_t k) { n[k] += i[k]; });
  stream.synchronize();
  CHECK(numbers[999] == 3.5);

  CHECK_THROWS_AS(wherry::managed_allocator<double>().allocate(std::size_t{1} << 57),
                  std::bad_alloc);
  CHECK_THROWS_AS(wherry::managed_allocator<double>().allocate(SIZE_MAX),
                  std::bad_array_new_length);
  CHECK_THROWS_AS((void)resource.allocate(std::size_t{1} << 60), std::bad_alloc);
}

TEST_CASE("a prefetching resource sends what another resource allocates to a device", "[api]") {
  const auto devices = library().devices();
  const wherry::stream stream(devices[1]);
  wherry::managed_resource managed;
  wherry::prefetching_resource resource(managed, devices[1], stream);
  void* const pointer = resource.allocate(20'000, 64);
  stream.synchronize();
  for (std::size_t page = 0; page < 20'000; page += 4096)
    CHECK(library().page_state(static_cast<char*>(pointer) + page).resident == 1u << 2);
  resource.deallocate(pointer, 20'000, 64);
  CHECK_FALSE(is_managed(pointer));

  CHECK(resource == wherry::prefetching_resource(managed, wherry::host, stream));
  CHECK_FALSE(resource == managed);
  wherry::prefetching_resource of_ordinary(*std::pmr::new_delete_resource(), devices[1], stream);
  CHECK_THROWS_AS((void)of_ordinary.allocate(4096), wherry::error);
}

TEST_CASE("a page is explained as values and as text", "[api]") {
  wherry::managed_array<double> array(10'000);
  array[0] = 1;
  wherry::advise(array.span(), wherry::advice::set_preferred_location, wherry::host);
  const wherryExplanation explanation = library().explain_page(array.data());
  CHECK(explanation.page == array.address());
  CHECK(explanation.resident == 1);
  CHECK(explanation.preferred_location == 0);
  REQUIRE(explanation.decisions > 0);
  CHECK(explanation.decision[0].destination == 0);
  const std::string text = library().describe_page(array.data());
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("preferred"));
  CHECK(text.size() == std::strlen(text.c_str()));
  const int not_managed = 0;
  CHECK_THROWS_AS(library().explain_page(&not_managed), wherry::error);
  CHECK_THROWS_AS(library().describe_page(&not_managed), wherry::error);
}

TEST_CASE("ranges can be named", "[api]") {
  library();
  wherry::managed_array<double> array(10'000);
  wherry::name_range(array.span(), "matrix.values");
  wherry::name_range(std::as_const(array).span().subspan(5, 7), "part");
  wherry::name_range(std::span<double>(), "");
  CHECK_THROWS_AS(wherry::name_range(array.span(), ""), wherry::error);
  CHECK_THROWS_AS(wherry::name_range(array.span(), std::string(256, 'x')), wherry::error);
}

TEST_CASE("advice takes spans and typed locations, with or without a current context", "[api]") {
  const auto devices = library().devices();
  wherry::managed_array<double> array(10'000);
  const CUcontext context = devices[0].context();
  const auto attribute = [&](CUmem_range_attribute which) {
    int value = -77;
    REQUIRE(cuCtxPushCurrent(context) == CUDA_SUCCESS);
    CHECK(cuMemRangeGetAttribute(&value, sizeof value, which, array.address(),
                                 array.size_bytes()) == CUDA_SUCCESS);
    REQUIRE(cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
    return value;
  };
  using wherry::advice;
  wherry::advise(array.span(), advice::set_read_mostly);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 1);
  wherry::advise(std::as_const(array).span(), advice::unset_read_mostly);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 0);

  wherry::advise(array.span(), advice::set_preferred_location, devices[1]);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == 1);
  wherry::advise(array.span(), advice::set_preferred_location, wherry::host);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE) == CU_MEM_LOCATION_TYPE_HOST);
  const int node = devices[0].attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
  wherry::advise(array.span(), advice::set_preferred_location, wherry::host_node{node});
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE) ==
        CU_MEM_LOCATION_TYPE_HOST_NUMA);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID) == node);
  wherry::advise(array.span(), advice::unset_preferred_location);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE) == CU_MEM_LOCATION_TYPE_INVALID);
  wherry::advise(array.span(), advice::set_preferred_location, wherry::host_node_current);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == CU_DEVICE_CPU);

  wherry::advise(array.span(), advice::set_accessed_by, devices[1]);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) == 1);
  wherry::advise(array.span(), advice::unset_accessed_by, devices[1]);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) == CU_DEVICE_INVALID);

  wherry::advise(std::span<int>(), advice::set_read_mostly);
  std::vector<int> not_managed(10);
  try {
    wherry::advise(std::span(not_managed), advice::set_read_mostly);
    FAIL("the memory is not managed");
  } catch (const wherry::error& error) {
    CHECK(error.code() == CUDA_ERROR_INVALID_VALUE);
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("cuMemAdvise"));
  }
  CHECK_THROWS_AS(
      wherry::advise(array.span(), advice::set_preferred_location, wherry::host_node{9999}),
      wherry::error);
}

TEST_CASE("errors carry the code, the call and a description", "[api]") {
  library();
  try {
    const wherry::device missing(7);
    FAIL("there is no device 7");
  } catch (const wherry::error& error) {
    CHECK(error.code() == CUDA_ERROR_INVALID_DEVICE);
    CHECK_THAT(error.what(), Catch::Matchers::ContainsSubstring("cuDeviceGet") &&
                                 Catch::Matchers::ContainsSubstring("CUDA_ERROR_INVALID_DEVICE") &&
                                 Catch::Matchers::ContainsSubstring("invalid device ordinal"));
  }
  CHECK_THROWS_AS(wherry::managed_array<double>(std::size_t{1} << 57), wherry::error);
}

TEST_CASE("these functions do not change which context is current", "[api]") {
  library();
  CUcontext before = nullptr;
  CUcontext after = nullptr;
  cuCtxGetCurrent(&before);
  {
    const wherry::device device(1);
    wherry::stream stream(device);
    wherry::managed_array<int> array(10);
    stream.parallel_for(1, [a = array.data()](std::size_t) { *a = 1; });
    device.synchronize();
    CHECK(device.free_memory() <= device.total_memory());
    CHECK(array[0] == 1);
  }
  cuCtxGetCurrent(&after);
  CHECK(before == after);
}

TEST_CASE("a device that failed works again after a reset", "[api]") {
  const wherry::device device = library().device(0);
  wherry::managed_array<int> array{1, 2, 3};
  {
    wherry::stream stream(device);
    stream.parallel_for(1, [nowhere = std::uintptr_t{0x10}](std::size_t) {
      *reinterpret_cast<volatile int*>(nowhere) = 1;
    });
    try {
      stream.synchronize();
      FAIL("the kernel was not legal");
    } catch (const wherry::error& error) {
      CHECK(error.code() == CUDA_ERROR_ILLEGAL_ADDRESS);
    }
  }
  device.reset();
  wherry::stream stream(device);
  stream.parallel_for(3, [a = array.span()](std::size_t i) { a[i] *= 2; });
  stream.synchronize();
  CHECK(array[2] == 6);
}

}  // namespace wherry::test::wherry_hpp_test
