// A loaded module, as a fork of this process would have it: at the same addresses, relocated and
// constructed, with the current contents of its variables. For devices that were started before the
// host loaded the module, if its variables must have the same addresses in both processes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "os/files/fd.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

struct ModuleImage {
  static constexpr std::size_t segments_max = 16;

  struct Segment {
    AddressRange range;  // whole pages
    bool writable = false;
    bool executable = false;
  };
  AddressRange extent;  // inaccessible between the segments
  std::vector<Segment> segments;
  Fd contents;                     // a file; offset 0 is the start of `extent`
  std::uintptr_t unwind_info = 0;  // the first record of .eh_frame; 0: none
};

// A module, as this process's loader knows it.
struct ModuleIdentity {
  std::string name;
  AddressRange extent;
  bool operator==(const ModuleIdentity&) const = default;
};
std::vector<ModuleIdentity> loaded_modules();

// Returns images of the module that contains the address, and of the modules that it needs, except
// those for which `is_there` returns true; or, if that is impossible, a line with the reason.
using ModuleImages = std::variant<std::vector<ModuleImage>, std::string>;
ModuleImages copy_modules(std::uintptr_t address,
                          const std::function<bool(const ModuleIdentity&)>& is_there);

// In the device: maps an image at its addresses. Returns 0 or an errno; EEXIST: the addresses are
// in use.
[[nodiscard]] int adopt_image(const ModuleImage& image);

}  // namespace wherry::impl
