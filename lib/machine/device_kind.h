// What runs a device's kernels.
#pragma once

#include <cstdint>
#include <string_view>

namespace wherry::impl {

enum class DeviceKind : std::uint8_t {
  isolated,  // a forked process with a page table of its own
  coherent,  // threads of this program: the device shares the host's page table
};

// The kind's name in WHERRY_DEVICES.
constexpr std::string_view to_string(DeviceKind kind) {
  return kind == DeviceKind::coherent ? "coherent" : "isolated";
}

// Whether kernels of the device can access all memory of the program, not only what the library
// allocated: CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS.
constexpr bool accesses_pageable(DeviceKind kind) {
  return kind == DeviceKind::coherent;
}

}  // namespace wherry::impl
