// A loaded module, as a fork of this process would have it: at the same addresses, relocated and
// constructed, with the variables' contents of the moment. For devices that were started before it
// was loaded, when the module's variables must be where they are here.
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
  static constexpr std::size_t parts_max = 16;

  struct Part {
    AddressRange range;  // whole pages
    bool writable = false;
    bool executable = false;
  };
  AddressRange extent;  // between the parts nothing is accessible
  std::vector<Part> parts;
  Fd contents;                     // a file; its offset 0 is the extent's start
  std::uintptr_t unwind_info = 0;  // the first record of .eh_frame; 0: there is none
};

// A module, as the loader here knows it.
struct ModuleIdentity {
  std::string name;
  AddressRange extent;
  bool operator==(const ModuleIdentity&) const = default;
};
std::vector<ModuleIdentity> loaded_modules();

// Images of the module of the address, and of those that it needs and that `is_there` does not say
// yes to. Or one line that says why that cannot be.
using ModuleImages = std::variant<std::vector<ModuleImage>, std::string>;
ModuleImages copy_modules(std::uintptr_t address,
                          const std::function<bool(const ModuleIdentity&)>& is_there);

// In the device: puts an image where it belongs. Returns 0 or an errno; EEXIST: something else is
// there.
[[nodiscard]] int adopt_image(const ModuleImage& image);

}  // namespace wherry::impl
