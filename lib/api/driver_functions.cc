#include "api/driver_functions.h"

#include <algorithm>
#include <string_view>

namespace wherry::impl {

FoundFunction find_driver_function(const char* name, int version, bool own_stream) {
  const auto named = std::ranges::equal_range(
      driver_functions, std::string_view(name), {},
      [](const DriverFunction& function) { return std::string_view(function.name); });
  FoundFunction best{Lookup::unknown, nullptr};
  for (const DriverFunction& function : named) {
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
