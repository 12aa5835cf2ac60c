// Places allocations in the memory of one memory pool. Deals with addresses only: touches no pages,
// makes no system calls, takes no locks.
//
// The pool consists of slabs. Ranges cover each slab completely. A range is live, free, or leaving:
// freed in stream order, while the stream has not yet reached the free. For that stream a leaving
// range is free already, because its later work cannot overtake the free. Neighbouring ranges that
// are free, or leaving in the same stream, are merged; the merged range has the later free's
// number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace wherry::impl {

class MemoryPoolSpace {
 public:
  struct Slab {
    std::uintptr_t base = 0;
    std::size_t bytes = 0;
  };
  // The unit in which used bytes are counted, as a CUDA driver does.
  static constexpr std::size_t used_unit = 512;
  // A number of bytes, and its highest value so far.
  struct Amount {
    std::size_t now = 0;
    std::size_t high = 0;

    void set(std::size_t bytes) {
      now = bytes;
      if (now > high) high = now;
    }
  };
  // A leaving range. It becomes free when `stream` reaches its free with `number`.
  struct Leaving {
    std::uintptr_t base = 0;
    std::uint64_t stream = 0;
    std::uint64_t number = 0;
  };

  // Adds a slab of whole pages; all of it is free.
  void add(Slab slab);
  // Removes and returns a slab that is completely free, has at most `at_most` bytes, and that
  // `admits` accepts. Returns nullopt if there is none.
  std::optional<Slab> take_free_slab(
      std::size_t at_most,
      const std::function<bool(const Slab&)>& admits = [](const Slab&) { return true; });

  // Allocates whole pages from the shortest range that fits: first of those that this stream has
  // freed, then of the free ones. Returns nullopt if no range fits.
  std::optional<std::uintptr_t> allocate(std::size_t bytes, std::uint64_t stream);
  // Allocates only from ranges that this stream has freed.
  std::optional<std::uintptr_t> allocate_own(std::size_t bytes, std::uint64_t stream);
  // The shortest leaving range that fits and that `admits` accepts, or nullopt.
  std::optional<Leaving> find_leaving(
      std::size_t bytes, const std::function<bool(const Leaving&)>& admits = [](const Leaving&) {
        return true;
      }) const;
  // Makes the first bytes of a leaving range live. Requires: the caller orders the new owner's work
  // after the free.
  void allocate_leaving(std::uintptr_t base, std::size_t bytes);

  // Frees a live range at once.
  void free(std::uintptr_t base);
  // Frees a live range in the order of the stream: it is leaving. Returns the number of this free,
  // which is larger than all earlier ones.
  std::uint64_t free_in_order(std::uintptr_t base, std::uint64_t stream);
  // The stream has reached its free with this number, and all of its earlier ones.
  void reached(std::uint64_t stream, std::uint64_t number);

  // The slab that contains the address. Requires: there is one.
  Slab slab_of(std::uintptr_t address) const;
  Amount& reserved() { return reserved_; }
  // The bytes for which live and leaving ranges were allocated, each rounded up to used_unit.
  Amount& used() { return used_; }

 private:
  enum class State {
    live,
    free,
    leaving,
  };
  struct Range {
    std::size_t bytes = 0;
    std::size_t used = 0;  // its part of used_
    State state = State::free;
    std::uint64_t stream = 0;  // while it is leaving
    std::uint64_t number = 0;
  };
  using Ranges = std::map<std::uintptr_t, Range>;

  // Add a free or leaving range to the list for its state, and remove it.
  void enlist(Ranges::iterator range);
  void delist(Ranges::iterator range);
  // Makes the first pages of a listed range live; the rest keeps its state.
  void make_live(Ranges::iterator range, std::size_t bytes);
  // Allocates from the list of ranges.
  std::optional<std::uintptr_t> take(const std::set<std::pair<std::size_t, std::uintptr_t>>& list,
                                     std::size_t bytes);
  // Merges a range whose state has changed with its neighbours, and lists the result.
  void settle(Ranges::iterator range);
  bool are_alike(const Range& one, Ranges::iterator next) const;

  Ranges ranges_;
  std::map<std::uintptr_t, std::size_t> slabs_;
  std::set<std::pair<std::size_t, std::uintptr_t>> free_;  // (bytes, base)
  std::map<std::uint64_t, decltype(free_)> leaving_;       // by stream; no list is empty
  std::uint64_t last_number_ = 0;
  Amount reserved_;
  Amount used_;
};

}  // namespace wherry::impl
