#include "os/memory/address_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "os/files/fd.h"

namespace wherry::impl {
namespace {

// Removes a number and the character after it from `line`. Returns 0 if there is no number, which
// Linux never writes.
std::uint64_t take_number(std::string_view& line, int base) {
  std::uint64_t value = 0;
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value, base);
  const auto used = static_cast<std::size_t>(rest - line.data());
  line.remove_prefix(used < line.size() ? used + 1 : used);
  return value;
}

// Removes the first line from `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t length = text.find('\n');
  const std::string_view line = text.substr(0, length);
  text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
  return line;
}

std::optional<std::string_view> read_all(const char* path, char* buffer, std::size_t bytes) {
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  std::size_t filled = 0;
  while (filled < bytes) {
    const ssize_t got = ::read(file.get(), buffer + filled, bytes - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {};
    if (got == 0) return std::string_view(buffer, filled);
    filled += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

std::optional<MappedRange> next_mapping(std::string_view& text) {
  if (text.empty()) return {};
  std::string_view line = take_line(text);
  MappedRange mapping;
  mapping.range.start = take_number(line, 16);
  mapping.range.end = take_number(line, 16);
  if (line.size() < 5) return {};
  mapping.readable = line[0] == 'r';
  mapping.writable = line[1] == 'w';
  mapping.executable = line[2] == 'x';
  mapping.shared = line[3] == 's';
  line.remove_prefix(5);
  mapping.offset = take_number(line, 16);
  mapping.device = take_number(line, 16) << 32;
  mapping.device |= take_number(line, 16);
  mapping.inode = take_number(line, 10);
  const std::size_t name = line.find_first_not_of(' ');
  if (name != std::string_view::npos) mapping.name = line.substr(name);
  return mapping;
}

std::optional<std::string_view> read_address_map(char* buffer, std::size_t bytes) {
  return read_all("/proc/self/maps", buffer, bytes);
}

std::optional<std::string_view> read_address_map_with_flags(char* buffer, std::size_t bytes) {
  return read_all("/proc/self/smaps", buffer, bytes);
}

std::optional<MappedRange> next_droppable(std::string_view& smaps) {
  std::string_view mapping;
  while (!smaps.empty()) {
    const std::string_view line = take_line(smaps);
    // The lines about a mapping begin with a capital letter and follow the line of the mapping.
    const bool is_about = !line.empty() && line[0] >= 'A' && line[0] <= 'Z';
    if (!is_about)
      mapping = line;
    else if (line.starts_with("VmFlags:") && line.find(" dp") != std::string_view::npos)
      return next_mapping(mapping);
  }
  return {};
}

std::string read_address_map() {
  for (std::size_t bytes = 1 << 16; bytes <= 1 << 28; bytes *= 4) {
    std::string text(bytes, '\0');
    if (const auto read = read_address_map(text.data(), text.size())) {
      text.resize(read->size());
      return text;
    }
  }
  return {};
}

std::optional<MappedRange> find_mapping(std::string_view text, std::uintptr_t address) {
  while (const auto mapping = next_mapping(text)) {
    if (mapping->range.contains(address)) return mapping;
  }
  return {};
}

}  // namespace wherry::impl
