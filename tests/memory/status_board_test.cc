#include "memory/status_board.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

#include "os/files/file_io.h"
#include "support/catch.h"

namespace wherry::impl::status_board_test {
namespace {

constexpr std::uint64_t blocks = 1024;

StatusFacts facts() {
  return {"1.2.3",     "userfaultfd",
          "auto",      std::string(1000, 'x'),
          0x1000'0000, blocks,
          1000,        {{ShownKind::host, 1, 0}, {ShownKind::isolated, 2, 64 << 20}}};
}

// This process's board, opened as another process would: read-only, by its name.
Fd open_own() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (target == std::string("/memfd:") + status_name + " (deleted)")
      return Fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
  }
  return Fd();
}

std::unique_ptr<StatusMemory> read(const Fd& file) {
  auto memory = std::make_unique<StatusMemory>();
  const auto bytes = std::as_writable_bytes(std::span(memory.get(), 1));
  REQUIRE(read_at(file.get(), 0, bytes) == static_cast<int>(bytes.size()));
  return memory;
}

}  // namespace

TEST_CASE("other processes read what a process counts, and cannot change it", "[memory]") {
  const StatusBoard board(facts());
  const Fd file = open_own();
  REQUIRE(file);
  count(board.processor(Processor::device(0)).counters.evicted, 7);
  count(board.processor(Processor::device(0)).counters.held, 5);
  board.processor(Processor::host()).reserved_pages = 3;
  count(board.blocks()[blocks - 1].faults);

  const auto seen = read(file);
  CHECK(seen->header.mark == status_mark);
  CHECK(seen->header.format == status_format);
  CHECK(seen->header.processors == 2);
  CHECK(std::string(seen->header.version.data()) == "1.2.3");
  CHECK(std::string(seen->header.policy_in_force.data()) == std::string(255, 'x'));
  CHECK(seen->header.about[1].node == 2);
  CHECK(seen->processors[1].counters.evicted == 7);
  CHECK(seen->processors[1].counters.held == 5);
  CHECK(seen->processors[0].reserved_pages == 3);
  BlockActivity block;
  const auto last = std::as_writable_bytes(std::span(&block, 1));
  REQUIRE(read_at(file.get(), status_bytes(blocks - 1), last) == static_cast<int>(last.size()));
  CHECK(block.faults == 1);

  const Fd writable(
      ::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(writable);
  CHECK(::pwrite(writable.get(), "x", 1, 0) == -1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(writable.get(), 0) == -1);
}

TEST_CASE("names are shown until their memory is freed or named again", "[memory]") {
  StatusBoard board(facts());
  const Fd file = open_own();
  const auto texts = [&] {
    std::string all;
    const auto seen = read(file);
    CHECK(seen->header.name_changes % 2 == 0);
    for (std::size_t i = 0; i < seen->header.name_slots; ++i)
      if (seen->names[i].bytes != 0) all += std::string(seen->names[i].text.data()) + " ";
    return all;
  };
  board.name(0x1000, 100, 0, "first");
  board.name(0x2000, 100, 0x1000, "second");
  CHECK(texts() == "first second ");
  board.name(0x1000, 50, 0, "third");
  CHECK(texts() == "third second ");
  board.forget_names(0x0, 0x1000);
  CHECK(texts() == "third second ");
  board.forget_names(0x1000, 0x1000);
  CHECK(texts() == "second ");
  board.name(0x9000, 1, not_in_arena, std::string(300, 'y'));
  CHECK(texts() == std::string(255, 'y') + " second ");
}

TEST_CASE("names for which there is no place are counted", "[memory]") {
  StatusBoard board(facts());
  const Fd file = open_own();
  for (std::uint64_t i = 0; i < shown_names_max + 5; ++i) board.name(i * 16, 16, i * 16, "name");
  CHECK(read(file)->header.names_left_out == 5);
  board.forget_names(0, 32);
  board.name(1 << 20, 16, 1 << 20, "late");
  const auto seen = read(file);
  CHECK(seen->header.names_left_out == 5);
  CHECK(seen->header.name_slots == shown_names_max);
}

}  // namespace wherry::impl::status_board_test
