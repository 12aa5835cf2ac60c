// temporary
#pragma once
#include <cstdint>
namespace wherry::impl {
struct AccessFault { std::uintptr_t address; bool write; };
using AccessFaultHook = bool (*)(const AccessFault&);
void claim_access_faults(std::uintptr_t start, std::uintptr_t end, AccessFaultHook hook);
}
