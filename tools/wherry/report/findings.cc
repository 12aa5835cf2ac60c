#include "findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "trace_labels.h"

namespace wherry::report {
namespace {

using impl::AdviceDetail;
using tool::processor_name;

// Fewer pages or faults are not worth a change of the program.
constexpr std::uint64_t pages_min = 64;
constexpr std::uint64_t sweep_faults_min = 32;
// Pages that move between two processors and back this often, on average, are disputed.
constexpr std::uint64_t round_trips_min = 2;
// Memory with at most one write fault for this many read faults counts as read.
constexpr std::uint64_t reads_per_write = 16;

constexpr std::array<std::string_view, 7> proposal_names{
    "read-mostly", "preferred-location", "less-sharing", "prefetch",
    "accessed-by", "capacity",           "pin"};

std::string size_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::uint64_t{1} << 30) return fmt::format("{:.1f} GiB", value / (1 << 30));
  if (bytes >= std::uint64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.0f} KiB", value / (1 << 10));
}

std::string time_text(std::uint64_t ns) {
  if (ns >= 1'000'000'000) return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9);
  return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

// Two processors between which pages of a memory move. `a` has the lower number.
struct Pair {
  std::size_t a = 0, b = 0;
  std::uint64_t there = 0, back = 0;  // pages that moved
  std::uint64_t pages = 0;            // how many different ones

  std::uint64_t moves() const { return there + back; }
  // How often each page moved, on average.
  std::uint64_t moves_of_each() const { return moves() / std::max<std::uint64_t>(pages, 1); }
};

// The processor's name inside a sentence.
std::string who(std::size_t processor) {
  return processor == 0 ? "the host" : processor_name(static_cast<int>(processor));
}

// The processor's name at the beginning of a sentence.
std::string as_subject(std::size_t processor) {
  std::string words = who(processor);
  words[0] = words[0] == 't' ? 'T' : 'D';
  return words;
}

class Analysis {
 public:
  Analysis(std::span<const impl::TraceProcessor> processors, std::uint64_t page_bytes)
      : processors_(processors), page_bytes_(page_bytes) {}

  void add(const std::string& name, const MemoryUse& use) {
    const Pair pair = busiest_pair(use);
    const bool disputed = std::min(pair.there, pair.back) >= round_trips_min * pair.pages &&
                          pair.moves() >= pages_min;
    if (disputed)
      add_dispute(name, use, pair);
    else
      add_visit(name, use, pair);
    for (std::size_t i = 0; i < processors_.size() && !disputed; ++i) add_sweep(name, use.by[i], i);
    for (std::size_t i = 1; i < processors_.size(); ++i) note_evictions(name, use, i);
    if (use.held_pages != 0) add_holds(name, use);
  }

  std::vector<Finding> take() {
    for (std::size_t i = 1; i < processors_.size(); ++i)
      if (evicted_[i] >= pages_min) add_evictions(i);
    std::ranges::stable_sort(findings_, [](const Finding& one, const Finding& other) {
      return std::tie(one.cost_ns, one.pages) > std::tie(other.cost_ns, other.pages);
    });
    return std::move(findings_);
  }

 private:
  Pair busiest_pair(const MemoryUse& use) const {
    Pair busiest;
    for (std::size_t a = 0; a < processors_.size(); ++a)
      for (std::size_t b = a + 1; b < processors_.size(); ++b) {
        const Pair pair{a, b, use.moved_pages[a][b], use.moved_pages[b][a],
                        std::max(use.by[a].came_pages, use.by[b].came_pages)};
        if (pair.moves() > busiest.moves()) busiest = pair;
      }
    return busiest;
  }

  std::string size_of_pages(std::uint64_t pages) const { return size_text(pages * page_bytes_); }

  static std::uint64_t cost_of(const MemoryUse& use, const Pair& pair) {
    return use.by[pair.a].fault_ns + use.by[pair.b].fault_ns;
  }

  // Adds a finding about two processors that take the memory from each other.
  void add_dispute(const std::string& name, const MemoryUse& use, const Pair& pair) {
    const ProcessorUse &a = use.by[pair.a], &b = use.by[pair.b];
    const std::uint64_t reads = a.reads + b.reads, writes = a.writes + b.writes;
    const std::string one = who(pair.a), other = who(pair.b);
    const std::string moves =
        fmt::format("{} moves {} times between {} and {}", name, pair.moves_of_each(), one, other);
    Finding finding;
    finding.memory = name;
    finding.evidence = fmt::format(
        "{} moved in all, {} pages of it different; {} faults on existing pages read and {} write; "
        "they took {}",
        size_of_pages(pair.moves()), pair.pages, reads, writes, time_text(cost_of(use, pair)));
    finding.cost_ns = cost_of(use, pair);
    finding.pages = pair.moves();
    if (writes * reads_per_write <= reads) {
      finding.observation =
          moves + (writes == 0 ? ", and is only read" : ", and is hardly ever written");
      add_reads(std::move(finding), use);
      return;
    }
    finding.observation = fmt::format("{}: {}", moves, who_writes(a.writes, b.writes, one, other));
    add_writes(std::move(finding), use, pair);
  }

  static std::string who_writes(std::uint64_t writes_of_a, std::uint64_t writes_of_b,
                                const std::string& a, const std::string& b) {
    if (writes_of_b == 0) return fmt::format("{} writes it, and {} reads it", a, b);
    if (writes_of_a == 0) return fmt::format("{} writes it, and {} reads it", b, a);
    return "both write it";
  }

  void add_reads(Finding finding, const MemoryUse& use) {
    if (use.was_advised(AdviceDetail::set_read_mostly)) return;
    finding.proposal = Proposal::read_mostly;
    finding.attempt =
        "Advise that it is read-mostly (CU_MEM_ADVISE_SET_READ_MOSTLY): then each processor gets "
        "a copy, and the pages stay. Each write ends all other copies of a page. (A processor that "
        "alone holds a page can write it without a fault, which a trace does not show.)";
    findings_.push_back(std::move(finding));
  }

  void add_writes(Finding finding, const MemoryUse& use, const Pair& pair) {
    // Prefers the device to the host, because its kernels should not wait; of two devices, the one
    // with more faults.
    const bool second = pair.a == 0 || use.by[pair.b].faults() > use.by[pair.a].faults();
    finding.processor = static_cast<int>(second ? pair.b : pair.a);
    const std::string home = who(second ? pair.b : pair.a), guest = who(second ? pair.a : pair.b);
    if (use.was_advised(AdviceDetail::set_preferred_location)) {
      finding.proposal = Proposal::less_sharing;
      finding.attempt = fmt::format(
          "Its preferred location does not keep it in place: look whether the advice covers all of "
          "it and names {} before {} first touches it. Otherwise let each launch do more work "
          "before {} needs the data again.",
          home, guest, guest);
    } else {
      finding.proposal = Proposal::preferred_location;
      finding.attempt = fmt::format(
          "Advise that {} is its preferred location (CU_MEM_ADVISE_SET_PREFERRED_LOCATION): then "
          "the pages stay there, and {} accesses them there. That is slower for each access and "
          "ends the moves. Or let each launch do more work before {} needs the data again.",
          home, guest, guest);
    }
    findings_.push_back(std::move(finding));
  }

  // Adds a finding if pages went from the host to a device, and at least half of them came back.
  void add_visit(const std::string& name, const MemoryUse& use, const Pair& pair) {
    if (pair.a != 0 || pair.pages == 0 || use.was_advised(AdviceDetail::set_accessed_by)) return;
    const std::uint64_t pages = use.by[pair.b].came_pages;
    if (pages < pages_min || 2 * pair.back < pages || 2 * pair.there < pages) return;
    const std::string device = who(pair.b);
    findings_.push_back(
        {Proposal::accessed_by, name, static_cast<int>(pair.b),
         fmt::format("{} goes to {} and back to the host, {} time{}", name, device,
                     std::max<std::uint64_t>(pair.there / pages, 1),
                     pair.there / pages > 1 ? "s" : ""),
         fmt::format("{} of it came to {}; {} moved in all; the faults took {}",
                     size_of_pages(pages), device, size_of_pages(pair.moves()),
                     time_text(cost_of(use, pair))),
         fmt::format("If {} accesses each page only a few times in between, advise that it is "
                     "accessed by {} (CU_MEM_ADVISE_SET_ACCESSED_BY): then the device uses the "
                     "pages in the host's memory, and neither of the two faults.",
                     device, device),
         cost_of(use, pair), pair.moves()});
  }

  // Adds a finding if a processor has faults on the memory's pages one after the other.
  void add_sweep(const std::string& name, const ProcessorUse& by, std::size_t processor) {
    if (by.faults() < sweep_faults_min || 2 * by.in_order < by.faults()) return;
    const std::string user = who(processor);
    findings_.push_back(
        {Proposal::prefetch, name, static_cast<int>(processor),
         fmt::format("{} has {} faults on {}, one after the other", as_subject(processor),
                     by.faults(), name),
         fmt::format("{} of the faults follow the one before by address; {} are first touches; "
                     "they took {}",
                     by.in_order, by.first_touches, time_text(by.fault_ns)),
         fmt::format("Prefetch it to {} before (cuMemPrefetchAsync): then the pages come, or are "
                     "created, in large pieces, and these accesses do not fault.",
                     user),
         by.fault_ns, by.came_pages});
  }

  // Adds a finding about pages that could not move: a system call or another process held them.
  void add_holds(const std::string& name, const MemoryUse& use) {
    findings_.push_back(
        {Proposal::pin, name, -1,
         fmt::format(
             "{} could not move {} time{}, because a system call, a pipe or another process "
             "held its pages",
             name, use.holds, use.holds > 1 ? "s" : ""),
         fmt::format("{} stayed, counted each time; meanwhile other processors access the pages "
                     "where they are",
                     size_of_pages(use.held_pages)),
         "Pin it during the I/O (wherryPinPages), or let kernels use it only before or after the "
         "I/O (docs/system-calls.md).",
         0, use.held_pages});
  }

  void note_evictions(const std::string& name, const MemoryUse& use, std::size_t device) {
    const std::uint64_t pages = use.by[device].evicted_pages;
    evicted_[device] += pages;
    came_[device] += use.by[device].came_pages;
    fault_ns_[device] += use.by[device].fault_ns;
    if (pages <= most_evicted_[device].pages) return;
    most_evicted_[device] = {name, pages};
  }

  void add_evictions(std::size_t device) {
    const std::string name = who(device);
    const std::string& memory = most_evicted_[device].name;
    const std::uint64_t capacity = processors_[device].capacity;
    findings_.push_back(
        {Proposal::capacity, memory, static_cast<int>(device),
         fmt::format("{} has too little memory for what it uses: {} were evicted to the host",
                     as_subject(device), size_of_pages(evicted_[device])),
         fmt::format("It has {}; {} of different pages came to it from other processors; most of "
                     "what it lost is {}, with {}",
                     capacity == 0 ? "no limit" : size_text(capacity), size_of_pages(came_[device]),
                     memory, size_of_pages(most_evicted_[device].pages)),
         fmt::format("Give it more memory (capacity= in WHERRY_DEVICES), or let kernels finish "
                     "with one part of the data before they begin the next, and prefetch no more "
                     "than fits. Or advise that {} prefers the host and is accessed by {}, which "
                     "then uses it there.",
                     memory, name),
         fault_ns_[device], evicted_[device]});
  }

  struct Evicted {
    std::string name;
    std::uint64_t pages = 0;
  };

  const std::span<const impl::TraceProcessor> processors_;
  const std::uint64_t page_bytes_;
  std::vector<Finding> findings_;
  // By device.
  std::array<std::uint64_t, impl::max_processors> evicted_{}, came_{}, fault_ns_{};
  std::array<Evicted, impl::max_processors> most_evicted_;
};

}  // namespace

std::string_view to_string(Proposal proposal) {
  return proposal_names[static_cast<std::size_t>(proposal)];
}

std::vector<Finding> find(const MemoryUses::ByName& uses,
                          std::span<const impl::TraceProcessor> processors,
                          std::uint64_t page_bytes) {
  Analysis analysis(processors, page_bytes);
  for (const auto& [name, use] : uses)
    if (!name.empty()) analysis.add(name, use);
  return analysis.take();
}

}  // namespace wherry::report
