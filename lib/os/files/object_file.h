// Files that modules are loaded from: what they are, and the dynamic loader's part. Modules stay
// loaded.
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
  shared_object,  // of this machine
  device_code,    // PTX, a cubin or a fat binary
  unknown,
};
inline constexpr std::size_t object_beginning = 4096;
// What begins like this; the first object_beginning bytes, or all of them where there are fewer.
ObjectKind kind_of_object(std::span<const std::byte> beginning);

// For reading; empty and errno where it cannot be opened.
Fd open_object(const char* path);
std::vector<std::byte> read_beginning(const Fd& file);

// Of what lies in memory. Up to its first zero byte, or as much as kind_of_object() wants to see of
// what is not text.
std::span<const std::byte> beginning_of_image(const void* image);
// An in-memory file with a copy of a shared object. Throws std::system_error.
Fd copy_image(const void* image);

struct LoadedObject {
  void* handle = nullptr;    // null: it could not be loaded
  std::uintptr_t base = 0;   // what the loader added to the file's addresses
  std::uintptr_t place = 0;  // an address in it
  bool was_there = false;    // loaded before, by whomever
  std::string why;           // not
};
// Loads the shared object in the file, all of its calls bound. `path`: where that is, for those who
// look at names; empty: nowhere.
LoadedObject load_object(const Fd& file, const std::string& path);

// A function or a variable that the object itself exports.
struct ExportedSymbol {
  std::uintptr_t address = 0;  // 0: there is none
  std::size_t bytes = 0;
};
struct CloseObject {
  void operator()(void* handle) const;
};
// What has the code at an address.
struct CodePlace {
  LoadedObject object;                           // no handle: there is no code
  std::string file;                              // for log lines
  std::string exported_as;                       // empty: no exported function begins there
  std::unique_ptr<void, CloseObject> reference;  // until it is gone the object stays loaded
};
// A program that is not position-independent has a stub of its own where it takes the address of a
// library's function. Then the library is what is found: the one with the variable that is called
// as the function is, after `beside`.
CodePlace find_code(std::uintptr_t address, const char* beside);

ExportedSymbol find_function(const LoadedObject& object, const char* name);
ExportedSymbol find_variable(const LoadedObject& object, const char* name);

}  // namespace wherry::impl
