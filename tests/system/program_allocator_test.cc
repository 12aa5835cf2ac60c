// A program that replaces malloc and operator new. The library calls neither while it holds a lock
// that a fault's answer may need, nor in its own threads; so the program's memory may be managed
// memory.
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/libc_allocator.h"
#include "support/session.h"

namespace {

[[noreturn]] void fail(const char* why) {
  (void)!::write(STDERR_FILENO, why, std::strlen(why));
  ::abort();
}

enum class Mode {
  usual,    // the C library's allocator
  checked,  // the C library's allocator, and the test fails if the library calls it under a lock
  managed,  // managed memory that is never reused
  starts_itself,  // the next call starts the library, and later calls are as with `managed`
};
std::atomic<Mode> mode{Mode::usual};
std::atomic<long> managed_calls{0};

std::atomic<std::uintptr_t> pieces_start{0};
std::atomic<std::uintptr_t> pieces_end{0};
std::atomic<std::uintptr_t> next_piece{0};
constexpr std::size_t pieces_bytes = std::size_t{256} << 20;

// Whether this thread blocks a signal that the program never blocks. The library does so in its own
// threads and while it holds its locks.
bool signals_are_held_back() {
  std::uint64_t mask = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask);
  return (mask >> (SIGUSR2 - 1) & 1) != 0;
}

// Whether this is one of the threads that run the program's host functions.
bool runs_host_functions() {
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  return std::strncmp(name, "wherry-host", 11) == 0;
}

void check_caller() {
  if (mode != Mode::checked || !signals_are_held_back() || runs_host_functions()) return;
  mode = Mode::usual;
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  (void)!::write(STDERR_FILENO, name, std::strlen(name));
  fail(": the program's allocator is called under a lock, or in a thread of the library\n");
}

void begin_with_managed_memory() {
  void* memory = nullptr;
  if (cuInit(0) != CUDA_SUCCESS) fail("cuInit\n");
  CUcontext context = nullptr;
  if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS)
    fail("a context\n");
  CUdeviceptr pieces = 0;
  if (cuMemAllocManaged(&pieces, pieces_bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS)
    fail("managed memory\n");
  memory = reinterpret_cast<void*>(pieces);
  pieces_start = next_piece = reinterpret_cast<std::uintptr_t>(memory);
  pieces_end = pieces_start + pieces_bytes;
  mode = Mode::managed;
}

// Null: the caller uses the C library's allocator.
void* managed_piece(std::size_t bytes, std::size_t alignment) {
  if (mode == Mode::starts_itself) {
    mode = Mode::usual;
    begin_with_managed_memory();
  }
  check_caller();
  if (mode != Mode::managed) return nullptr;
  ++managed_calls;
  // The size of a piece lies before its start.
  std::uintptr_t seen = next_piece.load();
  std::uintptr_t start = 0;
  do {
    start = (seen + sizeof(std::size_t) + alignment - 1) / alignment * alignment;
    if (start + bytes > pieces_end) fail("the managed memory is used up\n");
  } while (!next_piece.compare_exchange_weak(seen, start + bytes));
  std::memcpy(reinterpret_cast<void*>(start - sizeof bytes), &bytes, sizeof bytes);
  return reinterpret_cast<void*>(start);
}

bool is_managed_piece(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return address >= pieces_start && address < pieces_end;
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  void* const piece = managed_piece(bytes, 16);
  return piece != nullptr ? piece : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  void* const piece = managed_piece(count * bytes, 16);
  return piece != nullptr ? piece : __libc_calloc(count, bytes);  // new managed memory is zero
}
void* realloc(void* old, size_t bytes) {
  if (old != nullptr && !is_managed_piece(old) && mode != Mode::managed) {
    check_caller();
    return __libc_realloc(old, bytes);
  }
  void* const fresh = malloc(bytes);
  if (old == nullptr) return fresh;
  std::size_t before = bytes;
  if (is_managed_piece(old))
    std::memcpy(&before, static_cast<char*>(old) - sizeof before, sizeof before);
  std::memcpy(fresh, old, before < bytes ? before : bytes);
  return fresh;
}
void* memalign(size_t alignment, size_t bytes) {
  void* const piece = managed_piece(bytes, alignment < 16 ? 16 : alignment);
  return piece != nullptr ? piece : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  *result = memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
void free(void* old) {
  if (old == nullptr) return;
  check_caller();
  if (!is_managed_piece(old)) __libc_free(old);
}
}

namespace wherry::test {
namespace {

constexpr int limit_ms = 60'000;
constexpr int numbers = 1 << 20;  // 4 MiB
constexpr const char* one_device = "capacity=4M";

// Makes the library use everything that answers faults, or holds locks that the answer needs.
void work(const Session& session) {
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  const CUstream stream = session.stream(0);
  for (int round = 0; round < 3; ++round) {
    // More memory than the device holds, so that it evicts.
    const Managed<int> one{numbers}, other{numbers};
    const auto address = reinterpret_cast<CUdeviceptr>(one.data());
    for (int i = 0; i < numbers; i += 512) one[i] = i;
    for (int* memory : {one.data(), other.data(), one.data()})
      session.run(0, [memory] {
        for (int i = 0; i < numbers; i += 512) memory[i] = i + 1;
      });
    for (int i = 0; i < numbers; i += 512) expect(one[i] == i + 1, "a number is wrong");

    for (const auto advice : {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_SET_ACCESSED_BY,
                              CU_MEM_ADVISE_SET_PREFERRED_LOCATION}) {
      WHERRY_TRY(cuMemAdvise(address, one.bytes() / 2, advice, device));
      session.run(0, [memory = one.data()] { ++memory[numbers / 4]; });
      for (int i = 0; i < numbers; i += 4096) ++one[i];
    }
    WHERRY_TRY(cuMemPrefetchAsync(address, one.bytes(), device, 0, stream));
    WHERRY_TRY(cuMemPrefetchAsync(address, one.bytes(), host, 0, stream));
    WHERRY_TRY(session.wait(0));

    CUdeviceptr own = 0;
    WHERRY_TRY(cuMemAlloc(&own, 1 << 16));
    std::vector<char> buffer(1 << 16, 'x');
    WHERRY_TRY(cuMemcpyHtoD(own, buffer.data(), buffer.size()));
    WHERRY_TRY(cuMemcpyAsync(address, own, buffer.size(), stream));
    WHERRY_TRY(cuMemsetD8Async(own, 'y', buffer.size(), stream));
    WHERRY_TRY(cuMemcpyDtoHAsync(buffer.data(), own, buffer.size(), stream));
    WHERRY_TRY(session.wait(0));
    expect(buffer.front() == 'y' && reinterpret_cast<const char*>(one.data())[0] == 'x', "a copy");
    WHERRY_TRY(cuMemFree(own));

    CUevent event = nullptr;
    WHERRY_TRY(cuEventCreate(&event, 0));
    WHERRY_TRY(cuEventRecord(event, stream));
    WHERRY_TRY(cuStreamWaitEvent(stream, event, 0));
    WHERRY_TRY(cuLaunchHostFunc(
        stream, [](void* word) { static_cast<std::string*>(word)->append(100, 'z'); },
        new std::string("said")));
    WHERRY_TRY(cuEventSynchronize(event));
    WHERRY_TRY(session.wait(0));
    WHERRY_TRY(cuEventDestroy(event));

    std::vector<CUdeviceptr> many(200);
    for (CUdeviceptr& piece : many) WHERRY_TRY(cuMemAllocManaged(&piece, 5000, 1));
    std::map<int, std::string> words;
    for (int i = 0; i < 1000; ++i) words[i] = std::string(50, 'w');
    for (const CUdeviceptr piece : many) {
      *reinterpret_cast<volatile char*>(piece) = 1;
      WHERRY_TRY(cuMemFree(piece));
    }
  }
}

void require_passed(const Outcome& outcome, const char* policy) {
  INFO("policy '" << policy << "': " << outcome.describe());
  CHECK(outcome.passed());
}

constexpr const char* policies[] = {"", "uvm", "adaptive"};

void choose_policy(const char* policy) {
  if (*policy != '\0') expect(::setenv("WHERRY_POLICY", policy, 1) == 0, "setenv");
}

}  // namespace

TEST_CASE("the library calls the program's allocator neither under locks nor in its own threads",
          "[system]") {
  for (const char* policy : policies)
    require_passed(in_fresh_process(
                       [policy] {
                         choose_policy(policy);
                         const Session session{one_device};
                         work(session);  // starts the threads that the library starts late
                         mode = Mode::checked;
                         work(session);
                         mode = Mode::usual;
                       },
                       limit_ms),
                   policy);
}

TEST_CASE("a program whose allocator gives managed memory works", "[system]") {
  for (const char* policy : policies)
    require_passed(in_fresh_process(
                       [policy] {
                         choose_policy(policy);
                         const Session session{one_device};
                         begin_with_managed_memory();
                         work(session);
                         expect(managed_calls > 1000, "the allocator was not used");
                         ::_exit(0);
                       },
                       limit_ms),
                   policy);
}

TEST_CASE("a program whose first allocation starts the library and gets managed memory works",
          "[system]") {
  for (const char* policy : policies)
    require_passed(in_fresh_process(
                       [policy] {
                         choose_policy(policy);
                         expect(::setenv("WHERRY_DEVICES", one_device, 1) == 0, "setenv");
                         mode = Mode::starts_itself;
                         const std::string first(100, 'a');
                         expect(mode == Mode::managed, first.c_str());
                         const Session session{one_device};
                         work(session);
                         expect(managed_calls > 1000, "the allocator was not used");
                         ::_exit(0);
                       },
                       limit_ms),
                   policy);
}

}  // namespace wherry::test
