// How much work do two processors get done that want the same memory all the time: one page, or
// different pages that one fault moves together? And how evenly is the work divided?
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 5;
constexpr double run_ns = 300e6;
// After this time, both have started.
constexpr double lead_ns = 30e6;
constexpr std::size_t page = 4096;
constexpr std::size_t region = 16 * page;

struct Writer {
  volatile std::uint64_t* own;  // counts this processor's writes
  // null: writes whenever it can; otherwise only when this equals `id`.
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

struct Case {
  const char* name;
  std::size_t distance;  // bytes between the two words that are written
  bool in_turn;
};

constexpr Case cases[] = {{"one page in turn", 64, true},
                          {"one page", 64, false},
                          {"two pages of 64 KiB", region / 2, false}};

struct Outcome {
  double writes_per_s, poorer_share, moves_per_s;
};

// -1 is the host, as in the API. Only `first` may be the host.
Outcome run_once(std::byte* memory, const Case& what, int first, int second) {
  std::fill_n(memory, region, std::byte{0});
  const auto word = [&](std::size_t offset) {
    return reinterpret_cast<volatile std::uint64_t*>(memory + offset);
  };
  const double begin_ns = now_ns() + lead_ns;
  const auto turn = what.in_turn ? word(region / 4 + 128) : nullptr;
  const Writer one{word(region / 4), turn, 0, begin_ns, 0};
  const Writer other{word(region / 4 + what.distance), turn, 1, begin_ns, 1};
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

Measurements measure(int first, int second) {
  ::setenv("WHERRY_DEVICES", "capacity=64M,workers=1;capacity=64M,workers=1", 1);
  allowed_cpus();
  init_cuda();
  std::byte* const memory = alloc_managed(region);
  const std::string pair = first < 0 ? "host and device" : "two devices";
  Measurements results;
  for (const Case& what : cases) {
    std::vector<double> writes, shares, moves;
    for (int run = -1; run < runs; ++run) {
      const Outcome outcome = run_once(memory, what, first, second);
      if (run < 0) continue;  // the first run warms up
      writes.push_back(outcome.writes_per_s);
      shares.push_back(outcome.poorer_share);
      moves.push_back(outcome.moves_per_s);
    }
    const std::string name = fmt::format("{}, {}", pair, what.name);
    results.push_back({name + ", writes", median(writes), "1/s", {}, {}});
    if (!what.in_turn)
      results.push_back({name + ", the poorer one's share", median(shares) * 100, "%", {}, {}});
    results.push_back({name + ", moves of the region", median(moves), "1/s", {}, {}});
  }
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure_in_child([] { return measure(-1, 0); });
  for (Measurement& next : measure_in_child([] { return measure(0, 1); }))
    all.push_back(std::move(next));
  return print_report("contention: two processors that write the same memory", all, json);
}
