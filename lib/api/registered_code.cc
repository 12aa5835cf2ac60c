#include "api/registered_code.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace wherry::impl {

RegisteredCode& RegisteredCode::of_process() {
  // Never destroyed, because programs and libraries end their modules in their own exit handlers.
  static RegisteredCode& code = *new RegisteredCode;
  return code;
}

void** RegisteredCode::begin_module() {
  const LockGuard guard(lock_);
  return reinterpret_cast<void**>(static_cast<std::uintptr_t>(++last_module_));
}

void RegisteredCode::end_module(void** module) {
  const LockGuard guard(lock_);
  const auto is_of_it = [module](const auto& entry) { return entry.second.module == module; };
  std::erase_if(kernels_, is_of_it);
  std::erase_if(variables_, is_of_it);
  std::erase_if(managed_, [module](const auto& managed) { return managed.module == module; });
}

void RegisteredCode::add_kernel(void** module, const void* stub, std::string name) {
  const LockGuard guard(lock_);
  kernels_.insert_or_assign(stub, Kernel{module, std::move(name)});
}

void RegisteredCode::add_variable(void** module, const void* shadow, std::string name,
                                  std::size_t bytes) {
  const LockGuard guard(lock_);
  variables_.insert_or_assign(shadow, DeviceVariable{module, {std::move(name), bytes, nullptr}});
}

void RegisteredCode::add_managed(void** module, void** pointer, std::string name,
                                 std::size_t bytes) {
  const LockGuard guard(lock_);
  managed_.push_back({module, pointer, {std::move(name), bytes, nullptr}});
}

std::optional<std::string> RegisteredCode::find_kernel(const void* stub) const {
  const LockGuard guard(lock_);
  const auto found = kernels_.find(stub);
  if (found == kernels_.end()) return std::nullopt;
  return found->second.name;
}

std::optional<RegisteredCode::Variable> RegisteredCode::find_variable(const void* symbol) const {
  const LockGuard guard(lock_);
  if (const auto found = variables_.find(symbol); found != variables_.end())
    return found->second.variable;
  const auto managed = std::ranges::find_if(managed_, [&](const ManagedVariable& each) {
    return each.variable.memory != nullptr && each.variable.memory == symbol;
  });
  if (managed == managed_.end()) return std::nullopt;
  return managed->variable;
}

std::vector<std::string> RegisteredCode::give_memory(
    const std::function<void*(std::size_t)>& allocate) {
  const LockGuard giving(giving_lock_);
  std::vector<std::pair<void**, std::size_t>> without;
  {
    const LockGuard guard(lock_);
    for (const auto& managed : managed_)
      if (managed.variable.memory == nullptr)
        without.emplace_back(managed.pointer, managed.variable.bytes);
  }
  std::vector<std::string> names;
  for (const auto& [pointer, bytes] : without) {
    void* const memory = allocate(bytes);
    if (memory == nullptr) continue;
    const LockGuard guard(lock_);
    const auto found = std::ranges::find(managed_, pointer, &ManagedVariable::pointer);
    if (found == managed_.end()) continue;  // its module has ended
    found->variable.memory = memory;
    *pointer = memory;
    names.push_back(found->variable.name);
  }
  return names;
}

}  // namespace wherry::impl
