#include "os/files/object_file.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "os/arch/cpu.h"
#include "os/files/file_io.h"
#include "os/memory/address_map.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {
namespace {

constexpr unsigned cuda_machine = 190;
constexpr std::uint32_t fat_binary = 0xba55ed50;
constexpr std::uint32_t fat_binary_wrapper = 0x466243b1;

bool is_ptx(std::string_view text) {
  return text.find(".version") != std::string_view::npos &&
         std::ranges::all_of(text, [](char c) { return c != '\0'; });
}

// Returns a new name for the file on each call: the loader treats equal names as the same file.
std::string fresh_name(const Fd& file) {
  static std::atomic<unsigned> last = 0;
  std::string name = "/proc/self/";
  for (unsigned i = ++last; i > 0; --i) name += "./";
  return name + "fd/" + std::to_string(file.get());
}

// Returns null if the address belongs to no loaded object.
link_map* module_at(std::uintptr_t address) {
  Dl_info info{};
  link_map* module = nullptr;
  return ::dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&module),
                   RTLD_DL_LINKMAP) == 0
             ? nullptr
             : module;
}

ExportedSymbol find_symbol(const LoadedObject& object, const char* name, unsigned type) {
  void* const found = ::dlsym(object.handle, name);
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  link_map* module = nullptr;
  if (found == nullptr || ::dlinfo(object.handle, RTLD_DI_LINKMAP, &module) != 0 ||
      ::dladdr1(found, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr || ELF64_ST_TYPE(symbol->st_info) != type)
    return {};
  // dlsym() also finds symbols of the objects that `object` depends on, which do not count.
  if (module_at(reinterpret_cast<std::uintptr_t>(found)) != module) return {};
  return {reinterpret_cast<std::uintptr_t>(found), symbol->st_size};
}

}  // namespace

ObjectKind kind_of_object(std::span<const std::byte> beginning) {
  ElfW(Ehdr) header;
  if (beginning.size() >= sizeof header && std::memcmp(beginning.data(), ELFMAG, SELFMAG) == 0) {
    std::memcpy(&header, beginning.data(), sizeof header);
    if (header.e_machine == cuda_machine) return ObjectKind::device_code;
    const bool fits = header.e_machine == elf_machine && header.e_type == ET_DYN &&
                      header.e_ident[EI_CLASS] == ELFCLASS64;
    return fits ? ObjectKind::shared_object : ObjectKind::unknown;
  }
  std::uint32_t magic = 0;
  if (beginning.size() >= sizeof magic) std::memcpy(&magic, beginning.data(), sizeof magic);
  if (magic == fat_binary || magic == fat_binary_wrapper) return ObjectKind::device_code;
  const std::string_view text(reinterpret_cast<const char*>(beginning.data()), beginning.size());
  return is_ptx(text.substr(0, text.find('\0'))) ? ObjectKind::device_code : ObjectKind::unknown;
}

Fd open_object(const char* path) {
  return Fd(::open(path, O_RDONLY | O_CLOEXEC));
}

std::vector<std::byte> read_beginning(const Fd& file) {
  std::vector<std::byte> bytes(object_beginning);
  const int got = read_at(file.get(), 0, bytes);
  bytes.resize(static_cast<std::size_t>(std::max(got, 0)));
  return bytes;
}

std::span<const std::byte> beginning_of_image(const void* image) {
  const auto* text = static_cast<const char*>(image);
  std::size_t length = ::strnlen(text, object_beginning);
  // Binary formats contain zeros in the numbers at their beginning.
  std::uint32_t magic = 0;
  if (length >= sizeof magic) std::memcpy(&magic, image, sizeof magic);
  if (length >= SELFMAG && std::memcmp(text, ELFMAG, SELFMAG) == 0) length = sizeof(ElfW(Ehdr));
  return {static_cast<const std::byte*>(image), length};
}

Fd copy_image(const void* image) {
  ElfW(Ehdr) header;
  const auto* bytes = static_cast<const std::byte*>(image);
  std::memcpy(&header, image, sizeof header);
  std::uint64_t size = header.e_shoff + std::uint64_t{header.e_shnum} * sizeof(ElfW(Shdr));
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) section;
    std::memcpy(&section, bytes + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS)
      size = std::max<std::uint64_t>(size, section.sh_offset + section.sh_size);
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    std::memcpy(&segment, bytes + header.e_phoff + i * sizeof segment, sizeof segment);
    size = std::max<std::uint64_t>(size, segment.p_offset + segment.p_filesz);
  }
  if (!may_write_to(size)) throw_errno(EFBIG, "cannot copy a module");
  Fd file(::memfd_create("wherry-module", MFD_CLOEXEC));
  const int written = file ? write_at(file.get(), 0, {bytes, size}) : -errno;
  if (written < 0 || static_cast<std::uint64_t>(written) != size)
    throw_errno(written < 0 ? -written : ENOSPC, "cannot copy a module");
  return file;
}

LoadedObject load_object(const Fd& file, const std::string& path) {
  LoadedObject object;
  const std::string own_name = fresh_name(file);
  constexpr int how = RTLD_NOW | RTLD_LOCAL;
  if (void* there = ::dlopen(own_name.c_str(), how | RTLD_NOLOAD)) {
    object.handle = there;
    object.was_there = true;
  } else if (!path.empty()) {
    object.handle = ::dlopen(path.c_str(), how);
    // A different file may have been loaded from this path earlier.
    if (object.handle != nullptr) {
      void* const same = ::dlopen(own_name.c_str(), how | RTLD_NOLOAD);
      if (same != object.handle) {
        ::dlclose(object.handle);
        object.handle = nullptr;
      }
      if (same != nullptr) ::dlclose(same);
    }
  }
  if (object.handle == nullptr) object.handle = ::dlopen(own_name.c_str(), how);
  link_map* module = nullptr;
  if (object.handle == nullptr || ::dlinfo(object.handle, RTLD_DI_LINKMAP, &module) != 0) {
    const char* why = ::dlerror();
    object.why = why != nullptr ? why : "unknown reason";
    object.handle = nullptr;
    return object;
  }
  object.base = module->l_addr;
  object.place = reinterpret_cast<std::uintptr_t>(module->l_ld);
  return object;
}

void CloseObject::operator()(void* handle) const {
  ::dlclose(handle);
}

CodePlace find_code(std::uintptr_t address, const char* beside) {
  CodePlace place;
  const std::string map = read_address_map();
  const auto mapping = find_mapping(map, address);
  if (!mapping || !mapping->executable) return place;
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(address), &info,
                reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0)
    return place;
  if (info.dli_sname != nullptr && reinterpret_cast<std::uintptr_t>(info.dli_saddr) == address)
    place.exported_as = info.dli_sname;
  link_map* module = module_at(address);
  if (!place.exported_as.empty() && symbol->st_shndx == SHN_UNDEF) {
    // `address` is a stub, whose address a lookup of the function's name would return again.
    void* const variable = ::dlsym(RTLD_DEFAULT, (beside + place.exported_as).c_str());
    if (variable != nullptr) module = module_at(reinterpret_cast<std::uintptr_t>(variable));
  }
  if (module == nullptr) return place;
  const bool is_program = *module->l_name == '\0';
  place.reference.reset(::dlopen(is_program ? nullptr : module->l_name, RTLD_NOW | RTLD_NOLOAD));
  place.object.handle = place.reference.get();
  place.object.base = module->l_addr;
  place.object.place = reinterpret_cast<std::uintptr_t>(module->l_ld);
  place.object.was_there = true;
  place.file = is_program ? "the program" : module->l_name;
  return place;
}

ExportedSymbol find_function(const LoadedObject& object, const char* name) {
  return find_symbol(object, name, STT_FUNC);
}

ExportedSymbol find_variable(const LoadedObject& object, const char* name) {
  return find_symbol(object, name, STT_OBJECT);
}

}  // namespace wherry::impl
