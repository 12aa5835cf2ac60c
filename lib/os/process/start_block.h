// The block that the kernel leaves at the top of the main stack: the command line, the environment,
// the auxiliary vector, their strings. A forked process that gives up the main stack still needs
// it: dlopen() and getauxval() read it through pointers that the C library keeps.
//
// The block's first page is shared with the frames of main(), so what is there moves to the heap,
// and the tables with it; strings on later pages stay where they are (os/memory/loader_memory.h).
#pragma once

#include <cstddef>
#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

class StartBlock {
 public:
  // Copies it, and notes where the C library and the dynamic loader keep pointers to it.
  StartBlock();

  // In the forked process: makes those pointers lead to the copy. Allocates nothing. Returns 0 or
  // an errno.
  [[nodiscard]] int use_copy() const;

  struct Library {
    AddressRange writable;   // a segment
    AddressRange read_only;  // its part that is protected after relocation; may be empty
  };

 private:
  void redirect(AddressRange storage) const;

  AddressRange original_;
  std::vector<std::byte> copy_;
  std::vector<Library> libraries_;
};

}  // namespace wherry::impl
