// All functions of the driver API, by the names that cuGetProcAddress accepts: the rows of
// driver_functions.txt. Constant data; any thread may use it.
#pragma once

#include <span>

namespace wherry::impl {

struct DriverFunction {
  const char* name;
  int version;  // the first CUDA version in which the name has this signature
  // Null if neither Wherry nor a linked library that refuses the function defines it.
  void (*address)();
  // The variant whose NULL stream is the calling thread's own stream; null if there is none.
  int own_stream_version;
  void (*own_stream_address)();
};

// Sorted by name and version, ascending.
extern const std::span<const DriverFunction> driver_functions;

enum class Lookup {
  found,
  unknown,
  too_old
};

struct FoundFunction {
  Lookup lookup;
  void (*address)();
};

// The newest variant of the function that a program compiled for `version` knows.
FoundFunction find_driver_function(const char* name, int version, bool own_stream);

}  // namespace wherry::impl
