// Devices are killed, stopped and continued at random instants of faults, prefetches, evictions and
// launches: committed data survives, errors arrive within a second of running time, a reset device
// works, and no process, descriptor or mapping is left over. The last line of the output is a
// summary: "kills: N, lost: 0, late: 0".
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/descriptors.h"
#include "support/session.h"
#include "support/waiting.h"
#include "support/witness.h"

namespace wherry::test::kills_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;

constexpr int devices = 2;
// Each device holds half of the memory, so that evictions happen all the time.
constexpr const char* device_list = "capacity=2M,workers=2;capacity=2M,workers=2";
constexpr std::size_t page_words = 512;
constexpr std::size_t pages = 1024;
constexpr std::uint64_t rounds_wanted = 60;
constexpr int limit_ms = 24 * 3600 * 1000;  // a soak runs long; meson has its own limit
constexpr int rings_of_threads_max = 8;
constexpr auto late_after = std::chrono::seconds(1);

enum class Blow {
  kill,
  stop,  // the device is continued afterwards
};

// Running time since construction. Each call of look() adds at most 20 ms, because on a busy
// machine this thread may get no CPU for longer.
class RunningTime {
 public:
  void look() {
    const auto now = std::chrono::steady_clock::now();
    counted_ += std::min(now - seen_, look_max);
    seen_ = now;
  }
  bool is_late() const { return counted_ > late_after; }
  bool is_hopeless() const { return counted_ > 20 * late_after; }

 private:
  static constexpr std::chrono::steady_clock::duration look_max = std::chrono::milliseconds(20);
  std::chrono::steady_clock::time_point seen_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration counted_{};
};

// Every player (a device or the host) has a word of its own on each page, which holds the number of
// the last round. So all players use each page at the same time, and a page that went back to an
// older version is noticed.
struct Board {
  std::uint64_t* words;

  std::uint64_t& word(std::size_t page, int player) const {
    return words[page * page_words + static_cast<std::size_t>(player) * 8];
  }
  // Writes the player's words of all pages, in an order that depends on `order`.
  void play(int player, std::uint64_t round, std::uint64_t order) const {
    for (std::size_t i = 0; i < pages; ++i) word((i * 1021 + order) % pages, player) = round;
  }
};
constexpr int host_player = devices;
constexpr int players = devices + 1;

struct Sum {
  std::uint64_t kills = 0;
  std::uint64_t stops = 0;
  std::uint64_t lost = 0;  // words with a wrong value
  std::uint64_t late = 0;  // errors that took longer than a second
};

class Game {
 public:
  Game() : session_(device_list), random_(seed()), memory_(pages * page_words) {
    for (std::size_t page = 0; page < pages; ++page)
      for (int player = 0; player < players; ++player) board_.word(page, player) = 0;
  }

  void play_round(Sum& sum) {
    ++round_;
    const int victim = static_cast<int>(random_() % devices);
    const Blow blow = random_() % 4 == 0 ? Blow::stop : Blow::kill;
    const pid_t process = device_process(victim);
    for (int device = 0; device < devices; ++device) launch(device);
    std::thread beside([this, order = random_()] { play_host(order); });
    std::this_thread::sleep_for(microseconds(random_() % 8'000));
    if (blow == Blow::stop) {
      expect(::kill(process, SIGSTOP) == 0, "SIGSTOP");
      std::this_thread::sleep_for(microseconds(random_() % 20'000));
      expect(::kill(process, SIGCONT) == 0, "SIGCONT");
      ++sum.stops;
    } else {
      expect(::kill(process, SIGKILL) == 0, "SIGKILL");
      sum.late += wait_for_error(victim) ? 0 : 1;
      ++sum.kills;
    }
    beside.join();
    for (int device = 0; device < devices; ++device)
      if (device != victim || blow == Blow::stop) WHERRY_TRY(session_.wait(device));
    if (blow == Blow::kill) {
      reset(victim);
      expect(!process_status(process, "State").has_value(), "the killed process is not reaped");
    }
    sum.lost += count_wrong(blow == Blow::kill ? victim : -1);
    sum.lost += count_wrong_on_device(static_cast<int>(random_() % devices));
  }

 private:
  void launch(int device) {
    const std::uint64_t order = random_();
    const CUdeviceptr start = reinterpret_cast<CUdeviceptr>(memory_.data());
    const std::size_t part = memory_.bytes() / 4;
    CUmemLocation here{};
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    here.id = device;
    if (random_() % 2 == 0)
      WHERRY_TRY(cuMemPrefetchAsync_v2(start + random_() % 4 * part, part, here, 0,
                                       session_.stream(device)));
    session_.launch(device, 2, [board = board_, device, order, round = round_](std::size_t half) {
      // Each worker writes half of the pages.
      for (std::size_t i = half; i < pages; i += 2)
        board.word((i * 1021 + order) % pages, device) = round;
    });
  }

  void play_host(std::uint64_t order) { board_.play(host_player, round_, order); }

  // Returns true if the error arrived within a second of running time.
  bool wait_for_error(int victim) {
    RunningTime time;
    for (;;) {
      const CUresult found = cuStreamQuery(session_.stream(victim));
      // The work may have finished before the kill: then the next launch returns the error.
      if (found == CUDA_SUCCESS &&
          wherryLaunchKernel(
              session_.stream(victim), [](const void*, std::size_t, std::size_t) {}, nullptr, 0,
              1) == CUDA_ERROR_LAUNCH_FAILED)
        break;
      if (found != CUDA_SUCCESS && found != CUDA_ERROR_NOT_READY) {
        expect(found == CUDA_ERROR_LAUNCH_FAILED, "another error: " + name_of(found));
        break;
      }
      std::this_thread::sleep_for(microseconds(500));
      time.look();
      expect(!time.is_hopeless(), "no error arrived");
    }
    return !time.is_late();
  }

  void reset(int victim) {
    WHERRY_TRY(cuDevicePrimaryCtxReset(victim));
    session_.renew_stream(victim);
  }

  // Counts words without this round's number. The victim's words may have the number of the last
  // round; they are set to this one's.
  std::uint64_t count_wrong(int victim) {
    std::uint64_t wrong = 0;
    for (std::size_t page = 0; page < pages; ++page)
      for (int player = 0; player < players; ++player) {
        std::uint64_t& word = board_.word(page, player);
        if (word == round_) continue;
        if (player != victim || word + 1 != round_) ++wrong;
        word = round_;
      }
    return wrong;
  }

  std::uint64_t count_wrong_on_device(int device) {
    const Managed<std::uint64_t> wrong{1};
    session_.run(device, [board = board_, to = wrong.data(), round = round_] {
      for (std::size_t page = 0; page < pages; ++page)
        for (int player = 0; player < players; ++player)
          *to += board.word(page, player) == round ? 0 : 1;
    });
    return wrong[0];
  }

  Session session_;
  std::mt19937_64 random_;
  const Managed<std::uint64_t> memory_;
  const Board board_{memory_.data()};
  std::uint64_t round_ = 0;
};

// Counts this process's threads, except Linux's io_uring workers, which come and go.
std::size_t count_threads() {
  std::size_t threads = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    threads += name.starts_with("iou-") ? 0 : 1;
  }
  return threads;
}

// How many descriptors are open for each kind of file: its name without numbers, because a new
// device process has new ones.
using Descriptors = std::map<std::string, int>;

Descriptors count_descriptors() {
  Descriptors counts;
  for (const int fd : open_descriptors()) {
    std::string file = file_of_descriptor(fd);
    std::erase_if(file, [](char c) { return c >= '0' && c <= '9'; });
    ++counts[file];
  }
  return counts;
}

// The fewest of each kind within half a second: without those that a handler still has because it
// answers a fault of a killed device.
Descriptors lasting_descriptors() {
  Descriptors fewest = count_descriptors();
  for (int look = 0; look < 50; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Descriptors now = count_descriptors();
    for (auto& [file, count] : fewest) count = std::min(count, now[file]);
  }
  return fewest;
}

// Takes the rings out of `counts` and returns their number.
int take_rings(Descriptors& counts) {
  const auto ring = counts.extract("anon_inode:[io_uring]");
  return ring.empty() ? 0 : ring.mapped();
}

// A line for each kind of file of which more descriptors are open than before.
std::string more_than(const Descriptors& before, const Descriptors& now) {
  std::string lines;
  for (const auto& [file, count] : now) {
    const auto found = before.find(file);
    const int earlier = found == before.end() ? 0 : found->second;
    if (count > earlier)
      lines += "\n" + file + ": " + std::to_string(earlier) + ", then " + std::to_string(count);
  }
  return lines;
}

// A memory cgroup of version 1 or 2 with so small a limit that Linux kills a device in it. Holds
// nothing if no cgroup can be created.
class SmallCgroup {
 public:
  SmallCgroup() {
    std::error_code error;
    for (const char* root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      const fs::path parent = root;
      const bool first = fs::exists(parent / "memory.limit_in_bytes", error);
      if (!first && !fs::exists(parent / "cgroup.controllers", error)) continue;
      const fs::path folder = parent / ("wherry-kills-" + std::to_string(::getpid()));
      if (!fs::create_directory(folder, error)) continue;
      folder_ = folder;
      limit_ = folder / (first ? "memory.limit_in_bytes" : "memory.max");
      if (write(limit_, "67108864")) {
        // Makes Linux kill instead of swap.
        (void)write(folder / (first ? "memory.swappiness" : "memory.swap.max"), "0");
        return;
      }
      remove();
    }
  }
  ~SmallCgroup() { remove(); }
  SmallCgroup(const SmallCgroup&) = delete;
  SmallCgroup& operator=(const SmallCgroup&) = delete;

  explicit operator bool() const { return !folder_.empty(); }
  bool take(pid_t process) const {
    return write(folder_ / "cgroup.procs", std::to_string(process));
  }

 private:
  static bool write(const fs::path& file, const std::string& text) {
    std::ofstream out(file);
    out << text << std::flush;
    return out.good();
  }
  void remove() {
    for (int attempt = 0; !folder_.empty() && attempt < 200; ++attempt) {
      if (::rmdir(folder_.c_str()) == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    folder_.clear();
  }

  fs::path folder_;
  fs::path limit_;
};

}  // namespace

TEST_CASE("devices that are killed or stopped at random instants lose nothing and leave nothing",
          "[stress]") {
  const std::uint64_t rounds = std::max<std::uint64_t>(scaled(rounds_wanted), 5);
  const auto outcome = in_fresh_process(
      [rounds] {
        Sum sum;
        Game game;
        // The first rounds create what is created only once.
        for (int round = 0; round < 3; ++round) game.play_round(sum);
        Descriptors before = lasting_descriptors();
        (void)take_rings(before);
        const std::size_t threads = count_threads();
        const std::size_t mappings = count_mappings();
        for (std::uint64_t round = 0; round < rounds && sum.lost == 0; ++round)
          game.play_round(sum);
        std::printf(
            "kills: %llu, lost: %llu, late: %llu\n", static_cast<unsigned long long>(sum.kills),
            static_cast<unsigned long long>(sum.lost), static_cast<unsigned long long>(sum.late));
        std::fflush(stdout);
        expect(sum.lost == 0, "words were lost");
        expect(sum.late == 0, "errors were late");
        int rings = 0;
        std::string more;
        // A handler that answers a fault of a killed device has the device's descriptors until it
        // is done.
        const bool none_left = comes_true([&] {
          Descriptors now = count_descriptors();
          rings = take_rings(now);
          more = more_than(before, now);
          return more.empty();
        });
        expect(none_left, "descriptors are left: " + more);
        // Each copier creates a ring when it first has work, and so does each thread of this test.
        expect(
            rings <= static_cast<int>(std::thread::hardware_concurrency()) + rings_of_threads_max,
            "rings are left");
        expect(count_threads() == threads, "threads are left");
        // The number of remote mappings varies. Mappings left by killed devices would add up.
        expect(count_mappings() <= mappings + 64 + rounds / 4, "mappings are left");
        siginfo_t info{};
        const bool zombie = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
                            info.si_pid != 0;
        expect(!zombie, "a zombie is left");
      },
      limit_ms);
  std::printf("%s", outcome.out.c_str());
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE(
    "a device that Linux kills for lack of memory is lost alone, and works again after a reset",
    "[stress]") {
  const SmallCgroup cgroup;
  if (!cgroup) {
    WARN("SKIP: no memory cgroup can be made here");
    return;
  }
  const auto outcome = in_fresh_process([&] {
    Session session{device_list};
    const Managed<std::uint64_t> words{1 << 16};
    session.run(0, [to = words.data()] {
      for (std::size_t i = 0; i < 1 << 16; ++i) to[i] = i;
    });
    if (!cgroup.take(device_process(0))) {
      std::printf("SKIP: the device cannot be moved to the cgroup\n");
      return;
    }
    session.launch(0, 1, [](std::size_t) {
      constexpr std::size_t step = 1 << 20;
      for (;;) {
        auto* block = static_cast<volatile char*>(std::malloc(step));
        if (block == nullptr) std::abort();
        for (std::size_t i = 0; i < step; i += 4096) block[i] = 1;
      }
    });
    expect(session.wait(0) == CUDA_ERROR_LAUNCH_FAILED, "the device was not killed");
    for (std::size_t i = 0; i < words.size(); ++i) expect(words[i] == i, "memory was lost");
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    session.renew_stream(0);
    session.run(0, [to = words.data()] { to[1] = 99; });
    expect(words[1] == 99, "the reset device does not work");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::kills_test
