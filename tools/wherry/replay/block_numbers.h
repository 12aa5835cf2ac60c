// Numbers the 2 MiB blocks in a trace in their order of appearance, so that data about them can be
// kept in flat arrays. A hash table with open addressing, because it is used for every recorded
// event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace wherry::replay {

class BlockNumbers {
 public:
  // The number of the block at address `block` * 2 MiB; a new number if it has none.
  std::uint32_t of(std::uint64_t block) {
    if (block == last_block_) return last_;
    if (2 * (blocks_.size() + 1) > places_.size()) grow();
    std::uint32_t& place = place_of(block);
    if (place == 0) {
      blocks_.push_back(block);
      place = static_cast<std::uint32_t>(blocks_.size());
    }
    last_block_ = block;
    return last_ = place - 1;
  }

  // Returns nullopt if the block has no number.
  std::optional<std::uint32_t> find(std::uint64_t block) {
    const std::uint32_t place = places_.empty() ? 0 : place_of(block);
    return place == 0 ? std::nullopt : std::optional(place - 1);
  }

  std::size_t size() const { return blocks_.size(); }
  std::vector<std::uint64_t> take() && { return std::move(blocks_); }

 private:
  std::uint32_t& place_of(std::uint64_t block) {
    const std::size_t mask = places_.size() - 1;
    std::size_t i = (block * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (places_[i] != 0 && blocks_[places_[i] - 1] != block) i = (i + 1) & mask;
    return places_[i];
  }
  void grow() {
    places_.assign(places_.empty() ? 1024 : 2 * places_.size(), 0);
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      place_of(blocks_[i]) = static_cast<std::uint32_t>(i + 1);
  }

  std::vector<std::uint64_t> blocks_;
  std::vector<std::uint32_t> places_;  // number + 1; 0: free
  std::uint64_t last_block_ = ~std::uint64_t{0};
  std::uint32_t last_ = 0;
};

}  // namespace wherry::replay
