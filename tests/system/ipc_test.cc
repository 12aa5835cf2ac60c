// Device memory that two programs share: the pages are the same, the addresses may differ. The
// pages exist as long as a program has them open, however programs end, and no longer. A handle
// opens the allocation that it names, and nothing else.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "support/stage.h"
#include "support/virtual_memory.h"
#include "support/waiting.h"
#include "system/ipc_peer.h"

using namespace wherry::test;

namespace {

constexpr unsigned flags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;

void make_current(int device) {
  WHERRY_TRY(cuCtxSetCurrent(stage().session().context(device)));
}

CUdeviceptr allocate(std::size_t bytes, int device = device0) {
  make_current(device);
  CUdeviceptr address = 0;
  WHERRY_TRY(cuMemAlloc(&address, bytes));
  return address;
}
bool fits(std::size_t bytes) {
  make_current(device0);
  CUdeviceptr address = 0;
  const CUresult result = cuMemAlloc(&address, bytes);
  if (result == CUDA_SUCCESS) WHERRY_TRY(cuMemFree(address));
  return result == CUDA_SUCCESS;
}
CUipcMemHandle handle_of(CUdeviceptr address) {
  CUipcMemHandle handle{};
  WHERRY_TRY(cuIpcGetMemHandle(&handle, address));
  return handle;
}
bool are_same(const CUipcMemHandle& one, const CUipcMemHandle& other) {
  return std::memcmp(&one, &other, sizeof one) == 0;
}

Request opening(const CUipcMemHandle& handle, int device = device0) {
  return {Ask::open_handle, device, 0, 0, flags, handle};
}
CUresult try_open(const CUipcMemHandle& handle, CUdeviceptr& address, int device = device0) {
  make_current(device);
  return cuIpcOpenMemHandle(&address, handle, flags);
}
CUdeviceptr open(const CUipcMemHandle& handle, int device = device0) {
  CUdeviceptr address = 0;
  WHERRY_TRY(try_open(handle, address, device));
  return address;
}

// The byte of a file that a process sees at an address: "device:inode" and the offset. Empty: the
// address is not mapped from a file.
struct Seen {
  std::string file;
  std::uint64_t offset = 0;

  bool operator==(const Seen&) const = default;
};
Seen seen_by(pid_t process, CUdeviceptr address) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t start = 0, end = 0, offset = 0, inode = 0;
    std::string permissions, device;
    char dash = 0;
    std::istringstream(line) >> std::hex >> start >> dash >> end >> permissions >> offset >>
        device >> std::dec >> inode;
    if (address < start || address >= end || inode == 0) continue;
    return {device + ":" + std::to_string(inode), offset + (address - start)};
  }
  return {};
}

}  // namespace

TEST_CASE("kernels of two programs read what the other's have written", "[system]") {
  Peer peer;
  const CUdeviceptr mine = allocate(3 * mebibyte);
  stage().write(device0, words_at(mine) + 1, 41);
  const CUdeviceptr its = peer.get(opening(handle_of(mine)));
  CHECK(peer.get({Ask::read, device0, its + 8}) == 41);
  peer.get({Ask::write, device0, its + 8, 42});
  CHECK(stage().read(device0, words_at(mine) + 1) == 42);
  peer.get({Ask::write, device0, its + 3 * mebibyte - 8, 43});
  CHECK(stage().read(device0, words_at(mine + 3 * mebibyte) - 1) == 43);

  const auto its_process = static_cast<pid_t>(peer.get({Ask::device_process}));
  const Seen here = seen_by(device_process(device0), mine + mebibyte);
  CHECK(here.file != "");
  CHECK(seen_by(its_process, its + mebibyte) == here);
  CHECK(seen_by(peer.pid(), its).file == "");
  if (!why_missing("frame-numbers")) {
    const PageEntry its_page = page_entry(its_process, words_at(its) + 1);
    CHECK(its_page.frame != 0);
    CHECK(its_page.frame == page_entry(device_process(device0), words_at(mine) + 1).frame);
  }
  CHECK(peer.ask({Ask::free, device0, its}).result == CUDA_ERROR_INVALID_VALUE);
  peer.get({Ask::close_handle, device0, its});
  CHECK(seen_by(its_process, its + mebibyte).file == "");
  WHERRY_TRY(cuMemFree(mine));
}

TEST_CASE("memory of another program has correct attributes here", "[system]") {
  Peer peer;
  const CUdeviceptr its = peer.get({Ask::allocate, device0, 0, 100'000});
  const CUipcMemHandle handle = peer.handle_of(its + 50'000);
  CHECK(are_same(handle, peer.handle_of(its)));
  const CUdeviceptr here = open(handle);
  CHECK(open(handle) == here);
  peer.get({Ask::write, device0, its + 16, 7});
  CHECK(stage().read(device0, words_at(here) + 2) == 7);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  REQUIRE(cuMemGetAddressRange(&base, &bytes, here + 99'999) == CUDA_SUCCESS);
  CHECK(base == here);
  CHECK(bytes == 100'000);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, here) == CU_MEMORYTYPE_DEVICE);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here) == device0);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, here) == 0);
  CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, here) == 2 * mebibyte);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, here) == 0);
  CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, here) ==
        stage().session().context(device0));
  CUipcMemHandle again{};
  CHECK(cuIpcGetMemHandle(&again, here) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(here) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuIpcCloseMemHandle(here + 4096) == CUDA_ERROR_INVALID_VALUE);

  CHECK(cuIpcCloseMemHandle(here) == CUDA_SUCCESS);
  CHECK(stage().read(device0, words_at(here) + 2) == 7);
  CHECK(cuIpcCloseMemHandle(here) == CUDA_SUCCESS);
  CHECK(cuIpcCloseMemHandle(here) == CUDA_ERROR_INVALID_VALUE);
  CHECK(seen_by(device_process(device0), here).file == "");
  unsigned type = 0;
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, here) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory of another program is copied and filled like other memory", "[system]") {
  Peer peer;
  const CUdeviceptr mine = allocate(mebibyte);
  const CUdeviceptr its = peer.get(opening(handle_of(mine)));
  peer.get({Ask::write_by_copy, device0, its + 4096, 11});
  CHECK(stage().read(device0, words_at(mine + 4096)) == 11);
  stage().write(device0, words_at(mine + 4096), 12);
  CHECK(peer.get({Ask::read_by_copy, device0, its + 4096}) == 12);
  peer.get({Ask::close_handle, device0, its});

  const CUdeviceptr other = peer.get({Ask::allocate, device0, 0, mebibyte});
  const CUdeviceptr here = open(peer.handle_of(other));
  peer.get({Ask::write, device0, other, 13});
  REQUIRE(cuMemcpyDtoD(mine, here, mebibyte) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(stage().read(device0, words_at(mine)) == 13);
  REQUIRE(cuMemsetD32(here, 0x01010101, mebibyte / 4) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(peer.get({Ask::read, device0, other + mebibyte - 8}) == 0x0101010101010101);
  // A stream of a device that does not have the memory mapped can copy it, too.
  make_current(device1);
  std::uint64_t word = 0;
  CHECK(cuMemcpyDtoH(&word, here + 4096, sizeof word) == CUDA_SUCCESS);
  CHECK(word == 0x0101010101010101);
  make_current(device0);
  CHECK(cuIpcCloseMemHandle(here) == CUDA_SUCCESS);
  WHERRY_TRY(cuMemFree(mine));
}

TEST_CASE("freed memory that another program has open is not reused", "[system]") {
  Peer peer;
  const CUdeviceptr mine = allocate(10 * mebibyte);
  const CUipcMemHandle handle = handle_of(mine);
  const CUdeviceptr its = peer.get(opening(handle));
  stage().write(device0, words_at(mine), 5);
  WHERRY_TRY(cuMemFree(mine));
  CHECK(cuMemFree(mine) == CUDA_ERROR_INVALID_VALUE);
  CHECK(!fits(10 * mebibyte));
  CHECK(peer.get({Ask::read, device0, its}) == 5);
  const CUdeviceptr next = allocate(4 * mebibyte);
  stage().write_pages(device0, words_at(next), 4 * mebibyte, 6);
  peer.get({Ask::write, device0, its + mebibyte, 8});
  CHECK(stage().read_pages(device0, words_at(next), 4 * mebibyte) == 6 * 4 * mebibyte / page_bytes);
  WHERRY_TRY(cuMemFree(next));

  SECTION("until that program closes it") {
    peer.get({Ask::close_handle, device0, its});
    CHECK(fits(10 * mebibyte));
  }
  SECTION("until that program closes it, also for memory of a pool") {
    peer.get({Ask::close_handle, device0, its});
    CUdeviceptr pooled = 0;
    CHECK(cuMemAllocAsync(&pooled, 10 * mebibyte, stage().session().stream(device0)) ==
          CUDA_SUCCESS);
    WHERRY_TRY(cuMemFree(pooled));
  }
  SECTION("until that program is killed") {
    peer.kill();
    CHECK(comes_true([] { return fits(10 * mebibyte); }));
  }
}

TEST_CASE("a forked child keeps no memory open", "[system]") {
  Peer peer;
  const std::uint64_t all = peer.get({Ask::free_bytes});
  const CUdeviceptr its = peer.get({Ask::allocate, device0, 0, 10 * mebibyte});
  const CUdeviceptr here = open(peer.handle_of(its));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::pause();
    ::_exit(0);
  }
  CHECK(cuIpcCloseMemHandle(here) == CUDA_SUCCESS);
  peer.get({Ask::free, device0, its});
  CHECK(comes_true([&] { return peer.get({Ask::free_bytes}) == all; }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("memory of a program that has ended exists while it is open", "[system]") {
  CUdeviceptr here = 0;
  CUipcMemHandle handle{}, other{};
  {
    Peer peer;
    const CUdeviceptr its = peer.get({Ask::allocate, device0, 0, 5 * mebibyte});
    handle = peer.handle_of(its);
    other = peer.handle_of(peer.get({Ask::allocate, device0, 0, 4096}));
    here = open(handle);
    peer.get({Ask::write, device0, its + mebibyte, 9});
    peer.kill();
  }
  CHECK(stage().read(device0, words_at(here + mebibyte)) == 9);
  stage().write_pages(device0, words_at(here), 5 * mebibyte, 3);
  CHECK(stage().read_pages(device0, words_at(here), 5 * mebibyte) == 3 * 5 * mebibyte / page_bytes);
  CUdeviceptr late = 1;
  CHECK(try_open(other, late) == CUDA_ERROR_INVALID_VALUE);
  CHECK(late == 0);
  CHECK(cuIpcCloseMemHandle(here) == CUDA_SUCCESS);
  CHECK(try_open(handle, late) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a handle is of one allocation, not of a later one at its address", "[system]") {
  Peer peer;
  const CUdeviceptr mine = allocate(mebibyte);
  const CUipcMemHandle handle = handle_of(mine);
  WHERRY_TRY(cuMemFree(mine));
  CHECK(peer.ask(opening(handle)).result == CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr next = allocate(mebibyte);
  CHECK(!are_same(handle_of(next), handle));
  CHECK(peer.ask(opening(handle)).result == CUDA_ERROR_INVALID_VALUE);
  WHERRY_TRY(cuMemFree(next));
}

TEST_CASE("invalid handles open nothing", "[system]") {
  Peer peer;
  const CUdeviceptr mine = allocate(mebibyte);
  const CUipcMemHandle handle = handle_of(mine);
  CUdeviceptr address = 1;
  CHECK(try_open(handle, address) == CUDA_ERROR_INVALID_CONTEXT);  // a handle of the caller's own
  CHECK(address == 0);
  CHECK(peer.ask(opening({})).result == CUDA_ERROR_INVALID_VALUE);
  for (std::size_t place = 0; place < sizeof handle; ++place) {
    CUipcMemHandle changed = handle;
    changed.reserved[place] = static_cast<char>(changed.reserved[place] ^ 1);
    INFO("byte " << place);
    const CUresult result = peer.ask(opening(changed)).result;
    // MAP_FAILED if the changed byte names a process that started at the same time and that the
    // other program may not inspect.
    CHECK((result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_MAP_FAILED));
  }
  std::mt19937_64 random(seed());
  for (int i = 0; i < 100; ++i) {
    CUipcMemHandle noise{};
    for (char& byte : noise.reserved) byte = static_cast<char>(random());
    CHECK(peer.ask(opening(noise)).result == CUDA_ERROR_INVALID_VALUE);
  }
  Request request = opening(handle);
  for (const unsigned wrong : {0u, 2u, 3u, ~0u}) {
    request.flags = wrong;
    CHECK(peer.ask(request).result == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(peer.ask(opening(handle)).result == CUDA_SUCCESS);
  WHERRY_TRY(cuMemFree(mine));
}

TEST_CASE("a program that may not inspect another one gets none of its memory", "[system]") {
  Peer peer;
  const CUdeviceptr mine = allocate(mebibyte);
  const CUipcMemHandle handle = handle_of(mine);
  peer.get({Ask::become_nobody});
  REQUIRE(::prctl(PR_SET_DUMPABLE, 0) == 0);
  const CUresult result = peer.ask(opening(handle)).result;
  REQUIRE(::prctl(PR_SET_DUMPABLE, 1) == 0);
  CHECK(result == CUDA_ERROR_MAP_FAILED);
  WHERRY_TRY(cuMemFree(mine));
}

TEST_CASE("a handle is valid again when descriptors are available again", "[system]") {
  if (is_sanitized) {
    WARN("not under sanitizers: they need descriptors");
    return;
  }
  Peer peer;
  const CUipcMemHandle handle = peer.handle_of(peer.get({Ask::allocate, device0, 0, mebibyte}));
  make_current(device0);
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const rlimit none{0, usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  CUdeviceptr address = 0;
  const CUresult result = cuIpcOpenMemHandle(&address, handle, flags);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(result == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(address == 0);
  CHECK(cuIpcCloseMemHandle(open(handle)) == CUDA_SUCCESS);
}

TEST_CASE("each device opens a handle for itself and for the memory's own device", "[system]") {
  Peer peer;
  const CUdeviceptr its = peer.get({Ask::allocate, device0, 0, mebibyte});
  const CUipcMemHandle handle = peer.handle_of(its);
  const CUdeviceptr far = open(handle, device1);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, far) == device0);
  stage().write(device1, words_at(far), 21);
  CHECK(peer.get({Ask::read, device0, its}) == 21);
  CHECK(stage().read(device0, words_at(far)) == 21);
  const CUdeviceptr near = open(handle, device0);
  CHECK(near != far);
  CHECK(seen_by(device_process(device1), near).file == "");
  CHECK(cuIpcCloseMemHandle(far) == CUDA_SUCCESS);
  CHECK(stage().read(device0, words_at(near)) == 21);
  CHECK(cuIpcCloseMemHandle(near) == CUDA_SUCCESS);
}

TEST_CASE("memory belongs to its own device, whichever devices a program sees", "[system]") {
  Peer peer("1");
  const auto its_process = static_cast<pid_t>(peer.get({Ask::device_process}));
  const CUdeviceptr its = peer.get({Ask::allocate, device0, 0, mebibyte});
  const CUdeviceptr here = open(peer.handle_of(its), device0);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here) == device1);
  peer.get({Ask::write, device0, its, 50});
  CHECK(stage().read(device1, words_at(here)) == 50);
  const Seen seen = seen_by(device_process(device1), here);
  CHECK(seen.file != "");
  CHECK(seen == seen_by(its_process, its));
  CHECK(cuIpcCloseMemHandle(here) == CUDA_SUCCESS);

  // Memory of a device that the other program does not see is opened on the device that it sees.
  for (const int device : {device0, device1}) {
    const CUdeviceptr mine = allocate(mebibyte, device);
    stage().write(device, words_at(mine), 51);
    const CUdeviceptr there = peer.get(opening(handle_of(mine)));
    CHECK(peer.get({Ask::read, device0, there}) == 51);
    CHECK(seen_by(its_process, there) == seen_by(device_process(device), mine));
    peer.get({Ask::close_handle, device0, there});
    WHERRY_TRY(cuMemFree(mine));
  }

  const Answer physical = peer.ask({Ask::export_physical, device0, 0, 2 * mebibyte});
  REQUIRE(physical.result == CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle{};
  REQUIRE(cuMemImportFromShareableHandle(
              &handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(physical.fd)),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
  ::close(physical.fd);
  CUmemAllocationProp properties{};
  CHECK(cuMemGetAllocationPropertiesFromHandle(&properties, handle) == CUDA_SUCCESS);
  CHECK(properties.location.id == device1);
  CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("a device that is reset still has open memory", "[system]") {
  Peer peer;
  const CUdeviceptr its = peer.get({Ask::allocate, device0, 0, mebibyte});
  const CUdeviceptr here = open(peer.handle_of(its));
  peer.get({Ask::write, device0, its, 31});
  WHERRY_TRY(cuDevicePrimaryCtxReset(device0));
  stage().session().renew_stream(device0);
  CHECK(stage().read(device0, words_at(here)) == 31);
  CHECK(cuIpcCloseMemHandle(here) == CUDA_SUCCESS);
}
