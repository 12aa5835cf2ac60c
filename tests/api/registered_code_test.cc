#include "api/registered_code.h"

#include <array>
#include <string>
#include <vector>

#include "support/catch.h"

namespace wherry::test::registered_code_test {

using namespace wherry::impl;

namespace {

int stub = 0;
int other_stub = 0;
std::array<char, 8> shadow;
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a registered kernel is found by its stub until its module ends", "[api]") {
  RegisteredCode code;
  void** const first = code.begin_module();
  void** const second = code.begin_module();
  REQUIRE(first != nullptr);
  REQUIRE(first != second);
  code.add_kernel(first, &stub, "_Z3addi");
  code.add_kernel(second, &other_stub, "_Z3subi");
  CHECK(code.find_kernel(&stub) == "_Z3addi");
  CHECK_FALSE(code.find_kernel(&shadow));
  code.end_module(first);
  CHECK_FALSE(code.find_kernel(&stub));
  CHECK(code.find_kernel(&other_stub) == "_Z3subi");
}

TEST_CASE("a variable of the device is found by its shadow, and has no memory", "[api]") {
  RegisteredCode code;
  code.add_variable(code.begin_module(), &shadow, "counter", sizeof shadow);
  const auto found = code.find_variable(&shadow);
  REQUIRE(found);
  CHECK(found->name == "counter");
  CHECK(found->bytes == sizeof shadow);
  CHECK(found->memory == nullptr);
  CHECK_FALSE(code.find_variable(&stub));
}

TEST_CASE("managed variables get memory once, and are found by it", "[api]") {
  RegisteredCode code;
  void** const module = code.begin_module();
  void* pointer = nullptr;
  std::array<char, 64> memory{};
  code.add_managed(module, &pointer, "total", 40);
  CHECK_FALSE(code.find_variable(nullptr));
  // A variable whose allocation failed is tried again.
  CHECK(code.give_memory([](std::size_t) { return nullptr; }).empty());
  CHECK(pointer == nullptr);
  const auto give = [&](std::size_t bytes) -> void* {
    CHECK(bytes == 40);
    return memory.data();
  };
  CHECK(code.give_memory(give) == Names{"total"});
  CHECK(pointer == memory.data());
  const auto found = code.find_variable(memory.data());
  REQUIRE(found);
  CHECK(found->memory == memory.data());
  CHECK(code.give_memory(give).empty());
  code.end_module(module);
  CHECK_FALSE(code.find_variable(memory.data()));
}

}  // namespace wherry::test::registered_code_test
