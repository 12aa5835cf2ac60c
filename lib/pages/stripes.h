// How the offsets of a pool are divided among its files. Linux locks a file during a write, so that
// threads that write to one file take turns. Threads that write to several files do not.
//
// The pool is divided into stripes, which belong to the files in turn. The first stripes have one
// block each. A stripe that begins further from the start is longer, so that the number of stripes,
// each of which costs a process one mapping, grows with the logarithm of the pool's size.
// Allocations that begin at an offset of their size or less span all files (pages/address_space.h).
//
// A byte has the same offset in its file as in the pool. Beyond the striped part everything belongs
// to the first file: memory there may be handed to other processes, as one range of one file.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/page.h"

namespace wherry::impl {

class Stripes {
 public:
  Stripes() = default;  // one file
  // `bytes`: the size of the striped part, a multiple of 2 MiB.
  Stripes(unsigned files, std::uint64_t bytes) : files_(files), bytes_(files > 1 ? bytes : 0) {}

  unsigned files() const { return files_; }
  std::uint64_t bytes() const { return bytes_; }

  unsigned file_of(std::uint64_t offset) const {
    if (offset >= bytes_) return 0;
    const std::uint64_t length = length_at(offset);
    return static_cast<unsigned>((offset / length) % files_);
  }
  // One past the last byte of the stripe that contains the offset.
  std::uint64_t end_of(std::uint64_t offset) const {
    if (offset >= bytes_) return UINT64_MAX;
    const std::uint64_t length = length_at(offset);
    return std::min(bytes_, round_down(offset, length) + length);
  }
  // Whether the pages lie beyond the striped part, and so belong to the first file. Requires: they
  // are all in the striped part, or none is.
  bool are_in_first_file(PageSpan pages) const { return pages.offset() >= bytes_; }
  // Calls f(file, span) for the part of each stripe in `span`, in order. Stops at f's first error
  // and returns it; otherwise returns 0.
  template <typename F>
  int for_each(PageSpan span, F f) const {
    while (!span.empty()) {
      const std::uint64_t pages =
          std::min(span.count, (end_of(span.offset()) - span.offset()) / page_size);
      if (const int error = f(file_of(span.offset()), PageSpan{span.first, pages})) return error;
      span = {span.first + pages, span.count - pages};
    }
    return 0;
  }

 private:
  // From this offset on, stripes are longer than a block.
  static constexpr std::uint64_t long_from = std::uint64_t{64} << 20;
  // The number of stripes between an offset and its double.
  static constexpr std::uint64_t per_length = 16;

  static std::uint64_t length_at(std::uint64_t offset) {
    return offset < long_from ? block_size : std::bit_floor(offset) / per_length;
  }

  unsigned files_ = 1;
  std::uint64_t bytes_ = 0;
};

// The files of one pool, as borrowed descriptors.
struct PoolFiles {
  Stripes stripes;
  std::vector<int> fds;
};

// The blocks of a range in the order in which several threads should write them: neighbours in time
// belong to different files.
class StripedOrder {
 public:
  // The blocks from `first` to the one before `end`.
  StripedOrder(const Stripes& stripes, BlockIndex first, BlockIndex end)
      : stripes_(stripes), rest_(first), end_(end) {
    take_stripes();
  }

  bool empty() const { return open_.empty(); }
  // The next block. Requires: not empty.
  BlockIndex front() const { return open_[turn_].first; }
  void pop() {
    Part& part = open_[turn_];
    part.first = part.first.next();
    if (part.first == part.end)
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(turn_));
    else
      ++turn_;
    if (turn_ >= open_.size()) turn_ = 0;
    if (open_.empty()) take_stripes();
  }

 private:
  struct Part {
    BlockIndex first;
    BlockIndex end;
  };

  // Begins with the next stripes, one of each file.
  void take_stripes() {
    while (rest_ < end_ && open_.size() < stripes_.files()) {
      const std::uint64_t stripe_end = stripes_.end_of(block_span(rest_).offset()) / block_size;
      const BlockIndex part_end{std::min(end_.value, stripe_end)};
      open_.push_back({rest_, part_end});
      rest_ = part_end;
    }
  }

  Stripes stripes_;
  BlockIndex rest_;  // the first block of the stripes that were not begun
  BlockIndex end_;
  std::vector<Part> open_;  // what is left of the stripes that were begun
  std::size_t turn_ = 0;
};

}  // namespace wherry::impl
