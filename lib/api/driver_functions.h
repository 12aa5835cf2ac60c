// Every function of the driver API by the name that cuGetProcAddress is asked for: the rows of
// driver_functions.txt. Constant data; any thread.
#pragma once

#include <span>

namespace wherry::impl {

struct DriverFunction {
  const char* name;
  int version;        // of CUDA, from which on the name means this signature
  void (*address)();  // null: neither Wherry has it, nor is there a library that refuses it
  // The form in which the NULL stream is the calling thread's own; null: there is none.
  int own_stream_version;
  void (*own_stream_address)();
};

// By name and version, ascending.
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

// The newest form of the function that a program made for `version` knows.
FoundFunction find_driver_function(const char* name, int version, bool own_stream);

}  // namespace wherry::impl
