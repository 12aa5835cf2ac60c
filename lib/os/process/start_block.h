// The block that Linux places at the top of the main stack: the command line, the environment,
// the auxiliary vector and their strings. A forked process that gives up the main stack still needs
// it: dlopen() and getauxval() read it through pointers that the C library keeps.
//
// The block's first page also contains the frames of main(), so the content of that page is copied
// to the heap, together with the tables. Strings on later pages stay where they are
// (os/memory/loader_memory.h).
#pragma once

#include <cstddef>
#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

class StartBlock {
 public:
  // Copies the block, and finds where the C library and the dynamic loader may keep pointers to it.
  StartBlock();

  // Call in the forked process: redirects the libraries' pointers to the copy. Allocates nothing.
  // Returns 0 or an errno.
  [[nodiscard]] int use_copy() const;

  struct Library {
    AddressRange writable;   // a writable segment
    AddressRange read_only;  // the part that becomes read-only after relocation; may be empty
  };

 private:
  void redirect(AddressRange storage) const;

  AddressRange original_;
  std::vector<std::byte> copy_;
  std::vector<Library> libraries_;
};

}  // namespace wherry::impl
