#include "base/lock_order.h"

#include <cstddef>

namespace wherry::impl {
namespace {

enum class Right {
  none,
  waits,
  forks,
};

struct LockRow {
  const char* name;
  Right right;
};

constexpr LockRow locks[] = {
#define LOCK(name, right) {#name, Right::right},
#include "base/lock_table.inc"
#undef LOCK
};

const LockRow& row_of(LockOrder order) {
  return locks[static_cast<std::size_t>(order)];
}

}  // namespace

bool may_wait_under(LockOrder order) {
  return row_of(order).right != Right::none;
}

const char* name_of(LockOrder order) {
  return row_of(order).name;
}

}  // namespace wherry::impl
