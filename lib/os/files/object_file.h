// Files from which modules are loaded: recognizing them, and loading them with the dynamic loader.
// Modules stay loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "os/files/fd.h"

namespace wherry::impl {

enum class ObjectKind {
  shared_object,  // for this machine
  device_code,    // PTX, a cubin or a fat binary
  unknown,
};
inline constexpr std::size_t object_beginning = 4096;
// Returns the kind of object that begins with `beginning`: the first object_beginning bytes, or all
// if there are fewer.
ObjectKind kind_of_object(std::span<const std::byte> beginning);

// Opens a file for reading. Returns an empty Fd, with errno set, if it cannot be opened.
Fd open_object(const char* path);
std::vector<std::byte> read_beginning(const Fd& file);

// The beginning of an image in memory: up to its first zero byte, or, for binary formats, as much
// as kind_of_object() needs.
std::span<const std::byte> beginning_of_image(const void* image);
// Copies a shared object to an in-memory file. Throws std::system_error.
Fd copy_image(const void* image);

struct LoadedObject {
  void* handle = nullptr;    // null if it could not be loaded
  std::uintptr_t base = 0;   // what the loader added to the file's addresses
  std::uintptr_t place = 0;  // an address inside the object
  bool was_there = false;    // the object was loaded before
  std::string why;           // why it could not be loaded
};
// Loads the shared object in the file with immediate binding. `path` is the name under which
// debuggers and similar tools find it, or empty.
LoadedObject load_object(const Fd& file, const std::string& path);

// A function or variable that the object itself exports.
struct ExportedSymbol {
  std::uintptr_t address = 0;  // 0: not found
  std::size_t bytes = 0;
};
struct CloseObject {
  void operator()(void* handle) const;
};
// The object that contains the code at an address.
struct CodePlace {
  LoadedObject object;      // without a handle if there is no code at the address
  std::string file;         // its name, for log lines
  std::string exported_as;  // empty if no exported function begins at the address
  std::unique_ptr<void, CloseObject> reference;  // keeps the object loaded
};
// Finds the code at `address`. A program that is not position-independent uses the address of a
// stub of its own where it takes the address of a library's function. For such an address, the
// result is the library that defines the variable whose name is `beside` followed by the function's
// name.
CodePlace find_code(std::uintptr_t address, const char* beside);

ExportedSymbol find_function(const LoadedObject& object, const char* name);
ExportedSymbol find_variable(const LoadedObject& object, const char* name);

}  // namespace wherry::impl
