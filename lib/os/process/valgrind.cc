#include "os/process/valgrind.h"

#include <link.h>

#include <string_view>

namespace wherry::impl {

bool runs_in_valgrind() {
  // Valgrind preloads this library into each program, with every one of its tools.
  static constexpr std::string_view preloaded = "/vgpreload_core";
  const auto is_valgrinds = [](dl_phdr_info* object, std::size_t, void*) {
    return std::string_view(object->dlpi_name).find(preloaded) != std::string_view::npos ? 1 : 0;
  };
  return ::dl_iterate_phdr(is_valgrinds, nullptr) != 0;
}

}  // namespace wherry::impl
