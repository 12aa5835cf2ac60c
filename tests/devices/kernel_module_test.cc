#include "devices/kernel_module.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "devices/late_module.h"
#include "support/catch.h"
#include "support/test_device.h"

namespace wherry::test::kernel_module_test {
namespace {

namespace fs = std::filesystem;

int value_of(TestDevice& device, TestArena& arena, const LateModule& module) {
  int* value = arena.take<int>(1);
  REQUIRE_FALSE(device.wait(device.post(module.kernel(), &value, sizeof value, 1)));
  return *value;
}

void own_kernel(const void*, std::size_t, std::size_t) {}

TEST_CASE("A kernel that existed at the start has the same address in the device") {
  TestArena arena;
  TestDevice device(arena);
  CHECK(resolve_kernel(device.process(), own_kernel) ==
        reinterpret_cast<std::uintptr_t>(own_kernel));
}

TEST_CASE("A kernel of a module that was loaded before the start runs") {
  TestArena arena;
  const LateModule module(1);
  TestDevice device(arena);
  CHECK(value_of(device, arena, module) == 1);
}

TEST_CASE("A kernel of a module that was loaded after the start runs") {
  TestArena arena;
  TestDevice device(arena);
  const LateModule first(1);
  const LateModule second(2);
  CHECK(value_of(device, arena, first) == 1);
  CHECK(value_of(device, arena, second) == 2);
  CHECK(value_of(device, arena, first) == 1);
  CHECK(resolve_kernel(device.process(), own_kernel) ==
        reinterpret_cast<std::uintptr_t>(own_kernel));
}

TEST_CASE("An exception in a late module's kernel is reported with its text") {
  TestArena arena;
  TestDevice device(arena);
  const LateModule module(1);
  const auto kernel = module.kernel("late_kernel_that_throws");
  const auto failure = device.wait(device.post(kernel, nullptr, 0, 1));
  REQUIRE(failure);
  CHECK(failure->kind == impl::DeviceFailure::Kind::exception);
  CHECK(failure->what == "late");
}

TEST_CASE("A module that is replaced at its path and loaded again runs its new code") {
  const fs::path file =
      fs::temp_directory_path() / ("wherry-late-" + std::to_string(::getpid()) + ".so");
  TestArena arena;
  TestDevice device(arena);
  for (const int which : {1, 2, 1}) {
    fs::remove(file);
    fs::copy_file(late_module_file(which), file);
    const LateModule module(file);
    CHECK(value_of(device, arena, module) == which);
  }
  fs::remove(file);
}

TEST_CASE(
    "A module that was removed from its path, and an address in no module, are not resolved") {
  const fs::path file =
      fs::temp_directory_path() / ("wherry-gone-" + std::to_string(::getpid()) + ".so");
  TestArena arena;
  TestDevice device(arena);
  fs::copy_file(late_module_file(1), file, fs::copy_options::overwrite_existing);
  const LateModule module(file);
  fs::remove(file);
  CHECK_FALSE(resolve_kernel(device.process(), module.kernel()));
  CHECK_FALSE(resolve_kernel(device.process(), reinterpret_cast<impl::KernelFunction>(16)));
  // The device still works.
  CHECK_FALSE(device.run_once([] {}));
}

}  // namespace
}  // namespace wherry::test::kernel_module_test
