// Which mappings of the address map are hidden. devices/device_memory_test.cc tests the mask in
// devices.
#include "os/memory/address_mask.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/page.h"
#include "os/memory/address_map.h"
#include "os/memory/loader_memory.h"
#include "os/memory/mapping.h"
#include "os/process/process.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"

namespace wherry::impl::address_mask_test {
namespace {

TEST_CASE("memory that Linux may drop is found in the list of mappings with their flags") {
  std::string_view smaps =
      "7f00a000-7f00b000 rw-p 00000000 00:00 0 \n"
      "Size:                  4 kB\n"
      "VmFlags: rd wr mr mw me ac sd \n"
      "7f00b000-7f00d000 rw-p 00000000 00:00 0 \n"
      "Size:                  8 kB\n"
      "VmFlags: rd wr mr mw me nr wf dd dp \n"
      "ffffffff600000-ffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
      "VmFlags: ex \n";
  const auto found = next_droppable(smaps);
  REQUIRE(found);
  CHECK(found->range == AddressRange{0x7f00b000, 0x7f00d000});
  CHECK_FALSE(next_droppable(smaps));
}

TEST_CASE("Lines of the address map are read field by field") {
  std::string_view text =
      "00400000-00401000 r-xp 00001000 08:01 42                      /a path/with spaces\n"
      "7f0000000000-7f0000200000 rw-s 00000000 00:05 7  /memfd:x (deleted)\n"
      "7f0000200000-7f0000400000 ---p 00000000 00:00 0 \n";
  const auto code = next_mapping(text);
  REQUIRE(code);
  CHECK(code->range == AddressRange{0x400000, 0x401000});
  CHECK((code->readable && !code->writable && code->executable && !code->shared));
  CHECK(code->device == (std::uint64_t{8} << 32 | 1));
  CHECK(code->inode == 42);
  CHECK(code->name == "/a path/with spaces");
  const auto shared = next_mapping(text);
  REQUIRE(shared);
  CHECK(shared->shared);
  CHECK(shared->name == "/memfd:x (deleted)");
  const auto reserved = next_mapping(text);
  REQUIRE(reserved);
  CHECK_FALSE(reserved->accessible());
  CHECK(reserved->name.empty());
  CHECK_FALSE(next_mapping(text));
}

TEST_CASE("Memory of the process is found in the address map, and no mapping elsewhere") {
  const std::string map = read_address_map();
  int local = 0;
  const auto stack = find_mapping(map, reinterpret_cast<std::uintptr_t>(&local));
  REQUIRE(stack);
  CHECK(stack->name == "[stack]");
  CHECK(stack->writable);
  CHECK_FALSE(find_mapping(map, 16));
  char small[64];
  CHECK_FALSE(read_address_map(small, sizeof small));
}

TEST_CASE("Large anonymous, large shared writable memory and the main stack are hidden, no other") {
  const auto hidden = [](const char* line) {
    std::string_view text = line;
    const auto mapping = next_mapping(text);
    REQUIRE(mapping);
    return is_hidden(*mapping);
  };
  CHECK(hidden("7f0000000000-7f0000100000 rw-p 00000000 00:00 0 "));
  CHECK(hidden("7f0000000000-7f0000100000 r--p 00000000 00:00 0 "));
  CHECK(hidden("7f0000000000-7f0000100000 rw-p 00000000 00:00 0    [anon:big]"));
  CHECK(hidden("7f0000000000-7f0000100000 rw-s 00000000 00:01 9   /dev/zero (deleted)"));
  CHECK(hidden("7f0000000000-7f0000200000 rw-p 00000000 00:0e 9   /anon_hugepage (deleted)"));
  CHECK(hidden("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]"));
  CHECK_FALSE(hidden("7f0000000000-7f00000ff000 rw-p 00000000 00:00 0 "));
  CHECK_FALSE(hidden("7f0000000000-7f0000100000 ---p 00000000 00:00 0 "));
  CHECK_FALSE(hidden("7f0000000000-7f0000100000 r-xp 00000000 00:00 0 "));
  CHECK_FALSE(hidden("550000000000-550010000000 rw-p 00000000 00:00 0   [heap]"));
  CHECK_FALSE(hidden("7f0000000000-7f0000100000 rw-p 00000000 08:01 5   /lib/data"));
  CHECK_FALSE(hidden("7f0000000000-7f0000100000 r--s 00000000 08:01 5   /lib/cache"));
}

TEST_CASE("The parts of a range that no other range covers are found, in order") {
  const auto uncovered = [](AddressRange range, const std::vector<AddressRange>& kept) {
    std::vector<AddressRange> parts;
    const int error = for_each_uncovered(range, kept, [&](AddressRange part) {
      parts.push_back(part);
      return 0;
    });
    CHECK(error == 0);
    return parts;
  };
  using Parts = std::vector<AddressRange>;
  CHECK(uncovered({10, 20}, {}) == Parts{{10, 20}});
  CHECK(uncovered({10, 20}, {{0, 10}, {20, 30}}) == Parts{{10, 20}});
  CHECK(uncovered({10, 20}, {{16, 18}, {5, 12}, {11, 13}}) == Parts{{13, 16}, {18, 20}});
  CHECK(uncovered({10, 20}, {{5, 25}}).empty());
  int calls = 0;
  const auto stop = [&](AddressRange) { return ++calls; };
  CHECK(for_each_uncovered({10, 20}, Parts{{12, 13}}, stop) == 1);
  CHECK(calls == 1);
}

constexpr std::size_t stack_bytes = 1 << 20;
constexpr std::size_t page_count = 1024;

// What a process needs to hide its memory.
struct Masked {
  AddressRange window;
  std::vector<AddressRange> kept;
  std::uintptr_t memory;
};
Masked masked;
using Touch = void (*)();
Touch touch = nullptr;

char& byte_of(std::size_t page) {
  return *reinterpret_cast<char*>(masked.memory + page * page_size);
}

bool is_readable(std::size_t page) {
  char byte = 0;
  const iovec here{&byte, 1};
  const iovec there{&byte_of(page), 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

// Ends the process with 0 if only the two pages that were touched can still be used.
void end_with_verdict(void*) {
  std::vector<AddressRange> touched;
  if (mask_address_space({masked.window, masked.kept, nullptr, true, touch, &touched}) != 0)
    ::_exit(2);
  if (touched.size() != 2) ::_exit(6);
  if (byte_of(7) != 7 || byte_of(8) != 1) ::_exit(3);
  std::array<unsigned char, page_count> unused;
  if (::mincore(reinterpret_cast<void*>(masked.memory), page_count * page_size, unused.data()) != 0)
    ::_exit(4);
  for (std::size_t page = 0; page < page_count; ++page)
    if (is_readable(page) != (page == 7 || page == 8)) ::_exit(5);
  ::_exit(0);
}

TEST_CASE("Hidden pages that are touched while memory is hidden stay, and no others") {
  if (test::is_sanitized) return;  // the mask would hide the sanitizer's memory
  const auto outcome = test::in_fresh_process([] {
    const Mapping window = Mapping::reserve(std::size_t{1} << 30, page_size);
    const Mapping memory = Mapping::zeroed(page_count * page_size);
    masked = {{window.address(), window.address() + window.size()},
              ranges_needed_to_run(),
              memory.address()};
    masked.kept.push_back(masked.window);
    for (std::size_t page = 0; page < page_count; ++page) byte_of(page) = static_cast<char>(page);
    touch = [] { byte_of(8) = static_cast<char>(byte_of(7) - 6); };
    const AddressRange stack{masked.window.end - stack_bytes, masked.window.end};
    if (open_window(masked.window, stack, page_size) != 0) ::_exit(1);
    continue_on_stack(stack, end_with_verdict, nullptr);
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace
}  // namespace wherry::impl::address_mask_test
