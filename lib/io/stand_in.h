// Objects of a wrapper in the place of small objects in managed memory. They are for results that
// Linux gives only once, for calls that have changed something before Linux finds that it cannot
// store a result, and for objects that the C library accesses while it blocks all signals.
#pragma once

#include <type_traits>

#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {

// An argument that is no address is passed on.
template <typename T>
class StandIn {
 public:
  explicit StandIn(T given) : given_(given) {}
  T get() const { return given_; }

 private:
  const T given_;
};

// For the address of an object in managed memory, the call gets an object of the wrapper, whose
// value is copied to the program's object at the end.
template <typename T>
class StandIn<T*> {
 public:
  explicit StandIn(T* given) : given_(given), is_managed_(is_managed(given, sizeof *given)) {
    if (is_managed_) own_ = *given_;
  }
  ~StandIn() {
    if constexpr (!std::is_const_v<T>)
      if (is_managed_) *given_ = own_;
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  T* get() { return is_managed_ ? &own_ : given_; }

 private:
  T* const given_;
  const bool is_managed_;
  std::remove_const_t<T> own_{};
};

// Calls the real function with stand-ins for the objects in managed memory.
template <Name name, typename Result, typename... Arguments>
Result call_with_stand_ins(Arguments... arguments) {
  const auto real = Real<name, Result(Arguments...)>::get();
  if (!prepares()) return real(arguments...);
  const auto call = [real](auto&&... own) { return real(own.get()...); };
  return call(StandIn<Arguments>(arguments)...);
}

}  // namespace wherry::io

// Defines a wrapper that uses stand-ins. `parameters` and `arguments` are in parentheses.
#define WHERRY_IO_STAND_INS_PASSED(...) __VA_ARGS__
#define WHERRY_IO_WITH_STAND_INS(Result, name, parameters, arguments)                              \
  Result io_##name parameters WHERRY_IO_STANDS_FOR(#name);                                         \
  Result io_##name parameters {                                                                    \
    return ::wherry::io::call_with_stand_ins<#name, Result>(WHERRY_IO_STAND_INS_PASSED arguments); \
  }
