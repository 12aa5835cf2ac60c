// The known word that is most similar to a misspelt one, for messages ("did you mean ...?"). Any
// thread.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace wherry::impl {

// Returns the known word with the smallest edit distance (insertions, removals and replacements of
// characters), the first among equals. Returns an empty word if each one differs by more than
// `differing_max`.
std::string_view nearest_word(std::string_view misspelt, std::span<const std::string_view> known,
                              std::size_t differing_max);

// How many characters a misspelling of a word of this length changes at most: a third of them, but
// at least 2; of up to 3 characters, 1.
std::size_t misspelt_max(std::size_t length);

}  // namespace wherry::impl
