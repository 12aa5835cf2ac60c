#include "devices/annex.h"

#include <signal.h>

#include <cerrno>
#include <memory>

#include "base/page.h"
#include "os/files/memory_file.h"
#include "support/catch.h"
#include "support/test_device.h"

namespace wherry::test::annex_test {
namespace {

using impl::Access;
using impl::Annex;
using impl::page_size;
using impl::Processor;
using Kind = impl::DeviceFailure::Kind;

constexpr std::size_t annex_bytes = std::size_t{1} << 30;
constexpr impl::ProcessorMask host = Processor::host().bit();
constexpr impl::ProcessorMask device0 = Processor::device(0).bit();
constexpr impl::ProcessorMask device1 = Processor::device(1).bit();

// An annex, the address range for memory that never moves, and a file to map in it.
struct Stage {
  Stage() : annex(annex_bytes, 2) {
    const impl::MemoryFile made("wherry-test-annex", 4 * page_size, impl::HugePages::never);
    file = std::make_shared<const impl::Fd>(impl::duplicate_fd(made.fd()));
    address = annex.reserve(page_size).value();
  }

  Annex::Window window(Access access = Access::write) const {
    return {{address, page_size, file, 2 * page_size}, access};
  }
  std::unique_ptr<TestDevice> start(int device) {
    auto started = std::make_unique<TestDevice>(arena, device, 1, &annex);
    annex.attach(device, started->shared_process());
    return started;
  }
  int* number() const { return reinterpret_cast<int*>(address); }

  TestArena arena;
  Annex annex;
  std::shared_ptr<const impl::Fd> file;
  std::uintptr_t address = 0;
};

bool can_read(TestDevice& device, const int* number, int expected) {
  return !device.run_once([=] {
    if (*number != expected) __builtin_trap();
  });
}
bool is_closed_to(TestDevice& device, int* number) {
  const auto failure = device.run_once([=] { *number = 1; });
  return failure && failure->kind == Kind::illegal_address &&
         failure->address == reinterpret_cast<std::uintptr_t>(number);
}

}  // namespace

TEST_CASE("memory mapped in the annex is the same for all processors that have it mapped",
          "[devices]") {
  Stage stage;
  const auto one = stage.start(0);
  const auto other = stage.start(1);
  REQUIRE(stage.annex.show(stage.window(), host | device0) == 0);
  *stage.number() = 41;
  CHECK(can_read(*one, stage.number(), 41));
  CHECK_FALSE(one->run_once([to = stage.number()] { ++*to; }));
  CHECK(*stage.number() == 42);
  CHECK(is_closed_to(*other, stage.number()));
}

TEST_CASE("each processor has the access with which the memory was mapped", "[devices]") {
  Stage stage;
  const auto one = stage.start(0);
  const auto other = stage.start(1);
  REQUIRE(stage.annex.show(stage.window(), host | device0) == 0);
  REQUIRE(stage.annex.show(stage.window(Access::read), device1) == 0);
  CHECK_FALSE(one->run_once([to = stage.number()] { *to = 7; }));
  CHECK(can_read(*other, stage.number(), 7));
  CHECK(is_closed_to(*other, stage.number()));
  REQUIRE(stage.annex.show(stage.window(Access::read), device0) == 0);
  CHECK(can_read(*one, stage.number(), 7));
  CHECK(is_closed_to(*one, stage.number()));
}

TEST_CASE("unmapped memory cannot be accessed, and its addresses are reused", "[devices]") {
  Stage stage;
  const auto device = stage.start(0);
  REQUIRE(stage.annex.show(stage.window(), host | device0) == 0);
  CHECK(can_read(*device, stage.number(), 0));
  REQUIRE(stage.annex.hide(stage.address, page_size, host | device0) == 0);
  CHECK(is_closed_to(*device, stage.number()));
  stage.annex.release(stage.address);
  CHECK(stage.annex.reserve(page_size) == stage.address);
}

TEST_CASE("a device that is started again has all mappings, also those made while it was down",
          "[devices]") {
  Stage stage;
  auto device = stage.start(0);
  const std::uintptr_t hidden = stage.annex.reserve(page_size).value();
  const std::uintptr_t late = stage.annex.reserve(page_size).value();
  REQUIRE(stage.annex.show(stage.window(), host | device0) == 0);
  Annex::Window second = stage.window();
  second.start = hidden;
  REQUIRE(stage.annex.show(second, host | device0) == 0);
  *stage.number() = 5;
  ::kill(device->pid(), SIGKILL);
  device->wait_for_end();
  CHECK(stage.annex.hide(hidden, page_size, host | device0) == 0);
  second.start = late;
  CHECK(stage.annex.show(second, host | device0) == 0);
  device = stage.start(0);
  CHECK(can_read(*device, stage.number(), 5));
  CHECK(can_read(*device, reinterpret_cast<const int*>(late), 5));
  CHECK(is_closed_to(*device, reinterpret_cast<int*>(hidden)));
}

TEST_CASE("a device that does not answer is ended, and no longer maps what was to be unmapped",
          "[devices]") {
  Stage stage;
  auto device = stage.start(0);
  REQUIRE(stage.annex.show(stage.window(), host | device0) == 0);
  ::kill(device->pid(), SIGSTOP);
  CHECK(stage.annex.hide(stage.address, page_size, host | device0) == 0);
  device->wait_for_end();
  CHECK_FALSE(
      stage.annex.locate({stage.address, stage.address + 1}, Processor::device(0), Access::read));
  device = stage.start(0);
  CHECK(is_closed_to(*device, stage.number()));
}

TEST_CASE("after a failed unmap the memory is still mapped, and can be unmapped again",
          "[devices]") {
  Stage stage;
  const auto device = stage.start(0);
  REQUIRE(stage.annex.show(stage.window(), device0) == 0);
  // Linux refuses a mapping of length 0.
  CHECK(stage.annex.hide(stage.address, 0, device0) == EINVAL);
  CHECK(can_read(*device, stage.number(), 0));
  CHECK(stage.annex.locate({stage.address, stage.address + 1}, Processor::device(0), Access::read));
  CHECK(stage.annex.hide(stage.address, page_size, device0) == 0);
  CHECK(is_closed_to(*device, stage.number()));
}

TEST_CASE("if one processor cannot map the memory, no processor maps it", "[devices]") {
  Stage stage;
  const auto device = stage.start(0);
  Annex::Window impossible = stage.window();
  impossible.offset = 1;
  CHECK(stage.annex.show(impossible, host | device0) == EINVAL);
  REQUIRE(stage.annex.show(stage.window(Access::read), device0) == 0);
  impossible = stage.window();
  impossible.file = std::make_shared<const impl::Fd>();
  CHECK(stage.annex.show(impossible, device0) != 0);
  CHECK(can_read(*device, stage.number(), 0));
}

TEST_CASE("bytes are found in their files for processors that map all of them", "[devices]") {
  Stage stage;
  const std::uintptr_t start = stage.annex.reserve(3 * page_size).value();
  const auto show = [&](std::uintptr_t address, std::uint64_t offset, Access access) {
    REQUIRE(stage.annex.show({{address, page_size, stage.file, offset}, access}, device0) == 0);
  };
  show(start, 2 * page_size, Access::write);
  show(start + page_size, 0, Access::read);
  const auto locate = [&](std::uintptr_t from, std::uintptr_t to, Processor p, Access access) {
    return stage.annex.locate({from, to}, p, access);
  };
  const auto device = Processor::device(0);
  const auto parts = locate(start + 100, start + 2 * page_size, device, Access::read);
  REQUIRE(parts);
  REQUIRE(parts->size() == 2);
  CHECK(parts->front().start == start);
  CHECK(parts->front().offset_of(start + 100) == 2 * page_size + 100);
  CHECK(parts->back().offset_of(start + page_size + 7) == 7);
  CHECK(parts->back().end() == start + 2 * page_size);
  REQUIRE(locate(start + page_size, start + page_size + 1, device, Access::read));
  CHECK(locate(start, start + page_size, device, Access::write));
  CHECK_FALSE(locate(start, start + page_size + 1, device, Access::write));
  CHECK_FALSE(locate(start, start + 2 * page_size + 1, device, Access::read));
  CHECK_FALSE(locate(start + 2 * page_size, start + 3 * page_size, device, Access::read));
  CHECK_FALSE(locate(start, start + 1, Processor::device(1), Access::read));
  CHECK_FALSE(locate(start, start + 1, Processor::host(), Access::read));
}

}  // namespace wherry::test::annex_test
