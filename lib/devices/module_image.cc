#include "devices/module_image.h"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/page.h"
#include "os/memory/private_copy.h"

// Part of the compiler's runtime: registers unwind records of code that the loader does not know.
extern "C" void __register_frame(void* first_record);

namespace wherry::impl {
namespace {

struct Loaded {
  ModuleIdentity identity;
  std::uintptr_t base = 0;
  std::string known_as;             // the name by which other modules need it
  std::vector<std::string> needed;  // names of the modules that it needs
  bool has_thread_variables = false;
  bool is_bound = true;  // all its calls to other modules are bound
  AddressRange unwind_header;
};

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

AddressRange extent_of(std::uintptr_t base, std::span<const ElfW(Phdr)> segments) {
  AddressRange extent{~std::uintptr_t{0}, 0};
  for (const auto& segment : segments) {
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t start = base + segment.p_vaddr;
    extent.start = std::min(extent.start, round_down(start, page_size));
    extent.end = std::max(extent.end, round_up(start + segment.p_memsz, page_size));
  }
  return extent;
}

struct DynamicSection {
  const char* strings = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const ElfW(Rela) * calls = nullptr;  // relocations that may be bound lazily
  std::size_t calls_bytes = 0;
  const char* name = nullptr;
};

DynamicSection read_dynamic(const ElfW(Dyn) * entry) {
  DynamicSection section;
  std::size_t name = 0;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_STRTAB:
        section.strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
        break;
      case DT_SYMTAB:
        section.symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
        break;
      case DT_JMPREL:
        section.calls = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        section.calls_bytes = entry->d_un.d_val;
        break;
      case DT_SONAME:
        name = entry->d_un.d_val;
        break;
    }
  }
  if (section.strings != nullptr && name != 0) section.name = section.strings + name;
  return section;
}

// Whether all calls into other modules are bound, so that none goes through the loader any more.
bool is_bound(const DynamicSection& dynamic, std::uintptr_t base, AddressRange extent) {
  const std::span calls(dynamic.calls, dynamic.calls_bytes / sizeof(ElfW(Rela)));
  return std::ranges::none_of(calls, [&](const ElfW(Rela) & call) {
    // An indirect function (IFUNC) of the module itself is bound when it is loaded.
    if (ELF64_R_SYM(call.r_info) == 0) return false;
    const ElfW(Sym)& symbol = dynamic.symbols[ELF64_R_SYM(call.r_info)];
    const auto target = *reinterpret_cast<const std::uintptr_t*>(base + call.r_offset);
    // The target of an undefined weak function is 0, which is not in the extent.
    return symbol.st_shndx == SHN_UNDEF && extent.contains(target);
  });
}

Loaded describe(const dl_phdr_info& info, const link_map* module) {
  Loaded loaded;
  const std::span segments(info.dlpi_phdr, info.dlpi_phnum);
  loaded.base = info.dlpi_addr;
  loaded.identity = {info.dlpi_name, extent_of(info.dlpi_addr, segments)};
  for (const auto& segment : segments) {
    if (segment.p_type == PT_TLS) loaded.has_thread_variables = true;
    if (segment.p_type == PT_GNU_EH_FRAME)
      loaded.unwind_header = {info.dlpi_addr + segment.p_vaddr,
                              info.dlpi_addr + segment.p_vaddr + segment.p_memsz};
  }
  // The addresses in a module that Linux provides (vdso) are not relocated.
  const bool is_file =
      loaded.identity.name.empty() || loaded.identity.name.find('/') != std::string::npos;
  if (module == nullptr || !is_file) return loaded;
  const DynamicSection dynamic = read_dynamic(module->l_ld);
  loaded.known_as = dynamic.name != nullptr ? dynamic.name : file_name(loaded.identity.name);
  for (const ElfW(Dyn)* entry = module->l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_NEEDED) loaded.needed.emplace_back(dynamic.strings + entry->d_un.d_val);
  loaded.is_bound = is_bound(dynamic, loaded.base, loaded.identity.extent);
  return loaded;
}

// Describes all modules under the loader's lock, so that its list does not change.
std::vector<Loaded> describe_modules() {
  std::vector<Loaded> modules;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* pointer) {
        const link_map* module = _r_debug.r_map;
        while (module != nullptr && (module->l_addr != info->dlpi_addr ||
                                     std::strcmp(module->l_name, info->dlpi_name) != 0))
          module = module->l_next;
        static_cast<std::vector<Loaded>*>(pointer)->push_back(describe(*info, module));
        return 0;
      },
      &modules);
  return modules;
}

const Loaded* find_known_as(const std::vector<Loaded>& modules, std::string_view name) {
  const auto found = std::ranges::find_if(modules, [&](const Loaded& module) {
    return module.known_as == name || file_name(module.identity.name) == name;
  });
  return found == modules.end() ? nullptr : &*found;
}

// The address of the first unwind record, if the header names one and the records end with a zero;
// otherwise 0.
std::uintptr_t unwind_info_of(const Loaded& module) {
  constexpr std::uint8_t version = 1;
  constexpr std::uint8_t relative_4_bytes = 0x1b;
  const auto* header = reinterpret_cast<const std::uint8_t*>(module.unwind_header.start);
  if (module.unwind_header.size() < 8 || header[0] != version || header[1] != relative_4_bytes)
    return 0;
  std::int32_t distance = 0;
  std::memcpy(&distance, header + 4, sizeof distance);
  const std::uintptr_t first =
      module.unwind_header.start + 4 + static_cast<std::uintptr_t>(distance);
  constexpr std::uint32_t long_record = 0xffff'ffff;
  for (std::uintptr_t record = first; module.identity.extent.contains(record + 3);) {
    std::uint32_t length = 0;
    std::memcpy(&length, reinterpret_cast<const void*>(record), sizeof length);
    if (length == 0) return first;
    if (length == long_record) return 0;
    record += sizeof length + length;
  }
  return 0;
}

ModuleImage copy_module(const Loaded& module, std::string_view map) {
  ModuleImage image;
  image.extent = module.identity.extent;
  std::vector<AddressRange> contents;
  while (const auto mapping = next_mapping(map)) {
    // Shared mappings are managed memory, which the device gets in another way.
    if (mapping->shared || !mapping->readable) continue;
    const AddressRange range{std::max(mapping->range.start, image.extent.start),
                             std::min(mapping->range.end, image.extent.end)};
    if (range.empty()) continue;
    image.segments.push_back({range, mapping->writable, mapping->executable});
    contents.push_back(range);
  }
  image.contents = copy_to_file("wherry-module", image.extent, contents);
  image.unwind_info = unwind_info_of(module);
  return image;
}

}  // namespace

std::vector<ModuleIdentity> loaded_modules() {
  std::vector<ModuleIdentity> modules;
  for (Loaded& module : describe_modules()) modules.push_back(std::move(module.identity));
  return modules;
}

ModuleImages copy_modules(std::uintptr_t address,
                          const std::function<bool(const ModuleIdentity&)>& is_there) {
  const auto modules = describe_modules();
  const auto first = std::ranges::find_if(
      modules, [&](const Loaded& module) { return module.identity.extent.contains(address); });
  if (first == modules.end()) return "it is not loaded";
  std::vector<const Loaded*> wanted{&*first};
  std::vector<ModuleImage> images;
  const std::string map = read_address_map();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Loaded& module = *wanted[i];
    const std::string& name = module.identity.name;
    if (module.has_thread_variables) return fmt::format("{} has thread-local variables", name);
    if (!module.is_bound)
      return fmt::format("{} was not loaded with RTLD_NOW, nor linked with -z now", name);
    images.push_back(copy_module(module, map));
    if (images.back().segments.size() > ModuleImage::segments_max)
      return fmt::format("{} has {} mappings", name, images.back().segments.size());
    for (const std::string& needed : module.needed) {
      const Loaded* other = find_known_as(modules, needed);
      if (other == nullptr) return fmt::format("{} needs {}, which is not loaded", name, needed);
      if (!is_there(other->identity) && std::ranges::count(wanted, other) == 0)
        wanted.push_back(other);
    }
  }
  return images;
}

int adopt_image(const ModuleImage& image) {
  const std::string map = read_address_map();
  std::string_view rest = map;
  while (const auto mapping = next_mapping(rest)) {
    const bool overlaps =
        mapping->range.start < image.extent.end && mapping->range.end > image.extent.start;
    if (overlaps && (mapping->accessible() || mapping->shared)) return EEXIST;
  }
  if (const int error = forbid_range(image.extent)) return error;
  for (const ModuleImage::Segment& segment : image.segments)
    if (const int error = map_private_copy(segment.range, image.contents,
                                           segment.range.start - image.extent.start,
                                           segment.writable, segment.executable))
      return error;
  if (image.unwind_info != 0) ::__register_frame(reinterpret_cast<void*>(image.unwind_info));
  return 0;
}

}  // namespace wherry::impl
