// describe_code_address(): used for log lines only, so it may be slow.
#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <string>

#include "base/demangle.h"
#include "devices/device_process.h"
#include "os/files/elf_symbols.h"

namespace wherry::impl {
namespace {

std::string with_offset(const std::string& name, std::uint64_t offset) {
  return offset == 0 ? demangle(name) : fmt::format("{}+{:#x}", demangle(name), offset);
}

}  // namespace

std::string describe_code_address(std::uintptr_t address) {
  Dl_info info{};
  link_map* module = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&module),
                RTLD_DL_LINKMAP) == 0 ||
      module == nullptr)
    return fmt::format("{:#x}", address);
  const bool is_program = *module->l_name == '\0';
  const std::string path = is_program ? "/proc/self/exe" : module->l_name;
  const std::string file = info.dli_fname == nullptr ? path : info.dli_fname;
  // The address in the form that addr2line takes.
  const std::uintptr_t in_file = address - module->l_addr;
  const std::string place = fmt::format("({}+{:#x})", file, in_file);
  // The dynamic symbol of an exported function is exact. Other functions are found only in the
  // file's symbol table.
  if (info.dli_sname != nullptr) {
    const auto start = reinterpret_cast<std::uintptr_t>(info.dli_saddr);
    return fmt::format("{} {}", with_offset(info.dli_sname, address - start), place);
  }
  if (const auto symbol = find_elf_symbol(path, in_file))
    return fmt::format("{} {}", with_offset(symbol->name, symbol->offset), place);
  return place;
}

}  // namespace wherry::impl
