// ELF files: the program's modules, which the library searches for function names and managed
// variables.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fuzz/target.h"
#include "os/files/elf_file.h"
#include "os/files/elf_symbols.h"
#include "os/files/object_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace wherry;
  using namespace wherry::impl;
  (void)kind_of_object(test::bytes_of(data, std::min(size, object_beginning)));
  static const int file = ::memfd_create("elf", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  test::require(
      ::ftruncate(file, 0) == 0 && ::pwrite(file, data, size, 0) == static_cast<ssize_t>(size),
      "no file");
  const auto opened = ElfFile::open(path);
  if (!opened) return 0;
  for (const auto& section : opened->sections()) (void)opened->strings(section);
  for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{0x1139}, ~std::uint64_t{0}})
    (void)find_elf_symbol(path, address);
  const auto segments = opened->segments();
  const auto variables = find_elf_variables(path, segments, "wherry_managed");
  if (!variables) return 0;
  for (const auto& variable : variables->variables)
    test::require(variable.start >= variables->start &&
                      variable.start - variables->start <= variables->bytes &&
                      variable.bytes <= variables->bytes - (variable.start - variables->start),
                  "a variable outside its section");
  return 0;
}
