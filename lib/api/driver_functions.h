// All functions of the driver API, by the names that cuGetProcAddress accepts: the rows of
// driver_functions.txt. Constant data; any thread may use it.
#pragma once

#include <span>

namespace wherry::impl {

struct DriverFunction {
  const char* name;
  int version;  // the CUDA version from which on the name has this signature
  // null: Wherry does not have it, and no library that refuses it is linked
  void (*address)();
  // The variant in which the NULL stream is the calling thread's own stream; null: there is none.
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
