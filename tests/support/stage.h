// Where the tests of advice play: the library with some devices, who touches which word, and what
// the kernel says of it afterwards. Processors are numbered as the API does it: the host is -1.
#pragma once

#include <cstddef>
#include <cstdint>

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

// As in the masks of Witness and of wherryPageInfo.
constexpr std::uint32_t bit_of(int processor) {
  return 1u << (processor + 1);
}
// As in events and in wherryExplanation: the host is 0.
constexpr int index_of(int processor) {
  return processor + 1;
}
inline CUdeviceptr address_of(const std::uint64_t* word) {
  return reinterpret_cast<CUdeviceptr>(word);
}
constexpr CUmemLocation location_of(int processor) {
  return processor == host ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
                           : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, processor};
}

// Managed words, on regions of their own.
using Words = Managed<std::uint64_t>;

inline CUdeviceptr address_of(const Words& words) {
  return address_of(words.data());
}

void advise(const Words& words, CUmem_advise advice, int processor = host);
// ... for part of them.
void advise(const std::uint64_t* first, std::size_t bytes, CUmem_advise advice,
            int processor = host);

class Stage {
 public:
  // Once per process.
  explicit Stage(const char* devices);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  Session& session() { return session_; }
  const Witness& witness() const { return witness_; }

  // One access by a thread of the host, or by a kernel that touches no other managed memory.
  std::uint64_t read(int processor, const std::uint64_t* word) const;
  void write(int processor, std::uint64_t* word, std::uint64_t value) const;
  // One read of each page; the sum of the words.
  std::uint64_t read_pages(int processor, const std::uint64_t* first, std::size_t bytes) const;
  // One write to each page.
  void write_pages(int processor, std::uint64_t* first, std::size_t bytes,
                   std::uint64_t value) const;

  // Pools that hold the word's page, by the kernel's word.
  std::uint32_t residents(const std::uint64_t* word) const { return witness_.residents(word); }
  // The processor's page table has an entry for it, at once or soon: page tables are changed in the
  // background, a machine can be busy.
  bool comes_to_map(int processor, const std::uint64_t* word) const;
  // The processors see one and the same frame, or two. Always true where the kernel hides frames.
  bool same_frame(int one, int other, const std::uint64_t* word) const;
  bool different_frames(int one, int other, const std::uint64_t* word) const;

  // Faults of all processors, or of one, so far.
  static std::uint64_t faults();
  static std::uint64_t faults(int processor);

 private:
  // The frame in the processor's page table; 0: none. Where protection traps faults, Linux has no
  // entry for a page that the processor may use until it does: it reads the page then.
  std::uint64_t frame_of(int processor, const std::uint64_t* word) const;

  std::uint64_t* const
      answer_;  // shared with the devices, and never moved: mapped before they start
  Session session_;
  const Witness witness_;
  const bool frames_shown_;
};

// CHECKs that the pools that hold the word's page are `residents`, that nobody but `writers` may
// write it, and that wherryPageInfo says the same.
void check_page(const Stage& stage, const std::uint64_t* word, std::uint32_t residents,
                std::uint32_t writers);

}  // namespace wherry::test
