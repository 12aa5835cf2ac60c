#include "objects/physical_memory.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/page.h"
#include "objects/current_context.h"
#include "os/files/memory_file.h"
#include "os/files/spare_descriptors.h"
#include "os/process/resource_limits.h"

namespace wherry::impl {
namespace {

// The name describes the file to other processes: every version of Linux keeps it with the file.
constexpr std::string_view prefix = "wherry-memory-";
constexpr std::string_view third_parties = "-shared";

std::string name_of(const Runtime& runtime, const PhysicalTraits& traits) {
  const Location& location = traits.location;
  std::string name(prefix);
  if (location.kind == Location::Kind::device)
    name += fmt::format("dev{}", runtime.device_config(location.id).number);
  else if (location.kind == Location::Kind::host_node)
    name += fmt::format("node{}", location.id);
  else
    name += "host";
  if (traits.is_for_third_parties) name += third_parties;
  return name;
}

std::optional<int> number_in(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// The name has the device's number, which is the same in every process. If this process does not
// see the device, the context's own device stands for it.
Location to_device(Driver& driver, int number) {
  const auto ordinal = driver.runtime().ordinal_of(number);
  return Location::device(ordinal ? *ordinal : current_device(driver));
}

std::optional<PhysicalTraits> traits_of(Driver& driver, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  PhysicalTraits traits;
  if (name.ends_with(third_parties)) {
    name.remove_suffix(third_parties.size());
    traits.is_for_third_parties = true;
  }
  for (const std::string_view word : {"dev", "node"}) {
    if (!name.starts_with(word)) continue;
    const auto number = number_in(name.substr(word.size()));
    if (!number) return std::nullopt;
    traits.location = word == "dev" ? to_device(driver, *number) : Location::host_node(*number);
    return traits;
  }
  return std::nullopt;
}

// Returns an empty descriptor for the caller to set. When it ends, the file is closed and its
// reserved pages are released.
std::shared_ptr<Fd> keep_reservation(Runtime& runtime, Processor p, std::uint64_t pages) {
  return {new Fd, [&runtime, p, pages](const Fd* file) {
            delete file;
            runtime.budget().release(p, pages);
          }};
}

// Returns false if Linux has no memory for the pages.
bool create_pages(const MemoryFile& file, std::size_t bytes) {
  // In steps, because a signal undoes the step that it interrupts.
  for (std::size_t offset = 0; offset < bytes; offset += block_size)
    if (file.allocate(offset, block_size) != 0) return false;
  return true;
}

}  // namespace

std::optional<PhysicalMemory> create_physical_memory(Runtime& runtime, const PhysicalTraits& traits,
                                                     std::size_t bytes) {
  const Processor p = traits.location.processor();
  const std::uint64_t pages = bytes / page_size;
  if (!may_write_to(bytes)) return std::nullopt;
  if (!runtime.budget().reserve(p, pages)) return std::nullopt;
  auto file = keep_reservation(runtime, p, pages);
  const MemoryFile made(name_of(runtime, traits), bytes, runtime.options().copying.huge_pages);
  if (const int error = runtime.placement().place(made, bytes, traits.location))
    throw_errno(error, "cannot place memory on its node");
  if (!create_pages(made, bytes)) return std::nullopt;
  *file = move_apart(duplicate_fd(made.fd()));
  return PhysicalMemory{traits, bytes, std::move(file), identify_file(made.fd()), /*is_own=*/true};
}

std::optional<PhysicalMemory> import_physical_memory(Driver& driver, int fd) {
  const auto found = find_memory_file(fd);
  if (!found || found->bytes == 0 || found->bytes % block_size != 0) return std::nullopt;
  const auto traits = traits_of(driver, found->name);
  if (!traits) return std::nullopt;
  const FileIdentity identity = identify_file(fd);
  auto file = driver.virtual_memory().find_own(identity);
  const bool is_own = file != nullptr;
  if (!is_own) file = std::make_shared<const Fd>(move_apart(duplicate_fd(fd)));
  return PhysicalMemory{*traits, found->bytes, std::move(file), identity, is_own};
}

}  // namespace wherry::impl
