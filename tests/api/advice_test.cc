// Results of advice for right and wrong arguments, and the attributes afterwards. Where a real
// driver's result was recorded, the test requires the same result.
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <array>
#include <random>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/locations.h"
#include "support/session.h"

namespace wherry::test::locations::advice_test {

namespace {

constexpr std::size_t page = 4096;
constexpr int untouched = -77;

// Device 2 does not support concurrent access with the host.
const Session& session() {
  static const Session the_session("capacity=16M;capacity=16M;capacity=16M,concurrent=0");
  return the_session;
}

constexpr std::array all_advice{
    CU_MEM_ADVISE_SET_READ_MOSTLY,        CU_MEM_ADVISE_UNSET_READ_MOSTLY,
    CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
    CU_MEM_ADVISE_SET_ACCESSED_BY,        CU_MEM_ADVISE_UNSET_ACCESSED_BY};

// An allocation of managed pages.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    session();
    WHERRY_TRY(cuMemAllocManaged(&address_, bytes, CU_MEM_ATTACH_GLOBAL));
  }
  ~Pages() { cuMemFree(address_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  CUdeviceptr address() const { return address_; }

  CUresult advise(CUmem_advise advice, CUmemLocation where = host) const {
    return cuMemAdvise(address_, bytes_, advice, where);
  }
  CUresult advise_pages(std::size_t first, std::size_t count, CUmem_advise advice,
                        CUmemLocation where = host) const {
    return cuMemAdvise(address_ + first * page, count * page, advice, where);
  }

  int attribute(CUmem_range_attribute attribute) const { return of(0, bytes_, attribute); }
  int of_page(std::size_t index, CUmem_range_attribute attribute) const {
    return of(index * page, 1, attribute);
  }
  std::vector<int> accessed_by(std::size_t places) const {
    std::vector<int> all(places, untouched);
    WHERRY_TRY(cuMemRangeGetAttribute(all.data(), places * sizeof(int),
                                      CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, address_, bytes_));
    return all;
  }

 private:
  int of(std::size_t offset, std::size_t bytes, CUmem_range_attribute attribute) const {
    int value = untouched;
    WHERRY_TRY(cuMemRangeGetAttribute(&value, sizeof value, attribute, address_ + offset, bytes));
    return value;
  }

  std::size_t bytes_;
  CUdeviceptr address_ = 0;
};

// The values of all attributes, in the order of `all_attributes`.
std::vector<int> everything(const Pages& pages) {
  std::vector<int> all;
  for (const CUmem_range_attribute attribute : all_attributes)
    all.push_back(pages.attribute(attribute));
  return all;
}
const std::vector<int> nothing{0, -2, -2, -2, 0, -2, 0, -2};

}  // namespace

TEST_CASE("memory that the library did not allocate is refused if no device can access it",
          "[api]") {
  session();
  for (int ordinal = 0; ordinal < 3; ++ordinal) {
    int value = -1;
    WHERRY_TRY(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, ordinal));
    CHECK(value == 0);
  }
  alignas(page) char on_stack[page] = {1};
  std::vector<char> allocated(page, 1);
  for (char* const memory : {&on_stack[0], allocated.data()}) {
    const auto address = reinterpret_cast<CUdeviceptr>(memory);
    for (const CUmem_advise advice : all_advice)
      for (const CUmemLocation where : {host, device(0)})
        CHECK(cuMemAdvise(address, page, advice, where) == CUDA_ERROR_INVALID_VALUE);
    for (const CUmemLocation where : {host, device(0), device(2)}) {
      CHECK(cuMemPrefetchAsync(address, page, where, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
    }
    for (const CUmem_range_attribute attribute : all_attributes) {
      int value = untouched;
      CHECK(cuMemRangeGetAttribute(&value, sizeof value, attribute, address, page) ==
            CUDA_ERROR_INVALID_VALUE);
      CHECK(value == untouched);
    }
  }
}

TEST_CASE("each advice is visible in its attributes, and its opposite removes it", "[api]") {
  const Pages pages(16 * page);
  CHECK(everything(pages) == nothing);

  CHECK(pages.advise(CU_MEM_ADVISE_SET_READ_MOSTLY) == CUDA_SUCCESS);
  CHECK(everything(pages) == std::vector<int>{1, -2, -2, -2, 0, -2, 0, -2});
  CHECK(pages.advise(CU_MEM_ADVISE_UNSET_READ_MOSTLY) == CUDA_SUCCESS);
  CHECK(everything(pages) == nothing);

  CHECK(pages.advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(1)) == CUDA_SUCCESS);
  CHECK(everything(pages) == std::vector<int>{0, 1, -2, -2, CU_MEM_LOCATION_TYPE_DEVICE, 1, 0, -2});
  CHECK(pages.advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host) == CUDA_SUCCESS);
  CHECK(everything(pages) == std::vector<int>{0, -1, -2, -2, CU_MEM_LOCATION_TYPE_HOST, -1, 0, -2});
  CHECK(pages.advise(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION) == CUDA_SUCCESS);
  CHECK(everything(pages) == nothing);

  CHECK(pages.advise(CU_MEM_ADVISE_SET_ACCESSED_BY, host) == CUDA_SUCCESS);
  CHECK(pages.advise(CU_MEM_ADVISE_SET_ACCESSED_BY, device(1)) == CUDA_SUCCESS);
  CHECK(pages.advise(CU_MEM_ADVISE_SET_ACCESSED_BY, device(0)) == CUDA_SUCCESS);
  CHECK(pages.accessed_by(5) == std::vector<int>{0, 1, -1, -2, -2});
  CHECK(pages.accessed_by(2) == std::vector<int>{0, 1});
  CHECK(pages.advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, device(0)) == CUDA_SUCCESS);
  CHECK(pages.accessed_by(1000)[0] == 1);
  CHECK(pages.accessed_by(1000)[999] == CU_DEVICE_INVALID);
  CHECK(pages.advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, host) == CUDA_SUCCESS);
  CHECK(pages.advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, device(1)) == CUDA_SUCCESS);
  CHECK(everything(pages) == nothing);
}

TEST_CASE("a node of the host can be preferred by its number, or as the caller's own", "[api]") {
  const Pages pages(page);
  int node = -1;
  WHERRY_TRY(cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0));
  for (const CUmemLocation& where : {host_node(node), current_node}) {
    CHECK(pages.advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, where) == CUDA_SUCCESS);
    CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == CU_DEVICE_CPU);
    CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE) ==
          CU_MEM_LOCATION_TYPE_HOST_NUMA);
    CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID) >= 0);
    CHECK(pages.advise(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, where) == CUDA_SUCCESS);
  }
  for (const int invalid : {-1, 9999}) {
    CHECK(pages.advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host_node(invalid)) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  for (const CUmemLocation& where : {host_node(node), current_node}) {
    CHECK(pages.advise(CU_MEM_ADVISE_SET_ACCESSED_BY, where) == CUDA_ERROR_INVALID_VALUE);
    CHECK(pages.advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, where) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(everything(pages) == nothing);
}

TEST_CASE("read-mostly and unsetting a preference ignore the location, but not its type", "[api]") {
  const Pages pages(page);
  for (const CUmem_advise advice : {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY,
                                    CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION}) {
    for (const CUmemLocation& where :
         {device(99), device(-2), device(2), host, host_node(9999), current_node})
      CHECK(pages.advise(advice, where) == CUDA_SUCCESS);
    for (const int type : {0, 5, 99, 0x7fffffff})
      CHECK(pages.advise(advice, {static_cast<CUmemLocationType>(type), 0}) ==
            CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE("a device must exist and be accessible concurrently with the host", "[api]") {
  const Pages pages(page);
  for (const CUmem_advise advice :
       {CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY}) {
    for (const int invalid : {-2, -1, 3, 99})
      CHECK(pages.advise(advice, device(invalid)) == CUDA_ERROR_INVALID_VALUE);
    CHECK(pages.advise(advice, device(2)) == CUDA_ERROR_INVALID_DEVICE);
  }
  CHECK(pages.advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, device(3)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(pages.advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, device(2)) == CUDA_SUCCESS);
  CHECK(everything(pages) == nothing);
  int direct = 0;
  CHECK(cuDeviceGetAttribute(&direct, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0) ==
        CUDA_SUCCESS);
  CHECK(direct == 1);
}

TEST_CASE("advice that does not exist is refused", "[api]") {
  const Pages pages(page);
  for (const int advice : {0, 7, 99})
    CHECK(pages.advise(static_cast<CUmem_advise>(advice)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(everything(pages) == nothing);
}

TEST_CASE("the start is rounded down and the end up, to whole pages", "[api]") {
  struct Case {
    std::size_t offset, count;
    std::vector<int> pages;
  };
  for (const auto& [offset, count, expected] :
       {Case{0, 1, {1, 0, 0, 0}}, Case{4095, 1, {1, 0, 0, 0}}, Case{4095, 2, {1, 1, 0, 0}},
        Case{1, 4096, {1, 1, 0, 0}}, Case{2048, 4096, {1, 1, 0, 0}}, Case{4096, 4096, {0, 1, 0, 0}},
        Case{100, 12000, {1, 1, 1, 0}}, Case{16383, 1, {0, 0, 0, 1}}}) {
    CAPTURE(offset, count);
    const Pages pages(4 * page);
    CHECK(cuMemAdvise(pages.address() + offset, count, CU_MEM_ADVISE_SET_READ_MOSTLY, host) ==
          CUDA_SUCCESS);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(pages.of_page(i, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == expected[i]);
  }
}

TEST_CASE("a range that is not inside one allocation is refused, and nothing changes", "[api]") {
  const Pages pages(5000);
  const CUdeviceptr at = pages.address();
  int on_the_stack = 0;
  const auto elsewhere = reinterpret_cast<CUdeviceptr>(&on_the_stack);
  CUdeviceptr freed = 0;
  WHERRY_TRY(cuMemAllocManaged(&freed, page, CU_MEM_ATTACH_GLOBAL));
  WHERRY_TRY(cuMemFree(freed));
  struct Range {
    CUdeviceptr first;
    std::size_t count;
  };
  for (const auto& [first, count] :
       {Range{at, 0}, Range{at, 5001}, Range{at, 8192}, Range{at + 5000, 1}, Range{at + 6000, 1},
        Range{at - 1, 2}, Range{0, page}, Range{elsewhere, 4}, Range{freed, 1}}) {
    CAPTURE(first - at, count);
    for (const CUmem_advise advice : all_advice)
      CHECK(cuMemAdvise(first, count, advice, host) == CUDA_ERROR_INVALID_VALUE);
    for (const CUmem_range_attribute attribute : all_attributes) {
      int value = untouched;
      CHECK(cuMemRangeGetAttribute(&value, sizeof value, attribute, first, count) ==
            CUDA_ERROR_INVALID_VALUE);
      CHECK(value == untouched);
    }
  }
  for (const std::size_t endless : {~std::size_t{0}, ~std::size_t{0} - page + 1})
    CHECK(cuMemAdvise(at, endless, CU_MEM_ADVISE_SET_READ_MOSTLY, host) ==
          CUDA_ERROR_INVALID_VALUE);
  CHECK(everything(pages) == nothing);
  CHECK(cuMemAdvise(at, 5000, CU_MEM_ADVISE_SET_READ_MOSTLY, host) == CUDA_SUCCESS);
  CHECK(pages.of_page(0, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 1);
}

TEST_CASE("two neighbouring allocations are not a valid range", "[api]") {
  constexpr std::size_t size = std::size_t{2} << 20;
  const Pages a(size);
  const Pages b(size);
  const CUdeviceptr low = std::min(a.address(), b.address());
  REQUIRE(std::max(a.address(), b.address()) == low + size);
  CHECK(cuMemAdvise(low, 2 * size, CU_MEM_ADVISE_SET_READ_MOSTLY, host) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(everything(a) == nothing);
  CHECK(everything(b) == nothing);
}

TEST_CASE("a mixed range has the attributes that all its pages have", "[api]") {
  const Pages pages(4 * page);
  int node = -1;
  WHERRY_TRY(cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0));
  WHERRY_TRY(pages.advise_pages(0, 3, CU_MEM_ADVISE_SET_READ_MOSTLY));
  WHERRY_TRY(pages.advise_pages(0, 2, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
  WHERRY_TRY(pages.advise_pages(2, 2, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host_node(node)));
  WHERRY_TRY(pages.advise_pages(0, 3, CU_MEM_ADVISE_SET_ACCESSED_BY, device(0)));
  WHERRY_TRY(pages.advise_pages(0, 4, CU_MEM_ADVISE_SET_ACCESSED_BY, device(1)));
  CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 0);
  CHECK(pages.accessed_by(3) == std::vector<int>{1, -2, -2});
  // All pages prefer the host, but not the same node of it.
  CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == CU_DEVICE_CPU);
  CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE) ==
        CU_MEM_LOCATION_TYPE_INVALID);
  CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID) == CU_DEVICE_INVALID);
  CHECK(pages.of_page(2, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID) == node);

  WHERRY_TRY(pages.advise_pages(3, 1, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0)));
  CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == CU_DEVICE_INVALID);
  WHERRY_TRY(pages.advise_pages(3, 1, CU_MEM_ADVISE_SET_READ_MOSTLY));
  CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 1);
  // Unset in the middle, and never set elsewhere: both read the same.
  WHERRY_TRY(pages.advise(CU_MEM_ADVISE_UNSET_READ_MOSTLY));
  CHECK(pages.attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) == 0);
}

TEST_CASE("an attribute has one size, and accessed-by takes any number of entries", "[api]") {
  const Pages pages(page);
  std::array<int, 9> data{};
  for (const CUmem_range_attribute attribute : all_attributes) {
    for (const std::size_t size : {0, 1, 2, 3, 4, 5, 6, 8, 12, 32}) {
      CAPTURE(attribute, size);
      const bool fits =
          attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ? size != 0 && size % 4 == 0 : size == 4;
      data.fill(untouched);
      CHECK(cuMemRangeGetAttribute(data.data(), size, attribute, pages.address(), page) ==
            (fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
      CHECK((data[0] == untouched) == !fits);
      CHECK(data[fits ? size / 4 : 0] == untouched);
    }
    CHECK(cuMemRangeGetAttribute(nullptr, 4, attribute, pages.address(), page) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  for (const int attribute : {0, 9, 15})
    CHECK(cuMemRangeGetAttribute(data.data(), 4, static_cast<CUmem_range_attribute>(attribute),
                                 pages.address(), page) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("attributes cover whole pages from the first byte's page on, count rounded up", "[api]") {
  const Pages pages(4 * page);
  WHERRY_TRY(pages.advise_pages(0, 2, CU_MEM_ADVISE_SET_READ_MOSTLY));
  const auto read_mostly = [&](std::size_t offset, std::size_t count) {
    int value = untouched;
    const CUresult result = cuMemRangeGetAttribute(
        &value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, pages.address() + offset, count);
    return result == CUDA_SUCCESS ? value : untouched;
  };
  CHECK(read_mostly(0, 2 * page) == 1);
  CHECK(read_mostly(0, 2 * page + 1) == 0);
  CHECK(read_mostly(2 * page - 1, 2) == 1);
  CHECK(read_mostly(2 * page, 1) == 0);
  CHECK(read_mostly(4 * page - 1, 1) == 0);
  CHECK(read_mostly(2 * page, ~std::size_t{0}) == 1);  // past the last address: covers no page
}

TEST_CASE("several attributes are returned at once, or none", "[api]") {
  const Pages pages(2 * page);
  WHERRY_TRY(pages.advise(CU_MEM_ADVISE_SET_READ_MOSTLY));
  WHERRY_TRY(pages.advise(CU_MEM_ADVISE_SET_ACCESSED_BY, device(1)));
  int read_mostly = untouched;
  std::array<int, 2> accessed_by{untouched, untouched};
  std::array<void*, 2> data{&read_mostly, accessed_by.data()};
  std::array<std::size_t, 2> sizes{sizeof read_mostly, sizeof accessed_by};
  std::array attributes{CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
  const auto get = [&](std::size_t count) {
    return cuMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), count,
                                   pages.address(), 2 * page);
  };

  SECTION("with correct arguments") {
    CHECK(get(2) == CUDA_SUCCESS);
    CHECK(read_mostly == 1);
    CHECK(accessed_by == std::array<int, 2>{1, CU_DEVICE_INVALID});
    return;
  }
  SECTION("unless no attribute is requested") {
    CHECK(get(0) == CUDA_ERROR_INVALID_VALUE);
  }
  SECTION("unless a size is wrong") {
    sizes[1] = 6;
    CHECK(get(2) == CUDA_ERROR_INVALID_VALUE);
  }
  SECTION("unless an attribute does not exist") {
    attributes[1] = static_cast<CUmem_range_attribute>(9);
    CHECK(get(2) == CUDA_ERROR_INVALID_VALUE);
  }
  SECTION("unless a result pointer is missing") {
    data[1] = nullptr;
    CHECK(get(2) == CUDA_ERROR_INVALID_VALUE);
  }
  SECTION("unless an array is missing") {
    CHECK(cuMemRangeGetAttributes(nullptr, sizes.data(), attributes.data(), 2, pages.address(),
                                  page) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemRangeGetAttributes(data.data(), nullptr, attributes.data(), 2, pages.address(),
                                  page) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemRangeGetAttributes(data.data(), sizes.data(), nullptr, 2, pages.address(), page) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(read_mostly == untouched);
  CHECK(accessed_by[0] == untouched);
}

TEST_CASE("memory at a freed address has no advice", "[api]") {
  CUdeviceptr before = 0;
  {
    const Pages pages(3 * page);
    WHERRY_TRY(pages.advise(CU_MEM_ADVISE_SET_READ_MOSTLY));
    WHERRY_TRY(pages.advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0)));
    before = pages.address();
  }
  const Pages pages(3 * page);
  REQUIRE(pages.address() == before);
  CHECK(everything(pages) == nothing);
}

TEST_CASE("advice needs a current context that is alive", "[api]") {
  const Pages pages(page);
  std::thread([&] {
    int value = untouched;
    CHECK(pages.advise(CU_MEM_ADVISE_SET_READ_MOSTLY) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                 pages.address(), page) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(value == untouched);
    CUcontext context = nullptr;
    WHERRY_TRY(cuCtxCreate(&context, nullptr, 0, 0));
    WHERRY_TRY(cuCtxPushCurrent(context));
    WHERRY_TRY(cuCtxDestroy(context));  // this also pops it from the stack once
    CHECK(pages.advise(CU_MEM_ADVISE_SET_READ_MOSTLY) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }).join();
  CHECK(everything(pages) == nothing);
}

TEST_CASE("threads that advise neighbouring pages do not affect each other", "[api]") {
  constexpr std::size_t threads = 4;
  constexpr std::size_t each = 64;
  const Pages pages(threads * each * page);
  std::vector<std::thread> running;
  std::array<std::size_t, threads> wrong{};
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
      std::mt19937 random(static_cast<unsigned>(seed() + t));
      std::vector<int> model(each, 0);
      for (int step = 0; step < 500; ++step) {
        const std::size_t index = random() % each;
        model[index] = static_cast<int>(random() % 2);
        const CUmem_advise advice =
            model[index] != 0 ? CU_MEM_ADVISE_SET_READ_MOSTLY : CU_MEM_ADVISE_UNSET_READ_MOSTLY;
        if (pages.advise_pages(t * each + index, 1, advice) != CUDA_SUCCESS) ++wrong[t];
        const std::size_t asked = random() % each;
        if (pages.of_page(t * each + asked, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) != model[asked])
          ++wrong[t];
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  CHECK(wrong == std::array<std::size_t, threads>{});
}

}  // namespace wherry::test::locations::advice_test
