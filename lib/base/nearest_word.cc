#include "base/nearest_word.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace wherry::impl {
namespace {

std::size_t distance_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j + 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_word(std::string_view misspelt, std::span<const std::string_view> known,
                              std::size_t differing_max) {
  std::string_view nearest;
  std::size_t distance = differing_max + 1;
  for (const std::string_view word : known) {
    if (const std::size_t found = distance_between(misspelt, word); found < distance) {
      distance = found;
      nearest = word;
    }
  }
  return nearest;
}

std::size_t misspelt_max(std::size_t length) {
  // In a word of three letters only one may be wrong, or "foo" would count as a misspelt "top".
  constexpr std::size_t short_word = 3;
  return length <= short_word ? 1 : std::max<std::size_t>(2, length / 3);
}

}  // namespace wherry::impl
