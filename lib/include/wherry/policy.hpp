// Custom policies. A policy decides where pages of managed memory go when the program has given no
// advice. It is either a class of the program, registered before cuInit, or a shared object that
// WHERRY_POLICY names; docs/write-a-policy.md shows how to build one.
//
// The library asks a policy on each fault, from several threads at once for different blocks of 2
// MiB, while that block is locked. A policy must therefore be quick, must not call this library,
// and must not access managed memory. It has no clock of its own: the time is part of each
// question, so that the same policy runs in a replay.
#ifndef WHERRY_POLICY_HPP
#define WHERRY_POLICY_HPP

#include <wherry/wherry.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace wherry {

// Version of this interface; a shared object for another version is refused.
inline constexpr unsigned policy_version = 1;

inline constexpr unsigned block_pages = 512;  // pages of 4 KiB

// Processors are numbered as in the whole API: CU_DEVICE_CPU (-1) is the host, devices count from
// 0. In masks bit 0 is the host, bit 1 + d device d.
inline constexpr int no_processor = -2;
constexpr std::uint32_t mask_of(int processor) {
  return std::uint32_t{1} << (processor + 1);
}

// A set of pages of a block.
struct page_set {
  std::uint64_t words[block_pages / 64] = {};

  bool test(unsigned page) const { return (words[page / 64] >> page % 64 & 1) != 0; }
};
// Consecutive pages of a block.
struct page_run {
  unsigned first = 0;
  unsigned count = 0;
};

// The machine, which does not change. Element [0] is the host's, [1 + d] device d's.
struct policy_machine {
  int processors = 0;  // including the host
  int node[WHERRY_MAX_PROCESSORS] = {};
  std::uint64_t capacity_pages[WHERRY_MAX_PROCESSORS] = {};  // of each pool; ~0: no limit
  // NUMA distances; 10: the same node.
  int distance[WHERRY_MAX_PROCESSORS][WHERRY_MAX_PROCESSORS] = {};
};

// A processor accessed a page for which its page table has no entry, or no entry that
// permits the access.
struct page_fault {
  union {
    int faulting_processor = -1;
    int toucher;  // its earlier name
  };
  std::uint64_t block = 0;  // blocks of 2 MiB are numbered by address
  unsigned page = 0;        // number of the page in the block
  bool write = false;
  std::uint64_t now_ns = 0;
  std::uint32_t residents = 0;  // mask of processors whose memory holds the page; 0: absent
  int preferred = no_processor;
  std::uint32_t accessed_by = 0;
  // The part of the block that belongs to the same allocation and has the same advice.
  page_run stretch;
  // Pages of the block that the faulting processor's memory holds.
  page_set held;
  // Free pages in the faulting processor's memory that can be used without an eviction.
  std::uint64_t free_pages = 0;
  // Pages of the block that the faulting processor has mapped, from any memory.
  page_set mapped;
  // Recent mean costs on this machine: of one fault from its message to its wake, and of each page
  // that is transferred with others.
  std::uint64_t fault_ns = 0;
  std::uint64_t page_ns = 0;
};

// Pages have arrived in a processor's memory. Their earlier location no longer holds them, unless
// they were copied.
struct page_arrival {
  enum class cause {
    fault,
    // The policy decided that the pages stay there.
    stay,
    prefetch,
    eviction,
  };

  page_run run;
  int to = -1;
  cause why = cause::fault;
  bool is_copy = false;
  std::uint64_t now_ns = 0;
};

// What the policy wants. Without a destination or region, the page goes to the faulting processor,
// with its 64 KiB region.
struct opinion {
  // In whose memory the page should be; if that is not the faulting processor's, that processor
  // maps it there.
  std::optional<int> destination;
  // Pages that are treated like the page: contains the page and lies inside the stretch.
  std::optional<page_run> region = {};
  // If not 0, the thread sleeps until then (at most a second), and the policy is asked again.
  std::uint64_t wait_until_ns = 0;
  // If not 0, the page stays at the destination until then (a temporary pin), and other processors
  // map it there; afterwards their accesses fault again.
  std::uint64_t stays_until_ns = 0;
};

// What a policy remembers of a block. The policy derives its own type from it; the library keeps it
// while the block has pages. If the program's heap is managed memory, a thread may fault inside
// malloc, which then waits for the policy's answer: such a program needs a policy that allocates
// memory from elsewhere.
struct block_history {
  virtual ~block_history() = default;
};

class policy {
 public:
  virtual ~policy() = default;

  // `history` belongs to the block, and is empty until the policy stores something there. If the
  // policy throws, or returns an invalid opinion, the library logs that once and treats it as no
  // opinion.
  virtual opinion on_fault(const page_fault& fault, std::unique_ptr<block_history>& history) = 0;
  // Pages have moved. Returns true if some of them thrash now that did not before; the library only
  // counts this.
  virtual bool on_arrival(const page_arrival&, std::unique_ptr<block_history>&) { return false; }
};

using make_policy = policy*(const policy_machine* machine, const char* parameters);

}  // namespace wherry

#pragma GCC visibility push(default)
extern "C" {

/* Registers a policy under a name, for wherrySetPolicy("NAME") or WHERRY_POLICY=NAME. The text
 * after a comma there is passed to `make` as parameters, else "". cuInit calls `make` once. It
 * returns null for parameters that it cannot use; the library keeps the returned policy until the
 * process ends. `version` is wherry::policy_version.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: name or make is NULL, or the name is empty, already taken, or
 *   contains a comma or a slash.
 * - CUDA_ERROR_NOT_SUPPORTED: another version.
 * - CUDA_ERROR_NOT_PERMITTED: the library is already initialized.
 * Thread-safe. */
CUresult wherryRegisterPolicy(const char* name, unsigned version, wherry::make_policy* make);
}
#pragma GCC visibility pop

/* Defines the policy of a shared object: a class that is constructed from (const
 * wherry::policy_machine&, const char* parameters). */
#define WHERRY_POLICY_PLUGIN(Class)                                                                \
  extern "C" {                                                                                     \
  extern const unsigned wherryPolicyVersion;                                                       \
  const unsigned wherryPolicyVersion = wherry::policy_version;                                     \
  wherry::policy* wherryMakePolicy(const wherry::policy_machine* machine, const char* parameters); \
  wherry::policy* wherryMakePolicy(const wherry::policy_machine* machine,                          \
                                   const char* parameters) {                                       \
    return new Class(*machine, parameters);                                                        \
  }                                                                                                \
  }                                                                                                \
  static_assert(true)

#endif
