// A shared object that the test loads itself, as a program loads a plug-in.
#pragma once

#include <string>

namespace wherry::test {

class LoadedObject {
 public:
  // Binds all symbols now: a device process takes over the state of the dynamic loader. Throws
  // std::runtime_error.
  explicit LoadedObject(const std::string& file);
  ~LoadedObject() { close(); }
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  // The symbol's address as that type. Throws std::runtime_error if there is no such symbol.
  template <typename Pointer>
  Pointer symbol(const char* name) const {
    return reinterpret_cast<Pointer>(find(name));
  }
  // Calls dlclose(), which unmaps the object unless something else keeps it loaded.
  void close();

 private:
  void* find(const char* name) const;

  void* handle_;
};

}  // namespace wherry::test
