// Matrix Market files, as `wherry cg --matrix FILE` reads them.
#include "matrix_market.h"

#include <cstdio>
#include <variant>

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace wherry;
  if (size == 0) return 0;
  std::FILE* const stream = ::fmemopen(const_cast<std::uint8_t*>(data), size, "r");
  test::require(stream != nullptr, "fmemopen");
  const auto result = tool::read_matrix_market(stream);
  std::fclose(stream);
  if (const auto* error = std::get_if<tool::TextError>(&result)) {
    test::require(!tool::describe("file", *error).empty(), "an error without a reason");
    return 0;
  }
  const auto& matrix = std::get<tool::Triplets>(result);
  for (const auto& entry : matrix.entries)
    test::require(entry.row < matrix.rows && entry.column < matrix.rows,
                  "an entry outside the matrix");
  return 0;
}
