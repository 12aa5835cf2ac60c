// How long does cuPointerGetAttribute take for random addresses, by number of live allocations and
// threads, compared with a lookup in a std::map under a std::shared_mutex in the same run?
#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <shared_mutex>
#include <thread>

#include "measure/managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr std::size_t bytes_each = 4096;
constexpr int batch = 100;  // calls between two clock readings
constexpr int batches = 2000;

class MapUnderLock {
 public:
  void insert(CUdeviceptr base, std::size_t bytes) { ranges_[base] = {bytes, 2}; }
  unsigned type_of(CUdeviceptr address) const {
    const std::shared_lock guard(lock_);
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return 0;
    const auto& [base, range] = *--after;
    return address - base < range.bytes ? range.type : 0;
  }

 private:
  struct Range {
    std::size_t bytes;
    unsigned type;
  };
  mutable std::shared_mutex lock_;
  std::map<CUdeviceptr, Range> ranges_;
};

// Nanoseconds for one call: a value for each batch of each thread.
template <typename Call>
std::vector<double> time_calls(const std::vector<CUdeviceptr>& addresses, int threads,
                               const Call& call) {
  std::vector<std::vector<double>> times(static_cast<std::size_t>(threads));
  std::vector<std::thread> askers;
  for (int number = 0; number < threads; ++number)
    askers.emplace_back([&, number] {
      pin_to_allowed_cpu(number);
      auto& mine = times[static_cast<std::size_t>(number)];
      std::size_t next = static_cast<std::size_t>(number) * addresses.size() / 4;
      for (int i = 0; i < batches; ++i) {
        const double start = now_ns();
        for (int j = 0; j < batch; ++j) {
          next = next + 1 < addresses.size() ? next + 1 : 0;
          call(addresses[next]);
        }
        mine.push_back((now_ns() - start) / batch);
      }
    });
  for (std::thread& asker : askers) asker.join();
  std::vector<double> all;
  for (const auto& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  return all;
}

template <typename Value>
void ask(CUpointer_attribute attribute, CUdeviceptr address) {
  Value value{};
  require(cuPointerGetAttribute(&value, attribute, address), "cuPointerGetAttribute");
  asm volatile("" : : "g"(value) : "memory");
}

Measurements measure(std::size_t allocations, double goal_ns) {
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  init_cuda();
  MapUnderLock map;
  std::vector<CUdeviceptr> bases(allocations);
  for (CUdeviceptr& base : bases) {
    require(cuMemAllocManaged(&base, bytes_each, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    map.insert(base, bytes_each);
  }
  std::mt19937_64 random(1);
  std::vector<CUdeviceptr> addresses(std::max<std::size_t>(allocations, 1000));
  for (CUdeviceptr& address : addresses)
    address = bases[random() % allocations] + random() % bytes_each;

  Measurements results;
  for (const int threads : {1, 4}) {
    const auto of_map = [&] {
      return median(time_calls(addresses, threads, [&](CUdeviceptr address) {
        asm volatile("" : : "g"(map.type_of(address)) : "memory");
      }));
    };
    const auto of_attribute = [&](auto&& call) {
      return median(time_calls(addresses, threads, call));
    };
    of_map();  // warms up
    const double baseline = of_map();
    const double type = of_attribute(
        [](CUdeviceptr address) { ask<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address); });
    const double id = of_attribute([](CUdeviceptr address) {
      ask<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
    });
    const std::string conditions =
        std::to_string(allocations) + " allocations, " + std::to_string(threads) + " threads: ";
    // There is no goal for four threads, which share fewer CPUs.
    const std::optional<double> goal = threads == 1 ? std::optional(goal_ns) : std::nullopt;
    results.push_back({conditions + "MEMORY_TYPE", type, "ns", goal, {}});
    results.push_back({conditions + "BUFFER_ID", id, "ns", goal, {}});
    results.push_back(
        {conditions + "MEMORY_TYPE by the map's time", type / baseline, "x", 0.5, {}});
    results.push_back({conditions + "BUFFER_ID by the map's time", id / baseline, "x", 0.5, {}});
  }
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all;
  for (const auto& [allocations, goal_ns] :
       {std::pair<std::size_t, double>{1, 40}, {1000, 40}, {1'000'000, 60}}) {
    const auto some =
        measure_in_child([count = allocations, goal = goal_ns] { return measure(count, goal); });
    all.insert(all.end(), some.begin(), some.end());
  }
  return print_report("pointer queries: median times of one call, random addresses", all, json);
}
