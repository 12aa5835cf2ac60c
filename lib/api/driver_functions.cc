#include "api/driver_functions.h"

#include <algorithm>
#include <string_view>

namespace wherry::impl {

FoundFunction find_driver_function(const char* name, int version, bool own_stream) {
  // The table is sorted by name, then by version.
  const std::string_view wanted(name);
  auto each = std::ranges::lower_bound(
      driver_functions, wanted, {},
      [](const DriverFunction& function) { return std::string_view(function.name); });
  FoundFunction best{Lookup::unknown, nullptr};
  for (; each != driver_functions.end() && each->name == wanted; ++each) {
    const DriverFunction& function = *each;
    if (function.address == nullptr) continue;
    if (function.version > version) {
      if (best.lookup == Lookup::unknown) best.lookup = Lookup::too_old;
      break;
    }
    const bool own = own_stream && function.own_stream_address != nullptr &&
                     function.own_stream_version <= version;
    best = {Lookup::found, own ? function.own_stream_address : function.address};
  }
  return best;
}

}  // namespace wherry::impl
