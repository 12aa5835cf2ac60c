// Tells which code is Wherry's own. Its calls go to the C library unchanged.
#pragma once

#include <link.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace wherry::io {

// The executable segments of some loaded modules, in an array of fixed size, because calls are made
// before the program's malloc works.
class ModuleCode {
 public:
  // Adds a module of dl_iterate_phdr(). Segments beyond the array's size are left out.
  void add(const dl_phdr_info& module);
  bool contains(const void* address) const;

 private:
  struct Segment {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
  };
  std::array<Segment, 8> segments_{};
  std::size_t count_ = 0;
};

// Whether the address is in the code of a library of Wherry's. False until find_own_code().
bool is_own_code(const void* address);
// Finds where the libraries lie. Call it once, before the program has threads.
void find_own_code();

}  // namespace wherry::io
