#include "os/process/snapshot_guard.h"

#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/page.h"
#include "os/files/file_io.h"
#include "os/process/interposer_hooks.h"

namespace wherry::impl {
namespace {

// More heaps than the C library creates by default on any machine that runs devices.
constexpr int arenas_max = 4096;
constexpr int sleepers_max = 512;

// The state of this process, read by signal handlers. Written once, before `guards` is set. The
// memory of `ranges` is a mapping of its own.
constexpr std::size_t ranges_max = 65536;
struct Guard {
  AddressRange* ranges = nullptr;
  std::size_t count = 0;
  const SnapshotGuardPlan* plan = nullptr;
  AddressRange window;
};
Guard guard;
std::atomic<bool> guards = false;
// Set while a thread probes where its heap is.
[[gnu::tls_model("initial-exec")]] thread_local volatile bool probes_heap = false;

bool is_among(std::span<const AddressRange> ranges, std::uintptr_t address) {
  return std::ranges::any_of(ranges, [&](AddressRange range) { return range.contains(address); });
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_of_system(std::string_view path) {
  for (const std::string_view folder : {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"})
    if (path.starts_with(folder)) return true;
  return path.starts_with("linux-vdso");
}

bool is_one_of(std::initializer_list<std::string_view> names, std::string_view path) {
  return std::ranges::any_of(
      names, [&](std::string_view name) { return file_name(path).starts_with(name); });
}

bool may_write_anywhere(std::string_view path) {
  return is_one_of({"ld-linux", "libstdc++.so", "libgcc_s.so", "libc++"}, path);
}

// Libraries of compilers and of the C library, which may be installed outside the system's folders.
bool is_of_toolchain(std::string_view path) {
  return may_write_anywhere(path) ||
         is_one_of({"libc.so", "libm.so", "libpthread.so", "libgomp.so", "libomp.so", "libiomp5.so",
                    "libgfortran.so", "libquadmath.so", "libunwind.so", "libatomic.so"},
                   path);
}

int add_module(dl_phdr_info* module, std::size_t, void* pointer) {
  auto& plan = *static_cast<SnapshotGuardPlan*>(pointer);
  const std::string_view path = module->dlpi_name;
  std::vector<AddressRange> variables, code;
  bool is_of_library = file_name(path).starts_with("libwherry_io.so") ||
                       file_name(path).starts_with("libwherry_run.so");
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const auto& segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t start = module->dlpi_addr + segment.p_vaddr;
    const AddressRange pages{round_down(start, page_size),
                             round_up(start + segment.p_memsz, page_size)};
    for (const void* const place : {static_cast<const void*>(&guard), address_in_interposers()})
      is_of_library |= pages.contains(reinterpret_cast<std::uintptr_t>(place));
    if ((segment.p_flags & PF_W) != 0) variables.push_back(pages);
    if ((segment.p_flags & PF_X) != 0) code.push_back(pages);
  }
  if (may_write_anywhere(path)) plan.trusted.insert(plan.trusted.end(), code.begin(), code.end());
  if (!is_of_library && !is_of_system(path) && !is_of_toolchain(path))
    plan.variables.insert(plan.variables.end(), variables.begin(), variables.end());
  return 0;
}

bool allocates_in(AddressRange window) {
  // Larger than the blocks that the C library caches per thread.
  void* const block = std::malloc(2000);
  const bool inside = window.contains(reinterpret_cast<std::uintptr_t>(block));
  std::free(block);
  return inside;
}

struct Sleeper {
  AddressRange window;
  std::atomic<int> verdict =
      0;  // 1: the thread's heap is in the window; -1: it is not, and the thread sleeps
};

// Takes one of the program's heaps and keeps it by sleeping. A heap in the window is left for the
// next thread.
void* take_heap(void* pointer) {
  auto& sleeper = *static_cast<Sleeper*>(pointer);
  const bool fresh = allocates_in(sleeper.window);
  sleeper.verdict = fresh ? 1 : -1;
  while (!fresh) ::pause();
  return nullptr;
}

// Returns the verdict (1 or -1) of a new thread, or 0 if no thread can be started.
int try_a_thread(AddressRange window) {
  Sleeper sleeper{window};
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, take_heap, &sleeper) != 0) return 0;
  while (sleeper.verdict == 0) ::usleep(20);
  if (sleeper.verdict > 0)
    ::pthread_join(thread, nullptr);
  else
    ::pthread_detach(thread);
  return sleeper.verdict;
}

// If stdio has already allocated the stream's buffer, it is in guarded memory. So the stream gets
// another. A buffer that is allocated later is not guarded.
void give_buffer(FILE* stream, char (&buffer)[BUFSIZ]) {
  if (::__fbufsize(stream) <= 1) return;
  ::setvbuf(stream, buffer, ::__flbf(stream) != 0 ? _IOLBF : _IOFBF, sizeof buffer);
}
void give_streams_buffers() {
  static char buffers[2][BUFSIZ];
  give_buffer(stdout, buffers[0]);
  give_buffer(stderr, buffers[1]);
}

int protect(AddressRange range) {
  if (range.empty()) return 0;
  if (guard.count == ranges_max) return ENOMEM;
  if (::mprotect(reinterpret_cast<void*>(range.start), range.size(), PROT_READ) != 0) return errno;
  guard.ranges[guard.count++] = range;
  return 0;
}

bool is_ordinary(const MappedRange& mapping) {
  return mapping.writable && !mapping.shared && !mapping.executable && mapping.inode == 0 &&
         (mapping.name.empty() || mapping.name == "[heap]" || mapping.name.starts_with("[anon:"));
}

// From version 2.41 on, the C library keeps the states of getrandom() in memory that Linux may
// drop, and the addresses of the states in an array, the first of them first. malloc uses them,
// too, so neither is guarded. Linux before 6.11 has no such memory.
class RandomStates {
 public:
  explicit RandomStates(std::string_view smaps) {
    while (const auto found = next_droppable(smaps)) {
      if (count_ == states_.size()) break;
      states_[count_++] = found->range;
    }
  }

  // Calls f(part) for each part of the range without states or their addresses. Stops at the first
  // nonzero result and returns it.
  template <typename F>
  int for_each_other(AddressRange range, F f) const {
    const bool has_addresses = count_ != 0 && range.size() <= searched_max;
    for (std::uintptr_t page = range.start; has_addresses && page < range.end; page += page_size) {
      if (!begins_with_address(page)) continue;
      if (const int error = for_each_uncovered({range.start, page}, known(), f)) return error;
      range.start = page + page_size;
    }
    return for_each_uncovered(range, known(), f);
  }

 private:
  // The array is a mapping of some pages, which may have merged with its neighbours. Devices do not
  // see larger mappings.
  static constexpr std::size_t searched_max = 1 << 20;

  // Linux copies the word, because a read could fault: a guard page (MADV_GUARD_INSTALL), which
  // the address map does not show, may be there.
  bool begins_with_address(std::uintptr_t page) const {
    std::uintptr_t word = 0;
    const std::span from(reinterpret_cast<const std::byte*>(page), sizeof word);
    return copy_memory(std::as_writable_bytes(std::span(&word, 1)), from) == sizeof word &&
           is_among(known(), word);
  }
  std::span<const AddressRange> known() const { return std::span(states_).first(count_); }

  std::array<AddressRange, 64> states_;
  std::size_t count_ = 0;
};

void* reserve(std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
}

// Without memory for the text, finds none.
RandomStates find_random_states() {
  constexpr std::size_t text_bytes = 128 << 20;  // for as many mappings as Linux permits
  void* const text = reserve(text_bytes);
  if (text == MAP_FAILED) return RandomStates({});
  const RandomStates states(read_address_map_with_flags(static_cast<char*>(text), text_bytes)
                                .value_or(std::string_view()));
  ::munmap(text, text_bytes);
  return states;
}

int protect_all(std::string_view map, const RandomStates& random_states,
                std::span<const AddressRange> kept, std::span<const AddressRange> kept_variables) {
  const auto protect_part = [&](AddressRange part) {
    return random_states.for_each_other(part, protect);
  };
  while (const auto mapping = next_mapping(map)) {
    if (!mapping->writable || mapping->shared) continue;
    int error = is_ordinary(*mapping) ? for_each_uncovered(mapping->range, kept, protect_part) : 0;
    for (const AddressRange& variables : guard.plan->variables) {
      const AddressRange part{std::max(variables.start, mapping->range.start),
                              std::min(variables.end, mapping->range.end)};
      if (error == 0) error = for_each_uncovered(part, kept_variables, protect);
    }
    if (error != 0) return error;
  }
  return 0;
}

// Removes the guard everywhere.
void lift() {
  guards = false;
  for (const AddressRange& range : std::span(guard.ranges, guard.count))
    ::mprotect(reinterpret_cast<void*>(range.start), range.size(), PROT_READ | PROT_WRITE);
}

}  // namespace

SnapshotGuardPlan plan_snapshot_guard() {
  SnapshotGuardPlan plan;
  ::dl_iterate_phdr(add_module, &plan);
  return plan;
}

int continue_on_fresh_heap(AddressRange window, void (*function)(void*), void* argument) {
  give_streams_buffers();
  // New threads reuse the heaps of ended threads before malloc creates new heaps. So sleepers
  // occupy all existing heaps first.
  ::mallopt(M_ARENA_MAX, arenas_max);
  int verdict = -1;
  for (int i = 0; i < sleepers_max && verdict < 0; ++i) verdict = try_a_thread(window);
  if (verdict <= 0) return ENOMEM;
  struct Call {
    void (*function)(void*);
    void* argument;
  } call{function, argument};
  pthread_t thread;
  const auto run = [](void* pointer) -> void* {
    const auto& what = *static_cast<const Call*>(pointer);
    what.function(what.argument);
    return nullptr;
  };
  if (const int error = ::pthread_create(&thread, nullptr, run, &call)) return error;
  for (;;) ::pause();
}

int guard_snapshot(const SnapshotGuardPlan& plan, AddressRange window,
                   std::span<const AddressRange> kept,
                   std::span<const AddressRange> kept_variables) {
  constexpr std::size_t text_bytes = 16 << 20;
  void* const ranges = reserve(ranges_max * sizeof(AddressRange));
  if (ranges == MAP_FAILED) return errno;
  void* const text = reserve(text_bytes);
  if (text == MAP_FAILED) {
    const int error = errno;
    ::munmap(ranges, ranges_max * sizeof(AddressRange));
    return error;
  }
  guard = {static_cast<AddressRange*>(ranges), 0, &plan, window};
  const RandomStates random_states = find_random_states();
  const auto map = read_address_map(static_cast<char*>(text), text_bytes);
  const int error = map ? protect_all(*map, random_states, kept, kept_variables) : ENOMEM;
  guards = error == 0;
  if (error != 0) lift();
  ::munmap(text, text_bytes);
  return error;
}

bool can_allocate_beside_guard() {
  if (!guards) return true;
  probes_heap = true;
  const bool good = allocates_in(guard.window);
  probes_heap = false;
  if (!good) lift();
  return good;
}

GuardVerdict judge_fault(std::uintptr_t address, std::uintptr_t instruction) {
  if (guard.count == 0 || !is_among(std::span(guard.ranges, guard.count), address))
    return GuardVerdict::unguarded;
  // Another thread may have lifted the guard since the fault.
  if (guards && !probes_heap && !is_among(guard.plan->trusted, instruction))
    return GuardVerdict::forbidden;
  const std::uintptr_t page = round_down(address, page_size);
  return ::mprotect(reinterpret_cast<void*>(page), page_size, PROT_READ | PROT_WRITE) == 0
             ? GuardVerdict::permitted
             : GuardVerdict::unguarded;
}

}  // namespace wherry::impl
