// Memory that the program maps itself (cuMemCreate, cuMemMap): which pool has its frames, which
// processors can access it, also in other processes, and how long it exists.
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <vector>

#include "support/catch.h"
#include "support/kernel_view.h"
#include "support/stage.h"
#include "support/virtual_memory.h"

namespace wherry::test::virtual_memory_test {

namespace {

constexpr const char* devices = "capacity=16M,workers=1;capacity=16M,workers=1";

Stage& stage() {
  static Stage the_stage(devices);
  return the_stage;
}
Session& session() {
  return stage().session();
}

CUresult touch(int device, std::uint64_t* word) {
  session().launch(device, 1, [word](std::size_t) { *word += 1; });
  return session().wait(device);
}
CUresult look(int device, const std::uint64_t* word) {
  session().launch(device, 1, [word](std::size_t) {
    if (*const_cast<const volatile std::uint64_t*>(word) == ~std::uint64_t{0}) __builtin_trap();
  });
  return session().wait(device);
}
// The processor's rights at the address in its page table, as the access flags have them: 0 none, 1
// read, 3 read and write.
unsigned open_to(int processor, CUdeviceptr address) {
  const auto allowed =
      permissions_of(Witness::process_of(processor + 1), reinterpret_cast<void*>(address));
  return (allowed.read ? 1u : 0u) | (allowed.write ? 2u : 0u);
}

std::uint64_t frames_of(int fd) {
  struct stat status {};
  expect(::fstat(fd, &status) == 0, "fstat");
  return static_cast<std::uint64_t>(status.st_blocks) * 512 / page_bytes;
}
// How many descriptors of the process refer to memory of cuMemCreate, and so keep it alive.
int descriptors_of(pid_t process) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    count += target.find("wherry-memory-") != std::string::npos;
  }
  return count;
}

// Memory that every location in the list can access.
struct Ready {
  Ready(std::size_t bytes, std::initializer_list<CUmemLocation> locations,
        CUmemLocation where = on_device(0), bool exportable = false)
      : physical(bytes, where, exportable), place(bytes), mapped(place, bytes, physical) {
    for (const CUmemLocation& location : locations) WHERRY_TRY(give_access(place, bytes, location));
  }
  std::uint64_t* words() const { return words_at(place); }

  Physical physical;
  Addresses place;
  Mapped mapped;
};

}  // namespace

TEST_CASE("all frames exist from the beginning, in one file that all processes share", "[system]") {
  stage();
  const Ready ready(4 * mebibyte, {on_device(0), on_device(1)}, on_device(0), true);
  const int fd = ready.physical.descriptor();
  CHECK(frames_of(fd) == 4 * mebibyte / page_bytes);
  std::uint64_t* const words = ready.words();
  CHECK(stage().read_pages(device1, words, 4 * mebibyte) == 0);
  stage().write(device0, words + 7, 11);
  CHECK(stage().read(device1, words + 7) == 11);
  stage().write(device1, words + 9, 13);
  CHECK(stage().read(device0, words + 9) == 13);
  CHECK(stage().same_frame(device0, device1, words));
  CHECK(frames_of(fd) == 4 * mebibyte / page_bytes);
  // Reads the file itself.
  std::uint64_t seen = 0;
  CHECK(::pread(fd, &seen, sizeof seen, 9 * sizeof seen) == sizeof seen);
  CHECK(seen == 13);
  ::close(fd);
}

TEST_CASE("no processor can access the memory before it gets access, or after access is removed",
          "[system]") {
  stage();
  // Host memory, because the host never gets access to a device's memory.
  const Physical physical(vm_step, on_host);
  const Addresses place(vm_step);
  std::uint64_t* const word = words_at(place) + 3;
  const auto check_open = [&](unsigned to_host, unsigned to_device0, unsigned to_device1) {
    CHECK(open_to(host, place) == to_host);
    CHECK(open_to(device0, place) == to_device0);
    CHECK(open_to(device1, place) == to_device1);
  };
  check_open(0, 0, 0);
  Mapped mapped(place, vm_step, physical);
  check_open(0, 0, 0);
  CHECK(touch(device0, word) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(device0);
  REQUIRE(give_access(place, vm_step, on_device(0)) == CUDA_SUCCESS);
  check_open(0, 3, 0);
  CHECK(touch(device0, word) == CUDA_SUCCESS);
  CHECK(touch(device1, word) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(device1);

  REQUIRE(give_access(place, vm_step, on_device(1), CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_SUCCESS);
  REQUIRE(give_access(place, vm_step, on_host, CU_MEM_ACCESS_FLAGS_PROT_READ) == CUDA_SUCCESS);
  check_open(1, 3, 1);
  CHECK(stage().read(device1, word) == 1);
  CHECK(*word == 1);
  CHECK(touch(device1, word) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(device1);

  REQUIRE(give_access(place, vm_step, on_device(0), CU_MEM_ACCESS_FLAGS_PROT_NONE) == CUDA_SUCCESS);
  REQUIRE(give_access(place, vm_step, on_host, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CUDA_SUCCESS);
  check_open(3, 0, 1);
  *word = 5;
  CHECK(look(device0, word) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(device0);
  CHECK(stage().read(device1, word) == 5);
  mapped.unmap();
  check_open(0, 0, 0);
  CHECK(look(device1, word) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(device1);
}

TEST_CASE("a running kernel keeps its access until it has finished", "[system]") {
  stage();
  const Ready ready(vm_step, {on_device(0)});
  std::uint64_t* const word = ready.words();
  session().launch(device0, 1, [word](std::size_t) {
    for (int i = 0; i < 200'000'000; ++i) asm volatile("");
    *word = 17;
  });
  REQUIRE(give_access(ready.place, vm_step, on_device(0), CU_MEM_ACCESS_FLAGS_PROT_NONE) ==
          CUDA_SUCCESS);
  CHECK(session().wait(device0) == CUDA_SUCCESS);
  std::uint64_t seen = 0;
  REQUIRE(give_access(ready.place, vm_step, on_device(0)) == CUDA_SUCCESS);
  WHERRY_TRY(cuMemcpyDtoH(&seen, ready.place, sizeof seen));
  CHECK(seen == 17);
}

TEST_CASE("physical memory counts in its device's pool, and managed memory is evicted for it",
          "[system]") {
  stage();
  const std::size_t before = free_memory();
  CUdeviceptr own = 0;
  {
    const Physical physical(10 * mebibyte);
    CHECK(free_memory() == before - 10 * mebibyte);
    CHECK(cuMemAlloc(&own, 8 * mebibyte) == CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE(cuMemAlloc(&own, 4 * mebibyte) == CUDA_SUCCESS);
    CUmemGenericAllocationHandle more = 0;
    const CUmemAllocationProp properties = properties_at(on_device(0));
    CHECK(cuMemCreate(&more, 4 * mebibyte, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(more == 0);
    // The other device has its own capacity.
    const Physical other(10 * mebibyte, on_device(1));
    CHECK(cuMemFree(own) == CUDA_SUCCESS);
  }
  CHECK(free_memory() == before);

  const Words managed(14 * mebibyte / sizeof(std::uint64_t));
  stage().write_pages(device0, managed.data(), managed.bytes(), 9);
  REQUIRE(stage().witness().pool_bytes(1) == 14 * mebibyte);
  const Ready ready(12 * mebibyte, {on_device(0)});
  CHECK(stage().witness().pool_bytes(1) <= 4 * mebibyte);
  for (int pass = 0; pass < 2; ++pass)
    CHECK(stage().read_pages(device0, managed.data(), managed.bytes()) ==
          9 * managed.bytes() / page_bytes);
  CHECK(stage().witness().pool_bytes(1) <= 4 * mebibyte);
}

TEST_CASE("a device whose pool is full of physical memory still computes on managed memory",
          "[system]") {
  stage();
  const Physical physical(free_memory());
  REQUIRE(free_memory() == 0);
  const Words managed(mebibyte / sizeof(std::uint64_t));
  session().launch(0, 1, [words = managed.data()](std::size_t) { words[0] = 5; });
  REQUIRE(session().wait(0) == CUDA_SUCCESS);
  CHECK(managed[0] == 5);
  stage().write_pages(device0, managed.data(), managed.bytes(), 9);
  CHECK(stage().read_pages(device0, managed.data(), managed.bytes()) ==
        9 * managed.bytes() / page_bytes);
  CHECK(stage().witness().pool_bytes(1) == 0);
}

TEST_CASE("physical memory lives as long as a handle or a mapping, and its frames no longer",
          "[system]") {
  stage();
  const std::size_t before = free_memory();
  const Addresses place(4 * mebibyte);
  {
    Physical physical(4 * mebibyte);
    Mapped mapped(place, 4 * mebibyte, physical);
    physical.release();
    REQUIRE(give_access(place, 4 * mebibyte, on_device(0)) == CUDA_SUCCESS);
    stage().write(device0, words_at(place), 6);
    CHECK(stage().read(device0, words_at(place)) == 6);
    CHECK(free_memory() == before - 4 * mebibyte);
    CHECK(descriptors_of(::getpid()) == 1);
    // A device has the pages mapped, without a descriptor.
    CHECK(descriptors_of(device_process(0)) == 0);
  }
  CHECK(descriptors_of(::getpid()) == 0);
  CHECK(free_memory() == before);
}

TEST_CASE(
    "memory that this program exported and imported takes space until its last handle is gone",
    "[system]") {
  stage();
  const std::size_t before = free_memory();
  {
    Physical physical(4 * mebibyte, on_device(0), /*exportable=*/true);
    const int fd = physical.descriptor();
    CUmemGenericAllocationHandle again = 0;
    REQUIRE(cuMemImportFromShareableHandle(
                &again, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
    ::close(fd);
    physical.release();
    CHECK(free_memory() == before - 4 * mebibyte);
    const Addresses place(4 * mebibyte);
    Mapped mapped(place, 4 * mebibyte, again);
    CHECK(cuMemRelease(again) == CUDA_SUCCESS);
    CHECK(free_memory() == before - 4 * mebibyte);
    mapped.unmap();
  }
  CHECK(free_memory() == before);
}

TEST_CASE("one memory mapped at two addresses holds the same bytes", "[system]") {
  stage();
  const Physical physical(2 * vm_step);
  const Addresses place(4 * vm_step);
  const Mapped here(place, 2 * vm_step, physical);
  const Mapped there(place + 2 * vm_step, 2 * vm_step, physical);
  REQUIRE(give_access(place, 4 * vm_step, on_device(0)) == CUDA_SUCCESS);
  std::uint64_t* const words = words_at(place);
  constexpr std::size_t step_words = vm_step / sizeof(std::uint64_t);
  stage().write(device0, words + step_words + 4, 8);
  CHECK(stage().read(device0, words + 3 * step_words + 4) == 8);
  CHECK(stage().read(device0, words + 2 * step_words + 4) == 0);
}

TEST_CASE("unmapping a range removes access everywhere, and refuses to cut a mapping", "[system]") {
  stage();
  const Physical one(vm_step);
  const Physical two(2 * vm_step);
  const Addresses place(5 * vm_step);
  const Mapped first(place, vm_step, one);
  const Mapped second(place + 2 * vm_step, 2 * vm_step, two);
  REQUIRE(give_access(place, vm_step, on_device(0)) == CUDA_SUCCESS);
  REQUIRE(give_access(place + 2 * vm_step, 2 * vm_step, on_device(1)) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(place, 3 * vm_step) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(place + 3 * vm_step, 2 * vm_step) == CUDA_ERROR_INVALID_VALUE);
  CHECK(open_to(device0, place) == 3);
  CHECK(open_to(device1, place + 2 * vm_step) == 3);
  CHECK(cuMemUnmap(place, 8 * vm_step) == CUDA_SUCCESS);
  CHECK(open_to(device0, place) == 0);
  CHECK(open_to(device1, place + 2 * vm_step) == 0);
  // The addresses can be used again.
  const Mapped again(place + vm_step, 2 * vm_step, two);
}

TEST_CASE("adjacent address reservations can be used as one", "[system]") {
  stage();
  const Physical one(vm_step);
  const Physical other(vm_step, on_device(1));
  Addresses whole(2 * vm_step);
  const CUdeviceptr start = whole;
  REQUIRE(cuMemAddressFree(whole, 2 * vm_step) == CUDA_SUCCESS);
  const Addresses first(vm_step, start);
  const Addresses second(vm_step, start + vm_step);
  REQUIRE(second == start + vm_step);
  const Mapped here(first, vm_step, one);
  const Mapped there(second, vm_step, other);
  REQUIRE(give_access(start, 2 * vm_step, on_device(0)) == CUDA_SUCCESS);
  stage().write_pages(device0, words_at(start), 2 * vm_step, 3);
  CHECK(stage().read_pages(device0, words_at(start), 2 * vm_step) == 3 * 2 * vm_step / page_bytes);
}

TEST_CASE("threads map, use and unmap their own memory at the same time", "[system]") {
  stage();
  const std::size_t before = free_memory();
  constexpr int rounds = 15;
  std::vector<std::future<int>> wrong;
  for (std::uint64_t number = 1; number <= 4; ++number)
    wrong.push_back(std::async(std::launch::async, [number] {
      const int device = static_cast<int>(number % 2);
      WHERRY_TRY(cuCtxSetCurrent(session().context(device)));
      CUstream stream = nullptr;
      WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      int differ = 0;
      for (std::uint64_t round = 0; round < rounds; ++round) {
        const Ready ready(vm_step, {on_device(device)}, on_device(device));
        std::uint64_t seen = 1;
        WHERRY_TRY(cuMemcpyDtoH(&seen, ready.place + 8, sizeof seen));
        differ += seen != 0;
        const std::uint64_t value = number << 32 | round;
        WHERRY_TRY(cuMemcpyHtoD(ready.place + 8, &value, sizeof value));
        struct Argument {
          std::uint64_t* words;
        } argument{ready.words()};
        const auto kernel = [](const void* args, std::size_t, std::size_t) {
          std::uint64_t* const words = static_cast<const Argument*>(args)->words;
          words[2] = words[1] + 1;
        };
        WHERRY_TRY(wherryLaunchKernel(stream, kernel, &argument, sizeof argument, 1));
        WHERRY_TRY(cuStreamSynchronize(stream));
        WHERRY_TRY(cuMemcpyDtoH(&seen, ready.place + 16, sizeof seen));
        differ += seen != value + 1;
      }
      WHERRY_TRY(cuStreamDestroy(stream));
      return differ;
    }));
  for (auto& each : wrong) CHECK(each.get() == 0);
  CHECK(free_memory() == before);
  CHECK(descriptors_of(::getpid()) == 0);
}

TEST_CASE("a device that is started again has the mappings that it had", "[system]") {
  stage();
  const Ready kept(vm_step, {on_device(0)});
  const Ready taken(vm_step, {on_device(0)});
  stage().write(device0, kept.words(), 31);
  ::kill(device_process(0), SIGKILL);
  REQUIRE(ends_within(device_process(0), 5000));
  // Changes made while the device is down.
  const Ready late(vm_step, {on_device(0)}, on_device(1));
  REQUIRE(give_access(taken.place, vm_step, on_device(0), CU_MEM_ACCESS_FLAGS_PROT_NONE) ==
          CUDA_SUCCESS);
  session().reset(device0);
  CHECK(stage().read(device0, kept.words()) == 31);
  CHECK(open_to(device0, kept.place) == 3);
  CHECK(open_to(device0, late.place) == 3);
  CHECK(open_to(device0, taken.place) == 0);
}

TEST_CASE("cuMemCreate can make host memory, and devices can access it", "[system]") {
  stage();
  int node = 0;
  WHERRY_TRY(cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0));
  const std::size_t before = free_memory();
  for (const CUmemLocation& location :
       {on_host, CUmemLocation{CU_MEM_LOCATION_TYPE_HOST_NUMA, node}}) {
    const Ready ready(vm_step, {on_device(1), on_host}, location);
    CHECK(free_memory() == before);
    ready.words()[2] = 9;
    CHECK(stage().read(device1, ready.words() + 2) == 9);
    CHECK(mapped_node(::getpid(), ready.words()) == node);
    CHECK(open_to(device0, ready.place) == 0);
  }
}

TEST_CASE("third parties get the file's pages, and keep them", "[system]") {
  stage();
  Physical physical(vm_step);
  const Addresses place(vm_step);
  Mapped mapped(place, vm_step, physical);
  REQUIRE(give_access(place, vm_step, on_device(0)) == CUDA_SUCCESS);
  stage().write(device0, words_at(place) + page_words, 23);
  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens{};
  WHERRY_TRY(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, place));
  wherryPageExtent extent{};
  std::size_t count = 1;
  const CUdeviceptr wanted = place + page_bytes;
  REQUIRE(wherryGetP2PPages(tokens.p2pToken, tokens.vaSpaceToken, wanted, page_bytes + 1, &extent,
                            &count) == CUDA_SUCCESS);
  REQUIRE(count == 1);
  CHECK(extent.address == wanted);
  CHECK(extent.bytes == 2 * page_bytes);
  std::uint64_t seen = 0;
  CHECK(::pread(extent.fd, &seen, sizeof seen, static_cast<off_t>(extent.offset)) == sizeof seen);
  CHECK(seen == 23);
  // The third party keeps the pages after the memory is unmapped and released.
  mapped.unmap();
  physical.release();
  CHECK(::pread(extent.fd, &seen, sizeof seen, static_cast<off_t>(extent.offset)) == sizeof seen);
  CHECK(frames_of(extent.fd) == vm_step / page_bytes);
  CHECK(wherryPutP2PPages(tokens.p2pToken, tokens.vaSpaceToken, wanted, page_bytes + 1) ==
        CUDA_SUCCESS);
  CHECK(descriptors_of(::getpid()) == 0);
}

TEST_CASE("a child made by fork() has no part of it", "[system]") {
  stage();
  const Ready ready(vm_step, {on_device(0), on_host}, on_host);
  *ready.words() = 3;
  const pid_t child = ::fork();
  if (child == 0) {
    // The child has no accessible mapping, and no descriptor.
    unsigned char present = 0;
    const bool mapped = ::mincore(ready.words(), page_bytes, &present) == 0;
    const bool open = permissions_of(::getpid(), ready.words()).read;
    ::_exit((mapped && open ? 1 : 0) | (descriptors_of(::getpid()) != 0 ? 2 : 0));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(stage().read(device0, ready.words()) == 3);
}

}  // namespace wherry::test::virtual_memory_test
