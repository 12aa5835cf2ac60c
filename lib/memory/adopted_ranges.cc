#include "memory/adopted_ranges.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/page.h"
#include "os/arch/cpu.h"
#include "os/memory/mapping.h"
#include "os/memory/pinned_buffers.h"
#include "os/memory/write_freeze.h"
#include "os/process/other_stack.h"
#include "os/process/thread_stacks.h"

namespace wherry::impl {
namespace {

// Writers are frozen for at most the time that copying this many bytes takes.
constexpr std::size_t step = block_size;
// The part of the calling thread's stack that may be in use: this many bytes on either side of the
// current frame.
constexpr std::size_t own_frames = 64 << 10;
// The main thread's stack grows within this many bytes below its end: Linux maps nothing else
// there.
constexpr std::size_t main_stack = 128 << 20;

bool overlap(AddressRange a, AddressRange b) {
  return a.start < b.end && b.start < a.end;
}

AddressRange intersection(AddressRange a, AddressRange b) {
  return {std::max(a.start, b.start), std::min(a.end, b.end)};
}

AddressRange whole_pages(AddressRange bytes) {
  return {round_down(bytes.start, page_size), round_up(bytes.end, page_size)};
}

Access access_to(const MappedRange& mapping) {
  if (mapping.writable) return Access::write;
  return mapping.readable ? Access::read : Access::none;
}

// Calls f(part) for consecutive parts of at most one step. Stops at the first error and returns it.
template <typename F>
int in_steps(AddressRange range, F f) {
  while (!range.empty()) {
    const std::uintptr_t end = std::min(range.end, round_down(range.start, step) + step);
    if (const int error = f(AddressRange{range.start, end})) return error;
    range.start = end;
  }
  return 0;
}

// Extends the calling thread's stack by two pages, which are then below all of its variables.
// Reason: the main thread may need more stack at any time, and Linux extends the stack's lowest
// mapping, so that mapping must not be adopted.
[[gnu::noinline]] void reach_down() {
  std::byte below[2 * page_size];
  below[0] = std::byte{0};
  asm volatile("" : : "r"(below) : "memory");
}

}  // namespace

struct AdoptedRanges::Surroundings {
  Surroundings() : map(read_address_map()), stacks(thread_stacks(map)), pinned(pinned_buffers()) {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    own_stack = {here - own_frames, here + own_frames};
    std::string_view rest = map;
    while (const auto mapping = next_mapping(rest))
      if (mapping->name == "[stack]") main = {mapping->range.end - main_stack, mapping->range.end};
  }

  const std::string map;
  const std::vector<ThreadStack> stacks;
  const std::vector<AddressRange> pinned;
  AddressRange own_stack;
  AddressRange main;
};

std::vector<AdoptedRanges::Run> AdoptedRanges::runs_of(AddressRange bytes, std::uint64_t offset) {
  std::vector<Run> runs;
  const AddressRange pages = whole_pages(bytes);
  const AddressRange unshared{std::min(round_up(bytes.start, page_size), pages.end),
                              std::max(round_down(bytes.end, page_size), pages.start)};
  const auto add = [&](AddressRange part, bool shared) {
    if (part.empty()) return;
    runs.push_back({part, offset + (part.start - pages.start), true, shared});
  };
  if (unshared.empty()) {
    // The range lies in one page or in two, and fills none of them.
    add({pages.start, pages.start + page_size}, true);
    add({pages.start + page_size, pages.end}, true);
    return runs;
  }
  add({pages.start, unshared.start}, true);
  add(unshared, false);
  add({unshared.end, pages.end}, true);
  return runs;
}

std::optional<AdoptedRanges::Verdict> AdoptedRanges::why_not(const Surroundings& surroundings,
                                                             bool read_only, Run& run) const {
  const AddressRange pages = run.pages;
  const bool is_own = overlap(surroundings.own_stack, pages);
  bool is_stack = is_own || overlap(surroundings.main, pages);
  for (const ThreadStack& stack : surroundings.stacks) {
    if (overlap(stack.control_block, pages)) return Verdict::unsuitable;
    if (!overlap(stack.pages, pages)) continue;
    is_stack = true;
    // Without a userfaultfd, page protection stops writers. A thread without write access to its
    // stack could not run the SIGSEGV handler in which it would wait.
    if (!stack.is_callers && trap() == nullptr) return Verdict::unsuitable;
  }
  run.shared = run.shared || is_stack;
  for (const AddressRange& buffer : surroundings.pinned)
    if (overlap(buffer, pages)) return Verdict::unsuitable;
  std::uintptr_t covered = pages.start;
  bool is_lowest_of_stack = false;
  std::uintptr_t end_before = 0;
  std::string_view map = surroundings.map;
  while (const auto mapping = next_mapping(map)) {
    const bool follows = std::exchange(end_before, mapping->range.end) == mapping->range.start;
    if (!overlap(mapping->range, pages)) continue;
    if (mapping->range.start > covered || !mapping->readable) return Verdict::absent;
    is_lowest_of_stack = is_lowest_of_stack || (!follows && mapping->range.start >= pages.start);
    // A private mapping of a file, as of variables with initial values, becomes independent of it.
    if (mapping->shared || mapping->executable || mapping->name.starts_with("[v") ||
        mapping->name.starts_with("/anon_hugepage"))
      return Verdict::unsuitable;
    run.of_file = run.of_file || mapping->inode != 0;
    if (!mapping->writable && !read_only) return Verdict::absent;
    // One mapping replaces all mappings of the run, so they must have the same access rights.
    if (covered != pages.start && mapping->writable != run.writable) return Verdict::unsuitable;
    run.writable = mapping->writable;
    covered = mapping->range.end;
  }
  if (covered < pages.end) return Verdict::absent;
  if (run.of_file && populate_to_read(pages.start, pages.size()) != 0) return Verdict::absent;
  if (is_lowest_of_stack && overlap(surroundings.main, pages)) return Verdict::unsuitable;
  if (is_locked(pages.start, pages.size())) return Verdict::unsuitable;
  return std::nullopt;
}

std::optional<AdoptedRanges::Verdict> AdoptedRanges::why_not_again(const Surroundings& surroundings,
                                                                   bool read_only,
                                                                   const Run& run) const {
  const auto mapping = find_mapping(surroundings.map, run.pages.start);
  if (!mapping) return Verdict::absent;
  // The program has mapped something else there, and has not unregistered what was there before.
  if (!file_.is_shown_by(*mapping)) return Verdict::unsuitable;
  return run.writable || read_only ? std::nullopt : std::optional(Verdict::absent);
}

// After the freeze begins, this function may write only to its own stack. Any other memory,
// malloc's included, could be in `part`.
int AdoptedRanges::move_into_file(const Run& run, AddressRange part, Substitute& shared) const {
  if (const int error = file_.allocate(run.offset_of(part.start), part.size())) return error;
  std::optional<WriteFreeze> freeze;
  // A userfaultfd cannot protect private mappings of files.
  if (run.writable) freeze.emplace(part, run.of_file ? nullptr : trap());
  if (freeze && freeze->error() != 0) return freeze->error();
  copy_raw(shared.data(), reinterpret_cast<const void*>(part.start), part.size());
  return shared.move_to(part.start, part.size(), run.writable ? Access::write : Access::read);
}

int AdoptedRanges::move_into_file(const Run& run) const {
  Substitute shared(run.pages.size(), file_.fd(), run.offset);
  return in_steps(run.pages, [&](AddressRange part) { return move_into_file(run, part, shared); });
}

int AdoptedRanges::move_out_of_file(const Run& run, const MappedRange& part,
                                    Substitute& own) const {
  std::optional<WriteFreeze> freeze;
  if (part.writable) freeze.emplace(part.range, trap());
  if (freeze && freeze->error() != 0) return freeze->error();
  const std::size_t bytes = part.range.size();
  if (!file_.read(run.offset_of(part.range.start), {own.data(), bytes})) return EIO;
  return own.move_to(part.range.start, bytes, access_to(part));
}

int AdoptedRanges::restore(const Run& run) const {
  const std::string text = read_address_map();
  std::string_view map = text;
  Substitute own(run.pages.size(), -1, 0);
  std::uintptr_t next = run.pages.start;
  while (auto mapping = next_mapping(map)) {
    if (!overlap(mapping->range, run.pages) || !file_.is_shown_by(*mapping)) continue;
    const AddressRange here = intersection(mapping->range, run.pages);
    if (here.start > next) own.skip(here.start - next);
    const int error = in_steps(here, [&](AddressRange part) {
      mapping->range = part;
      return move_out_of_file(run, *mapping, own);
    });
    if (error != 0) return error;
    next = here.end;
  }
  return 0;
}

AdoptedRanges::Verdict AdoptedRanges::adopt(AddressRange bytes, std::uint64_t offset,
                                            bool read_only) {
  const LockGuard guard(lock_);
  if (!wait_for_fork_locked()) return Verdict::forking;
  const bool was_empty = runs_.empty();
  int error = 0;
  Runs fresh;
  std::vector<Run*> known;
  try {
    get_ready();
    reach_down();
    const Surroundings surroundings;
    for (Run& run : runs_of(bytes, offset)) {
      const auto again = runs_.find(run.pages.start);
      const auto verdict = again != runs_.end()
                               ? why_not_again(surroundings, read_only, again->second)
                               : why_not(surroundings, read_only, run);
      if (verdict) {
        if (was_empty) let_go_of_descriptors();
        return *verdict;
      }
      if (again != runs_.end())
        known.push_back(&again->second);
      else
        fresh.emplace(run.pages.start, run);
    }
    OtherStack().run([&] {
      int failed = 0;
      for (auto run = fresh.begin(); run != fresh.end() && failed == 0; ++run)
        failed = move_into_file(run->second);
      error = failed;
    });
  } catch (const std::system_error& refused) {
    log_line("memory at {:#x} cannot be registered: {}", bytes.start, refused.what());
    error = ENOMEM;
  }
  if (error == 0) {
    for (const auto& [address, run] : fresh)
      // Without permission for mlock, Linux may swap this memory, as it may swap any other.
      if (run.writable) static_cast<void>(lock_in_memory(address, run.pages.size()));
    for (Run* run : known) ++run->ranges;
    runs_.merge(fresh);
    return Verdict::adopted;
  }
  give_back_all(fresh);
  if (runs_.empty()) let_go_of_descriptors();
  return error == ENOSPC || error == ENOMEM ? Verdict::no_space : Verdict::unsuitable;
}

bool AdoptedRanges::give_back_all(Runs& runs) {
  std::vector<std::uintptr_t> restored;
  restored.reserve(runs.size());
  try {
    OtherStack().run([&] {
      for (const auto& [address, run] : runs)
        if (restore(run) == 0) restored.push_back(address);
    });
  } catch (const std::system_error&) {
    // Runs that are not restored stay in the file.
  }
  for (const std::uintptr_t address : restored) {
    const Run& run = runs.at(address);
    static_cast<void>(file_.punch(run.offset, run.pages.size()));
    runs.erase(address);
  }
  for (const auto& [address, run] : runs) log_line("memory at {:#x} stays shared memory", address);
  return runs.empty();
}

bool AdoptedRanges::give_back(AddressRange bytes) {
  const LockGuard guard(lock_);
  if (!wait_for_fork_locked()) return false;
  Runs leaving;
  for (const Run& run : runs_of(bytes, 0)) {
    const auto known = runs_.find(run.pages.start);
    if (known == runs_.end() || --known->second.ranges > 0) continue;
    leaving.insert(runs_.extract(known));
  }
  const bool gone = give_back_all(leaving);
  for (auto& [address, run] : leaving) run.ranges = 1;
  runs_.merge(leaving);
  if (runs_.empty()) let_go_of_descriptors();
  return gone;
}

std::vector<AdoptedRanges::Piece> AdoptedRanges::pieces_of(AddressRange bytes) const {
  const LockGuard guard(lock_);
  std::vector<Piece> pieces;
  for (const Run& run : runs_of(bytes, 0)) {
    const auto known = runs_.find(run.pages.start);
    if (known == runs_.end()) continue;
    const std::uint64_t offset = known->second.offset;
    if (!pieces.empty() && pieces.back().offset + pieces.back().pages.size() == offset)
      pieces.back().pages.end = run.pages.end;
    else
      pieces.push_back({run.pages, offset});
  }
  return pieces;
}

bool AdoptedRanges::uses(std::uint64_t offset, std::uint64_t bytes) const {
  const LockGuard guard(lock_);
  return std::ranges::any_of(runs_, [&](const auto& entry) {
    return entry.second.offset < offset + bytes &&
           offset < entry.second.offset + entry.second.pages.size();
  });
}

}  // namespace wherry::impl
