#include "bench_questions.h"

#include <algorithm>

#include "bench_calls.h"
#include "bench_coherent.h"
#include "bench_faults.h"
#include "bench_lifetime.h"
#include "bench_policies.h"
#include "bench_resident.h"
#include "bench_sweeps.h"
#include "policy/policies.h"

namespace wherry::tool {
namespace {

constexpr bool less = true;
constexpr bool more = false;
constexpr bool large = true;
constexpr const char* bare_loop = "bare userfaultfd loop";
constexpr const char* by_hand = "mprotect and SIGSEGV by hand";
constexpr const char* by_hand_threads = "mprotect and SIGSEGV by hand, a thread for each CPU";
constexpr const char* copy_one = "memcpy by one thread";
constexpr const char* copy_cpus = "memcpy by a thread for each CPU";
constexpr const char* tmpfs_threads = "first touch of plain tmpfs, a thread for each CPU";
constexpr const char* huge_plain = "plain memory with huge pages";
constexpr const char* small_plain = "plain memory with small pages";
constexpr const char* futex = "futex(2) round trip between two threads";
constexpr const char* pool = "thread pool with a condition variable";
constexpr const char* system_call = "a system call that does nothing";

std::vector<QuestionGroup> fault_groups() {
  return {
      {"first_touch",
       {{"first_touch_p50", "first touch of a 4 KiB page by the host, median", "us", less,
         bare_loop, "first touch of an anonymous page"},
        {"device_first_touch", "first touch of a 4 KiB page by a device", "us", less, bare_loop,
         "first touch of an anonymous page"}},
       measure_first_touch},
      {"fault_latency",
       {{"host_fault_latency", "the host takes a 4 KiB page from a device", "us", less,
         "bare sequence of system calls", by_hand},
        {"device_fault_latency", "a device takes a 4 KiB page from the host", "us", less,
         "bare sequence of system calls", by_hand},
        {"ping_pong", "a page goes to a device and back", "us", less,
         "bare sequence there and back", futex},
        {"ping_pong_contended", "the same while both processors want it all the time", "us", less,
         "bare sequence there and back", futex}},
       measure_fault_latency},
      {"read_mostly",
       {{"read_mostly_first_read", "a device's first read of a read-mostly page", "us", less,
         "bare userfaultfd copies", copy_one}},
       measure_read_mostly},
      {"collapse",
       {{"write_collapse", "the host writes a page that a device has a copy of", "us", less,
         "bare sequence of system calls", by_hand}},
       measure_write_collapse},
      {"remote_mapping",
       {{"remote_map", "a device maps pages that stay at the host, for each page", "us", less,
         "mmap(2) of 2 MiB with MAP_POPULATE", ""}},
       measure_remote_map},
  };
}

std::vector<QuestionGroup> sweep_groups() {
  const std::string prefetch_peer = several_nodes() ? "move_pages(2)" : copy_one;
  const char* const copiers = "memcpy by as many threads as copiers";
  return {
      {"dense_first_touch",
       {{"first_touch_sweep", "one host thread touches large memory first", "GB/s", more,
         "first touch of tmpfs with huge pages", "first touch of plain memory with huge pages"}},
       measure_first_touch_sweep,
       large},
      {"threads",
       {{"threads_first_touch", "a host thread for each CPU touches large memory first", "GB/s",
         more, tmpfs_threads, "first touch of plain memory, as many threads"},
        {"threads_take_pages", "a host thread for each CPU takes memory from a device", "GB/s",
         more, tmpfs_threads, by_hand_threads}},
       measure_threads,
       large},
      {"sweeps",
       {{"sweep_to_host", "faults of one host thread move large memory from a device", "GB/s", more,
         copy_one, by_hand},
        {"sweep_to_device", "faults of all workers move large memory to a device", "GB/s", more,
         copy_cpus, by_hand_threads}},
       measure_sweeps,
       large},
      {"prefetches",
       {{"prefetch_to_device", "a prefetch moves large memory to a device", "GB/s", more, copiers,
         prefetch_peer},
        {"prefetch_to_host", "a prefetch moves large memory to the host", "GB/s", more, copiers,
         prefetch_peer}},
       measure_prefetches,
       large},
      {"evictions",
       {{"evict", "a prefetch to a full device, which evicts as much", "GB/s", more,
         "memcpy of both by as many threads as copiers", "memcpy of both by one thread"}},
       measure_evictions,
       large},
  };
}

QuestionGroup resident_group() {
  QuestionGroup group{"resident", {}, measure_resident, large};
  for (const std::string processor : {"host", "device"})
    for (const bool faulted : {false, true}) {
      const std::string key = processor + (faulted ? "_faulted" : "");
      const std::string where = std::string(processor == "host" ? "the host" : "a device") +
                                (faulted ? ", memory that faults brought" : "");
      group.questions.push_back({"resident_random_" + key, "random read of " + where, "ns", less,
                                 huge_plain, small_plain});
      group.questions.push_back(
          {"resident_triad_" + key, "triad of " + where, "GB/s", more, huge_plain, small_plain});
    }
  return group;
}

std::vector<QuestionGroup> coherent_groups() {
  const char* const same_isolated = "the same for an isolated device";
  const char* const budget = "the budget";
  return {
      {"coherent_resident",
       {{"coherent_random", "random read of a coherent device's memory", "ns", less, huge_plain,
         small_plain},
        {"coherent_updates", "random update of a coherent device's memory", "ns", less, huge_plain,
         small_plain},
        {"coherent_triad", "triad of a coherent device's memory", "GB/s", more, huge_plain,
         small_plain}},
       measure_coherent_resident,
       large},
      {"coherent_prefetches",
       {{"coherent_prefetch_up", "a prefetch moves large memory to a coherent device", "GB/s", more,
         same_isolated, ""},
        {"coherent_prefetch_down", "a prefetch moves large memory to the host", "GB/s", more,
         same_isolated, ""},
        {"coherent_block_up", "a prefetch moves 2 MiB to a coherent device", "GB/s", more,
         same_isolated, ""},
        {"coherent_block_down", "a prefetch moves 2 MiB to the host", "GB/s", more, same_isolated,
         ""}},
       measure_coherent_prefetches,
       large},
      {"sampling",
       {{"sampling_1", "time with a budget for samples of 1 %, by that without", "x", less, budget,
         ""},
        {"sampling_2", "the same with 2 %", "x", less, budget, ""},
        {"sampling_4", "the same with 4 %", "x", less, budget, ""}},
       measure_sampling,
       large},
  };
}

std::vector<QuestionGroup> call_groups() {
  return {
      {"launches",
       {{"launch_sync", "launch of an empty kernel, and a wait for it", "us", less, futex, pool},
        {"prefetch_nothing", "prefetch of 2 MiB that are there, and a wait", "us", less, futex,
         pool}},
       measure_launch},
      {"api_calls",
       {{"api_pointer_attribute", "cuPointerGetAttribute", "us", less, system_call, ""},
        {"api_range_attribute", "cuMemRangeGetAttribute of 64 MiB", "us", less, system_call, ""},
        {"api_event_query", "cuEventQuery of an event that is done", "us", less, system_call, ""},
        {"api_advise", "cuMemAdvise of 64 MiB", "us", less, system_call,
         "madvise(2) of as much memory"}},
       measure_calls},
  };
}

std::vector<QuestionGroup> lifetime_groups() {
  return {
      {"starting",
       {{"startup", "cuInit with two devices", "ms", less, "fork(2) of a process, and its end", ""},
        {"allocate_100G", "cuMemAllocManaged of 100 GiB", "ms", less, "mmap(2) and munmap(2)", ""}},
       measure_startup_times},
      {"freeing",
       {{"teardown", "cuMemFree of very large resident memory", "GB/s", more,
         "munmap(2) and close(2) of tmpfs with huge pages",
         "munmap(2) of plain memory with huge pages"}},
       measure_teardown,
       large},
  };
}

QuestionGroup policy_group() {
  QuestionGroup group{"policies", {}, measure_policies};
  for (const impl::PolicyDescription& policy : impl::built_in_policies()) {
    const std::string name = policy.name;
    std::string key = "policy_" + name;
    std::ranges::replace(key, '-', '_');
    group.questions.push_back({key, "nine programs under " + name + ", geometric mean", "x", less,
                               "an oracle that knows the future", "the best policy of each"});
  }
  return group;
}

}  // namespace

std::vector<QuestionGroup> question_groups() {
  std::vector<QuestionGroup> groups;
  const auto add = [&](std::vector<QuestionGroup> more_groups) {
    for (QuestionGroup& group : more_groups) groups.push_back(std::move(group));
  };
  add(fault_groups());
  add(sweep_groups());
  add({resident_group()});
  add(coherent_groups());
  add(call_groups());
  add(lifetime_groups());
  add({policy_group()});
  return groups;
}

}  // namespace wherry::tool
