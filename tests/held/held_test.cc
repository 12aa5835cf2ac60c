// Pages that Linux holds for somebody, in each way that Linux has, while the library moves them in
// each way that it has: nobody reads or leaves behind a wrong byte, and nobody waits for the
// holder.
//
// At full length it takes up to ten minutes, and runs each row once, in a random order; a soak
// repeats them. A row that fails is named. For work on one of them: WHERRY_TEST_HELD_ROW=TEXT runs
// only the rows whose names contain the text.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "held/gate.h"
#include "held/held_counter.h"
#include "held/matrix.h"
#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/nobody.h"
#include "support/seccomp_filter.h"
#include "support/soak.h"
#include "support/waiting.h"

namespace wherry::test::held_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int step_limit_s = 30;
constexpr int exit_stuck = 71;
constexpr int exit_device_ended = 72;
constexpr double full_length_s = 600;
constexpr double longest_s = 180;  // a soak runs all rows
// Each crash or stuck wait ends a process, and the rows after it go on in a new one.
constexpr int processes_max = 40;

struct Setting {
  const char* name;
  const char* trap;
  bool unprivileged = false;
};
constexpr Setting userfaultfd{"userfaultfd", "userfaultfd"};
constexpr Setting user_mode{"userfaultfd in user mode only", "userfaultfd", true};
constexpr Setting sigbus{"sigbus", "sigbus"};
constexpr Setting mprotect{"mprotect", "mprotect"};
constexpr int settings = 8;  // each with huge pages and with small ones

std::optional<std::string> why_not(const Setting& setting) {
  const char* const chosen = std::getenv("WHERRY_TRAP");
  if (chosen != nullptr && std::string{chosen} != setting.trap)
    return "WHERRY_TRAP chooses another trap";
  if (std::string{setting.trap} == "mprotect") return {};
  return why_missing(setting.unprivileged ? "userfaultfd" : "userfaultfd-full");
}

// Ends the process if a step takes too long.
class Watch final : public Progress {
 public:
  Watch() : thread_([this] { watch(); }) {}
  ~Watch() override {
    ends_ = true;
    thread_.join();
  }
  void step(const char* what) override {
    what_ = what;
    ++steps_;
  }

 private:
  void watch() {
    int seen = -1;
    for (int waited = 0; !ends_; ++waited) {
      if (const int now = steps_; now != seen) {
        seen = now;
        waited = 0;
      }
      if (waited > step_limit_s * 100) {
        std::printf("STUCK at: %s\n", what_.load());
        std::fflush(stdout);
        ::_exit(exit_stuck);
      }
      ::poll(nullptr, 0, 10);
    }
  }

  std::atomic<const char*> what_ = "start";
  std::atomic<int> steps_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// A thread that does nothing, and that a peer process may stop by ptrace.
class IdleThread {
 public:
  IdleThread()
      : thread_([this] {
          id_ = static_cast<pid_t>(::syscall(SYS_gettid));
          while (!ends_) ::poll(nullptr, 0, 20);
        }) {
    while (id_ == 0) std::this_thread::yield();
  }
  ~IdleThread() {
    ends_ = true;
    thread_.join();
  }
  pid_t id() const { return id_; }

 private:
  std::atomic<pid_t> id_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// Whether a block that is prefetched becomes a huge page.
bool pools_have_huge_pages(const Stage& stage) {
  const Words words(std::size_t{3} << 18);
  auto* const first = whole_block_of(words);
  stage.write_pages(host, first, std::size_t{2} << 20, 1);
  const pid_t process = Witness::process_of(index_of(device0));
  WHERRY_TRY(cuMemPrefetchAsync(address_of(first), std::size_t{2} << 20, location_of(device0), 0,
                                nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  return huge_entries(process, first) > 0;
}

// In a process of its own. Prints a line for each row, which the test reads.
void run_rows(const Setting& setting, bool huge, std::size_t first_row, Clock::time_point end) {
  ::setenv("WHERRY_TRAP", setting.trap, 1);
  ::setenv("WHERRY_POLICY", "migrate-always", 1);
  ::setenv("WHERRY_HUGE_PAGES", huge ? "auto" : "never", 1);
  ::prctl(0x59616d61 /* PR_SET_PTRACER */, -1L, 0, 0, 0);
  (void)shared_answer();
  if (why_missing("userfaultfd-full")) Gate::forbid();
  const Peer peer;
  if (setting.unprivileged) {
    try {
      (void)Gate::of_process();
    } catch (const std::runtime_error&) {
      Gate::forbid();
    }
    become_nobody();
    leave_user_mode_only_userfaultfd();
  }
  Matrix::Setting matrix_setting;
  matrix_setting.serves_host = serves_system_calls();
  matrix_setting.protects = traps_by_protection();
  matrix_setting.serves_devices = devices_serve_system_calls();
  Stage stage("capacity=8M,workers=3");
  if (huge && !pools_have_huge_pages(stage)) {
    std::printf("SKIP pools have no huge pages here\n");
    return;
  }
  const std::size_t free_before = free_memory();
  const IdleThread idle;
  matrix_setting.huge = huge;
  matrix_setting.idle_thread = idle.id();
  Watch watch;
  Matrix matrix(stage, peer, matrix_setting, watch);
  std::vector<Row> rows = all_rows(huge);
  if (const char* const text = std::getenv("WHERRY_TEST_HELD_ROW"))
    std::erase_if(rows,
                  [&](const Row& row) { return row.describe().find(text) == std::string::npos; });
  std::mt19937_64 random(seed());
  std::shuffle(rows.begin(), rows.end(), random);
  const bool repeats = soak_time().has_value();
  for (std::size_t i = first_row; Clock::now() < end && (repeats || i < rows.size()); ++i) {
    const Row& row = rows[i % rows.size()];
    std::printf("ROW %zu %s\n", i, row.describe().c_str());
    std::fflush(stdout);
    const RowResult result = matrix.run(row, seed() + i);
    if (!result.missing.empty())
      std::printf("MISSING %s\n", result.missing.c_str());
    else if (!result.failures.empty())
      std::printf("FAILED%s\n", result.failures.c_str());
    else
      std::printf("OK held %llu moved %llu\n", static_cast<unsigned long long>(result.held),
                  static_cast<unsigned long long>(result.moved));
    if (cuCtxSynchronize() != CUDA_SUCCESS) {  // the device has failed for good
      std::fflush(stdout);
      ::_exit(exit_device_ended);
    }
  }
  watch.step("return memory");
  const auto is_free = [&] { return free_memory() >= free_before; };
  if (!comes_true(is_free))
    std::printf("FAILED; after all rows the device has %zu bytes less than before\n",
                free_before - free_memory());
  std::printf("DONE\n");
  std::fflush(stdout);
}

// What the processes of one setting have said.
struct Account {
  std::size_t ran = 0, held = 0, moved = 0;
  std::size_t next_row = 0;
  bool done = false;
  std::string skipped;
  std::map<std::string, std::size_t> missing;  // by reason
  std::vector<std::string> failures;

  void add(const Outcome& outcome) {
    std::istringstream lines(outcome.out);
    std::string row;
    bool open = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("ROW ")) {
        row = line.substr(4);
        next_row = std::stoull(row) + 1;
        open = true;
      } else if (line.starts_with("OK ")) {
        ++ran;
        unsigned long long by_counter = 0, pages = 0;
        (void)std::sscanf(line.c_str(), "OK held %llu moved %llu", &by_counter, &pages);
        held += by_counter > 0 ? 1 : 0;
        moved += pages > 0 ? 1 : 0;
        open = false;
      } else if (line.starts_with("MISSING ")) {
        ++missing[line.substr(8)];
        open = false;
      } else if (line.starts_with("FAILED")) {
        ++ran;
        failures.push_back(row + line.substr(6));
        open = false;
      } else if (line.starts_with("STUCK")) {
        row += "; " + line;
      } else if (line.starts_with("SKIP ")) {
        skipped = line.substr(5);
        done = true;
      } else if (line == "DONE") {
        done = true;
      }
    }
    // Only a defect makes the library write this message.
    if (outcome.err.find("never came free") != std::string::npos)
      failures.push_back("the library says: " + outcome.err);
    if (done && outcome.passed()) return;
    if (!open && outcome.exit_code == exit_device_ended) return;
    failures.push_back((open ? row + "; " : "") + "the process ended with " +
                       (outcome.timed_out     ? "its time limit"
                        : outcome.signal != 0 ? "signal " + std::to_string(outcome.signal)
                                              : "exit code " + std::to_string(outcome.exit_code)) +
                       ": " + outcome.err);
    if (!open) done = true;  // not the fault of a row
  }
};

// Prints the line that tools/soak reads, with the sums over all settings so far.
void print_totals(const Account& account) {
  static std::size_t rows = 0, failures = 0;
  rows += account.ran;
  failures += account.failures.size();
  std::printf("held: %zu rows, failures %zu\n", rows, failures);
}

void check_setting(const Setting& setting, bool huge) {
  if (const auto reason = why_not(setting)) {
    WARN("skipped: " << *reason);
    return;
  }
  const auto budget = soak_time() ? std::chrono::milliseconds(*soak_time())
                                  : std::chrono::milliseconds(static_cast<int>(
                                        std::min(full_length_s * scale(), longest_s) * 1000));
  const auto end = Clock::now() + budget / settings;
  Account account;
  for (int process = 0; process < processes_max && !account.done && Clock::now() < end; ++process) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const std::size_t first = account.next_row;
    account.add(in_fresh_process([&] { run_rows(setting, huge, first, end); },
                                 static_cast<int>(left.count()) + 60'000));
  }
  std::printf(
      "held, %s, %s pages: %zu rows, in %zu the library found pages held, in %zu pages "
      "moved, %zu failures\n",
      setting.name, huge ? "huge" : "small", account.ran, account.held, account.moved,
      account.failures.size());
  print_totals(account);
  for (const auto& [reason, rows] : account.missing)
    std::printf("  %zu rows cannot run: %s\n", rows, reason.c_str());
  if (!account.skipped.empty()) WARN("skipped: " << account.skipped);
  for (const std::string& failure : account.failures) UNSCOPED_INFO("row " << failure);
  CHECK(account.failures.empty());
  CHECK((account.ran > 0 || !account.skipped.empty()));
}

}  // namespace

TEST_CASE("pages of huge pages that are held: traps by userfaultfd", "[held]") {
  check_setting(userfaultfd, true);
}
TEST_CASE("small pages that are held: traps by userfaultfd", "[held]") {
  check_setting(userfaultfd, false);
}
TEST_CASE("pages of huge pages that are held: traps by userfaultfd for user mode", "[held]") {
  check_setting(user_mode, true);
}
TEST_CASE("small pages that are held: traps by userfaultfd for user mode", "[held]") {
  check_setting(user_mode, false);
}
TEST_CASE("pages of huge pages that are held: traps by sigbus", "[held]") {
  check_setting(sigbus, true);
}
TEST_CASE("small pages that are held: traps by sigbus", "[held]") {
  check_setting(sigbus, false);
}
TEST_CASE("pages of huge pages that are held: traps by page protection", "[held]") {
  check_setting(mprotect, true);
}
TEST_CASE("small pages that are held: traps by page protection", "[held]") {
  check_setting(mprotect, false);
}

}  // namespace wherry::test::held_test
