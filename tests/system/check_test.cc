// WHERRY_CHECK: kernels that write to the program's ordinary memory, and kernels that allocate and
// write memory of their own.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::check_test {
namespace {

int a_global = 1;
thread_local std::string of_this_thread = "short";

// Runs `body` in a fresh process with WHERRY_CHECK set to `value`.
template <typename Body>
Outcome with_check(const char* value, const Body& body) {
  return in_fresh_process([&] {
    ::setenv("WHERRY_CHECK", value, 1);
    const Session session("capacity=8M,workers=2;capacity=8M,workers=1");
    body(session);
  });
}

// Runs the kernel, and returns the name of the error that its launch ends with.
template <typename Kernel>
std::string error_of(const Session& session, Kernel kernel) {
  try {
    session.run(0, kernel);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// Launches the kernel in a fresh process. Checks that it fails with
// CUDA_ERROR_ILLEGAL_ADDRESS, and that the log line names the address.
template <typename Kernel>
void check_refused(std::uintptr_t address, Kernel kernel) {
  const Outcome outcome = with_check("1", [&](const Session& session) {
    const std::string error = error_of(session, kernel);
    expect(error.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos, error);
  });
  char line[100];
  std::snprintf(line, sizeof line,
                "wrote to %#lx, ordinary memory of the host; allocate it managed\n",
                static_cast<unsigned long>(address));
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("wherry: device 0 (process "));
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("kernel "));
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring(line));
}

// The path of the shared C++ library, or nothing if there is none.
std::string cxx_library() {
  std::string path;
  const auto look = [](dl_phdr_info* module, std::size_t, void* found) {
    const std::string_view name = module->dlpi_name;
    const std::string_view file = name.substr(name.rfind('/') + 1);
    if (file.starts_with("libstdc++.so") || file.starts_with("libc++.so"))
      *static_cast<std::string*>(found) = name;
    return 0;
  };
  ::dl_iterate_phdr(look, &path);
  return path;
}

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

TEST_CASE("With WHERRY_CHECK=1 devices start beside threads, and their kernels start threads") {
  const Outcome outcome = in_fresh_process([] {
    std::atomic<bool> stop = false;
    std::vector<std::thread> others;
    for (int i = 0; i < 4; ++i) others.emplace_back([&] { stop.wait(false); });
    ::setenv("WHERRY_CHECK", "1", 1);
    {
      const Session session("capacity=8M,workers=2;capacity=8M,workers=1");
      session.run(0, [] { std::thread([] {}).join(); });
    }
    stop = true;
    stop.notify_all();
    for (std::thread& thread : others) thread.join();
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE(
    "With WHERRY_CHECK=1 a kernel that writes to a heap block of the program ends in "
    "ILLEGAL_ADDRESS") {
  // Smaller than what malloc maps separately: Linux may merge such a mapping with its neighbours,
  // and devices do not see mappings of 1 MiB at all.
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{5000}, std::size_t{100'000}}) {
    INFO(bytes);
    const auto block = std::make_unique<char[]>(bytes);
    char* const place = block.get() + bytes / 2;
    check_refused(address_of(place), [place] { *static_cast<volatile char*>(place) = 1; });
  }
}

TEST_CASE("With WHERRY_CHECK=1 a kernel that writes to a global variable ends in ILLEGAL_ADDRESS") {
  check_refused(address_of(&a_global), [] { *static_cast<volatile int*>(&a_global) = 2; });
}

TEST_CASE(
    "With WHERRY_CHECK=1 a kernel that makes the C library write to the heap ends "
    "in ILLEGAL_ADDRESS, too") {
  const std::vector<char> block(3000);
  char* const place = const_cast<char*>(block.data());
  const auto set = [place] {
    char* volatile there = place;
    std::memset(there, 1, 3000);
  };
  const Outcome outcome = with_check("1", [&](const Session& session) {
    const std::string error = error_of(session, set);
    expect(error.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos, error);
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("ordinary memory of the host"));
}

TEST_CASE(
    "With WHERRY_CHECK=1 a kernel that frees a block of the program ends in ILLEGAL_ADDRESS") {
  void* const block = std::malloc(100);
  const Outcome outcome = with_check("1", [&](const Session& session) {
    const std::string error = error_of(session, [block] { std::free(block); });
    expect(error.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos, error);
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("ordinary memory of the host"));
  std::free(block);
}

TEST_CASE("With WHERRY_CHECK=1 kernels read ordinary memory, and write to memory of their own") {
  // Gives stdout a buffer that malloc allocated.
  std::printf("the C++ library is %s\n", cxx_library().c_str());
  const std::vector<int> numbers(1000, 7);
  const int* const first = numbers.data();
  const Outcome outcome = with_check("1", [first](const Session& session) {
    const Managed<int> sum(1);
    sum[0] = 0;
    for (int round = 0; round < 3; ++round)
      session.run(0, [first, &result = sum[0]] {
        std::vector<std::string> own;
        for (int i = 0; i < 1000; ++i) own.push_back(std::string(100, 'x') + std::to_string(i));
        try {
          throw std::runtime_error(own[5]);
        } catch (const std::exception& error) {
          result += static_cast<int>(std::strlen(error.what())) - 101;
        }
        std::ostringstream text;
        text << own.size() << ' ' << 1.5;
        of_this_thread += " and now longer than fits into the object";
        std::thread([&] { own.emplace_back(200'000, 'y'); }).join();
        std::printf("%s\n", text.str().c_str());
        void* const library = ::dlopen("libm.so.6", RTLD_NOW);
        if (library != nullptr) ::dlclose(library);
        for (int i = 0; i < 1000; ++i) result += first[i];
      });
    expect(sum[0] == 3 * 7000, "the kernel did not read the numbers");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out, Catch::Matchers::ContainsSubstring("1000 1.5\n1000 1.5\n1000 1.5\n"));
}

// The C library of Debian 13 and later keeps what getrandom() needs in memory of the process.
TEST_CASE("With WHERRY_CHECK=1 devices run in a program that has used random numbers before") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_CHECK", "1", 1);
    std::uint64_t before = 0;
    expect(::getrandom(&before, sizeof before, 0) == sizeof before, "no random number");
    const Session session("capacity=8M,workers=2;capacity=8M,workers=1");
    const Managed<int> drawn(1);
    session.run(0, [&result = drawn[0]] {
      std::uint64_t number = 0;
      const bool good = ::getrandom(&number, sizeof number, 0) == sizeof number;
      std::thread([&] { result = good && !std::vector<char>(3000).empty() ? 1 : 2; }).join();
    });
    expect(drawn[0] == 1, "the kernel got no random number");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

// As with a compiler in /opt, or from Spack or conda.
TEST_CASE(
    "With WHERRY_CHECK=1 the variables of a C++ library outside the system's folders are not the "
    "program's") {
  const std::filesystem::path original = cxx_library();
  if (original.empty()) {
    WARN("not tried: the C++ library is linked statically");
    return;
  }
  char folder[] = "/tmp/check_test.XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::filesystem::path copy = folder / original.filename();
  std::filesystem::copy_file(original, copy);
  const Outcome outcome = in_fresh_process([&] {
    const char* const before = std::getenv("LD_LIBRARY_PATH");
    const std::string folders = folder + std::string(":") + (before != nullptr ? before : "");
    ::setenv("LD_LIBRARY_PATH", folders.c_str(), 1);
    ::execl("/proc/self/exe", "check_test", "With WHERRY_CHECK=1 kernels read ordinary memory*",
            nullptr);
  });
  std::filesystem::remove_all(folder);
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.out,
             Catch::Matchers::ContainsSubstring("the C++ library is " + copy.string()));
}

TEST_CASE(
    "With WHERRY_CHECK=1 the check works in a program whose earlier threads had heaps of their "
    "own") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_CHECK", "1", 1);
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<char[]>> blocks(6);
    for (auto& block : blocks) threads.emplace_back([&] { block = std::make_unique<char[]>(100); });
    for (std::thread& thread : threads) thread.join();
    const Session session("capacity=8M,workers=4");
    const Managed<int> done(1);
    session.run(0, [&result = done[0]] {
      const std::vector<int> own(100, 1);
      result = own[50];
    });
    expect(done[0] == 1, "the kernel did not run");
    char* const place = blocks[3].get();
    const std::string error =
        error_of(session, [place] { *static_cast<volatile char*>(place) = 1; });
    expect(error.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos, error);
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

// The C library keeps the first 32 in memory of its own, and allocates for more.
TEST_CASE("Devices tell of a kernel's exit in a program with many exit handlers") {
  for (const char* check : {"1", "0"})
    for (const int handlers : {10, 31, 32, 40, 64, 100}) {
      INFO(check << " " << handlers);
      const Outcome outcome = in_fresh_process([&] {
        ::setenv("WHERRY_CHECK", check, 1);
        for (int i = 0; i < handlers; ++i) std::atexit([] {});
        const Session session("capacity=8M,workers=2");
        const std::string error = error_of(session, [] { std::exit(3); });
        expect(error.find("CUDA_ERROR_LAUNCH_FAILED") != std::string::npos, error);
      });
      INFO(outcome.describe());
      CHECK(outcome.passed());
      CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("called exit(3)"));
    }
}

TEST_CASE("Without WHERRY_CHECK a kernel changes its private snapshot, and the host sees nothing") {
  for (const char* value : {"", "0"}) {
    const Outcome outcome = with_check(value, [](const Session& session) {
      const auto block = std::make_unique<int>(1);
      session.run(0, [place = block.get()] { *static_cast<volatile int*>(place) = 2; });
      expect(*block == 1, "the kernel changed the host's block");
    });
    INFO(outcome.describe());
    CHECK(outcome.passed());
  }
}

TEST_CASE("A WHERRY_CHECK that is neither 0 nor 1 makes cuInit fail") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_CHECK", "yes", 1);
    expect(cuInit(0) == CUDA_ERROR_INVALID_VALUE, "cuInit");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err == "wherry: WHERRY_CHECK: 'yes' is neither 0 nor 1\n");
}

}  // namespace wherry::test::check_test
