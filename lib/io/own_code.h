// Which code is Wherry's own. Its calls go to the C library unchanged.
#pragma once

#include <link.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace wherry::io {

// The executable segments of some loaded modules. Fixed memory, because calls are made before the
// program's malloc works.
class ModuleCode {
 public:
  // What dl_iterate_phdr() passes. Segments for which there is no room are left out.
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

// Whether the code at this address belongs to a library of Wherry's. False until they have been
// found.
bool is_own_code(const void* address);
// Finds where the libraries lie. Call it once, before the program has threads.
void find_own_code();

}  // namespace wherry::io
