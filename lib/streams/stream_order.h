// The moments of other streams that all later work of a stream comes after, because the stream has
// waited for events. A moment is a number that grows within its stream. Orders never change, and
// streams share them, so recording an event copies only a pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace wherry::impl {

class StreamOrder {
 public:
  struct Moment {
    std::uint64_t stream = 0;  // its id
    std::uint64_t number = 0;  // 0: unknown
  };

  // Whether the stream's later work is known to come after this moment.
  bool is_after(Moment moment) const;
  // The order of a stream that has `order` (null: nothing is known) and now waits for `moment`,
  // whose stream had the order `its` (or null) then. Throws std::bad_alloc.
  static std::shared_ptr<const StreamOrder> extended(
      const std::shared_ptr<const StreamOrder>& order, Moment moment,
      const std::shared_ptr<const StreamOrder>& its);

 private:
  // If there are more, the oldest is forgotten: users of an order work without it, too.
  static constexpr std::size_t moments_max = 32;

  void add(Moment moment);

  std::vector<Moment> moments_;  // one for each stream
};

}  // namespace wherry::impl
