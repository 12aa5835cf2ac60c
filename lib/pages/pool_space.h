// What is allocated where in the memory of one pool. Addresses only: no pages, no kernel calls, no
// locks.
//
// The pool has slabs, each covered end to end by ranges that are live, free, or leaving: freed in
// the order of a stream that has not got there yet. A leaving range is free for that stream
// already, whose later work cannot overtake the free. Neighbours that are free, or leaving in the
// same stream, become one; then the younger free of the two counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace wherry::impl {

class PoolSpace {
 public:
  struct Slab {
    std::uintptr_t base = 0;
    std::size_t bytes = 0;
  };
  // A number of bytes, and the most that it ever was.
  struct Amount {
    std::size_t now = 0;
    std::size_t high = 0;

    void set(std::size_t bytes) {
      now = bytes;
      if (now > high) high = now;
    }
  };
  // A range that leaves when the stream gets to its free of this number.
  struct Leaving {
    std::uintptr_t base = 0;
    std::uint64_t stream = 0;
    std::uint64_t number = 0;
  };

  // All of it free. Sizes here are whole pages.
  void add(Slab slab);
  // Takes a slab out that is free as a whole, no larger, and that `admits` agrees to.
  std::optional<Slab> take_free_slab(
      std::size_t at_most,
      const std::function<bool(const Slab&)>& admits = [](const Slab&) { return true; });

  // The shortest range that fits of those that the stream itself has freed, or else of the free
  // ones.
  std::optional<std::uintptr_t> allocate(std::size_t bytes, std::uint64_t stream);
  // The shortest leaving range that fits.
  std::optional<Leaving> find_leaving(std::size_t bytes) const;
  // Makes its first bytes live. Requires: they are leaving, for whoever sees to the order.
  void allocate_leaving(std::uintptr_t base, std::size_t bytes);

  // A live range is free.
  void free(std::uintptr_t base);
  // ... leaves. Gives the number of this free, larger than all before.
  std::uint64_t free_in_order(std::uintptr_t base, std::uint64_t stream);
  // The stream has got to its free of this number, and all before.
  void reached(std::uint64_t stream, std::uint64_t number);

  // Requires: the address lies in one.
  Slab slab_of(std::uintptr_t address) const;
  Amount& reserved() { return reserved_; }
  Amount& used() { return used_; }  // live and leaving
  bool has_live_or_leaving() const { return used_.now != 0; }

 private:
  enum class State {
    live,
    free,
    leaving,
  };
  struct Range {
    std::size_t bytes = 0;
    State state = State::free;
    std::uint64_t stream = 0;  // while leaving
    std::uint64_t number = 0;
  };
  using Ranges = std::map<std::uintptr_t, Range>;

  void enlist(Ranges::iterator range);
  void delist(Ranges::iterator range);
  // Makes the first bytes of a listed range live.
  void make_live(Ranges::iterator range, std::size_t bytes);
  // Lists the range, of which the state is new, as one with its neighbours.
  void settle(Ranges::iterator range);
  bool are_alike(const Range& one, Ranges::iterator next) const;

  Ranges ranges_;
  std::map<std::uintptr_t, std::size_t> slabs_;
  std::set<std::pair<std::size_t, std::uintptr_t>> free_;  // (bytes, base)
  std::map<std::uint64_t, decltype(free_)> leaving_;       // by stream; none is empty
  std::uint64_t last_number_ = 0;
  Amount reserved_;
  Amount used_;
};

}  // namespace wherry::impl
