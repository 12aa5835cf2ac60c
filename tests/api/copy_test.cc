// Results of copies and fills for right and wrong pointers, and their effect on the bytes. Where a
// real driver's result was recorded, the test requires the same result.
#include <sys/mman.h>
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::copy_test {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t MB = std::size_t{1} << 20;

const Session& session() {
  static const Session the_session("capacity=64M;capacity=64M");
  return the_session;
}

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

using Bytes = std::vector<unsigned char>;

Bytes numbered(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 251 + 3);
  return bytes;
}

// A piece of memory of one kind.
struct Kind {
  std::string name;
  CUdeviceptr start = 0;
  bool known = true;  // whether the library knows the memory
  bool for_host = true;
};

class Kinds {
 public:
  Kinds() : heap_(16 * page) {
    session();
    WHERRY_TRY(cuMemAllocManaged(&managed_, 16 * page, CU_MEM_ATTACH_GLOBAL));
    WHERRY_TRY(cuMemAlloc(&device_, 16 * page));
    map_ = ::mmap(nullptr, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    all = {{"managed", managed_},
           {"managed_int", managed_ + 5000},
           {"device", device_, true, false},
           {"device_int", device_ + 5000, true, false},
           {"malloc", address(heap_.data()), false},
           {"mmap", address(map_), false}};
  }
  ~Kinds() {
    cuMemFree(managed_);
    cuMemFree(device_);
    ::munmap(map_, 16 * page);
  }
  Kinds(const Kinds&) = delete;
  Kinds& operator=(const Kinds&) = delete;

  CUdeviceptr managed() const { return managed_; }
  CUdeviceptr device() const { return device_; }
  CUdeviceptr heap() const { return address(heap_.data()); }

  std::vector<Kind> all;

 private:
  CUdeviceptr managed_ = 0;
  CUdeviceptr device_ = 0;
  Bytes heap_;
  void* map_ = nullptr;
};

void put(const Kind& kind, CUdeviceptr at, const Bytes& bytes) {
  if (kind.for_host)
    std::memcpy(pointer(at), bytes.data(), bytes.size());
  else
    WHERRY_TRY(cuMemcpyHtoD(at, bytes.data(), bytes.size()));
}
Bytes get(const Kind& kind, CUdeviceptr at, std::size_t size) {
  Bytes bytes(size);
  if (kind.for_host)
    std::memcpy(bytes.data(), pointer(at), size);
  else
    WHERRY_TRY(cuMemcpyDtoH(bytes.data(), at, size));
  return bytes;
}

enum class Role {
  any,
  host,
  device
};
struct Way {
  const char* name;
  Role to;
  Role from;
  CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, std::size_t count);
};

bool fits(const Kind& kind, Role role) {
  return role == Role::any || (role == Role::host ? kind.for_host : kind.known);
}

CUmemorytype type_of(Role role) {
  return role == Role::any    ? CU_MEMORYTYPE_UNIFIED
         : role == Role::host ? CU_MEMORYTYPE_HOST
                              : CU_MEMORYTYPE_DEVICE;
}

template <typename Copy>
Copy described(Role to, CUdeviceptr to_start, Role from, CUdeviceptr from_start) {
  Copy copy{};
  copy.srcMemoryType = type_of(from);
  copy.dstMemoryType = type_of(to);
  if (from == Role::host)
    copy.srcHost = pointer(from_start);
  else
    copy.srcDevice = from_start;
  if (to == Role::host)
    copy.dstHost = pointer(to_start);
  else
    copy.dstDevice = to_start;
  return copy;
}

template <Role to, Role from>
CUresult copy_rectangle(CUdeviceptr target, CUdeviceptr source, std::size_t count) {
  auto copy = described<CUDA_MEMCPY2D>(to, target, from, source);
  copy.WidthInBytes = count;
  copy.Height = 1;
  return cuMemcpy2D(&copy);
}

CUresult finish(CUresult result) {
  const CUresult done = cuCtxSynchronize();
  return result != CUDA_SUCCESS ? result : done;
}

constexpr Role any = Role::any;
constexpr std::array ways{
    Way{"cuMemcpy", any, any,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) { return cuMemcpy(to, from, n); }},
    Way{"cuMemcpyAsync", any, any,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return finish(cuMemcpyAsync(to, from, n, session().stream(0)));
        }},
    Way{"cuMemcpyHtoD", Role::device, Role::host,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return cuMemcpyHtoD(to, pointer(from), n);
        }},
    Way{"cuMemcpyHtoDAsync", Role::device, Role::host,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return finish(cuMemcpyHtoDAsync(to, pointer(from), n, nullptr));
        }},
    Way{"cuMemcpyDtoH", Role::host, Role::device,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return cuMemcpyDtoH(pointer(to), from, n);
        }},
    Way{"cuMemcpyDtoD", Role::device, Role::device,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return finish(cuMemcpyDtoD(to, from, n));
        }},
    Way{"cuMemcpyPeer", Role::device, Role::device,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return finish(cuMemcpyPeer(to, session().context(0), from, session().context(1), n));
        }},
    Way{"cuMemcpy2D", any, any, copy_rectangle<any, any>},
    Way{"cuMemcpy2D of the host", Role::host, any, copy_rectangle<Role::host, any>},
    Way{"cudaMemcpy", any, any,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return static_cast<CUresult>(
              cudaMemcpy(pointer(to), pointer(from), n, cudaMemcpyDefault));
        }},
    Way{"cudaMemcpy to the host", Role::host, Role::device,
        [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return static_cast<CUresult>(
              cudaMemcpy(pointer(to), pointer(from), n, cudaMemcpyDeviceToHost));
        }},
    Way{"cudaMemcpyAsync", any, any, [](CUdeviceptr to, CUdeviceptr from, std::size_t n) {
          return finish(static_cast<CUresult>(
              cudaMemcpyAsync(pointer(to), pointer(from), n, cudaMemcpyDefault)));
        }}};

}  // namespace

TEST_CASE("each kind of memory is copied to each other kind that the function accepts", "[api]") {
  const Kinds kinds;
  const Bytes data = numbered(4096);
  const Bytes zero(4096);
  for (const Way& way : ways)
    for (const Kind& to : kinds.all)
      for (const Kind& from : kinds.all) {
        const CUdeviceptr target = to.start + 6 * page;
        put(from, from.start, data);
        put(to, target, zero);
        const bool fit = fits(to, way.to) && fits(from, way.from);
        INFO(way.name << ": " << to.name << " from " << from.name);
        CHECK(way.copy(target, from.start, 4096) ==
              (fit ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
        CHECK(get(to, target, 4096) == (fit ? data : zero));
      }
}

TEST_CASE("a copy of zero bytes accepts any pointers, a larger copy no null pointers", "[api]") {
  const Kinds kinds;
  for (const Way& way : ways) {
    INFO(way.name);
    CHECK(way.copy(0, 0, 0) == CUDA_SUCCESS);
    CHECK(way.copy(3, kinds.managed(), 0) == CUDA_SUCCESS);
    CHECK(way.copy(kinds.managed(), ~CUdeviceptr{0}, 0) == CUDA_SUCCESS);
    CHECK(way.copy(0, kinds.managed(), 16) == CUDA_ERROR_INVALID_VALUE);
    CHECK(way.copy(kinds.managed(), 0, 16) == CUDA_ERROR_INVALID_VALUE);
    CHECK(way.copy(kinds.managed(), kinds.managed() + 100, 4096) ==
          CUDA_SUCCESS);  // no particular result is required
  }
}

TEST_CASE("a copy past the end of an allocation does nothing", "[api]") {
  session();
  for (const bool is_managed : {true, false}) {
    CUdeviceptr small = 0;
    WHERRY_TRY(is_managed ? cuMemAllocManaged(&small, 1000, CU_MEM_ATTACH_GLOBAL)
                          : cuMemAlloc(&small, 1000));
    const Bytes data = numbered(2000);
    CHECK(cuMemcpy(small, address(data.data()), 1000) == CUDA_SUCCESS);
    Bytes back(2000);
    CHECK(cuMemcpy(small, address(back.data()), 1001) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpy(small + 501, address(back.data()), 500) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpy(small, address(back.data()), ~std::size_t{0}) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpy(address(back.data()), small, 1001) == CUDA_ERROR_INVALID_VALUE);
    CHECK(back == Bytes(2000));
    CHECK(cuMemcpy(address(back.data()), small, 1000) == CUDA_SUCCESS);
    CHECK(std::equal(data.begin(), data.begin() + 1000, back.begin()));
    CHECK(cuMemsetD8(small, 1, 1001) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD2D8(small, 500, 1, 500, 3) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD2D8(small, 500, 1, 500, 2) == CUDA_SUCCESS);
    CHECK(cuMemFree(small) == CUDA_SUCCESS);
    CHECK(cuMemcpy(small, address(back.data()), 10) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpy(address(back.data()), small, 10) == CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE("host memory that does not exist, or is read-only, is an error without further effect",
          "[api]") {
  const Kinds kinds;
  void* const map =
      ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const bytes = static_cast<char*>(map);
  REQUIRE(::mprotect(bytes + page, page, PROT_READ) == 0);
  REQUIRE(::munmap(bytes + 2 * page, 2 * page) == 0);
  for (const CUdeviceptr known : {kinds.managed(), kinds.device()}) {
    CHECK(cuMemcpy(known, address(bytes), 2 * page) == CUDA_SUCCESS);
    CHECK(cuMemcpy(known, address(bytes) + 100, 2 * page) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD(known, bytes + 2 * page, 100) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoH(bytes + 10, known, page) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpy(16, known, 8) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuMemcpy(address(bytes), address(bytes + 2 * page), 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpy(address(bytes + page), kinds.heap(), 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyAsync(kinds.device(), address(bytes + 2 * page), 8, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  ::munmap(map, 2 * page);
}

TEST_CASE("fills set known memory only, at aligned addresses only", "[api]") {
  const Kinds kinds;
  using Fill = CUresult (*)(CUdeviceptr, std::size_t);
  struct Row {
    const char* name;
    std::size_t size;
    Fill fill;
  };
  const Row rows[] = {
      {"D8", 1, [](CUdeviceptr p, std::size_t n) { return cuMemsetD8(p, 0x11, n); }},
      {"D16", 2, [](CUdeviceptr p, std::size_t n) { return cuMemsetD16(p, 0x1111, n); }},
      {"D32", 4, [](CUdeviceptr p, std::size_t n) { return cuMemsetD32(p, 0x11111111, n); }},
      {"D8Async", 1,
       [](CUdeviceptr p, std::size_t n) { return cuMemsetD8Async(p, 0x11, n, nullptr); }},
      {"D32Async", 4,
       [](CUdeviceptr p, std::size_t n) {
         return cuMemsetD32Async(p, 0x11111111, n, session().stream(0));
       }},
      {"cudaMemset", 1,
       [](CUdeviceptr p, std::size_t n) {
         return static_cast<CUresult>(cudaMemset(pointer(p), 0x211, n));
       }},
  };
  for (const Row& row : rows) {
    for (const Kind& kind : kinds.all) {
      INFO(row.name << " " << kind.name);
      Bytes wanted(4096, 0x77);
      put(kind, kind.start, wanted);
      const bool aligned = kind.start % row.size == 0;
      const bool fit = kind.known && aligned;
      CHECK(finish(row.fill(kind.start, 1024 / row.size)) ==
            (fit ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
      if (fit) std::fill_n(wanted.begin(), 1024, 0x11);
      CHECK(get(kind, kind.start, 4096) == wanted);
      for (std::size_t off = 1; off < 4; ++off)
        if (kind.known)
          CHECK(finish(row.fill(kind.start + off, 8)) ==
                ((kind.start + off) % row.size == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
    }
    CHECK(row.fill(0, 16) == CUDA_ERROR_INVALID_VALUE);
    CHECK(row.fill(0, 0) == CUDA_SUCCESS);
    CHECK(row.fill(3, 0) == CUDA_SUCCESS);
  }
  // 5 rows of 3 values, at a pitch of 20 bytes.
  Bytes wanted(200, 0x77);
  for (const CUdeviceptr start : {kinds.managed(), kinds.device()}) {
    WHERRY_TRY(cuMemcpy(start, address(Bytes(200, 0x77).data()), 200));
    CHECK(finish(cuMemsetD2D16(start, 20, 0x0201, 3, 5)) == CUDA_SUCCESS);
    for (std::size_t r = 0; r < 5; ++r)
      for (std::size_t i = 0; i < 6; ++i) wanted[r * 20 + i] = i % 2 == 0 ? 1 : 2;
    Bytes back(200);
    WHERRY_TRY(cuMemcpy(address(back.data()), start, 200));
    CHECK(back == wanted);
    CHECK(cuMemsetD2D16(start, 21, 1, 3, 5) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD2D16(start, 4, 1, 3, 5) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD2D32(start, 4, 1, 3, 1) == CUDA_SUCCESS);
    CHECK(cuMemsetD2D32(start + 1, 4, 1, 3, 0) == CUDA_SUCCESS);
  }
}

TEST_CASE("boxes of any pitch are copied like in a plain loop", "[api]") {
  session();
  std::mt19937 random(3);
  const auto pick = [&](std::size_t most) { return random() % most; };
  constexpr std::size_t size = 3 * MB;
  CUdeviceptr places[2] = {0, 0};
  WHERRY_TRY(cuMemAllocManaged(&places[0], size, CU_MEM_ATTACH_GLOBAL));
  WHERRY_TRY(cuMemAlloc(&places[1], size));
  for (int round = 0; round < 60; ++round) {
    const CUdeviceptr known = places[round % 2];
    const std::size_t width = 1 + pick(round % 3 == 0 ? 70000 : 600);
    const std::size_t height = 1 + pick(6);
    const std::size_t depth = 1 + pick(3);
    auto copy = described<CUDA_MEMCPY3D>(Role::any, known, Role::any, 0);
    copy.WidthInBytes = width;
    copy.Height = height;
    copy.Depth = depth;
    copy.dstXInBytes = pick(50);
    copy.dstY = pick(3);
    copy.dstZ = pick(2);
    copy.dstPitch = copy.dstXInBytes + width + pick(100);
    copy.dstHeight = copy.dstY + height + pick(2);
    copy.srcXInBytes = pick(50);
    copy.srcY = pick(3);
    copy.srcZ = pick(2);
    copy.srcPitch = copy.srcXInBytes + width + pick(100);
    copy.srcHeight = copy.srcY + height + pick(2);
    const Bytes source = numbered((copy.srcZ + depth) * copy.srcHeight * copy.srcPitch);
    copy.srcDevice = address(source.data());
    const std::size_t reach = (copy.dstZ + depth) * copy.dstHeight * copy.dstPitch;
    REQUIRE(reach <= size);
    WHERRY_TRY(cuMemsetD8(known, 0x55, size));
    Bytes wanted(reach, 0x55);
    for (std::size_t z = 0; z < depth; ++z)
      for (std::size_t y = 0; y < height; ++y)
        std::copy_n(&source[((copy.srcZ + z) * copy.srcHeight + copy.srcY + y) * copy.srcPitch +
                            copy.srcXInBytes],
                    width,
                    &wanted[((copy.dstZ + z) * copy.dstHeight + copy.dstY + y) * copy.dstPitch +
                            copy.dstXInBytes]);
    CHECK(cuMemcpy3D(&copy) == CUDA_SUCCESS);
    Bytes back(reach);
    WHERRY_TRY(cuMemcpy(address(back.data()), known, reach));
    CHECK(back == wanted);
    // Copies the box back out, by the runtime API.
    Bytes out(width * height * depth);
    cudaMemcpy3DParms parms{};
    parms.srcPtr = {pointer(known), copy.dstPitch, 0, copy.dstHeight};
    parms.srcPos = {copy.dstXInBytes, copy.dstY, copy.dstZ};
    parms.dstPtr = {out.data(), width, width, height};
    parms.extent = {width, height, depth};
    parms.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&parms) == cudaSuccess);
    Bytes again(out.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      again[i] = wanted[((copy.dstZ + i / width / height) * copy.dstHeight + copy.dstY +
                         i / width % height) *
                            copy.dstPitch +
                        copy.dstXInBytes + i % width];
    CHECK(out == again);
  }
  for (const CUdeviceptr place : places) CHECK(cuMemFree(place) == CUDA_SUCCESS);
}

TEST_CASE("a pitch or height of 0 says that rows or layers follow without a gap", "[api]") {
  const Kinds kinds;
  constexpr std::size_t width = 10;
  constexpr std::size_t rows = 4;
  constexpr std::size_t layers = 3;
  const Bytes source = numbered(width * rows * layers);
  const auto arrived = [&](std::size_t bytes) {
    Bytes back(bytes);
    WHERRY_TRY(cuMemcpy(address(back.data()), kinds.device(), bytes));
    return back == Bytes(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(bytes));
  };
  auto rectangle = described<CUDA_MEMCPY2D>(Role::any, kinds.device(), Role::any, 0);
  rectangle.srcDevice = address(source.data());
  rectangle.WidthInBytes = width;
  rectangle.Height = rows;
  for (const bool first : {false, true}) {
    WHERRY_TRY(cuMemsetD8(kinds.device(), 0x55, width * rows));
    rectangle.srcPitch = first ? 0 : width;
    rectangle.dstPitch = first ? width : 0;
    CHECK(cuMemcpy2D(&rectangle) == CUDA_SUCCESS);
    CHECK(arrived(width * rows));
  }
  auto box = described<CUDA_MEMCPY3D>(Role::any, kinds.device(), Role::any, 0);
  box.srcDevice = address(source.data());
  box.WidthInBytes = width;
  box.Height = rows;
  box.Depth = layers;
  box.srcPitch = box.dstPitch = width;
  WHERRY_TRY(cuMemsetD8(kinds.device(), 0x55, width * rows * layers));
  CHECK(cuMemcpy3D(&box) == CUDA_SUCCESS);
  CHECK(arrived(width * rows * layers));
  // A box that fills its rows and layers, but does not begin at their start, reaches beyond them.
  box.srcY = 1;
  CHECK(cuMemcpy3D(&box) == CUDA_ERROR_INVALID_VALUE);
  rectangle.srcPitch = 0;
  rectangle.srcXInBytes = 1;
  CHECK(cuMemcpy2D(&rectangle) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("invalid boxes are refused", "[api]") {
  const Kinds kinds;
  const auto good = [&] {
    auto copy = described<CUDA_MEMCPY3D>(Role::any, kinds.managed(), Role::any, kinds.device());
    copy.WidthInBytes = 100;
    copy.Height = 4;
    copy.Depth = 2;
    copy.srcPitch = copy.dstPitch = 100;
    copy.srcHeight = copy.dstHeight = 4;
    return copy;
  };
  auto copy = good();
  CHECK(cuMemcpy3D(&copy) == CUDA_SUCCESS);
  CHECK(cuMemcpy3D(nullptr) == CUDA_ERROR_INVALID_VALUE);
  copy.srcPitch = 99;
  CHECK(cuMemcpy3D(&copy) == CUDA_ERROR_INVALID_VALUE);
  copy = good();
  copy.dstHeight = 3;
  CHECK(cuMemcpy3D(&copy) == CUDA_ERROR_INVALID_VALUE);
  copy = good();
  copy.srcLOD = 1;
  CHECK(cuMemcpy3D(&copy) == CUDA_ERROR_INVALID_VALUE);
  copy = good();
  copy.dstXInBytes = ~std::size_t{0};
  CHECK(cuMemcpy3D(&copy) == CUDA_ERROR_INVALID_VALUE);
  copy = good();
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  CHECK(cuMemcpy3D(&copy) == CUDA_ERROR_NOT_SUPPORTED);
  copy.srcMemoryType = static_cast<CUmemorytype>(9);
  CHECK(cuMemcpy3D(&copy) == CUDA_ERROR_INVALID_VALUE);
  copy = good();
  copy.dstPitch = std::size_t{1} << 40;
  CHECK(cuMemcpy3D(&copy) == CUDA_ERROR_INVALID_VALUE);
  copy = good();
  copy.Depth = 0;
  copy.srcDevice = 0;
  CHECK(cuMemcpy3D(&copy) == CUDA_SUCCESS);

  Bytes bytes(100);
  CHECK(cudaMemcpy(bytes.data(), bytes.data(), 1, static_cast<cudaMemcpyKind>(7)) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy2D(bytes.data(), 9, pointer(kinds.device()), 10, 10, 2, cudaMemcpyDefault) ==
        cudaErrorInvalidPitchValue);
  CHECK(cudaMemcpy2D(bytes.data(), 10, pointer(kinds.device()), 10, 10, 2, cudaMemcpyDefault) ==
        cudaSuccess);
  CHECK(cudaMemcpyPeer(bytes.data(), 0, pointer(kinds.device()), 1, 10) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyPeer(pointer(kinds.managed()), 7, pointer(kinds.device()), 1, 10) ==
        cudaErrorInvalidDevice);
  const std::size_t above = std::size_t{1} << 31;
  CHECK(cudaMemcpy2D(bytes.data(), above, pointer(kinds.device()), 10, 10, 2, cudaMemcpyDefault) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpy2D(bytes.data(), 10, pointer(kinds.device()), above, 10, 2, cudaMemcpyDefault) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemset2D(pointer(kinds.managed()), above, 1, 11, 2) == cudaErrorInvalidValue);
  CHECK(cudaMemset2D(pointer(kinds.managed()), 10, 1, 11, 2) == cudaErrorInvalidPitchValue);
  CHECK(cudaMemset3D({pointer(kinds.managed()), 100, 100, 2}, 1, {50, 2, 3}) == cudaSuccess);
}

TEST_CASE("copies need a context, and a stream", "[api]") {
  const Kinds kinds;
  CHECK(cuMemcpyAsync(kinds.managed(), kinds.device(), 4, reinterpret_cast<CUstream>(0x5000)) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuMemcpyAsync(kinds.managed(), kinds.device(), 4, CU_STREAM_LEGACY) == CUDA_SUCCESS);
  CHECK(cuMemcpyAsync(kinds.managed(), kinds.device(), 4, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CUresult copied = CUDA_SUCCESS;
  CUresult filled = CUDA_SUCCESS;
  CUresult empty = CUDA_SUCCESS;
  std::thread([&] {
    copied = cuMemcpy(kinds.managed(), kinds.device(), 4);
    filled = cuMemsetD8(kinds.managed(), 1, 4);
    empty = cuMemcpy(0, 0, 0);
  }).join();
  CHECK(copied == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(filled == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(empty == CUDA_ERROR_INVALID_CONTEXT);
}

// Ordered with the default stream, unlike the session's streams.
CUstream blocking_stream() {
  session();
  static const CUstream stream = [] {
    CUstream made = nullptr;
    WHERRY_TRY(cuStreamCreate(&made, CU_STREAM_DEFAULT));
    return made;
  }();
  return stream;
}

// Keeps a stream busy until release.
class Plug {
 public:
  explicit Plug(CUstream stream) {
    WHERRY_TRY(cuLaunchHostFunc(
        stream,
        [](void* self) {
          while (!static_cast<Plug*>(self)->pulled_) std::this_thread::yield();
        },
        this));
  }
  ~Plug() {
    pull();
    cuCtxSynchronize();
  }
  Plug(const Plug&) = delete;
  Plug& operator=(const Plug&) = delete;
  void pull() { pulled_ = true; }

 private:
  std::atomic<bool> pulled_{false};
};

TEST_CASE("copies that may be asynchronous wait for their stream, their callers do not", "[api]") {
  const Kinds kinds;
  CUstream const stream = blocking_stream();
  put({"", 0, true, false}, kinds.device(), numbered(64));
  put({"", 0, true, false}, kinds.device() + 64, Bytes(64));
  {
    // Both ends are in device memory: even the synchronous function does not wait.
    Plug plug(stream);
    CHECK(cuMemcpyAsync(kinds.device() + 64, kinds.device(), 64, stream) == CUDA_SUCCESS);
    CHECK(cuMemcpyAsync(kinds.managed(), kinds.device() + 64, 64, stream) == CUDA_SUCCESS);
    CHECK(cuMemsetD8Async(kinds.device() + 64, 9, 64, stream) == CUDA_SUCCESS);
    CHECK(cuMemsetD8Async(kinds.managed() + 64, 9, 64, stream) == CUDA_SUCCESS);
    CHECK(cuMemcpyDtoD(kinds.device() + 128, kinds.device(), 64) == CUDA_SUCCESS);
    CHECK(cuMemsetD8(kinds.device() + 192, 5, 64) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    plug.pull();
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  }
  CHECK(get({"", 0}, kinds.managed(), 64) == numbered(64));
  CHECK(get({"", 0}, kinds.managed() + 64, 64) == Bytes(64, 9));
  CHECK(get({"", 0, true, false}, kinds.device() + 64, 64) == Bytes(64, 9));
  CHECK(get({"", 0, true, false}, kinds.device() + 128, 64) == numbered(64));
  CHECK(get({"", 0, true, false}, kinds.device() + 192, 64) == Bytes(64, 5));
}

TEST_CASE("synchronous copies and fills return after completion where CUDA requires it", "[api]") {
  const Kinds kinds;
  CUstream const stream = blocking_stream();
  Bytes bytes = numbered(64);
  const unsigned one = 1;
  const unsigned none = 0;
  const auto set_sync = [](CUdeviceptr of, const unsigned& value) {
    WHERRY_TRY(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, of));
  };
  const std::function<CUresult()> calls[] = {
      [&] { return cuMemcpyHtoD(kinds.device(), bytes.data(), 64); },
      [&] { return cuMemcpyDtoH(bytes.data(), kinds.device(), 64); },
      [&] { return cuMemcpyDtoD(kinds.managed(), kinds.device(), 64); },
      [&] { return cuMemsetD8(kinds.managed(), 1, 64); },
      [&] { return cuMemcpyAsync(kinds.heap(), kinds.device(), 64, stream); },
      [&] { return cuMemcpy(kinds.heap(), address(bytes.data()), 64); },
      [&] {
        set_sync(kinds.device(), one);
        return cuMemcpyDtoD(kinds.device() + 64, kinds.device(), 64);
      },
      [&] { return cuMemsetD8(kinds.device(), 1, 64); },
  };
  for (const auto& call : calls) {
    INFO(&call - calls);
    Plug plug(stream);
    std::thread puller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      plug.pull();
    });
    CHECK(call() == CUDA_SUCCESS);
    CHECK(cuStreamQuery(stream) == CUDA_SUCCESS);
    puller.join();
  }
  set_sync(kinds.device(), none);
}

TEST_CASE("large copies and fills are complete, whichever backend copies them", "[api]") {
  session();
  constexpr std::size_t size = 9 * MB + 123;
  CUdeviceptr managed = 0;
  CUdeviceptr device = 0;
  WHERRY_TRY(cuMemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL));
  WHERRY_TRY(cuMemAlloc(&device, size));
  const Bytes data = numbered(size);
  Bytes back(size);
  CHECK(cuMemcpyHtoD(device, data.data(), size) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(back.data(), device, size) == CUDA_SUCCESS);
  CHECK(back == data);
  CHECK(cuMemcpy(managed, device, size) == CUDA_SUCCESS);
  CHECK(std::memcmp(pointer(managed), data.data(), size) == 0);
  CHECK(cuMemsetD8(device, 0, size) == CUDA_SUCCESS);
  // A non-blocking stream: it waits for no other stream, and no other stream waits for it.
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuMemcpyAsync(device, managed, size, session().stream(0)) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(session().stream(0)) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(back.data(), device, size) == CUDA_SUCCESS);
  CHECK(back == data);
  CHECK(cuMemsetD8(managed, 0x31, size) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoH(back.data(), managed, size) == CUDA_SUCCESS);
  CHECK(back == Bytes(size, 0x31));
  CHECK(cuMemcpy(address(back.data()), address(data.data()), size) == CUDA_SUCCESS);
  CHECK(back == data);
  CHECK(cuMemFree(managed) == CUDA_SUCCESS);
  CHECK(cuMemFree(device) == CUDA_SUCCESS);
}

}  // namespace wherry::test::copy_test
