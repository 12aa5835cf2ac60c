// Programs that overwrite functions of the C library with jumps to functions of their own, as
// libraries for MPI do to follow what becomes of registered memory.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::patched_c_library_test {
namespace {

// The replaced functions count their calls here. It is in memory that is hidden from devices.
std::atomic<long>* calls = nullptr;

int counted_munmap(void* address, std::size_t bytes) {
  ++*calls;
  return static_cast<int>(::syscall(SYS_munmap, address, bytes));
}

int counted_madvise(void* address, std::size_t bytes, int advice) {
  ++*calls;
  return static_cast<int>(::syscall(SYS_madvise, address, bytes, advice));
}

// Instructions that jump to an address.
#if defined(__x86_64__)
struct [[gnu::packed]] Jump {
  std::array<std::uint8_t, 2> load{0x49, 0xbb};  // movabs $address, %r11
  std::uintptr_t address;
  std::array<std::uint8_t, 3> jump{0x41, 0xff, 0xe3};  // jmp *%r11
};
#elif defined(__aarch64__)
struct [[gnu::packed]] Jump {
  std::array<std::uint32_t, 2> jump{0x58000050, 0xd61f0200};  // ldr x16, .+8; br x16
  std::uintptr_t address;
};
#endif

// Makes the C library's function jump to the replacement, in this process.
template <typename Function>
void replace(const char* name, Function* replacement) {
  // By handle, because a sanitizer has functions of the same names.
  void* const library = ::dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* const code = ::dlsym(library, name);
  const Jump jump{.address = reinterpret_cast<std::uintptr_t>(replacement)};
  // The function may begin at the end of its first page.
  constexpr std::uintptr_t page = 4096;
  auto* const pages = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(code) & ~(page - 1));
  constexpr std::size_t bytes = 2 * page;
  expect(::mprotect(pages, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, "code is sealed");
  std::memcpy(code, &jump, sizeof jump);
  auto* const changed = static_cast<char*>(code);
  __builtin___clear_cache(changed, changed + sizeof jump);
  expect(::mprotect(pages, bytes, PROT_READ | PROT_EXEC) == 0, "code stays writable");
  ::dlclose(library);
}

TEST_CASE("a device does not run what the program put in place of the C library's functions",
          "[system]") {
  const Outcome outcome = in_fresh_process([] {
    constexpr std::size_t bytes = 16 << 20;
    void* const hidden =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    calls = new (hidden) std::atomic<long>{0};
    replace("munmap", counted_munmap);
    replace("madvise", counted_madvise);
    const Session session{"capacity=4M;capacity=4M"};
    const Managed<std::size_t> sum{1};
    for (int device = 0; device < 2; ++device) {
      session.run(device, [to = sum.data()] {
        // The C library maps and unmaps the memory of large blocks and of the thread's stack.
        std::thread([to] { *to += std::vector<char>(8 << 20, 1).size(); }).join();
      });
    }
    expect(sum[0] == 2 * (8 << 20), "a kernel did not run");
    // In the program the functions stay replaced.
    const long before = *calls;
    ::munmap(::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes);
    expect(*calls > before, "the program's functions are the C library's again");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace
}  // namespace wherry::test::patched_c_library_test
