// For <wherry/wherry.hpp>: containers of managed memory, and managed memory for other containers.
#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory_resource>
#include <span>
#include <type_traits>
#include <utility>

#include "../wherry.h"
#include "calls.hpp"

namespace wherry {

// A fixed number of elements in managed memory, initially zero, valid at one address on every
// processor. Move-only. Elements must be plain data: they exist in several processes and are copied
// as bytes.
template <typename T>
class managed_array {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "managed_array: the elements move between processes as bytes, so they must be "
                "trivially copyable");

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  managed_array() = default;
  explicit managed_array(std::size_t count) : size_(count) {
    if (count > SIZE_MAX / sizeof(T)) throw error(CUDA_ERROR_OUT_OF_MEMORY, "managed_array");
    if (count > 0) data_ = static_cast<T*>(detail::allocate_managed(count * sizeof(T)));
  }
  explicit managed_array(std::span<const T> values) : managed_array(values.size()) {
    if (!values.empty()) std::memcpy(static_cast<void*>(data_), values.data(), values.size_bytes());
  }
  managed_array(std::initializer_list<T> values)
      : managed_array(std::span<const T>(values.begin(), values.size())) {}

  managed_array(managed_array&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  managed_array& operator=(managed_array&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~managed_array() {
    if (data_ != nullptr) detail::free_managed(data_);
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  bool empty() const noexcept { return size_ == 0; }

  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  iterator begin() noexcept { return data_; }
  iterator end() noexcept { return data_ + size_; }
  const_iterator begin() const noexcept { return data_; }
  const_iterator end() const noexcept { return data_ + size_; }

  // Kernel lambdas should capture these spans.
  std::span<T> span() noexcept { return {data_, size_}; }
  std::span<const T> span() const noexcept { return {data_, size_}; }
  CUdeviceptr address() const noexcept { return detail::device_pointer(data_); }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Managed memory for std::pmr containers; any thread. Each request is a separate allocation, which
// suits large ones; for small ones put a std::pmr pool resource in front of it.
class managed_resource final : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return detail::allocate_managed_aligned(bytes, alignment);
  }
  void do_deallocate(void* pointer, std::size_t, std::size_t) override {
    detail::free_managed(pointer);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return dynamic_cast<const managed_resource*>(&other) != nullptr;
  }
};

// An allocator of managed memory, for std::vector<T, managed_allocator<T>>.
template <typename T>
class managed_allocator {
 public:
  using value_type = T;
  using is_always_equal = std::true_type;

  managed_allocator() = default;
  template <typename Other>
  managed_allocator(const managed_allocator<Other>&) noexcept {}

  [[nodiscard]] T* allocate(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(detail::allocate_managed_aligned(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* pointer, std::size_t) noexcept { detail::free_managed(pointer); }

  template <typename Other>
  bool operator==(const managed_allocator<Other>&) const noexcept {
    return true;
  }
};

}  // namespace wherry
