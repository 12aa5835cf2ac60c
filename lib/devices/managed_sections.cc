#include "devices/managed_sections.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "base/page.h"
#include "os/files/elf_symbols.h"

namespace wherry::impl {
namespace {

constexpr std::string_view section_name = "wherry_managed";

// Holds only copies, because another thread may unload the module.
struct Module {
  std::string name;  // as the loader names it; empty: the program
  std::uintptr_t base = 0;
  std::uintptr_t id = 0;  // address of its program headers
  std::vector<ElfW(Phdr)> segments;
};

std::vector<Module> modules_here() {
  std::vector<Module> modules;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* pointer) {
        static_cast<std::vector<Module>*>(pointer)->push_back(
            {info->dlpi_name,
             info->dlpi_addr,
             reinterpret_cast<std::uintptr_t>(info->dlpi_phdr),
             {info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum}});
        return 0;
      },
      &modules);
  return modules;
}

bool contains(const Module& module, std::uintptr_t address) {
  return std::ranges::any_of(module.segments, [&](const ElfW(Phdr) & segment) {
    const std::uintptr_t start = module.base + segment.p_vaddr;
    return segment.p_type == PT_LOAD && address >= start && address - start < segment.p_memsz;
  });
}

std::vector<AddressRange> writable_pages(const Module& module) {
  std::vector<AddressRange> read_only;
  for (const auto& segment : module.segments)
    if (segment.p_type == PT_GNU_RELRO)
      read_only.push_back({round_down(module.base + segment.p_vaddr, page_size),
                           round_down(module.base + segment.p_vaddr + segment.p_memsz, page_size)});
  std::vector<AddressRange> writable;
  for (const auto& segment : module.segments) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    const std::uintptr_t start = module.base + segment.p_vaddr;
    const AddressRange pages{round_down(start, page_size),
                             round_up(start + segment.p_memsz, page_size)};
    for_each_uncovered(pages, read_only, [&](AddressRange part) {
      writable.push_back(part);
      return 0;
    });
  }
  return writable;
}

// The path of the module's file, also if it was loaded by a relative path.
std::string file_of(const Module& module) {
  if (module.name.empty()) return "/proc/self/exe";
  // A name without a directory is not a file: Linux provides this module (vdso).
  if (module.name.front() == '/' || module.name.find('/') == std::string::npos) return module.name;
  const auto location = locate_module(module.id);
  return location ? location->path : module.name;
}

// Makes the module stay loaded. Returns false if it has been unloaded already.
bool keep_loaded(const Module& module) {
  if (module.name.empty()) return true;
  void* const handle = ::dlopen(module.name.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  link_map* now = nullptr;
  if (handle == nullptr) return false;
  const bool is_the_same =
      ::dlinfo(handle, RTLD_DI_LINKMAP, &now) == 0 && now->l_addr == module.base;
  ::dlclose(handle);
  return is_the_same;
}

// Splits the pages into variables, each of which begins on a page of its own.
std::vector<AddressRange> split(AddressRange pages, const ElfVariables& found,
                                std::uintptr_t base) {
  std::vector<AddressRange> named;
  for (const auto& variable : found.variables) {
    const std::uintptr_t start = base + variable.start;
    const AddressRange range{std::max(round_down(start, page_size), pages.start),
                             std::min(start + variable.bytes, pages.end)};
    if (!range.empty()) named.push_back(range);
  }
  std::ranges::sort(named, {}, &AddressRange::start);
  std::vector<AddressRange> variables;
  std::uintptr_t covered_to = pages.start;
  for (const AddressRange& range : named) {
    if (range.start < covered_to) {
      variables.back().end = std::max(variables.back().end, range.end);
    } else {
      if (range.start > covered_to) variables.push_back({covered_to, range.start});
      variables.push_back(range);
    }
    covered_to = round_up(variables.back().end, page_size);
  }
  if (covered_to < pages.end) variables.push_back({covered_to, pages.end});
  return variables;
}

// The linker may have put a copy of a library's variable into the program (a copy relocation); all
// modules then use the copy.
void report_copies(const Module& library, const ElfVariables& found) {
  for (const auto& variable : found.variables) {
    if (variable.exported_as.empty()) continue;
    void* const used = ::dlsym(RTLD_DEFAULT, variable.exported_as.c_str());
    Dl_info info{};
    link_map* module = nullptr;
    if (used == nullptr ||
        reinterpret_cast<std::uintptr_t>(used) == library.base + variable.start ||
        ::dladdr1(used, &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP) == 0 ||
        *module->l_name != '\0')
      continue;
    log_line(
        "the program uses its own copy of {} instead of the managed variable of {}: declare it "
        "extern __attribute__((weak))",
        variable.exported_as, library.name);
  }
}

std::optional<ManagedSection> section_of(const Module& module) {
  const auto found = find_elf_variables(file_of(module), module.segments, section_name);
  if (!found || !keep_loaded(module)) return {};
  if (!module.name.empty()) report_copies(module, *found);
  ManagedSection section;
  section.module = module.name.empty() ? "the program" : module.name;
  const std::uintptr_t start = module.base + found->start;
  const std::uintptr_t end = start + found->bytes;
  if (found->shares_pages) {
    section.pages = {round_up(start, page_size), round_down(end, page_size)};
    log_line(
        "{}: a page of its managed variables also holds other variables and stays ordinary memory; "
        "include wherry.h wherever WHERRY_MANAGED is used, and link without your own linker script",
        section.module);
  } else {
    section.pages = {round_down(start, page_size), round_up(end, page_size)};
  }
  if (section.pages.empty()) return {};
  section.variables = split(section.pages, *found, module.base);
  return section;
}

}  // namespace

std::vector<ManagedSection> ManagedSections::take_module(std::uintptr_t address) {
  std::vector<ManagedSection> sections;
  for (const Module& module : modules_here()) {
    if (!contains(module, address)) continue;
    const auto found = find_elf_variables(file_of(module), module.segments, section_name);
    for (const AddressRange& pages : writable_pages(module))
      sections.push_back(
          {module.name, pages, split(pages, found.value_or(ElfVariables{}), module.base)});
    kept_.push_back(module.id);
  }
  return sections;
}

std::vector<ManagedSection> ManagedSections::take_new() {
  std::vector<ManagedSection> sections;
  const ModuleCounts now = ModuleCounts::now();
  std::vector<std::uintptr_t> known;
  for (const Module& module : modules_here()) {
    known.push_back(module.id);
    if (std::ranges::count(kept_, module.id) != 0) continue;
    // After an unload, another module may have its program headers at the same address.
    if (now.unloads == seen_.unloads && std::ranges::count(known_, module.id) != 0) continue;
    if (auto section = section_of(module)) {
      sections.push_back(std::move(*section));
      kept_.push_back(module.id);
    }
  }
  known_ = std::move(known);
  seen_ = now;
  return sections;
}

}  // namespace wherry::impl
