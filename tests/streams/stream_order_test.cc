#include "streams/stream_order.h"

#include "support/catch.h"

namespace wherry::test::stream_order_test {
namespace {

using namespace wherry::impl;
using Order = std::shared_ptr<const StreamOrder>;

TEST_CASE("a stream comes after the moments that it waited for, and after earlier ones of theirs",
          "[streams]") {
  const Order one = StreamOrder::extended(nullptr, {1, 10}, nullptr);
  CHECK(one->is_after({1, 10}));
  CHECK(one->is_after({1, 3}));
  CHECK_FALSE(one->is_after({1, 11}));
  CHECK_FALSE(one->is_after({2, 1}));
  CHECK_FALSE(one->is_after({1, 0}));
  const Order two = StreamOrder::extended(nullptr, {2, 20}, one);
  CHECK(two->is_after({1, 10}));
  CHECK(two->is_after({2, 20}));
  // Adding an older moment of stream 2 does not replace its later moment.
  CHECK(StreamOrder::extended(two, {2, 5}, nullptr)->is_after({2, 20}));
}

TEST_CASE("of many streams the oldest moments are forgotten", "[streams]") {
  Order order;
  for (std::uint64_t stream = 1; stream <= 1000; ++stream)
    order = StreamOrder::extended(order, {stream, stream}, nullptr);
  CHECK_FALSE(order->is_after({1, 1}));
  CHECK(order->is_after({1000, 1000}));
  CHECK(order->is_after({990, 990}));
}

}  // namespace
}  // namespace wherry::test::stream_order_test
