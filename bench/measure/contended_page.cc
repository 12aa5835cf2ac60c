#include "measure/contended_page.h"

#include <algorithm>
#include <cstdint>

#include "measure/managed.h"
#include "measure/timing.h"

namespace wherry::bench {
namespace {

constexpr double run_ns = 300e6;
// Writing begins after this time, when both writers have started.
constexpr double lead_ns = 30e6;
constexpr std::size_t page = 4096;
constexpr std::size_t region = contended_bytes;

struct Writer {
  volatile std::uint64_t* own;  // counts this processor's writes
  // If null, the writer writes whenever it can; otherwise only when the word equals `id`.
  volatile std::uint64_t* turn;
  std::uint64_t id;  // 0 or 1
  double begin_ns;
  int cpu;
};

void write_on(const Writer& writer) {
  pin_to_allowed_cpu(writer.cpu);
  while (now_ns() < writer.begin_ns) {
  }
  // The clock is read only now and then, because reading it takes longer than a write.
  while (now_ns() < writer.begin_ns + run_ns) {
    for (int i = 0; i < 16; ++i) {
      if (writer.turn == nullptr) {
        *writer.own = *writer.own + 1;
      } else if (*writer.turn == writer.id) {
        *writer.own = *writer.own + 1;
        *writer.turn = 1 - writer.id;
      }
    }
  }
}

void write_kernel(const void* args, std::size_t, std::size_t) {
  write_on(*static_cast<const Writer*>(args));
}

ContentionResult contend_once(std::byte* memory, const Contention& contention, int first,
                              int second) {
  std::fill_n(memory, region, std::byte{0});
  const auto word = [&](std::size_t offset) {
    return reinterpret_cast<volatile std::uint64_t*>(memory + offset);
  };
  const double begin_ns = now_ns() + lead_ns;
  const auto turn = contention.in_turn ? word(region / 4 + 128) : nullptr;
  const Writer one{word(region / 4), turn, 0, begin_ns, 0};
  const Writer other{word(region / 4 + contention.distance), turn, 1, begin_ns, 1};
  const auto migrated = [] { return stats().migrated_in; };

  const std::uint64_t before = migrated();
  const auto launch = [](int device, const Writer& writer) {
    use_device(device);
    require(wherryLaunchKernel(nullptr, write_kernel, &writer, sizeof writer, 1),
            "wherryLaunchKernel");
  };
  launch(second, other);
  if (first < 0)
    write_on(one);
  else
    launch(first, one);
  for (const int device : {first, second}) {
    if (device < 0) continue;
    use_device(device);
    require(cuCtxSynchronize(), "cuCtxSynchronize");
  }
  const double moves = static_cast<double>(migrated() - before) / (region / page);
  const double a = static_cast<double>(*one.own);
  const double b = static_cast<double>(*other.own);
  constexpr double seconds = run_ns / 1e9;
  return {(a + b) / seconds, std::min(a, b) / std::max(a + b, 1.0), moves / seconds};
}

}  // namespace

ContentionResult contend(std::byte* memory, const Contention& contention, int first, int second) {
  // Several attempts, because on a busy machine a writer may get no CPU until its time is over.
  constexpr int attempts = 20;
  ContentionResult result{};
  for (int i = 0; i < attempts && result.writes_per_s == 0; ++i)
    result = contend_once(memory, contention, first, second);
  return result;
}

}  // namespace wherry::bench
