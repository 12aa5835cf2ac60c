#include "support/stage.h"

#include <poll.h>
#include <sys/mman.h>

#include <stdexcept>

#include "support/capabilities.h"
#include "support/catch.h"

namespace wherry::test {
namespace {

constexpr int mapping_limit_ms = 30'000;

// A page that the host and the devices share: device processes keep small mappings.
std::uint64_t* map_answer() {
  void* const place =
      ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw std::runtime_error("no shared memory");
  return static_cast<std::uint64_t*>(place);
}

bool frames_are_shown() {
  const auto hidden = why_missing("frame-numbers");
  if (hidden) WARN("frame numbers are not compared: " << *hidden);
  return !hidden;
}

std::uint64_t sum_of_pages(const std::uint64_t* first, std::size_t pages) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < pages; ++i)
    sum += *const_cast<const volatile std::uint64_t*>(first + i * page_words);
  return sum;
}

void fill_pages(std::uint64_t* first, std::size_t pages, std::uint64_t value) {
  for (std::size_t i = 0; i < pages; ++i)
    *const_cast<volatile std::uint64_t*>(first + i * page_words) = value;
}

std::uint64_t sum_of_faults(const wherryProcessorStats& stats) {
  return stats.faults_missing + stats.faults_minor + stats.faults_write_protect;
}

}  // namespace

std::uint64_t* whole_block_of(const Words& words) {
  const auto start = reinterpret_cast<std::uintptr_t>(words.data());
  return words.data() + (block_bytes - start % block_bytes) % block_bytes / sizeof(std::uint64_t);
}

void advise(const Words& words, CUmem_advise advice, int processor) {
  advise(words.data(), words.bytes(), advice, processor);
}

void advise(const std::uint64_t* first, std::size_t bytes, CUmem_advise advice, int processor) {
  WHERRY_TRY(cuMemAdvise(address_of(first), bytes, advice, location_of(processor)));
}

Stage::Stage(const char* devices)
    : answer_(map_answer()), session_(devices), frames_shown_(frames_are_shown()) {}

std::uint64_t Stage::read(int processor, const std::uint64_t* word) const {
  return read_pages(processor, word, sizeof *word);
}

void Stage::write(int processor, std::uint64_t* word, std::uint64_t value) const {
  write_pages(processor, word, sizeof *word, value);
}

std::uint64_t Stage::read_pages(int processor, const std::uint64_t* first,
                                std::size_t bytes) const {
  const std::size_t pages = (bytes + page_bytes - 1) / page_bytes;
  if (processor == host) return sum_of_pages(first, pages);
  session_.run(processor,
               [first, pages, answer = answer_] { *answer = sum_of_pages(first, pages); });
  return *answer_;
}

void Stage::write_pages(int processor, std::uint64_t* first, std::size_t bytes,
                        std::uint64_t value) const {
  const std::size_t pages = (bytes + page_bytes - 1) / page_bytes;
  if (processor == host) return fill_pages(first, pages, value);
  session_.run(processor, [first, pages, value] { fill_pages(first, pages, value); });
}

bool Stage::maps(int processor, const std::uint64_t* word) const {
  return (witness_.mappers(word) & bit_of(processor)) != 0;
}

bool Stage::comes_to_map(int processor, const std::uint64_t* word) const {
  for (int waited_ms = 0; !maps(processor, word); ++waited_ms) {
    if (waited_ms >= mapping_limit_ms) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

std::uint64_t Stage::frame_of(int processor, const std::uint64_t* word) const {
  const auto frame = [&] { return page_entry(Witness::process_of(1 + processor), word).frame; };
  if (frame() == 0 && maps(processor, word)) (void)read(processor, word);
  return frame();
}

bool Stage::same_frame(int one, int other, const std::uint64_t* word) const {
  if (!frames_shown_) return true;
  const std::uint64_t frame = frame_of(one, word);
  return frame != 0 && frame == frame_of(other, word);
}

bool Stage::different_frames(int one, int other, const std::uint64_t* word) const {
  if (!frames_shown_) return true;
  const std::uint64_t frame = frame_of(one, word);
  const std::uint64_t other_frame = frame_of(other, word);
  return frame != 0 && other_frame != 0 && frame != other_frame;
}

std::uint64_t Stage::faults() {
  std::uint64_t sum = 0;
  for (const wherryProcessorStats& stats : read_stats().processor) sum += sum_of_faults(stats);
  return sum;
}

std::uint64_t Stage::faults(int processor) {
  return sum_of_faults(read_stats().processor[1 + processor]);
}

void check_page(const Stage& stage, const std::uint64_t* word, std::uint32_t residents,
                std::uint32_t writers) {
  const wherryPageState info = page_state(word);
  CHECK(stage.residents(word) == residents);
  CHECK(info.resident == residents);
  CHECK((stage.witness().writers(word) & ~writers) == 0);
  CHECK((info.mapped_write & ~writers) == 0);
}

}  // namespace wherry::test
