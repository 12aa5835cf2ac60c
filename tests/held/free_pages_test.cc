// Parts of huge pages to which nobody outside (such as a pipe) has a reference leave their pool at
// once: the library takes none for held, however many page tables have entries for them. Also runs
// in the virtual machine, with another version of Linux.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "held/held_counter.h"
#include "support/capabilities.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "support/stage.h"
#include "support/waiting.h"

namespace wherry::test::free_pages_test {
namespace {

constexpr std::size_t block_pages = block_bytes / page_bytes;
constexpr std::array processors{host, device0, device1};
constexpr std::chrono::seconds time_limit{30};

Stage& stage() {
  static Stage the_stage("capacity=64M;capacity=64M", "WHERRY_POLICY", "migrate-always");
  return the_stage;
}

void prefetch(const std::uint64_t* first, std::size_t pages, int to) {
  WHERRY_TRY(
      cuMemPrefetchAsync(address_of(first), pages * page_bytes, location_of(to), 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

// How many mappings of this process and of the devices have an entry for the page that the
// processor's pool holds for this address: views and the library's own.
int count_mappers(const void* address, int processor) {
  const std::string pool = pool_name(index_of(processor));
  const std::uint64_t offset = pool_offset(address);
  int mappers = 0;
  for (const int owner : processors) {
    const pid_t process = Witness::process_of(index_of(owner));
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      std::uint64_t start = 0, end = 0, begins_at = 0;
      std::array<char, 5> permissions{};
      if (line.find(pool) == std::string::npos ||
          std::sscanf(line.c_str(), "%lx-%lx %4s %lx", &start, &end, permissions.data(),
                      &begins_at) != 4)
        continue;
      if (offset < begins_at || offset - begins_at >= end - start) continue;
      const std::uint64_t place = start + (offset - begins_at);
      if (page_entry(process, reinterpret_cast<const void*>(place)).present) ++mappers;
    }
  }
  return mappers;
}

// A block in the pool of `home`, as a huge page if pools have them, and its other mappers.
struct Scene {
  int home;
  std::uint32_t others;  // bits of the processors that are advised to map it
};

std::string describe(const Scene& scene) {
  return "at " + std::to_string(scene.home) + ", mapped by " + std::to_string(scene.others);
}

class Rounds {
 public:
  void run(std::uint64_t count) {
    const auto end = std::chrono::steady_clock::now() + time_limit;
    constexpr std::uint64_t count_min = 30;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (i >= count_min && std::chrono::steady_clock::now() > end) break;
      CAPTURE(i);
      round();
    }
    std::printf("%d rounds with a huge page, where Linux shows it\n", huge_rounds_);
    for (const auto& [mappers, seen] : rounds_with_)
      std::printf("%d rounds with %d mappers\n", seen, mappers);
  }
  bool has_had(int mappers) const { return rounds_with_.contains(mappers); }

 private:
  std::size_t draw(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random_);
  }

  void round() {
    const Words words(3 * block_words);
    std::uint64_t* const first = whole_block_of(words);
    const Scene scene{processors.at(draw(0, processors.size() - 1)),
                      static_cast<std::uint32_t>(draw(0, 7))};
    const int target = other_than(scene.home);
    CAPTURE(describe(scene), target);
    place(words, first, scene);

    // Several parts leave, one after the other: the first one splits the huge page.
    const std::uint64_t held = held_count();
    std::size_t page = draw(0, 40);
    for (int part = 0; part < 3; ++part) {
      const std::size_t pages = draw(1, 100);
      if (part == 0) {
        ++rounds_with_[count_mappers(first + page * page_words, scene.home)];
        const pid_t process = Witness::process_of(index_of(scene.home));
        if (is_in_huge_page(page_entry(process, first).frame).value_or(false)) ++huge_rounds_;
      }
      leave(first + page * page_words, pages, scene, target);
      page += pages + draw(1, 60);
    }
    CHECK(held_count() == held);
    for (std::size_t i = 0; i < block_words; i += page_words)
      if (!is_discarded_[i / page_words] && first[i + 1] != i + 1) FAIL("page " << i / page_words);
  }

  int other_than(int home) {
    int target = home;
    while (target == home) target = processors.at(draw(0, processors.size() - 1));
    return target;
  }

  void place(const Words& words, std::uint64_t* first, const Scene& scene) {
    is_discarded_.fill(false);
    for (std::size_t i = 0; i < block_words; i += page_words) first[i + 1] = i + 1;
    for (const int p : processors)
      if ((scene.others & bit_of(p)) != 0 && p != scene.home)
        advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, p);
    prefetch(first, block_pages, scene.home == device0 ? device1 : device0);
    prefetch(first, block_pages, scene.home);
    for (const int p : processors)
      if ((scene.others & bit_of(p)) != 0 || p == scene.home)
        (void)stage().read_pages(p, first, (scene.others & bit_of(p)) != 0 ? block_bytes : 8);
  }

  void leave(std::uint64_t* first, std::size_t pages, const Scene& scene, int target) {
    // If the target maps the pages where they are, its accesses do not fault, so move nothing.
    const bool faults = (scene.others & bit_of(target)) == 0;
    const std::size_t way = draw(faults ? 0 : 1, 2);
    const std::uint32_t expected = way == 2 ? 0 : bit_of(target);
    std::size_t stayed = 0;
    const auto all_leave = [&] {
      if (way == 0) {
        (void)stage().read_pages(target, first, pages * page_bytes);
      } else if (way == 1) {
        prefetch(first, pages, target);
      } else {
        discard(first, pages);
      }
      stayed = 0;
      for (std::size_t i = 0; i < pages; ++i)
        if (stage().residents(first + i * page_words) != expected) ++stayed;
      return stayed == 0;
    };
    CAPTURE(way, pages);
    // With page protection no part leaves while the library has Linux merge the block.
    if (!all_leave() && traps_by_protection()) (void)comes_true(all_leave);
    CHECK(stayed == 0);
  }

  void discard(std::uint64_t* first, std::size_t pages) {
    CUdeviceptr start = address_of(first);
    std::size_t bytes = pages * page_bytes;
    const CUstream stream = stage().session().stream(0);
    WHERRY_TRY(cuMemDiscardBatchAsync(&start, &bytes, 1, 0, stream));
    WHERRY_TRY(cuStreamSynchronize(stream));
    const auto page = static_cast<std::size_t>(first - whole_block_start(first)) / page_words;
    std::fill_n(is_discarded_.begin() + static_cast<std::ptrdiff_t>(page), pages, true);
  }
  static std::uint64_t* whole_block_start(std::uint64_t* word) {
    return reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uintptr_t>(word) / block_bytes *
                                            block_bytes);
  }

  std::mt19937_64 random_{seed()};
  std::map<int, int> rounds_with_;
  int huge_rounds_ = 0;
  std::array<bool, block_pages> is_discarded_{};
};

}  // namespace

TEST_CASE("pages that nobody holds are not taken for held, whoever maps them", "[held]") {
  stage();
  Rounds rounds;
  rounds.run(scaled(2000));
  // With page protection Linux has entries for accessed pages only.
  if (std::getenv("WHERRY_TRAP") != nullptr || scale() < 0.05) return;
  for (const int mappers : {1, 2, 3}) {
    CAPTURE(mappers);
    CHECK(rounds.has_had(mappers));
  }
}

}  // namespace wherry::test::free_pages_test
