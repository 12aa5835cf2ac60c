// The functions that ours stand in front of: the next of that name after this library, as the
// dynamic linker has it.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>

namespace wherry::io {

// A string as a template argument.
template <std::size_t size>
struct Name {
  constexpr Name(const char (&given)[size]) { std::copy_n(given, size, text); }
  char text[size];
};

template <Name name, typename Function>
class Real {
 public:
  // Never null: who calls it, found it.
  static Function* get() { return at_load_ != nullptr ? at_load_ : find(); }

 private:
  static Function* find() { return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name.text)); }

  // Looked up early: dlsym is nothing for signal handlers.
  static inline Function* at_load_ = find();
};

}  // namespace wherry::io
