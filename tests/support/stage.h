// The setting of the tests of advice: the library with some devices, accesses by chosen processors,
// and Linux's view of the pages afterwards. Processors are numbered as in the API: the host is -1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "support/session.h"
#include "support/witness.h"

namespace wherry::test {

inline constexpr int host = CU_DEVICE_CPU;
inline constexpr int device0 = 0;
inline constexpr int device1 = 1;

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t page_words = page_bytes / sizeof(std::uint64_t);
inline constexpr std::size_t region_bytes = 16 * page_bytes;  // what a fault brings along
inline constexpr std::size_t region_words = 16 * page_words;
inline constexpr std::size_t block_bytes = 512 * page_bytes;
inline constexpr std::size_t block_words = 512 * page_words;

// The processor's number in events and in wherryExplanation: the host is 0.
constexpr int index_of(int processor) {
  return processor + 1;
}
inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
constexpr CUmemLocation location_of(int processor) {
  return processor == host ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
                           : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, processor};
}

// Managed words, in regions of their own.
using Words = Managed<std::uint64_t>;

inline CUdeviceptr address_of(const Words& words) {
  return address_of(words.data());
}

// The numbers from `first` on.
inline std::vector<std::uint64_t> numbered(std::size_t count, std::uint64_t first = 1) {
  std::vector<std::uint64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = first + i;
  return numbers;
}

// The first block of 2 MiB that lies in the words with all its pages.
std::uint64_t* whole_block_of(const Words& words);

void advise(const Words& words, CUmem_advise advice, int processor = host);
// Advises a part of the words.
void advise(const std::uint64_t* first, std::size_t bytes, CUmem_advise advice,
            int processor = host);

class Stage {
 public:
  // At most one per process.
  explicit Stage(const char* devices);
  // Sets the environment variable first.
  Stage(const char* devices, const char* variable, const char* value)
      : Stage((::setenv(variable, value, 1), devices)) {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Session& session() { return session_; }
  const Witness& witness() const { return witness_; }

  // One access by a thread of the host, or by a kernel that accesses no other managed memory.
  std::uint64_t read(int processor, const std::uint64_t* word) const;
  void write(int processor, std::uint64_t* word, std::uint64_t value) const;
  // Reads one word of each page, and returns their sum.
  std::uint64_t read_pages(int processor, const std::uint64_t* first, std::size_t bytes) const;
  // Writes one word of each page.
  void write_pages(int processor, std::uint64_t* first, std::size_t bytes,
                   std::uint64_t value) const;

  // The pools that hold the word's page, by Linux's view.
  std::uint32_t residents(const std::uint64_t* word) const { return witness_.residents(word); }
  // Whether the processor's page table has an entry for the page.
  bool maps(int processor, const std::uint64_t* word) const;
  // Whether the processor's page table gets an entry for the page, now or soon: page tables are
  // changed in the background, and the machine may be busy.
  bool comes_to_map(int processor, const std::uint64_t* word) const;
  // The frame in the processor's page table; 0: none, or Linux hides it. With the protection trap
  // Linux has no entry for an accessible page until the first access: then this reads the page.
  std::uint64_t frame_of(int processor, const std::uint64_t* word) const;
  // Whether the processors map the same frame, or two frames. Always true if Linux hides frame
  // numbers.
  bool same_frame(int one, int other, const std::uint64_t* word) const;
  bool different_frames(int one, int other, const std::uint64_t* word) const;

  // The number of faults so far, of all processors or of one.
  static std::uint64_t faults();
  static std::uint64_t faults(int processor);

 private:
  std::uint64_t* const
      answer_;  // shared with the devices, and never moved: mapped before they start
  Session session_;
  const Witness witness_;
  const bool frames_shown_;
};

// CHECKs that exactly the pools of `residents` hold the word's page, that only `writers` may write
// it, and that wherryGetPageState agrees.
void check_page(const Stage& stage, const std::uint64_t* word, std::uint32_t residents,
                std::uint32_t writers);

}  // namespace wherry::test
