// Host memory that devices use in place, allocated or registered: which processors may access it
// and at which addresses, that all of them have the same pages, and what happens to it across
// device failures, resets and fork.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wherry/cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/descriptors.h"
#include "support/kernel_view.h"
#include "support/session.h"
#include "support/stage.h"

namespace wherry::test::host_memory_test {

namespace {

constexpr std::size_t kibibyte = 1024;
constexpr const char* devices = "capacity=16M,workers=1;capacity=16M,workers=1";

Session& session() {
  static Session the_session(devices);
  return the_session;
}

// Owns an allocation of host memory, as words.
class Host {
 public:
  explicit Host(std::size_t bytes, unsigned flags = 0) : count_(bytes / sizeof(std::uint64_t)) {
    void* data = nullptr;
    WHERRY_TRY(cuMemHostAlloc(&data, bytes, flags));
    data_ = static_cast<std::uint64_t*>(data);
  }
  ~Host() { cuMemFreeHost(data_); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  std::uint64_t* data() const { return data_; }
  std::size_t count() const { return count_; }

 private:
  std::size_t count_;
  std::uint64_t* data_;
};

template <typename T>
T* on_device(T* pointer) {
  CUdeviceptr address = 0;
  WHERRY_TRY(cuMemHostGetDevicePointer(&address, pointer, 0));
  return reinterpret_cast<T*>(address);
}

// Private anonymous memory, as mmap returns it.
class Pages {
 public:
  explicit Pages(std::size_t bytes, int protection = PROT_READ | PROT_WRITE)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    expect(data_ != MAP_FAILED, "mmap");
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::uint64_t* words() const { return static_cast<std::uint64_t*>(data_); }
  std::byte* bytes() const { return static_cast<std::byte*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

class Registered {
 public:
  Registered(void* data, std::size_t bytes, unsigned flags = 0) : data_(data) {
    WHERRY_TRY(cuMemHostRegister(data, bytes, flags));
  }
  ~Registered() { end(); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  void end() {
    if (data_ != nullptr) WHERRY_TRY(cuMemHostUnregister(data_));
    data_ = nullptr;
  }

 private:
  void* data_;
};

void store(int device, std::uint64_t* word, std::uint64_t value) {
  session().run(device, [=] { *word = value; });
}
std::uint64_t load(int device, const std::uint64_t* word) {
  static const Host answer(4 * kibibyte);
  session().run(device, [word, to = answer.data()] { *to = *word; });
  return answer.data()[0];
}

// The mapping at the address in /proc/self/maps: its rights ("rw-s") and its name.
std::string mapping_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
    char permissions[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, permissions) != 3) continue;
    if (wanted < start || wanted >= end) continue;
    const std::size_t name = line.find_first_of("/[");
    return std::string(permissions) + (name == std::string::npos ? "" : " " + line.substr(name));
  }
  return "";
}
bool is_file_backed(const void* address) {
  return mapping_of(address).find("wherry-host-memory") != std::string::npos;
}

bool same_frame(const void* here, int device, const void* there) {
  const PageEntry one = page_entry(::getpid(), here);
  const PageEntry other = page_entry(device_process(device), there);
  if (!one.present || !other.present) return false;
  return one.frame == other.frame;  // both 0 where frames are hidden
}

// How many bytes the file behind host memory takes.
std::uint64_t bytes_of_file() {
  for (const int fd : open_descriptors())
    if (file_of_descriptor(fd).find("wherry-host-memory") != std::string::npos)
      return allocated_bytes(fd);
  throw std::runtime_error("no file of host memory");
}

CUresult touch_on(int device, std::uint64_t* word) {
  session().launch(device, 1, [word](std::size_t) { *word = 1; });
  return session().wait(device);
}

// Runs `body` in a child of fork(). Returns 0, or the number of the expectation that failed.
template <typename Body>
int in_fork(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

// These run before the session starts, because they start the library in processes of their own.
TEST_CASE("a program that forks can allocate and free host memory as often as it likes",
          "[system]") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_ARENA", "64M", 1);
    const Session small("capacity=4M");
    for (int round = 0; round < 20; ++round) {
      const Host memory(24 * mebibyte);
      expect(std::count(memory.data(), memory.data() + memory.count(), 0U) ==
                 static_cast<std::ptrdiff_t>(memory.count()),
             "the memory is not zero");
      memory.data()[1] = 1;
      expect(in_fork([&] { return memory.data()[1] == 1 ? 0 : 1; }) == 0, "the child's view");
    }
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("the host's pool bounds host memory", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_HOST_CAPACITY", "8M", 1);
    Session fresh("capacity=4M");
    void* one = nullptr;
    void* other = nullptr;
    WHERRY_TRY(cuMemAllocHost(&one, 6 * mebibyte));
    expect(cuMemAllocHost(&other, 3 * mebibyte) == CUDA_ERROR_OUT_OF_MEMORY,
           "more memory than there is was not refused");
    expect(other == nullptr, "a refused allocation returned a pointer");
    CUdeviceptr managed = 0;
    expect(
        cuMemAllocManaged(&managed, 7 * mebibyte, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_OUT_OF_MEMORY,
        "managed memory without space was not refused");
    WHERRY_TRY(cuMemAllocManaged(&managed, 6 * mebibyte, CU_MEM_ATTACH_GLOBAL));
    WHERRY_TRY(cuMemFreeHost(one));
    expect(cuMemAllocHost(&one, 7 * mebibyte) == CUDA_ERROR_OUT_OF_MEMORY,
           "space promised to managed memory was not refused");
    WHERRY_TRY(cuMemAllocHost(&one, 5 * mebibyte));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("an access to freed host memory is an error", "[system]") {
  const Outcome touch = in_fresh_process([] {
    Session fresh(devices);
    void* memory = nullptr;
    WHERRY_TRY(cuMemAllocHost(&memory, 4096));
    std::memset(memory, 1, 4096);
    WHERRY_TRY(cuMemFreeHost(memory));
    ::signal(SIGSEGV, SIG_DFL);
    std::memset(memory, 1, 1);
  });
  INFO(touch.describe());
  CHECK(touch.signal == SIGSEGV);
}

TEST_CASE("host memory is zero, and has the same pages for the host and every device", "[system]") {
  session();
  const Host memory(3 * mebibyte);
  CHECK(on_device(memory.data()) == memory.data());
  for (std::size_t i = 0; i < memory.count(); i += page_words) REQUIRE(memory.data()[i] == 0);
  for (int device = 0; device < 2; ++device) {
    std::uint64_t* word = memory.data() + (device + 1) * 1000;
    memory.data()[7] = 4711;
    CHECK(load(device, memory.data() + 7) == 4711);
    store(device, word, 42);
    CHECK(*word == 42);
    CHECK(same_frame(word, device, word));
  }
  CHECK(is_file_backed(memory.data()));
}

TEST_CASE("host memory has all its pages as soon as it is allocated, and none after it is freed",
          "[system]") {
  session();
  const std::uint64_t before = bytes_of_file();
  std::uint64_t* freed = nullptr;
  {
    const Host memory(3 * mebibyte);
    freed = memory.data();
    CHECK(bytes_of_file() - before == 3 * mebibyte);
  }
  CHECK(bytes_of_file() == before);
  CHECK(mapping_of(freed).substr(0, 4) == "---p");
  CHECK(touch_on(0, freed) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(0);
}

TEST_CASE("write-combined memory has one address for the host and another for devices",
          "[system]") {
  session();
  const Host memory(128 * kibibyte, CU_MEMHOSTALLOC_WRITECOMBINED);
  std::uint64_t* theirs = on_device(memory.data());
  REQUIRE(theirs != memory.data());
  memory.data()[5] = 99;
  for (int device = 0; device < 2; ++device) {
    CHECK(load(device, theirs + 5) == 99);
    store(device, theirs + 6, 7);
    CHECK(memory.data()[6] == 7);
    memory.data()[6] = 0;
    CHECK(same_frame(memory.data(), device, theirs));
  }
  CHECK(mapping_of(theirs).substr(0, 4) == "---p");
  CHECK(touch_on(1, memory.data()) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(1);
  CHECK(load(1, theirs + 5) == 99);
}

TEST_CASE("a device that is started again has all host and registered memory", "[system]") {
  session();
  const Host memory(64 * kibibyte);
  const Host apart(64 * kibibyte, CU_MEMHOSTALLOC_WRITECOMBINED);
  const Pages pages(64 * kibibyte);
  auto* small = static_cast<std::uint64_t*>(std::malloc(1000));
  const Registered registered(pages.words(), 64 * kibibyte);
  const Registered registered_small(small, 1000);
  memory.data()[0] = 1;
  apart.data()[0] = 2;
  pages.words()[0] = 3;
  small[0] = 4;
  for (int round = 0; round < 3; ++round) {
    session().reset(0);
    CHECK(load(0, memory.data()) == 1);
    CHECK(load(0, on_device(apart.data())) == 2);
    CHECK(load(0, on_device(pages.words())) == 3);
    CHECK(load(0, on_device(small)) == 4);
    store(0, on_device(pages.words()) + 1, 5);
    store(0, on_device(small) + 1, 6);
    CHECK(pages.words()[1] == 5);
    CHECK(small[1] == 6);
    // At the host's address a device has only its private copy of the program's memory.
    store(0, on_device(pages.words()) + 1, 0);
    CHECK(touch_on(0, pages.words()) == CUDA_ERROR_ILLEGAL_ADDRESS);
    session().reset(0);
    CHECK(pages.words()[0] == 3);
  }
}

TEST_CASE("registered memory keeps its contents and its address, and devices use it in place",
          "[system]") {
  session();
  const Pages pages(5 * mebibyte);
  for (std::size_t i = 0; i < 5 * mebibyte / 8; i += 100) pages.words()[i] = i + 1;
  Registered registered(pages.words() + 3, 5 * mebibyte - 100);
  std::uint64_t* theirs = on_device(pages.words() + 3);
  CHECK(theirs != pages.words() + 3);
  CHECK(reinterpret_cast<std::uintptr_t>(theirs) % 4096 == 24);
  CHECK(is_file_backed(pages.words()));
  for (std::size_t i = 0; i < 5 * mebibyte / 8; i += 100) REQUIRE(pages.words()[i] == i + 1);
  for (int device = 0; device < 2; ++device) {
    CHECK(load(device, theirs + 97) == 101);
    store(device, theirs + 1, 5);
    CHECK(pages.words()[4] == 5);
    pages.words()[4] = 0;
    CHECK(same_frame(pages.words(), device, theirs));
  }
  store(1, theirs + 2, 77);
  registered.end();
  CHECK_FALSE(is_file_backed(pages.words()));
  CHECK(mapping_of(pages.words()).substr(0, 4) == "rw-p");
  CHECK(pages.words()[5] == 77);
  pages.words()[5] = 501;
  for (std::size_t i = 0; i < 5 * mebibyte / 8; i += 100) REQUIRE(pages.words()[i] == i + 1);
  CHECK(touch_on(0, theirs) == CUDA_ERROR_ILLEGAL_ADDRESS);
  session().reset(0);
}

namespace {

std::uint64_t in_bss[3000];
std::uint64_t in_data[3000] = {1, 2, 3};

// The host and a device see each other's writes to the words while they are registered, and the
// words keep their values afterwards.
void share(std::uint64_t* words, std::size_t count) {
  words[1] = 100;
  words[count - 2] = 200;
  {
    const Registered registered(words + 1, (count - 2) * sizeof(std::uint64_t));
    std::uint64_t* const theirs = on_device(words + 1);
    CHECK(load(0, theirs) == 100);
    CHECK(load(0, theirs + count - 3) == 200);
    store(0, theirs, 101);
    store(1, theirs + count - 3, 201);
    CHECK(words[1] == 101);
    CHECK(words[count - 2] == 201);
    CHECK(in_fork([&] {
            words[1] = 5;
            return words[count - 2] == 201 ? 0 : 1;
          }) == 0);
    CHECK(words[1] == 101);
    words[1] = 102;
    CHECK(load(0, theirs) == 102);
    CHECK(is_file_backed(words + 1));
  }
  CHECK_FALSE(is_file_backed(words + 1));
  CHECK(words[1] == 102);
  CHECK(words[count - 2] == 201);
}

}  // namespace

TEST_CASE("variables and the caller's stack are registered like other memory", "[system]") {
  session();
  share(in_bss, std::size(in_bss));
  share(in_data, std::size(in_data));
  CHECK(in_data[2] == 3);
  std::uint64_t on_stack[3000] = {};
  share(on_stack, std::size(on_stack));
  std::uint64_t few[5] = {};
  share(few, 5);
  std::thread([] {
    WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
    // Not in the pages of the thread control block, which are refused.
    std::byte above[16 * kibibyte];
    asm volatile("" : : "r"(above) : "memory");
    const auto below = []() __attribute__((noinline)) {
      std::uint64_t large[3000] = {};
      share(large, std::size(large));
    };
    below();
  }).join();
}

TEST_CASE("a fork keeps a stack that was left registered", "[system]") {
  session();
  std::uintptr_t left = 0;
  const auto leave = [&] {
    std::uint64_t large[5000] = {};
    WHERRY_TRY(cuMemHostRegister(large, sizeof large, 0));
    left = reinterpret_cast<std::uintptr_t>(large);
  };
  leave();
  // The stack frames of deep(), also of the call that forks, lie in the registered pages.
  const std::function<int(int)> deep = [&](int depth) {
    volatile std::uint64_t frame[200];
    frame[7] = static_cast<std::uint64_t>(depth);
    if (depth > 0) return deep(depth - 1) + (frame[7] == static_cast<std::uint64_t>(depth) ? 0 : 1);
    return in_fork([&] {
             frame[7] = 1234;
             return 0;
           }) +
           (frame[7] == 0 ? 0 : 1);
  };
  CHECK(deep(20) == 0);
  WHERRY_TRY(cuMemHostUnregister(reinterpret_cast<void*>(left)));
}

TEST_CASE("pieces of one page are registered one by one, at addresses of their own", "[system]") {
  session();
  const Pages pages(3 * 4096);
  std::uint64_t* const words = pages.words();
  for (std::size_t i = 0; i < 3 * 512; ++i) words[i] = i;
  Registered first(words + 10, 80);
  const Registered second(words + 20, 8000);
  CHECK(cuMemHostRegister(words + 19, 16, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  std::uint64_t* const of_first = on_device(words + 10);
  std::uint64_t* const of_second = on_device(words + 20);
  CHECK(of_second - of_first != 10);
  store(0, of_first, 1000);
  store(0, of_second, 2000);
  store(1, of_second + 900, 3000);  // in the second page
  CHECK(words[10] == 1000);
  CHECK(words[20] == 2000);
  CHECK(words[920] == 3000);
  first.end();
  unsigned flags = 0;
  CHECK(cuMemHostGetFlags(&flags, words + 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostGetFlags(&flags, words + 20) == CUDA_SUCCESS);
  words[20] = 2001;
  CHECK(load(0, of_second) == 2001);
  // Memory that is registered now gets no page that is still in use.
  const Pages more(4096);
  const Registered third(more.words(), 4096);
  store(0, on_device(more.words()) + 20, 7);
  CHECK(words[20] == 2001);
  CHECK(load(0, of_second) == 2001);
  session().reset(0);
  CHECK(load(0, of_second + 900) == 3000);
}

TEST_CASE("memory registered for reading cannot be written by kernels", "[system]") {
  session();
  const Pages pages(64 * kibibyte);
  pages.words()[0] = 9;
  REQUIRE(::mprotect(pages.words(), 64 * kibibyte, PROT_READ) == 0);
  CHECK(cuMemHostRegister(pages.words(), 64 * kibibyte, 0) == CUDA_ERROR_INVALID_VALUE);
  {
    const Registered registered(pages.words(), 64 * kibibyte, CU_MEMHOSTREGISTER_READ_ONLY);
    std::uint64_t* theirs = on_device(pages.words());
    CHECK(load(0, theirs) == 9);
    CHECK(mapping_of(pages.words()).substr(0, 4) == "r--s");
    CHECK(touch_on(0, theirs) == CUDA_ERROR_ILLEGAL_ADDRESS);
    session().reset(0);
  }
  CHECK(mapping_of(pages.words()).substr(0, 4) == "r--p");
  CHECK(pages.words()[0] == 9);
}

TEST_CASE("malloc works while its memory is registered and unregistered", "[system]") {
  session();
  std::vector<std::uint64_t*> blocks;
  std::vector<std::uint64_t*> neighbours;
  for (int i = 0; i < 50; ++i) {
    const std::size_t bytes = 100 + static_cast<std::size_t>(i) * 777;
    auto* block = static_cast<std::uint64_t*>(std::malloc(bytes));
    block[0] = static_cast<std::uint64_t>(i);
    const CUresult result = cuMemHostRegister(block, bytes, 0);
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {  // shares a page with its neighbor
      neighbours.push_back(block);
      continue;
    }
    REQUIRE(result == CUDA_SUCCESS);
    blocks.push_back(block);
    std::free(std::malloc(bytes));
  }
  CHECK(blocks.size() > 10);
  for (std::uint64_t* block : blocks) {
    CHECK(load(0, on_device(block)) == block[0]);
    REQUIRE(cuMemHostUnregister(block) == CUDA_SUCCESS);
    std::free(block);
  }
  for (std::uint64_t* block : neighbours) std::free(block);
}

TEST_CASE("no write is lost while memory is registered and unregistered", "[system]") {
  session();
  constexpr int writers = 4;
  const int rounds = static_cast<int>(1000 * scale());
  // Uses four words on each of many pages, some of them in the middle of malloc's heap.
  auto* heap = static_cast<std::uint64_t*>(std::malloc(40'000));
  const Pages pages(mebibyte);
  std::memset(heap, 0, 40'000);
  std::atomic<bool> stop{false};
  std::vector<std::uint64_t> counts(writers);
  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer)
    threads.emplace_back([&, writer] {
      volatile std::uint64_t* words = writer % 2 == 0 ? pages.words() : heap;
      const std::size_t last = writer % 2 == 0 ? mebibyte / 8 : 5000;
      std::uint64_t count = 0;
      for (std::size_t i = static_cast<std::size_t>(writer); !stop; i += 500 - 500 % 4) {
        if (i >= last) i = static_cast<std::size_t>(writer);
        words[i] = words[i] + 1;
        ++count;
      }
      counts[static_cast<std::size_t>(writer)] = count;
    });
  for (int round = 0; round < rounds; ++round) {
    Registered one(pages.words(), mebibyte);
    Registered other(heap + 1, 39'000);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::uint64_t in_pages = 0;
  std::uint64_t in_heap = 0;
  for (std::size_t i = 0; i < mebibyte / 8; ++i) in_pages += pages.words()[i];
  for (std::size_t i = 0; i < 5000; ++i) in_heap += heap[i];
  CHECK(in_pages == counts[0] + counts[2]);
  CHECK(in_heap == counts[1] + counts[3]);
  CHECK(counts[0] > static_cast<std::uint64_t>(rounds));
  std::free(heap);
}

TEST_CASE("copies to and from memory go on while it is registered and unregistered", "[system]") {
  session();
  constexpr std::size_t bytes = 3 * mebibyte;
  const Pages pages(bytes);
  CUdeviceptr device = 0;
  WHERRY_TRY(cuMemAlloc(&device, bytes));
  const CUcontext context = session().context(0);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread copier([&] {
    WHERRY_TRY(cuCtxSetCurrent(context));
    for (unsigned char round = 1; !stop; ++round) {
      wrong += cuMemsetD8(device, round, bytes) != CUDA_SUCCESS;
      wrong += cuMemcpyDtoH(pages.bytes(), device, bytes) != CUDA_SUCCESS;
      for (std::size_t i = 0; i < bytes; i += 4000) wrong += pages.bytes()[i] != std::byte{round};
      std::memset(pages.bytes(), round + 1, bytes);
      wrong += cuMemcpyHtoDAsync(device, pages.bytes(), bytes, nullptr) != CUDA_SUCCESS;
      wrong += cuStreamSynchronize(nullptr) != CUDA_SUCCESS;
      unsigned char last = 0;
      wrong += cuMemcpyDtoH(&last, device + bytes - 1, 1) != CUDA_SUCCESS;
      wrong += last != static_cast<unsigned char>(round + 1);
    }
  });
  const int rounds = static_cast<int>(40 * scale()) + 4;
  for (int round = 0; round < rounds; ++round) {
    Registered one(pages.words() + 1, bytes - 100);
    ::usleep(1000);
  }
  stop = true;
  copier.join();
  CHECK(wrong == 0);
  WHERRY_TRY(cuMemFree(device));
}

TEST_CASE("a child of fork has its own copy of registered memory", "[system]") {
  session();
  const Pages pages(5 * mebibyte);
  auto* heap = static_cast<std::uint64_t*>(std::malloc(40'000));
  for (std::size_t i = 0; i < 5 * mebibyte / 8; i += 64) pages.words()[i] = i;
  for (std::size_t i = 0; i < 5000; ++i) heap[i] = i;
  {
    const Registered one(pages.words(), 5 * mebibyte);
    const Registered other(heap + 1, 39'000);
    // The parent goes on without waiting for the child.
    const int failed = [&] {
      const pid_t child = ::fork();
      if (child == 0) {
        ::usleep(50'000);
        for (std::size_t i = 0; i < 5 * mebibyte / 8; i += 64)
          if (pages.words()[i] != i) ::_exit(1);
        for (std::size_t i = 0; i < 5000; ++i)
          if (heap[i] != i) ::_exit(2);
        pages.words()[1] = 1234;
        for (std::size_t i = 0; i < 5000; ++i) heap[i] = 1234;
        std::free(std::malloc(100'000));
        ::_exit(is_file_backed(pages.words()) || is_file_backed(heap) ? 3 : 0);
      }
      for (std::size_t i = 0; i < 5 * mebibyte / 8; i += 64) pages.words()[i] = i + 1;
      for (std::size_t i = 0; i < 5000; ++i) heap[i] = i + 1;
      int status = 0;
      ::waitpid(child, &status, 0);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }();
    CHECK(failed == 0);
    CHECK(pages.words()[1] == 0);
    for (std::size_t i = 0; i < 5000; ++i) REQUIRE(heap[i] == i + 1);
    CHECK(is_file_backed(heap));
    CHECK(load(0, on_device(pages.words()) + 64) == 65);
    CHECK(load(0, on_device(heap + 1)) == 2);
  }
  std::free(heap);
}

TEST_CASE("writes of kernels and threads during forks reach registered memory", "[system]") {
  session();
  const int rounds = static_cast<int>(100 * scale()) + 1;
  // One page whose first and last bytes belong to other data.
  const Pages pages(4096);
  std::uint64_t* words = pages.words();
  const Registered registered(words + 8, 4096 - 128);
  std::uint64_t* theirs = on_device(words + 8);
  std::atomic<bool> stop{false};
  std::uint64_t count = 0;
  std::thread writer([&] {
    while (!stop) {
      words[0] = words[0] + 1;
      words[20] = words[20] + 1;
      ++count;
    }
  });
  for (int round = 0; round < rounds; ++round) {
    session().launch(0, 1, [theirs](std::size_t) {
      for (int i = 0; i < 10'000; ++i) {
        theirs[30] = theirs[30] + 1;
        theirs[31] = theirs[30];
      }
    });
    CHECK(in_fork([&] { return words[1] == 0 ? 0 : 1; }) == 0);
    WHERRY_TRY(session().wait(0));
  }
  stop = true;
  writer.join();
  CHECK(words[0] == count);
  CHECK(words[20] == count);
  CHECK(words[38] == static_cast<std::uint64_t>(rounds) * 10'000);
  CHECK(words[39] == words[38]);
}

TEST_CASE("copies into registered memory arrive while the program forks", "[system]") {
  session();
  const int forks = static_cast<int>(200 * scale()) + 1;
  // One page whose first and last bytes belong to other data.
  const Pages pages(4096);
  std::uint64_t* words = pages.words();
  const Registered registered(words + 8, 4096 - 128);
  constexpr std::size_t count = 256;
  CUdeviceptr source = 0;
  WHERRY_TRY(cuMemAlloc(&source, count * sizeof(std::uint64_t)));
  std::atomic<bool> stop{false};
  std::string failure;
  unsigned copies = 0;
  std::thread copier([&] {
    cuCtxSetCurrent(session().context(0));
    const CUstream stream = session().stream(0);
    try {
      for (; !stop || copies == 0; ++copies) {
        WHERRY_TRY(cuMemsetD32Async(source, copies, 2 * count, stream));
        WHERRY_TRY(cuMemcpyDtoHAsync(words + 20, source, count * sizeof(std::uint64_t), stream));
        WHERRY_TRY(cuStreamSynchronize(stream));
        const std::uint64_t wanted = std::uint64_t{copies} << 32 | copies;
        for (std::size_t i = 0; i < count; ++i)
          expect(words[20 + i] == wanted, "a word has its old value");
      }
    } catch (const std::exception& error) {
      failure = error.what();
    }
  });
  for (int i = 0; i < forks; ++i) CHECK(in_fork([] { return 0; }) == 0);
  stop = true;
  copier.join();
  INFO(failure);
  CHECK(failure.empty());
  CHECK(load(0, on_device(words + 20)) == words[20]);
  CHECK(is_file_backed(words));
  WHERRY_TRY(cuMemFree(source));
}

TEST_CASE("a child of fork shares host memory with its parent and the devices", "[system]") {
  session();
  const unsigned flags = GENERATE(0U, unsigned{CU_MEMHOSTALLOC_WRITECOMBINED});
  const Host memory(64 * kibibyte, flags);
  std::uint64_t* const words = memory.data();
  words[1] = 7;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (words[1] != 7) ::_exit(1);
    words[2] = 8;
    char byte = 0;
    // The parent and a kernel write after the fork.
    if (::read(ends[0], &byte, 1) != 1) ::_exit(2);
    ::_exit(words[3] == 9 && words[4] == 10 ? 0 : 3);
  }
  words[3] = 9;
  session().run(0, [on_device = on_device(words)] { on_device[4] = 10; });
  CHECK(::write(ends[1], "x", 1) == 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(words[2] == 8);
  CHECK(load(0, on_device(words) + 2) == 8);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("what is allocated after a fork is not in the child, whatever its parent has freed",
          "[system]") {
  session();
  auto memory = std::make_unique<Host>(64 * kibibyte);
  std::uint64_t* const words = memory->data();
  words[0] = 7;
  int to_child[2];
  int to_parent[2];
  REQUIRE(::pipe(to_child) == 0);
  REQUIRE(::pipe(to_parent) == 0);
  char byte = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    if (words[0] != 7 || ::write(to_parent[1], "x", 1) != 1) ::_exit(1);
    if (::read(to_child[0], &byte, 1) != 1) ::_exit(1);
    const std::uint64_t seen = words[0];
    words[0] = 3;
    ::_exit(seen == 0 ? 0 : 2);
  }
  ::close(to_parent[1]);
  CHECK(::read(to_parent[0], &byte, 1) == 1);  // the child has seen the memory
  memory.reset();
  const Host next(64 * kibibyte);
  std::vector<std::uint64_t> buffer(1024, 5);
  WHERRY_TRY(cuMemHostRegister(buffer.data(), buffer.size() * 8, 0));
  for (std::size_t i = 0; i < next.count(); ++i) next.data()[i] = 5;
  CHECK(::write(to_child[1], "x", 1) == 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(std::ranges::count(buffer, 5U) == 1024);
  CHECK(std::count(next.data(), next.data() + next.count(), 5U) ==
        static_cast<std::ptrdiff_t>(next.count()));
  WHERRY_TRY(cuMemHostUnregister(buffer.data()));
  for (const int end : {to_child[0], to_child[1], to_parent[0]}) ::close(end);
}

TEST_CASE("a process that a kernel forks does not have host memory", "[system]") {
  session();
  const Host memory(64 * kibibyte);
  std::uint64_t* const words = memory.data();
  session().run(0, [words] {
    const pid_t child = ::fork();
    if (child == 0) {
      *const_cast<volatile std::uint64_t*>(words) = 1;
      ::_exit(0);
    }
    int status = 0;
    words[1] = ::waitpid(child, &status, 0) == child ? static_cast<std::uint64_t>(status) : ~0UL;
  });
  CHECK(
      (WIFSIGNALED(static_cast<int>(words[1])) && WTERMSIG(static_cast<int>(words[1])) == SIGSEGV));
  CHECK(words[0] == 0);
}

TEST_CASE("memory that the program unmapped is left alone when it is unregistered", "[system]") {
  session();
  Pages pages(64 * kibibyte);
  WHERRY_TRY(cuMemHostRegister(pages.words(), 64 * kibibyte, 0));
  REQUIRE(::mmap(pages.bytes() + 16 * kibibyte, 16 * kibibyte, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
  pages.words()[2048] = 3;
  pages.words()[0] = 4;
  pages.words()[8000] = 5;
  CHECK(cuMemHostUnregister(pages.words()) == CUDA_SUCCESS);
  CHECK(pages.words()[2048] == 3);
  CHECK(pages.words()[0] == 4);
  CHECK(pages.words()[8000] == 5);
  CHECK_FALSE(is_file_backed(pages.words()));
}

}  // namespace wherry::test::host_memory_test
