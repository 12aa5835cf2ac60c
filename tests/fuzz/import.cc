// Accesses of other tools, as `wherry import` reads them: each file in every format.
#include <cstdio>
#include <variant>

#include "fuzz/target.h"
#include "import/csv_accesses.h"
#include "import/damon_accesses.h"
#include "import/perf_accesses.h"
#include "import/synthetic_arena.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace wherry;
  using namespace wherry::importing;
  if (size == 0) return 0;
  for (const ReadAccesses read : {read_csv_accesses, read_damon_accesses, read_perf_accesses}) {
    std::FILE* const stream = ::fmemopen(const_cast<std::uint8_t*>(data), size, "r");
    test::require(stream != nullptr, "fmemopen");
    const auto result = read(stream, {impl::page_size, impl::max_devices});
    std::fclose(stream);
    if (const auto* error = std::get_if<tool::TextError>(&result)) {
      test::require(!tool::describe("file", *error).empty(), "an error without a reason");
      continue;
    }
    const auto& accesses = std::get<Accesses>(result);
    const SyntheticArena arena(accesses.all);
    for (const Access& access : accesses.all) {
      test::require(access.name < accesses.names.size(), "a name that does not exist");
      const std::uint64_t offset = arena.address_of(access) - SyntheticArena::base;
      test::require(offset < arena.bytes() && access.bytes <= arena.bytes() - offset,
                    "an access outside the arena");
    }
  }
  return 0;
}
