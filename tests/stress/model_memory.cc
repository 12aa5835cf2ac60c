#include "stress/model_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace wherry::test {
namespace {

constexpr unsigned offset_bits = 24;
constexpr std::uint64_t first_hash = 0xcbf29ce484222325;

std::uint64_t hashed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

// A value that names the operation that wrote it, and its offset.
std::uint64_t written_word(std::size_t operation, std::size_t offset) {
  return (operation + 1) << offset_bits | offset / word_bytes;
}

// Calls function(the row's offset in the slot) for each row.
template <typename Function>
void each_row(const View& view, const Function& function) {
  for (std::size_t row = 0; row < view.height; ++row) function(view.offset + row * view.pitch);
}

void note_wrong_words(Board& board, const Touch& touch, std::uint64_t hash) {
  char text[sizeof board.what];
  int length = std::snprintf(
      text, sizeof text, "read hash %016llx instead of %016llx at %p + %u x %u:",
      static_cast<unsigned long long>(hash), static_cast<unsigned long long>(touch.value),
      static_cast<void*>(touch.address), touch.width, touch.height);
  const auto* const words = reinterpret_cast<volatile std::uint64_t*>(touch.address);
  for (std::size_t i = 0; i < std::min<std::size_t>(touch.width / word_bytes, 16); ++i) {
    const auto value = static_cast<unsigned long long>(words[i]);
    length += std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), " %llx",
                            value);
  }
  note_failure(board, touch.operation, text);
}

}  // namespace

void note_failure(Board& board, std::size_t operation, const char* what) {
  std::uint32_t expected = Board::good;
  if (!board.state.compare_exchange_strong(expected, Board::failing)) return;
  board.operation = static_cast<std::uint32_t>(operation);
  std::snprintf(board.what, sizeof board.what, "%s", what);
  board.state.store(Board::failed);
}

void fail(Board& board, std::size_t operation, const std::string& what) {
  note_failure(board, operation, what.c_str());
  ::_exit(Board::exit_code);
}

void perform(Board& board, const Touch& touch) {
  std::uint64_t hash = first_hash;
  for (std::uint64_t row = 0; row < touch.height; ++row) {
    auto* const words = reinterpret_cast<std::uint64_t*>(touch.address + row * touch.pitch);
    for (std::size_t i = 0; i < touch.width / word_bytes; ++i) {
      volatile std::uint64_t& value = words[i];
      switch (touch.kind) {
        case Touch::Kind::write:
          value = written_word(touch.operation, touch.offset + row * touch.pitch + i * word_bytes);
          break;
        case Touch::Kind::read:
          hash = hashed(hash, value);
          break;
        case Touch::Kind::increment:
          value = value + touch.value;
          break;
        case Touch::Kind::count_up:
          std::atomic_ref{words[i]}.fetch_add(touch.value);
          break;
      }
    }
  }
  if (touch.kind == Touch::Kind::read && hash != touch.value) note_wrong_words(board, touch, hash);
}

Slot::Slot(Memory memory, int device, std::size_t bytes, void* for_host, void* for_kernels,
           unsigned devices)
    : memory_(memory),
      device_(device),
      for_host_(static_cast<std::byte*>(for_host)),
      for_kernels_(static_cast<std::byte*>(for_kernels)),
      devices_(devices),
      stripe_(bytes),
      model_(bytes),
      pages_(bytes / model_page) {}

void Slot::share(unsigned lanes, unsigned stripe) {
  lanes_ = lanes;
  if (lanes > 1) stripe_ = stripe;
}

void Slot::make_counters() {
  counters_ = std::make_unique<std::atomic<std::uint64_t>[]>(bytes() / word_bytes);
}

CUdeviceptr Slot::known(std::size_t offset) const {
  return reinterpret_cast<CUdeviceptr>(for_kernels_ != nullptr ? for_kernels_ : for_host_) + offset;
}

std::optional<View> Slot::view(unsigned lane, std::size_t first, std::size_t count,
                               std::size_t unit) const {
  if (!exists()) return {};
  const std::size_t stripes = bytes() / (stripe_ * lanes_);
  if (stripes == 0) return {};
  first %= stripes * stripe_;
  std::size_t inside = first % stripe_ / unit * unit;
  const std::size_t stripe = first / stripe_;
  View view{0, 0, 1, stripe_ * lanes_};
  if (count >= 2 * stripe_) {
    inside = 0;
    view.height = std::min(count / stripe_, stripes - stripe);
  }
  view.width = std::min(count, stripe_ - inside) / unit * unit;
  view.offset = (stripe * lanes_ + (lanes_ > 1 ? lane : 0)) * stripe_ + inside;
  if (view.width == 0) return {};
  return view;
}

Touch Slot::touch(Touch::Kind kind, const View& view, std::byte* base, std::size_t operation) {
  Touch touch{base + view.offset,
              view.pitch,
              static_cast<std::uint32_t>(view.width),
              static_cast<std::uint32_t>(view.height),
              kind,
              static_cast<std::uint32_t>(operation),
              kind == Touch::Kind::read ? first_hash : (operation + 1) << offset_bits,
              view.offset};
  each_row(view, [&](std::size_t row) {
    for (std::size_t i = row; i < row + view.width; i += word_bytes) {
      std::uint64_t value = 0;
      std::memcpy(&value, model_.data() + i, word_bytes);
      if (kind == Touch::Kind::read) {
        touch.value = hashed(touch.value, value);
        continue;
      }
      value = kind == Touch::Kind::write ? written_word(operation, i) : value + touch.value;
      std::memcpy(model_.data() + i, &value, word_bytes);
    }
  });
  return touch;
}

Touch Slot::count_up(std::size_t first, std::size_t words, std::byte* base, std::size_t operation) {
  const std::size_t counters = bytes() / word_bytes;
  first %= counters;
  words = std::min({words, counters - first, std::size_t{8}});
  for (std::size_t i = first; i < first + words; ++i)
    counters_[i].fetch_add(operation + 1, std::memory_order_relaxed);
  return {base + first * word_bytes,
          0,
          static_cast<std::uint32_t>(words * word_bytes),
          1,
          Touch::Kind::count_up,
          static_cast<std::uint32_t>(operation),
          operation + 1,
          first * word_bytes};
}

void Slot::fill(const View& view, const void* pattern, std::size_t pattern_bytes) {
  each_row(view, [&](std::size_t row) {
    for (std::size_t i = 0; i < view.width; i += pattern_bytes)
      std::memcpy(model_.data() + row + i, pattern, pattern_bytes);
  });
}

void Slot::copy_from(const Slot& source, const View& from, const View& to) {
  for (std::size_t row = 0; row < from.height; ++row) {
    std::memcpy(model_.data() + to.offset + row * to.pitch,
                source.model_.data() + from.offset + row * from.pitch, from.width);
  }
}

void Slot::settle_counters() {
  if (counters_ == nullptr) return;
  for (std::size_t i = 0; i < bytes() / word_bytes; ++i) {
    const std::uint64_t sum = counters_[i].load(std::memory_order_relaxed);
    std::memcpy(model_.data() + i * word_bytes, &sum, word_bytes);
  }
}

std::uint64_t Slot::hash() const {
  std::uint64_t hash = first_hash;
  for (std::size_t i = 0; i < bytes(); i += word_bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, model_.data() + i, word_bytes);
    hash = hashed(hash, value);
  }
  return hash;
}

}  // namespace wherry::test
