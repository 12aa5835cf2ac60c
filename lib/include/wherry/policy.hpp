// A policy of one's own: what decides where pages of managed memory go when the program has advised
// nothing. Either a class of the program, registered before cuInit, or a shared object that
// WHERRY_POLICY names; docs/write-a-policy.md builds one.
//
// A policy is asked on each fault, by several threads at once for different blocks of 2 MiB, with
// that block locked: it must be quick, and call neither this library nor touch managed memory. It
// has no clock of its own: the time comes with the question, so that the same policy runs in a
// replay.
#ifndef WHERRY_POLICY_HPP
#define WHERRY_POLICY_HPP

#include <wherry/wherry.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace wherry {

// Of this interface; a shared object for another one is refused.
inline constexpr unsigned policy_version = 1;

inline constexpr unsigned block_pages = 512;  // of 4 KiB

// Processors are numbered as everywhere: CU_DEVICE_CPU (-1) is the host, devices count from 0. In
// masks bit 0 is the host, bit 1 + d device d.
inline constexpr int no_processor = -2;
constexpr std::uint32_t mask_of(int processor) {
  return std::uint32_t{1} << (processor + 1);
}

// Some pages of a block.
struct page_set {
  std::uint64_t words[block_pages / 64] = {};

  bool test(unsigned page) const { return (words[page / 64] >> page % 64 & 1) != 0; }
};
// Some in a row.
struct page_run {
  unsigned first = 0;
  unsigned count = 0;
};

// What there is, once and for all. Entry [0] is the host's, [1 + d] device d's.
struct policy_machine {
  int processors = 0;  // with the host
  int node[WHERRY_MAX_PROCESSORS] = {};
  std::uint64_t capacity_pages[WHERRY_MAX_PROCESSORS] = {};         // of the pool; ~0: no limit
  int distance[WHERRY_MAX_PROCESSORS][WHERRY_MAX_PROCESSORS] = {};  // of nodes, 10: the same
};

// Somebody touched a page that its page table has not, or not for this.
struct page_fault {
  int toucher = -1;
  std::uint64_t block = 0;  // 2 MiB blocks are numbered by address
  unsigned page = 0;        // in the block
  bool write = false;
  std::uint64_t now_ns = 0;
  std::uint32_t residents = 0;  // whose memory holds the page; 0: nobody's yet
  int preferred = no_processor;
  std::uint32_t accessed_by = 0;
  page_run stretch;  // what of the block is of the same allocation, with the same advice
  page_set held;     // what of the block the toucher's memory holds
  std::uint64_t free_pages = 0;  // in the toucher's memory, before anything is evicted from it
  page_set mapped;               // what of the block the toucher has mapped, wherever it is
  // What faults have cost on this machine lately: one, from its message to its wake, and each page
  // that came with others.
  std::uint64_t fault_ns = 0;
  std::uint64_t page_ns = 0;
};

// Pages have come to somebody's memory, and left where they were unless they were copied.
struct page_arrival {
  enum class cause {
    fault,
    stay,  // ... where the policy has them stay
    prefetch,
    eviction,
  };

  page_run run;
  int to = -1;
  cause why = cause::fault;
  bool is_copy = false;
  std::uint64_t now_ns = 0;
};

// What to do. What is left out the library decides: the page goes to who touched it, with its 64
// KiB region.
struct opinion {
  std::optional<int>
      destination;  // whose memory the page should be in; who touched it maps it there
  std::optional<page_run> region = {};  // what comes along: contains the page, inside the stretch
  std::uint64_t wait_until_ns =
      0;  // the thread sleeps until then, and the policy is asked again; at most a second from now
  // The page stays at the destination until then, for others to map it there; afterwards they fault
  // again. 0: it does not.
  std::uint64_t stays_until_ns = 0;
};

// What a policy remembers of a block: derived from by the policy, kept by the library while the
// block has pages. The thread that faulted may be amid malloc, which then waits for the answer: a
// program whose heap is managed memory needs a policy that takes memory from elsewhere.
struct block_history {
  virtual ~block_history() = default;
};

class policy {
 public:
  virtual ~policy() = default;

  // `history` is the block's: empty until the policy puts something there. What it throws is logged
  // once, and taken for no opinion; so is what makes no sense.
  virtual opinion on_fault(const page_fault& fault, std::unique_ptr<block_history>& history) = 0;
  // Pages have moved. True: with that, some of them thrash that did not before (this is counted, no
  // more).
  virtual bool on_arrival(const page_arrival&, std::unique_ptr<block_history>&) { return false; }
};

using make_policy = policy*(const policy_machine* machine, const char* parameters);

}  // namespace wherry

#pragma GCC visibility push(default)
extern "C" {

/* Makes a policy known by a name, to be chosen by wherrySetPolicy("NAME") or WHERRY_POLICY=NAME;
 * what follows a comma there are the parameters that `make` gets, else "". It is called once, by
 * cuInit, and returns null for parameters that it cannot use; the library keeps what it returns
 * until the process ends. `version` is wherry::policy_version. CUDA_ERROR_INVALID_VALUE: name or
 * make is NULL, the name is empty, taken, or has a comma or a slash; CUDA_ERROR_NOT_SUPPORTED:
 * another version; CUDA_ERROR_NOT_PERMITTED: the library is initialized already. Thread-safe. */
CUresult wherryRegisterPolicy(const char* name, unsigned version, wherry::make_policy* make);
}
#pragma GCC visibility pop

/* In a shared object: its policy is a class that is constructed from (const
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
