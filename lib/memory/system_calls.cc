#include "memory/system_calls.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>

#include "memory/touch.h"

using namespace wherry::impl;

namespace {

// How many bytes are prepared for a call. A longer call returns a short count and is repeated for
// the rest. A read that asks for gigabytes and gets ten bytes must not create gigabytes.
constexpr std::size_t prepared_max = std::size_t{16} << 20;

std::size_t prepare(const void* pointer, std::size_t bytes, SystemCallAccess access) {
  const TouchableMemory* const memory = TouchableMemory::current();
  if (memory == nullptr) return 0;
  const auto start = reinterpret_cast<std::uintptr_t>(pointer);
  if (access == SystemCallAccess::look) return memory->count_accessible(start, bytes);
  const std::size_t accessible = memory->count_accessible(start, std::min(bytes, prepared_max));
  if (accessible == 0) return 0;
  const Access as = access == SystemCallAccess::write ? Access::write : Access::read;
  touch(start, accessible, as);
  // A device may have taken pages away meanwhile. Without the first page the call would fail, so it
  // is touched once more. Without a later page the call only returns a short count.
  touch(start, 1, as);
  return accessible;
}

constinit SystemCallHooks hooks{.prepare = prepare, .layout = nullptr};

}  // namespace

void wherry::impl::attach_to_system_calls(bool faults_are_served) {
  pass_to_interposers(hooks);
  using Attach = void (*)(const SystemCallHooks*, bool);
  // dlsym finds libwherry_io in the program, in its libraries, and in preloaded ones.
  if (auto* const attach = reinterpret_cast<Attach>(::dlsym(RTLD_DEFAULT, attach_name)))
    attach(&hooks, !faults_are_served);
}

void wherry::impl::announce_to_system_calls(const ArenaLayout& layout) {
  hooks.layout.store(&layout, std::memory_order_release);
}
