// The functions that this library's wrappers replace: the next definition of the name after this
// library in the dynamic linker's order.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>

namespace wherry::io {

// A string literal as a template argument.
template <std::size_t size>
struct Name {
  constexpr Name(const char (&given)[size]) { std::copy_n(given, size, text); }
  char text[size];
};
template <std::size_t size>
Name(const char (&)[size]) -> Name<size>;

template <Name name, typename Function>
class Real {
 public:
  // Never null, because the caller was linked against this name.
  static Function* get() { return at_load_ != nullptr ? at_load_ : find(); }
  // Whether get() needs no dlsym().
  static bool is_found() { return at_load_ != nullptr; }

 private:
  static Function* find() { return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name.text)); }

  // Looked up when the library is loaded, because dlsym() is not async-signal-safe.
  static inline Function* at_load_ = find();
};

}  // namespace wherry::io
