// Policies in effect, each in a process of its own: where Linux has the pages, and which processors
// map them.
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <wherry/events.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <wherry/policy.hpp>

#include "support/catch.h"
#include "support/child.h"
#include "support/stage.h"
#include "support/waiting.h"

namespace wherry::test::policies_test {

using namespace std::chrono_literals;

namespace {

constexpr const char* devices = "capacity=16M;capacity=16M";

void require_passed(const std::function<void()>& body) {
  const Outcome outcome = in_fresh_process([&] {
    ::setenv("WHERRY_HUGE_PAGES", "arriving", 1);  // nothing in the background causes faults
    body();
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

// The host and the device increment the word in turns, as fast as they can.
class PingPong {
 public:
  explicit PingPong(Stage& stage, std::uint64_t* word) : stage_(stage), word_(word) {}

  void run(int turns) {
    std::uint64_t* const word = word_;
    const auto go = [word, turns](std::uint64_t parity) {
      for (int turn = 0; turn < turns; ++turn) {
        while (__atomic_load_n(word, __ATOMIC_ACQUIRE) % 2 != parity) ::sched_yield();
        __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
      }
    };
    stage_.session().launch(device0, 1, [go](std::size_t) { go(1); });
    go(0);
    WHERRY_TRY(stage_.session().wait(device0));
  }

 private:
  Stage& stage_;
  std::uint64_t* const word_;
};

}  // namespace

TEST_CASE("first-touch: pages stay where they were touched first, and others map them there",
          "[system]") {
  require_passed([] {
    WHERRY_TRY(wherrySetPolicy("first-touch"));
    const Stage stage(devices);
    const Words words(2 * region_words);
    stage.write(host, words.data(), 7);
    stage.write(device0, words.data() + region_words, 8);
    expect(stage.read(device0, words.data()) == 7, "device 0 does not see the host's write");
    stage.write(device1, words.data(), 9);
    expect(stage.read(host, words.data() + region_words) == 8,
           "the host does not see device 0's write");
    expect(stage.residents(words.data()) == bit_of(host), "the first page left the host");
    expect(stage.residents(words.data() + region_words) == bit_of(device0),
           "the other page left device 0");
    expect(stage.read(host, words.data()) == 9, "device 1's write is not seen");
    expect(stage.same_frame(host, device1, words.data()), "host and device 1 see different frames");
    expect(read_stats().migrated_in == 0, "a page has moved");
  });
}

TEST_CASE("remote-always: pages are the host's, whichever processor accesses them first",
          "[system]") {
  require_passed([] {
    ::setenv("WHERRY_POLICY", "remote-always", 1);
    const Stage stage(devices);
    const Words words(region_words);
    stage.write(device1, words.data(), 7);
    expect(stage.residents(words.data()) == bit_of(host), "the page is not at the host");
    stage.write(device0, words.data(), 8);
    expect(stage.read(host, words.data()) == 8, "the host does not see device 0's write");
    expect(stage.residents(words.data()) == bit_of(host), "the page has moved");
    expect(stage.same_frame(device0, device1, words.data()), "the devices see different frames");
  });
}

TEST_CASE("uvm: a device that walks through a block takes at most six faults", "[system]") {
  require_passed([] {
    WHERRY_TRY(wherrySetPolicy("uvm"));
    const Stage stage(devices);
    const Words words(block_words);
    stage.write_pages(host, words.data(), words.bytes(), 3);
    // The minimum residency at the host may still apply for a moment.
    std::this_thread::sleep_for(20ms);
    const std::uint64_t before = Stage::faults(device0);
    expect(stage.read_pages(device0, words.data(), words.bytes()) == 3 * block_words / page_words,
           "wrong bytes");
    const std::uint64_t faults = Stage::faults(device0) - before;
    expect(faults <= 6, std::to_string(faults) + " faults");
    expect(stage.residents(words.data() + block_words - 1) == bit_of(device0),
           "the block's last page did not move to the device");
  });
}

namespace {

// Device 0 reads one page of each region at the host. Afterwards it has whole regions mapped:
// mapping single pages would split the mapping.
void require_regions_are_mapped(const Stage& stage, const Words& words) {
  for (std::size_t i = 0; i < words.size(); i += region_words)
    expect(stage.read(device0, words.data() + i + 3 * page_words) == 3, "a wrong word");
  expect(stage.residents(words.data()) == bit_of(host), "a page has left the host");
  const std::uint64_t before = Stage::faults(device0);
  expect(stage.read_pages(device0, words.data(), words.bytes()) == 3 * words.size() / page_words,
         "wrong bytes");
  expect(Stage::faults(device0) == before, "pages of the regions are not mapped");
  const std::size_t mappings =
      count_mappings(Witness::process_of(index_of(device0)), words.data(), words.bytes());
  expect(mappings == 1, std::to_string(mappings) + " mappings");
}

class Reader final : public wherry::policy {
 public:
  Reader(const wherry::policy_machine&, const char* parameters) : stays_(*parameters != '\0') {}
  wherry::opinion on_fault(const wherry::page_fault& fault,
                           std::unique_ptr<wherry::block_history>&) override {
    wherry::opinion opinion;
    opinion.destination = -1;
    if (stays_) opinion.stays_until_ns = fault.now_ns + 600'000'000'000;
    return opinion;
  }

 private:
  const bool stays_;
};

wherry::policy* make_reader(const wherry::policy_machine* machine, const char* parameters) {
  return new Reader(*machine, parameters);
}

}  // namespace

TEST_CASE("pages that a policy leaves at the host are mapped by regions, not page by page",
          "[system]") {
  const char* const policy = GENERATE("migrate-always", "uvm", "first-touch", "adaptive");
  INFO(policy);
  require_passed([policy] {
    WHERRY_TRY(wherrySetPolicy(policy));
    const Stage stage(devices);
    const Words words(block_words);
    advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
    stage.write_pages(host, words.data(), words.bytes(), 3);
    // The minimum residency at the host may still apply for a moment.
    std::this_thread::sleep_for(20ms);
    require_regions_are_mapped(stage, words);
  });
}

TEST_CASE("a program's own policy that names only a destination gets regions", "[system]") {
  const char* const policy = GENERATE("reader", "reader,stays");
  INFO(policy);
  require_passed([policy] {
    WHERRY_TRY(wherryRegisterPolicy("reader", wherry::policy_version, make_reader));
    WHERRY_TRY(wherrySetPolicy(policy));
    const Stage stage(devices);
    const Words words(block_words);
    stage.write_pages(host, words.data(), words.bytes(), 3);
    std::this_thread::sleep_for(20ms);
    require_regions_are_mapped(stage, words);
  });
}

TEST_CASE("uvm: a page that two processors contend for is throttled, then pinned, and both map it",
          "[system]") {
  require_passed([] {
    // A lapse that is long enough for a busy machine and for sanitizers.
    WHERRY_TRY(wherrySetPolicy("uvm,thrashing_lapse_usec=20000,thrashing_pin=0"));
    Stage stage(devices);
    const Words words(region_words);
    PingPong game(stage, words.data());
    game.run(100);
    expect(comes_true([&] {
             game.run(20);
             return read_stats().thrash_pinned > 0;
           }),
           "the page was never pinned");
    const wherryStats stats = read_stats();
    expect(stats.thrashing_detected > 0 && stats.throttled >= 10,
           "the page was not throttled before");
    game.run(20);
    const std::uint64_t moved = read_stats().migrated_in;
    game.run(2000);
    expect(read_stats().migrated_in == moved, "the page still moves");
    expect(stage.same_frame(host, device0, words.data()), "host and device 0 see different frames");
    expect(stage.comes_to_map(host, words.data()) && stage.comes_to_map(device0, words.data()),
           "the host or device 0 does not map the page");
    expect(words[0] % 2 == 0 && words[0] > 4000, "increments are lost");
    expect(stage.read(device1, words.data()) == words[0], "device 1 reads another value");
  });
}

TEST_CASE("uvm: a pinned page moves again when its pin expires", "[system]") {
  require_passed([] {
    WHERRY_TRY(wherrySetPolicy("uvm,thrashing_lapse_usec=20000,thrashing_pin=5"));
    Stage stage(devices);
    const Words words(region_words);
    PingPong game(stage, words.data());
    expect(comes_true([&] {
             game.run(20);
             return read_stats().thrash_pinned > 0;
           }),
           "the page was never pinned");
    expect(comes_true([] { return read_stats().thrash_unpinned > 0; }), "the pin never expires");
    // Remote mappings of the page are removed, and the accessing processor gets the page.
    for (const int p : {device0, host}) {
      expect(comes_true([&] {
               stage.write(p, words.data(), 5);
               return stage.residents(words.data()) == bit_of(p);
             }),
             "the page does not move to the accessing processor");
    }
  });
}

TEST_CASE("uvm: events show thrashing: its processors, throttling, pins and pages that moved along",
          "[system]") {
  require_passed([] {
    WHERRY_TRY(wherrySetPolicy("uvm,thrashing_lapse_usec=20000,thrashing_pin=5"));
    Stage stage(devices);
    const Words words(block_words);
    PingPong game(stage, words.data());
    WHERRY_TRY(wherryStartEvents(WHERRY_EVENT_ALL, 1 << 16));
    stage.write_pages(host, words.data(), words.bytes(), 0);
    expect(comes_true([&] {
             game.run(20);
             return read_stats().thrash_unpinned > 0;
           }),
           "the page was never pinned, or the pin never expires");
    WHERRY_TRY(wherryStopEvents());
    const std::vector<wherryEvent> events = read_events(std::size_t{1} << 19);
    std::map<int, std::uint64_t> seen;
    std::uint64_t speculative = 0;
    for (const wherryEvent& event : events) {
      const CUdeviceptr first = reinterpret_cast<CUdeviceptr>(words.data());
      if (event.address < first || event.address >= first + words.bytes()) continue;
      ++seen[event.kind];
      if (event.kind == WHERRY_EVENT_THRASHING)
        expect(event.processors == 3, "other processors than the host and device 0 thrash");
      if (event.kind == WHERRY_EVENT_THROTTLE_END)
        expect(event.duration_ns > 0 && event.bytes == page_bytes, "the wait has no duration");
      if (event.kind == WHERRY_EVENT_PIN || event.kind == WHERRY_EVENT_UNPIN)
        expect(event.cause == WHERRY_CAUSE_THRASH_PIN && event.destination >= 0,
               "the pin has no destination");
      if (event.cause == WHERRY_CAUSE_SPECULATIVE_PREFETCH) speculative += event.bytes;
      if (event.kind == WHERRY_EVENT_POPULATE && event.cause == WHERRY_CAUSE_FAULT)
        expect(event.bytes == page_bytes, "the event has more than the accessed page as faulted");
    }
    for (const int kind : {WHERRY_EVENT_THRASHING, WHERRY_EVENT_THROTTLE_BEGIN,
                           WHERRY_EVENT_THROTTLE_END, WHERRY_EVENT_PIN, WHERRY_EVENT_UNPIN})
      expect(seen[kind] != 0, "no event of kind " + std::to_string(kind));
    const wherryStats stats = read_stats();
    expect(seen[WHERRY_EVENT_THRASHING] == stats.thrashing_detected, "thrashing: other counts");
    expect(seen[WHERRY_EVENT_THROTTLE_BEGIN] == stats.throttled, "throttled: other counts");
    expect(speculative > words.bytes() / 2, "hardly any pages moved along");
  });
}

TEST_CASE("uvm: killing a device during thrashing leaves the other one its memory", "[system]") {
  require_passed([] {
    WHERRY_TRY(wherrySetPolicy("uvm,thrashing_lapse_usec=20000"));
    Stage stage(devices);
    const Words words(region_words);
    std::uint64_t* const word = words.data();
    for (const int round : {0, 1}) {
      stage.session().launch(device0, 1, [word](std::size_t) {
        for (;;) __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
      });
      const auto end = std::chrono::steady_clock::now() + (round == 0 ? 5ms : 300ms);
      while (std::chrono::steady_clock::now() < end) __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
      ::kill(device_process(device0), SIGKILL);
      for (int i = 0; i < 1000; ++i) __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
      stage.write(device1, word, 4);
      expect(words[0] == 4, "the host does not see what device 1 wrote");
      WHERRY_TRY(cuDevicePrimaryCtxReset(device0));
      stage.session().renew_stream(device0);
    }
  });
}

TEST_CASE("adaptive: where all memory is equally near no page moves, and a sweep takes few faults",
          "[system]") {
  require_passed([] {
    WHERRY_TRY(wherrySetPolicy("adaptive,far_percent=100"));
    Stage stage(devices);
    const Words words(4 * block_words);
    stage.write_pages(device0, words.data(), words.bytes(), 3);
    expect(stage.residents(words.data()) == bit_of(device0),
           "the page is not where it was first touched");
    // A block without history takes six faults. One more may come before the first whole block.
    const std::uint64_t faults = Stage::faults(device0);
    expect(faults <= 16, std::to_string(faults) + " faults");
    expect(stage.read_pages(host, words.data(), words.bytes()) == 12 * block_words / page_words,
           "wrong bytes");
    expect(stage.same_frame(host, device0, words.data() + block_words),
           "host and device 0 see different frames");
    PingPong(stage, words.data() + page_words).run(1000);
    expect(read_stats().migrated_in == 0, "a page has moved");
  });
}

TEST_CASE(
    "adaptive: pages move to the accessing processor where that pays, and stay where it does not",
    "[system]") {
  require_passed([] {
    WHERRY_TRY(wherrySetPolicy("adaptive,far_percent=300"));
    Stage stage(devices);
    const Words words(block_words);
    std::uint64_t* const fought_for = words.data() + 7 * page_words;
    stage.write_pages(host, words.data(), words.bytes(), 2);
    expect(stage.read_pages(device0, words.data(), words.bytes()) == 2 * block_words / page_words,
           "wrong bytes");
    expect(stage.residents(words.data() + block_words - 1) == bit_of(device0),
           "the block's last page did not move to the device");
    PingPong game(stage, fought_for);
    expect(comes_true([&] {
             game.run(100);
             return read_stats().thrash_pinned > 0;
           }),
           "the page never stops moving");
    // A processor maps the pinned page when it accesses it, until the pin ends.
    expect(comes_true([&] {
             game.run(100);
             return stage.maps(host, fought_for) && stage.maps(device0, fought_for) &&
                    stage.same_frame(host, device0, fought_for);
           }),
           "the host and device 0 do not map the same frame");
    expect(stage.residents(words.data() + block_words - 1) == bit_of(device0),
           "a page without contention has left");
    // The policy tries again to unpin the page, at growing intervals, without success.
    expect(comes_true([&] {
             game.run(100);
             return read_stats().thrash_unpinned > 0;
           }),
           "the pin never expires");
    expect(words[7 * page_words] % 2 == 0, "increments are lost");
  });
}

namespace {

// Wants one region at device 1, and answers the next faults with every kind of invalid opinion.
class Odd final : public wherry::policy {
 public:
  Odd(const wherry::policy_machine& machine, const char* parameters) {
    if (machine.processors != 3 || machine.capacity_pages[1] != 4096 ||
        machine.distance[0][0] != 10)
      throw std::runtime_error("the machine description is wrong");
    if (std::string(parameters) == "none") throw std::runtime_error("no such parameters");
  }
  wherry::opinion on_fault(const wherry::page_fault& fault,
                           std::unique_ptr<wherry::block_history>&) override {
    wherry::opinion opinion;
    switch (fault.page / 16 % 5) {
      case 0:
        opinion.destination = 1;
        break;
      case 1:
        opinion.destination = 2;
        break;
      case 2:
        opinion.region = wherry::page_run{fault.page + 1, 600};
        break;
      case 3:
        throw 5;
      default:
        if (!waited_.exchange(true)) opinion.wait_until_ns = fault.now_ns + 1'000'000;
    }
    return opinion;
  }

 private:
  std::atomic<bool> waited_ = false;
};

wherry::policy* make_odd(const wherry::policy_machine* machine, const char* parameters) {
  return new Odd(*machine, parameters);
}

}  // namespace

TEST_CASE("a program's own policy is asked, and its invalid answers have no effect", "[system]") {
  require_passed([] {
    const auto add = [](const char* name, unsigned version = wherry::policy_version) {
      return wherryRegisterPolicy(name, version, make_odd);
    };
    for (const char* name : {"", "uvm", "a,b", "a/b"})
      expect(add(name) == CUDA_ERROR_INVALID_VALUE, name);
    expect(add("odd", 0) == CUDA_ERROR_NOT_SUPPORTED, "another version was accepted");
    expect(add("odd") == CUDA_SUCCESS && add("odd") == CUDA_ERROR_INVALID_VALUE,
           "one name was registered twice");
    WHERRY_TRY(wherrySetPolicy("odd,some"));
    const Stage stage(devices);
    expect(add("late") == CUDA_ERROR_NOT_PERMITTED, "a policy was registered after the start");
    const Words words(32 * region_words);
    stage.write(host, words.data(), 7);
    expect(stage.residents(words.data()) == bit_of(device1), "its opinion was not followed");
    for (int i = 1; i < 32; ++i) stage.write(i % 2, words.data() + i * region_words, i);
    for (int i = 1; i < 32; ++i)
      expect(stage.read(host, words.data() + i * region_words) == static_cast<std::uint64_t>(i),
             "a word is lost");
  });
  require_passed([] {
    WHERRY_TRY(wherryRegisterPolicy("odd", wherry::policy_version, make_odd));
    ::setenv("WHERRY_POLICY", "odd,none", 1);
    ::setenv("WHERRY_DEVICES", devices, 1);
    expect(cuInit(0) == CUDA_ERROR_INVALID_VALUE, "cuInit succeeded with invalid parameters");
    ::setenv("WHERRY_POLICY", "odd", 1);
    WHERRY_TRY(cuInit(0));
  });
}

TEST_CASE("a shared object without a policy is refused", "[system]") {
  require_passed([] {
    expect(wherrySetPolicy("./no/such/policy.so") == CUDA_ERROR_INVALID_VALUE,
           "a missing file was accepted");
    expect(wherrySetPolicy("/proc/self/maps") == CUDA_ERROR_INVALID_VALUE,
           "a file that is no shared object was accepted");
    // A library that exists for every test.
    Dl_info c_library{};
    expect(::dladdr(::dlsym(RTLD_DEFAULT, "puts"), &c_library) != 0, "dladdr");
    expect(wherrySetPolicy(c_library.dli_fname) == CUDA_ERROR_INVALID_VALUE,
           "a library without a policy was accepted");
    WHERRY_TRY(cuInit(0));
  });
}

TEST_CASE("a policy is chosen before the start, and only an existing one", "[system]") {
  require_passed([] {
    expect(wherrySetPolicy(nullptr) == CUDA_ERROR_INVALID_VALUE, "NULL");
    expect(wherrySetPolicy("best") == CUDA_ERROR_INVALID_VALUE, "an unknown name was accepted");
    expect(wherrySetPolicy("uvm,prefetch_threshold=0") == CUDA_ERROR_INVALID_VALUE,
           "a wrong number was accepted");
    ::setenv("WHERRY_POLICY", "not looked at", 1);
    WHERRY_TRY(wherrySetPolicy("first-touch"));
    const Stage stage(devices);
    expect(wherrySetPolicy("uvm") == CUDA_ERROR_NOT_PERMITTED,
           "a policy was chosen after the start");
    const Words words(region_words);
    stage.write(device0, words.data(), 7);
    expect(stage.residents(words.data()) == bit_of(device0),
           "the environment variable overrode wherrySetPolicy");
  });
  require_passed([] {
    ::setenv("WHERRY_POLICY", "uvn", 1);
    expect(cuInit(0) == CUDA_ERROR_INVALID_VALUE, "cuInit succeeded with an unknown policy");
  });
}

}  // namespace wherry::test::policies_test
