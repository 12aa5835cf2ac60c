#include "import/csv_accesses.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "import/processor_rules.h"
#include "import/time_text.h"

namespace wherry::importing {
namespace {

using tool::fail;
using tool::LineReader;
using tool::quote;

// Larger accesses would fill the trace with pages that nobody accessed.
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 30;

enum class Column {
  time_ns,
  time_us,
  time_s,
  address,
  bytes,
  thread,
  processor,
  access
};
constexpr std::array<std::string_view, 8> column_names{"time_ns", "time_us", "time_s",    "address",
                                                       "bytes",   "thread",  "processor", "access"};

bool is_time(Column column) {
  return column <= Column::time_s;
}

bool says_nothing(std::string_view line) {
  return tool::is_blank(line) || line.starts_with('#');
}

// Removes the field before the next comma and returns it, without blanks around it.
std::string_view take_field(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(','), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return tool::trimmed(field);
}

std::vector<Column> read_header(LineReader& lines) {
  auto line = lines.next();
  while (line && says_nothing(*line)) line = lines.next();
  if (!line) fail(0, "it has no line with the names of its columns");
  std::vector<Column> columns;
  std::size_t times = 0, addresses = 0;
  for (std::string_view rest = *line; !rest.empty();) {
    const std::string_view name = take_field(rest);
    const auto found = std::ranges::find(column_names, name);
    if (found == column_names.end())
      fail(lines.number(),
           fmt::format("there is no column {}; the columns are time_ns (or time_us, time_s), "
                       "address, bytes, thread, processor, access (other formats: --format)",
                       quote(name)));
    const auto column = static_cast<Column>(found - column_names.begin());
    if (std::ranges::find(columns, column) != columns.end())
      fail(lines.number(), fmt::format("there are two columns {}", name));
    times += is_time(column) ? 1 : 0;
    addresses += column == Column::address ? 1 : 0;
    columns.push_back(column);
  }
  if (times != 1)
    fail(lines.number(), "there must be one of the columns time_ns, time_us and time_s");
  if (addresses != 1) fail(lines.number(), "there is no column address");
  return columns;
}

class Row {
 public:
  Row(std::uint64_t line, const SourceSettings& settings) : line_(line), settings_(settings) {}

  void take(Column column, std::string_view text) {
    switch (column) {
      case Column::time_ns:
      case Column::time_us:
      case Column::time_s:
        take_time(text, column);
        return;
      case Column::address:
        take_address(text);
        return;
      case Column::bytes:
        access_.bytes = number(text, bytes_max, "bytes");
        if (access_.bytes == 0) fail(line_, "an access must be to at least one byte");
        return;
      case Column::thread:
        access_.thread = static_cast<std::uint32_t>(
            number(text, std::numeric_limits<std::uint32_t>::max(), "thread"));
        return;
      case Column::processor:
        take_processor(text);
        return;
      case Column::access:
        take_kind(text);
        return;
    }
  }

  Access access() const {
    Access access = access_;
    if (access.bytes == 0) {
      const Access page = page_access(access.address, settings_);
      access.address = page.address;
      access.bytes = page.bytes;
    }
    if (access.bytes - 1 > std::numeric_limits<std::uint64_t>::max() - access.address)
      fail(line_, "the access ends beyond the last address");
    return access;
  }

 private:
  void take_time(std::string_view text, Column column) {
    constexpr std::array<std::uint64_t, 3> units_ns{1, 1000, 1'000'000'000};
    const auto time_ns = decimal_ns(text, units_ns[static_cast<std::size_t>(column)]);
    if (!time_ns) fail(line_, fmt::format("{} is no time", quote(text)));
    access_.time_ns = *time_ns;
  }

  void take_address(std::string_view text) {
    const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
    const auto address = is_hex ? tool::to_integer(text.substr(2), 16) : tool::to_integer(text);
    if (!address)
      fail(line_, fmt::format("{} is no address (hexadecimal ones begin with 0x)", quote(text)));
    access_.address = *address;
  }

  void take_processor(std::string_view text) {
    const auto processor = processor_of(text);
    if (!processor)
      fail(line_, fmt::format("{} is no processor: host, dev0 ... dev{}, or 0 for the host",
                              quote(text), impl::max_devices - 1));
    if (*processor > settings_.devices_max)
      fail(line_, fmt::format("there is no {}: there are {} devices (--devices)", quote(text),
                              settings_.devices_max));
    access_.processor = static_cast<std::int8_t>(*processor);
  }

  void take_kind(std::string_view text) {
    if (text != "read" && text != "write")
      fail(line_, fmt::format("{} is neither read nor write", quote(text)));
    access_.kind = text == "read" ? impl::EventAccess::read : impl::EventAccess::write;
  }

  std::uint64_t number(std::string_view text, std::uint64_t most, std::string_view what) const {
    const auto value = tool::to_integer(text);
    if (!value || *value > most)
      fail(line_, fmt::format("{}: {} is no number from 0 to {}", what, quote(text), most));
    return *value;
  }

  const std::uint64_t line_;
  const SourceSettings& settings_;
  Access access_;
};

Accesses read(LineReader& lines, const SourceSettings& settings) {
  const std::vector<Column> columns = read_header(lines);
  Accesses accesses;
  while (const auto line = lines.next()) {
    if (says_nothing(*line)) continue;
    const auto fields = static_cast<std::size_t>(std::ranges::count(*line, ',')) + 1;
    if (fields != columns.size())
      fail(lines.number(),
           fmt::format("it has {} fields, and there are {} columns", fields, columns.size()));
    Row row(lines.number(), settings);
    std::string_view rest = *line;
    for (const Column column : columns) row.take(column, take_field(rest));
    accesses.all.push_back(row.access());
  }
  return accesses;
}

}  // namespace

SourceResult read_csv_accesses(std::FILE* stream, const SourceSettings& settings) {
  return unless_malformed([&] {
    LineReader lines(stream);
    return read(lines, settings);
  });
}

}  // namespace wherry::importing
