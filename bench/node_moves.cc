// How should pages of a coherent device move to another NUMA node: by a copy into another file and
// a change of the view, as the library does it, or by Linux's migration of the pages of one file
// (move_pages, mbind)? And what happens with each to pages that are pinned, have other mappings, or
// are written meanwhile?
//
// Uses the last two nodes with memory. tests/guest/run.py starts it in a virtual machine that has
// them, where only ratios within one run mean anything. With one node it measures the most that
// Linux's migration could save: the time of a move without that of the copy.
#include <fcntl.h>
#include <fmt/core.h>
#include <liburing.h>
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "measure/managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t block = std::size_t{2} << 20;
constexpr std::size_t blocks = 4;
constexpr std::size_t bytes = blocks * block;
constexpr int rounds = 24;  // there and back, over all blocks in turn

using Nodes = std::array<int, 2>;

// Returns the same node twice if there is only one. Throws std::runtime_error if there is none.
Nodes last_two_nodes() {
  std::vector<int> nodes;
  for (int node = 0; node <= ::numa_max_node(); ++node)
    if (::numa_node_size64(node, nullptr) > 0) nodes.push_back(node);
  if (nodes.empty()) throw std::runtime_error("Linux reports no NUMA node with memory");
  return {nodes[nodes.size() < 2 ? 0 : nodes.size() - 2], nodes.back()};
}

// Returns the number of pages for each status: a node, or a negative errno. `node`: where the pages
// shall go; -1 only asks where they are. `unit`: the distance between the pages in the list for
// Linux. `result`: what move_pages returned.
std::map<int, int> move_pages_to(int node, std::byte* start, std::size_t length, std::size_t unit,
                                 int flags, long* result = nullptr) {
  std::array<void*, block / page> pages;
  std::array<int, block / page> nodes, states;
  const std::size_t count = length / unit;
  for (std::size_t i = 0; i < count; ++i) pages[i] = start + i * unit;
  nodes.fill(node);
  states.fill(-1000);  // not written by Linux
  const long got =
      ::move_pages(0, count, pages.data(), node < 0 ? nullptr : nodes.data(), states.data(), flags);
  if (result != nullptr) *result = got < 0 ? -errno : got;
  std::map<int, int> counts;
  for (std::size_t i = 0; i < count; ++i) ++counts[states[i]];
  return counts;
}

int pages_on(int node, std::byte* start, std::size_t length) {
  return move_pages_to(-1, start, length, page, 0)[node];
}

void expect_on(int node, std::byte* start, std::size_t length, const char* method) {
  const auto there = static_cast<std::size_t>(pages_on(node, start, length));
  if (there != length / page)
    throw std::runtime_error(
        fmt::format("{}: {} of {} pages are on node {}", method, there, length / page, node));
}

long bind_to_node(std::byte* start, std::size_t length, int node, unsigned flags) {
  const unsigned long mask = 1ul << node;
  return ::mbind(start, length, MPOL_BIND, &mask, 8 * sizeof mask, flags) == 0 ? 0 : -errno;
}

// Creates a file in memory.
int open_file(bool huge) {
  if (!huge) return ::memfd_create("node-moves", MFD_CLOEXEC);
  const int context = ::fsopen("tmpfs", FSOPEN_CLOEXEC);
  ::fsconfig(context, FSCONFIG_SET_STRING, "huge", "always", 0);
  ::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0);
  const int mount = ::fsmount(context, FSMOUNT_CLOEXEC, 0);
  return ::openat(mount, ".", O_TMPFILE | O_RDWR, 0600);
}

std::byte* map_file(int file) {
  void* const room = ::mmap(nullptr, bytes + block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const start = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(room) + block - 1) / block * block);
  if (::mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
    fail("mmap");
  return start;
}

// A file on a node, and this process's mapping of it.
struct Memory {
  Memory(bool huge, int node) : file(open_file(huge)) {
    if (file < 0 || ::ftruncate(file, bytes) != 0) fail("create a file in memory");
    view = map_file(file);
    bind_to_node(view, bytes, node, 0);
    std::memset(view, 1, bytes);
    bind_to_node(view, bytes, node, 0);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    ::munmap(view, bytes);
    ::close(file);
  }
  int file;
  std::byte* view;
};

// Moves pages between two files by Linux's calls alone, without the library.
class BareCopies {
 public:
  BareCopies(bool huge, const Nodes& nodes) : pools_{{{huge, nodes[0]}, {huge, nodes[1]}}} {
    for (Memory& pool : pools_) ::madvise(pool.view, bytes, MADV_DONTNEED);
    if (::fallocate(pools_[1].file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes) != 0)
      fail("fallocate");
    view_ = map_file(pools_[0].file);
    std::memset(view_, 1, bytes);
  }
  ~BareCopies() { ::munmap(view_, bytes); }
  std::byte* data() const { return view_; }
  void move(std::size_t offset, std::size_t length, int to) {
    const auto at = static_cast<off_t>(offset);
    std::byte* const start = view_ + offset;
    if (::mprotect(start, length, PROT_READ) != 0) fail("mprotect");
    const int target = pools_[static_cast<std::size_t>(to)].file;
    const int source = pools_[static_cast<std::size_t>(1 - to)].file;
    if (::pwrite(target, start, length, at) != static_cast<ssize_t>(length)) fail("pwrite");
    if (::mmap(start, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, target, at) ==
        MAP_FAILED)
      fail("mmap");
    if (::madvise(start, length, MADV_POPULATE_WRITE) != 0) fail("MADV_POPULATE_WRITE");
    if (::fallocate(source, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
                    static_cast<off_t>(length)) != 0)
      fail("fallocate");
  }

 private:
  std::array<Memory, 2> pools_;
  std::byte* view_;
};

// Another process that has mapped and touched the whole file. The destructor ends it.
class OtherMapper {
 public:
  explicit OtherMapper(const Memory& memory) {
    int ready[2];
    if (::pipe(ready) != 0) fail("pipe");
    child_ = ::fork();
    if (child_ < 0) fail("fork");
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::byte* const mine = map_file(memory.file);
      for (std::size_t at = 0; at < bytes; at += page) *const_cast<volatile std::byte*>(mine + at);
      if (::write(ready[1], "r", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char answer;
    if (::read(ready[0], &answer, 1) != 1) fail("read");
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~OtherMapper() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_;
};

void prefetch(std::byte* start, std::size_t length, int device) {
  require(cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(start), length, device_location(device),
                             0, nullptr),
          "cuMemPrefetchAsync");
  require(cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

void start_library(const Nodes& nodes, bool huge) {
  if (!huge) ::setenv("WHERRY_HUGE_PAGES", "never", 1);
  ::setenv("WHERRY_DEVICES",
           fmt::format("kind=coherent,node={},capacity=32M;kind=coherent,node={},capacity=32M",
                       nodes[0], nodes[1])
               .c_str(),
           1);
  ::setenv("WHERRY_SAMPLING", "0", 1);
  init_cuda();
}

// ---- durations

void copy_alone(const Memory& to, const std::byte* from, std::size_t offset, std::size_t length) {
  if (::pwrite(to.file, from, length, static_cast<off_t>(offset)) != static_cast<ssize_t>(length))
    fail("pwrite");
}

// The share of this memory's mappings that has huge entries, from /proc/self/smaps.
double huge_share(const std::byte* start) {
  const auto first = reinterpret_cast<std::uintptr_t>(start);
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  double kib = 0;
  for (std::string line; std::getline(file, line);) {
    unsigned long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
      inside = from >= first && to <= first + bytes;
    unsigned long here = 0;
    if (inside && std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &here) == 1)
      kib += static_cast<double>(here);
  }
  return kib * 1024 / bytes;
}

using Move = std::function<void(std::size_t offset, int to)>;
struct Method {
  const char* name;
  std::byte* memory;
  Move move;
};

// The methods take turns, so that load on the machine affects all alike. The order is random, with
// a pause before each, so that no method pays for work that another has left behind.
Measurements time_moves(const std::string& what, std::size_t length, const Nodes& nodes,
                        const std::vector<Method>& methods) {
  std::vector<std::vector<double>> times(methods.size());
  std::vector<std::size_t> order(methods.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(1);
  for (int round = -2; round < rounds; ++round) {
    const std::size_t offset = static_cast<std::size_t>(round + 2) % blocks * block;
    for (const int to : {1, 0}) {
      std::ranges::shuffle(order, random);
      for (const std::size_t i : order) {
        const Method& method = methods[i];
        ::usleep(2000);
        const double ns = ns_of([&] { method.move(offset, to); });
        expect_on(nodes[static_cast<std::size_t>(to)], method.memory + offset, length, method.name);
        if (round >= 0) times[i].push_back(ns);
      }
    }
  }
  Measurements results;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const std::string name = fmt::format("{}, {}", what, methods[i].name);
    results.push_back({name, median(times[i]) / 1000, "us", {}, {}});
    if (i != 0)
      results.push_back(
          {name + ", of the bare move", median_ratio(times[i], times[0]), "x", {}, {}});
  }
  return results;
}

Measurements durations(const Nodes& nodes, bool huge, std::size_t length) {
  start_library(nodes, huge);
  std::byte* const managed = alloc_managed(bytes);
  std::memset(managed, 1, bytes);
  prefetch(managed, bytes, 0);
  BareCopies copies(huge, nodes);
  Memory alone(huge, nodes[0]), bound(huge, nodes[0]), shared(huge, nodes[0]);
  const OtherMapper other(shared);
  const std::size_t unit = huge ? block : page;
  const auto node_of = [&nodes](int to) { return nodes[static_cast<std::size_t>(to)]; };
  const std::vector<Method> in_any_machine{
      {"bare move to another file", copies.data(),
       [&](std::size_t offset, int to) { copies.move(offset, length, to); }},
      {"its copy alone, to existing pages", alone.view,
       [&](std::size_t offset, int) { copy_alone(bound, alone.view + offset, offset, length); }},
      {"the library's prefetch", managed,
       [&](std::size_t offset, int to) { prefetch(managed + offset, length, to); }},
  };
  std::vector<Method> methods = in_any_machine;
  if (nodes[0] == nodes[1])
    methods.push_back({"move_pages of pages in place", alone.view, [&](std::size_t offset, int) {
                         move_pages_to(nodes[0], alone.view + offset, length, unit, MPOL_MF_MOVE);
                       }});
  else
    methods = {
        in_any_machine[0],
        in_any_machine[2],
        {"move_pages", alone.view,
         [&](std::size_t offset, int to) {
           move_pages_to(node_of(to), alone.view + offset, length, unit, MPOL_MF_MOVE);
         }},
        {"mbind", bound.view,
         [&](std::size_t offset, int to) {
           bind_to_node(bound.view + offset, length, node_of(to), MPOL_MF_MOVE);
         }},
        {"move_pages, two processes", shared.view,
         [&](std::size_t offset, int to) {
           move_pages_to(node_of(to), shared.view + offset, length, unit, MPOL_MF_MOVE_ALL);
         }},
    };
  Measurements results = time_moves(fmt::format("{} KiB{}", length / 1024, huge ? ", huge" : ""),
                                    length, nodes, methods);
  if (huge && nodes[0] != nodes[1])
    for (const auto& [name, start] :
         {std::pair{"move_pages", alone.view}, std::pair{"bare move", copies.data()},
          std::pair{"the library's prefetch", managed}})
      results.push_back(
          {fmt::format("share with huge entries, after {}", name), huge_share(start), "", {}, {}});
  return results;
}

// ---- a thread that writes meanwhile

// Writes growing numbers to one word of each page of a block, for as long as it exists.
class Writer {
 public:
  explicit Writer(std::byte* start) : start_(start), thread_([this] { run(); }) {}
  ~Writer() { join(); }
  // The longest time between two writes since the last call, in ns. First waits until the thread
  // has written all words once more, so that a write that is still delayed counts. Throws
  // std::runtime_error if that takes longer than a minute.
  double longest() {
    const std::uint64_t now = turns_;
    const double limit = now_ns() + 60e9;
    while (turns_ < now + 2) {
      if (now_ns() > limit) throw std::runtime_error("the writing thread got no further in 60 s");
      ::usleep(100);
    }
    return static_cast<double>(longest_.exchange(0));
  }
  // How many words do not have the value that was written last.
  int lost() {
    join();
    int count = 0;
    for (std::size_t i = 0; i < last_.size(); ++i)
      if (*word(i) != last_[i]) ++count;
    return count;
  }

 private:
  volatile std::uint64_t* word(std::size_t i) const {
    return reinterpret_cast<volatile std::uint64_t*>(start_ + i * page + i % 512 * 8);
  }
  void join() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void run() {
    double before = now_ns();
    std::uint64_t number = 0;
    while (!ends_) {
      for (std::size_t i = 0; i < last_.size(); ++i) {
        *word(i) = last_[i] = ++number;
        const double now = now_ns();
        const auto gap = static_cast<std::uint64_t>(now - before);
        before = now;
        for (std::uint64_t most = longest_; gap > most;)
          if (longest_.compare_exchange_weak(most, gap)) break;
      }
      ++turns_;
    }
  }

  std::byte* start_;
  std::array<std::uint64_t, block / page> last_{};
  std::atomic<std::uint64_t> longest_{0};
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

Measurements written_meanwhile(const Nodes& nodes, bool huge) {
  start_library(nodes, huge);
  std::byte* const managed = alloc_managed(bytes);
  std::memset(managed, 1, bytes);
  prefetch(managed, bytes, 0);
  const Memory file(huge, nodes[0]);
  const std::size_t unit = huge ? block : page;
  int refused = 0;
  const std::vector<Method> methods{
      {"no move", file.view, [](std::size_t, int) { ::usleep(3000); }},
      {"the library's prefetch", managed,
       [&](std::size_t, int to) { prefetch(managed, block, to); }},
      {"move_pages", file.view,
       [&](std::size_t, int to) {
         const int node = nodes[static_cast<std::size_t>(to)];
         move_pages_to(node, file.view, block, unit, MPOL_MF_MOVE);
         refused += static_cast<int>(block / page) - pages_on(node, file.view, block);
       }},
  };
  Measurements results;
  for (const Method& method : methods) {
    const std::string name =
        fmt::format("written meanwhile, 2 MiB{}, {}", huge ? ", huge" : "", method.name);
    Writer writer(method.memory);
    std::vector<double> waits;
    for (int round = 0; round < rounds; ++round) {
      ::usleep(1000);
      writer.longest();
      method.move(0, 1 - round % 2);
      waits.push_back(writer.longest());
    }
    results.push_back({name + ", longest wait, median", median(waits) / 1000, "us", {}, {}});
    results.push_back(
        {name + ", longest wait, most", *std::ranges::max_element(waits) / 1000, "us", {}, {}});
    results.push_back({name + ", lost words", static_cast<double>(writer.lost()), "", 0, {}});
  }
  results.push_back({"written meanwhile, pages that move_pages left",
                     static_cast<double>(refused),
                     fmt::format("of {}", rounds * block / page),
                     {},
                     {}});
  return results;
}

// ---- pages with other mappings, and pinned pages

void report_states(Measurements& results, const std::string& what,
                   const std::map<int, int>& states) {
  for (const auto& [state, count] : states)
    results.push_back({fmt::format("{}: {}", what,
                                   state >= 0       ? fmt::format("on node {}", state)
                                   : state == -1000 ? std::string("no status")
                                                    : std::string(::strerror(-state))),
                       static_cast<double>(count),
                       "",
                       {},
                       {}});
}

Measurements other_mappings(const Nodes& nodes, bool huge) {
  Measurements results;
  const std::size_t unit = huge ? block : page;
  const auto attempt = [&](const char* what, std::byte* start) {
    const std::string name = fmt::format("{}{}", what, huge ? ", huge" : "");
    for (const auto& [flag, flag_name] :
         {std::pair{MPOL_MF_MOVE, "MOVE"}, std::pair{MPOL_MF_MOVE_ALL, "MOVE_ALL"}})
      report_states(results, fmt::format("{}, {}", name, flag_name),
                    move_pages_to(nodes[1], start, block, unit, flag));
  };
  start_library(nodes, huge);
  std::byte* const managed = alloc_managed(bytes);
  std::memset(managed, 1, bytes);
  prefetch(managed, bytes, 0);
  attempt("a coherent device's pages after a prefetch", managed);
  for (int to : {1, 0}) prefetch(managed + block, block, to);
  attempt("a coherent device's pages after three prefetches", managed + block);
  {
    const Memory memory(huge, nodes[0]);
    std::byte* const again = map_file(memory.file);
    for (std::size_t at = 0; at < bytes; at += page) *const_cast<volatile std::byte*>(again + at);
    attempt("mapped twice by this process", memory.view);
  }
  const Memory memory(huge, nodes[0]);
  const OtherMapper other(memory);
  attempt("mapped by two processes", memory.view);
  return results;
}

// Pages that Linux holds for I/O, by an io_uring or a pipe.
class Pin {
 public:
  virtual ~Pin() = default;
  // Writes `text` through the pin into the first page, as a device would by DMA.
  virtual bool write(const char* text, std::size_t length) = 0;
};

class RingPin : public Pin {
 public:
  RingPin(std::byte* start, std::size_t length) : start_(start) {
    if (const int error = ::io_uring_queue_init(4, &ring_, 0); error < 0)
      throw std::runtime_error(fmt::format("io_uring: {}", ::strerror(-error)));
    const iovec part{start, length};
    if (const int error = ::io_uring_register_buffers(&ring_, &part, 1); error < 0)
      throw std::runtime_error(fmt::format("io_uring_register_buffers: {}", ::strerror(-error)));
  }
  ~RingPin() override { ::io_uring_queue_exit(&ring_); }
  bool write(const char* text, std::size_t length) override {
    int ends[2];
    if (::pipe(ends) != 0 || ::write(ends[1], text, length) != static_cast<ssize_t>(length))
      fail("pipe");
    io_uring_sqe* const request = ::io_uring_get_sqe(&ring_);
    ::io_uring_prep_read_fixed(request, ends[0], start_, static_cast<unsigned>(length), 0, 0);
    ::io_uring_submit(&ring_);
    io_uring_cqe* answer = nullptr;
    __kernel_timespec limit{10, 0};
    if (::io_uring_wait_cqe_timeout(&ring_, &answer, &limit) < 0) return false;
    const bool all = answer->res == static_cast<int>(length);
    ::io_uring_cqe_seen(&ring_, answer);
    ::close(ends[0]);
    ::close(ends[1]);
    return all;
  }

 private:
  io_uring ring_{};
  std::byte* start_;
};

class PipePin : public Pin {
 public:
  PipePin(std::byte* start, std::size_t length) {
    if (::pipe(ends_) != 0) fail("pipe");
    ::fcntl(ends_[0], F_SETPIPE_SZ, static_cast<int>(length));
    const iovec part{start, length};
    if (::vmsplice(ends_[1], &part, 1, SPLICE_F_NONBLOCK) <= 0) fail("vmsplice");
  }
  ~PipePin() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  bool write(const char*, std::size_t) override { return false; }  // a pipe only reads pages

 private:
  int ends_[2]{};
};

Measurements pinned(const Nodes& nodes, bool huge) {
  start_library(nodes, huge);
  Measurements results;
  const std::size_t unit = huge ? block : page;
  constexpr std::size_t held = 16 * page;
  for (const bool by_ring : {true, false}) {
    const auto pin = [&](std::byte* start) -> std::unique_ptr<Pin> {
      if (by_ring) return std::make_unique<RingPin>(start, held);
      return std::make_unique<PipePin>(start, held);
    };
    const std::string name = fmt::format("16 pages pinned by {}{}",
                                         by_ring ? "io_uring" : "vmsplice", huge ? ", huge" : "");
    const auto add_write = [&](Pin& held_by, std::byte* start, const std::string& method) {
      if (!by_ring) return;
      constexpr char text[] = "written by the kernel";
      const bool written = held_by.write(text, sizeof text);
      const bool seen = std::memcmp(start, text, sizeof text) == 0;
      results.push_back({fmt::format("{}, {}: the kernel's write {}", name, method,
                                     written ? "is seen" : "failed"),
                         written && seen ? 1.0 : 0.0,
                         "",
                         {},
                         {}});
    };
    for (const bool told : {false, true}) {
      std::byte* const managed = alloc_managed(bytes);
      std::memset(managed, 1, bytes);
      prefetch(managed, bytes, 0);
      if (told)
        require(wherryPinPages(reinterpret_cast<CUdeviceptr>(managed), held), "wherryPinPages");
      const auto held_by = pin(managed);
      prefetch(managed, block, 1);
      const std::string method =
          fmt::format("the library's prefetch{}", told ? " after wherryPinPages" : "");
      report_states(results, name + ", " + method, move_pages_to(-1, managed, block, page, 0));
      add_write(*held_by, managed, method);
    }
    for (const bool with_mbind : {false, true}) {
      const Memory memory(huge, nodes[0]);
      const auto held_by = pin(memory.view);
      const std::string method = with_mbind ? "mbind, strict" : "move_pages";
      long result = 0;
      const double ns = ns_of([&] {
        if (with_mbind)
          result = bind_to_node(memory.view, block, nodes[1], MPOL_MF_MOVE | MPOL_MF_STRICT);
        else
          move_pages_to(nodes[1], memory.view, block, unit, MPOL_MF_MOVE, &result);
      });
      results.push_back(
          {fmt::format("{}, {}: result", name, method), static_cast<double>(result), "", {}, {}});
      results.push_back({fmt::format("{}, {}: duration", name, method), ns / 1000, "us", {}, {}});
      report_states(results, name + ", " + method, move_pages_to(-1, memory.view, block, page, 0));
      add_write(*held_by, memory.view, method);
    }
  }
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  const Nodes nodes = last_two_nodes();
  Measurements all;
  const auto add = [&](const std::function<Measurements()>& measure) {
    for (Measurement& next : measure_in_child(measure)) all.push_back(std::move(next));
  };
  for (const bool huge : {false, true}) {
    for (const std::size_t length : {page, 16 * page, block})
      if (!huge || length == block) add([&] { return durations(nodes, huge, length); });
    if (nodes[0] == nodes[1]) continue;
    add([&] { return written_meanwhile(nodes, huge); });
    add([&] { return other_mappings(nodes, huge); });
    add([&] { return pinned(nodes, huge); });
  }
  return print_report("node_moves: pages moved between two nodes", all, json);
}
