// Random advice changes while host threads and three devices work on the advised memory. Advice
// covers single blocks or all of it, so pages are copied, collapsed, moved, evicted and mapped
// remotely by any processor at any time. The data is never wrong, and no thread hangs.
#include <array>
#include <cstdio>
#include <random>

#include "stress/shared_pages.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::advice_concurrency_test {
namespace {

constexpr std::uint64_t accesses_wanted = 2'000'000;
constexpr std::size_t page_bytes = 4096;

class Adviser {
 public:
  Adviser(const Session& session, const Managed<std::byte>& memory)
      : session_(session), memory_(memory), random_(seed()) {}

  // Any thread may call this.
  void advise() {
    WHERRY_TRY(cuCtxSetCurrent(session_.context(0)));
    constexpr std::array all{
        CU_MEM_ADVISE_SET_READ_MOSTLY,        CU_MEM_ADVISE_UNSET_READ_MOSTLY,
        CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
        CU_MEM_ADVISE_SET_ACCESSED_BY,        CU_MEM_ADVISE_UNSET_ACCESSED_BY};
    const CUmem_advise advice = all[random_() % all.size()];
    const int processor = static_cast<int>(random_() % (SharedPagesGame::devices + 1)) - 1;
    const std::size_t pages = memory_.bytes() / page_bytes;
    const std::size_t first = random_() % pages;
    // Covers all pages now and then, and mostly a few blocks.
    const std::size_t count =
        random_() % 16 == 0 ? pages - first : std::min(pages - first, 1 + random_() % 1024);
    const CUmemLocation location = processor == CU_DEVICE_CPU
                                       ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
                                       : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, processor};
    const auto address = reinterpret_cast<CUdeviceptr>(memory_.data()) + first * page_bytes;
    if (cuMemAdvise(address, count * page_bytes, advice, location) != CUDA_SUCCESS) ++refused_;
    ++advised_;
  }

  std::uint64_t advised() const { return advised_; }
  std::uint64_t refused() const { return refused_; }

 private:
  const Session& session_;
  const Managed<std::byte>& memory_;
  std::mt19937_64 random_;
  std::uint64_t advised_ = 0;
  std::uint64_t refused_ = 0;
};

TEST_CASE("nothing is lost, torn or overtaken while advice changes under all processors",
          "[stress]") {
  const Session session{SharedPagesGame::device_list};
  SharedPagesGame game{session, scaled(accesses_wanted)};
  Adviser adviser{session, game.memory()};
  game.play([&] { adviser.advise(); });
  const std::uint64_t accesses = game.check();
  CHECK(adviser.advised() > 0);
  CHECK(adviser.refused() == 0);
  const wherryStats stats = read_stats();
  std::printf("%llu accesses, %llu advices, %llu migrated, %llu duplicated, %llu remote\n",
              static_cast<unsigned long long>(accesses),
              static_cast<unsigned long long>(adviser.advised()),
              static_cast<unsigned long long>(stats.migrated_in),
              static_cast<unsigned long long>(stats.duplicated),
              static_cast<unsigned long long>(stats.mapped_remotely));
  CHECK(stats.migrated_in > 0);
  CHECK(stats.duplicated > 0);
  CHECK(stats.mapped_remotely > 0);
}

}  // namespace
}  // namespace wherry::test::advice_concurrency_test
