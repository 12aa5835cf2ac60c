// The function that an interposer replaces: the definition that follows in the dynamic loader's
// search order.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace wherry::interposers {

template <typename Function>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}

  Function* find() {
    Function* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name_));
      found_.store(found, std::memory_order_relaxed);
    }
    return found;
  }

  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    return find()(arguments...);
  }

 private:
  const char* const name_;
  std::atomic<Function*> found_ = nullptr;
};

}  // namespace wherry::interposers
