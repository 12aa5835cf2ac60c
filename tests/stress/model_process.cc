#include "stress/model_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "stress/model_lane.h"
#include "stress/shrink.h"
#include "support/child.h"
#include "support/stacks.h"

namespace wherry::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto look = milliseconds{50};
// The longest interval that counts as waiting. A longer one means that the whole machine stood
// still.
constexpr auto longest_look = milliseconds{200};
constexpr auto patience_of_trials = std::chrono::seconds{10};
constexpr int runs_of_trial = 3;  // threads do not do the same in each run

// Small enough to be in the shared memory of devices, too.
struct SharedBoard {
  SharedBoard() {
    void* const memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    board = new (memory) Board{};
  }
  ~SharedBoard() { ::munmap(board, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  Board* board;
};

void set_environment(const Settings& settings) {
  ::setenv("WHERRY_POLICY", settings.policy.c_str(), 1);
  ::setenv("WHERRY_FAULT_REGION", settings.region.c_str(), 1);
  ::setenv("WHERRY_HUGE_PAGES", settings.huge_pages.c_str(), 1);
  ::setenv("WHERRY_COPIERS", settings.copiers.c_str(), 1);
  ::unsetenv("WHERRY_HOST_CAPACITY");
  if (settings.host != "-") ::setenv("WHERRY_HOST_CAPACITY", settings.host.c_str(), 1);
}

void note_stats(Board& board) {
  const wherryStats stats = read_stats();
  board.migrated = stats.migrated_in;
  board.evicted = stats.evicted;
  board.duplicated = stats.duplicated;
  board.collapsed = stats.collapsed;
  board.remote = stats.mapped_remotely;
}

void run_here(const Case& drawn, Board& board) {
  set_environment(drawn.settings);
  World world{drawn.settings, board};
  const auto run_lane = [&](unsigned number) {
    try {
      Lane{world, number}.run(drawn.script);
    } catch (const std::exception& error) {
      fail(board, drawn.script.size(), error.what());
    }
  };
  std::vector<std::thread> threads;
  for (unsigned number = 1; number < drawn.settings.lanes; ++number)
    threads.emplace_back(run_lane, number);
  run_lane(0);
  for (std::thread& thread : threads) thread.join();
  WHERRY_TRY(cuCtxSetCurrent(world.session().context(0)));
  world.compare(0x55555555, drawn.script.size());
  note_stats(board);
  world.finish();
}

std::string stacks_of_all(pid_t host, const Board& board) {
  std::string text = stacks_of(host);
  for (const auto& device : board.devices)
    if (device.load() > 0) text += stacks_of(device.load());
  return text;
}

}  // namespace

CaseResult run_in_process(const Case& drawn, std::chrono::seconds patience) {
  const SharedBoard shared;
  Board& board = *shared.board;
  Child child{[&] { run_here(drawn, board); }};
  CaseResult result;
  std::uint64_t beats = 0;
  auto silence = milliseconds{0};
  for (auto before = Clock::now(); child.runs_on(static_cast<int>(look.count()));) {
    const auto now = Clock::now();
    silence += std::min(std::chrono::duration_cast<milliseconds>(now - before), longest_look);
    before = now;
    if (board.beats.load() != beats) silence = milliseconds{0};
    beats = board.beats.load();
    if (silence < patience) continue;
    result.hung = true;
    result.failure = "no progress for " + std::to_string(patience.count()) + " s\n" +
                     stacks_of_all(child.pid(), board);
    child.kill_group();
    break;
  }
  const Outcome outcome = child.wait(20'000);
  result.operations = board.operations;
  result.migrated = board.migrated;
  result.evicted = board.evicted;
  result.duplicated = board.duplicated;
  result.collapsed = board.collapsed;
  result.remote = board.remote;
  result.operation = drawn.script.size();
  if (result.hung) return result;
  if (board.state.load() == Board::failed) {
    result.operation = std::min<std::size_t>(board.operation, drawn.script.size());
    result.failure =
        "operation " + std::to_string(board.operation) + ": " + board.what + "\n" + outcome.err;
  } else if (!outcome.passed()) {
    result.failure = "the process failed: " + outcome.describe();
  } else if (!outcome.closed) {
    result.failure = "a process was left behind: " + outcome.describe();
  }
  return result;
}

Case shortened(const Case& drawn, const CaseResult& failed, std::chrono::seconds time) {
  const auto deadline = Clock::now() + time;
  const auto fails = [&](const Script& script) {
    const Case part{drawn.seed, drawn.settings, script};
    for (int run = 0; run < runs_of_trial && Clock::now() < deadline; ++run)
      if (run_in_process(part, patience_of_trials).failure) return true;
    return false;
  };
  Case shortest = drawn;
  const auto end = std::min(failed.operation + 1, drawn.script.size());
  Script begin(drawn.script.begin(), drawn.script.begin() + static_cast<std::ptrdiff_t>(end));
  if (fails(begin)) shortest.script = std::move(begin);
  shortest.script = shrink(shortest.script, fails, 1'000);
  return shortest;
}

}  // namespace wherry::test
