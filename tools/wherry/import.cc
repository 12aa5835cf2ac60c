#include "import.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "complain.h"
#include "import/access_trace_writer.h"
#include "import/csv_accesses.h"
#include "import/damon_accesses.h"
#include "import/perf_accesses.h"
#include "import/processor_rules.h"
#include "os/files/new_file.h"
#include "progress.h"
#include "trial_file.h"

namespace wherry::tool {
namespace {

constexpr std::array<std::pair<const char*, importing::ReadAccesses>, 3> import_formats{
    {{"csv", importing::read_csv_accesses},
     {"damon", importing::read_damon_accesses},
     {"perf", importing::read_perf_accesses}}};

importing::SourceResult read_source(const ImportOptions& options,
                                    const importing::SourceSettings& settings) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(
      std::fopen(options.file.c_str(), "re"), &std::fclose);
  if (!stream) return TextError{0, std::strerror(errno)};
  const auto format = std::ranges::find(import_formats, options.format,
                                        [](const auto& row) { return std::string(row.first); });
  return format->second(stream.get(), settings);
}

// Gives each access a processor. Returns one line with the error, or an empty string.
std::string assign(importing::Accesses& accesses, const ImportOptions& options) {
  std::vector<importing::ProcessorRule> rules;
  for (const std::string& text : options.rules)
    rules.push_back(std::get<importing::ProcessorRule>(importing::parse_rule(text)));
  const std::vector<std::uint64_t> uses = importing::assign(accesses, rules);
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (uses[i] == 0)
      return fmt::format(
          "--assign {}: no access is for this rule: the file has no such thread, or "
          "an earlier rule is for it",
          options.rules[i]);
  return {};
}

// Writes the trace to a new file, which then replaces the file at `path`. Returns 0 or an errno.
int write(importing::Accesses& accesses, const importing::ImportedMachine& machine,
          const std::string& path, importing::ImportedCounts& counts) {
  // Without this signal, a write beyond the size limit returns an error and does not end the
  // program.
  ::signal(SIGXFSZ, SIG_IGN);
  impl::NewFile made;
  if (const int error = impl::create_beside(path, made)) return error;
  int error = 0;
  counts = importing::write_access_trace(accesses, machine, [&](const impl::TraceBytes& bytes) {
    std::uint64_t appended = 0;
    error = impl::append_all(made.file, bytes, appended);
    return error == 0;
  });
  if (error == 0 && std::rename(made.name.c_str(), made.target.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(made.name.c_str());
  return error;
}

std::string why_not_written(const std::string& path, int error) {
  return fmt::format("cannot write {}: {}", path,
                     error == EINVAL ? "it is no regular file" : std::strerror(error));
}

CLI::Validator page_sizes() {
  return CLI::Validator(
      [](std::string& text) {
        std::uint64_t bytes = 0;
        const bool good = CLI::detail::lexical_cast(text, bytes) && std::has_single_bit(bytes) &&
                          bytes >= impl::page_size && bytes <= impl::block_size;
        return good ? std::string() : "must be a power of two from 4K to 2M, not " + text;
      },
      "");
}

}  // namespace

CLI::App* add_import(CLI::App& app, ImportOptions& options) {
  CLI::App* command = app.add_subcommand(
      "import", "Make a trace of accesses that another tool recorded (see: wherry replay)");
  command->add_option("file", options.file, "The accesses")->type_name("FILE")->required();
  command->add_option("-o,--output", options.output, "The trace; an older one is replaced")
      ->type_name("FILE")
      ->required();
  std::vector<std::string> names;
  for (const auto& [name, read] : import_formats) names.emplace_back(name);
  command
      ->add_option("--format", options.format,
                   "csv: a table; damon: of damo report access --raw_form; perf: of perf script "
                   "after perf mem record")
      ->type_name("NAME")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command
      ->add_option("--page", options.page_bytes,
                   "What an access without a size is to: a whole page of so many bytes; suffixes "
                   "K, M")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->check(page_sizes())
      ->capture_default_str();
  command
      ->add_option("--devices", options.devices,
                   "How many devices there are; by default as many as accesses and rules name, at "
                   "least one")
      ->type_name("N")
      ->check(CLI::Range(1, impl::max_devices));
  command
      ->add_option("--capacity", options.capacity,
                   "Capacity of each device; suffixes K, M, G; by default there is no limit")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{impl::page_size}, std::uint64_t{1} << 62));
  command
      ->add_option("--assign", options.rules,
                   "The processor (host, dev0, ...) that a thread stands for, given by its number "
                   "or a pattern of its name; the first rule for a thread counts")
      ->type_name("THREAD=PROCESSOR")
      ->allow_extra_args(false)
      ->check(CLI::Validator(
          [](std::string& text) {
            const auto rule = importing::parse_rule(text);
            const auto* wrong = std::get_if<std::string>(&rule);
            return wrong == nullptr ? std::string() : *wrong;
          },
          ""));
  return command;
}

int run_import(const ImportOptions& options) {
  if (const int error = try_create_in_place_of(options.output)) {
    complain(why_not_written(options.output, error));
    return exit_usage;
  }
  const int devices_max = options.devices == 0 ? impl::max_devices : options.devices;
  auto read = read_source(options, {options.page_bytes, devices_max});
  if (const auto* wrong = std::get_if<TextError>(&read))
    return complain(describe(options.file, *wrong));
  auto& accesses = std::get<importing::Accesses>(read);
  if (accesses.all.empty()) return complain(fmt::format("{}: it has no accesses", options.file));
  if (const std::string wrong = assign(accesses, options); !wrong.empty()) return complain(wrong);

  const int named = std::ranges::max(accesses.all, {}, &importing::Access::processor).processor;
  if (named > devices_max)
    return complain(fmt::format("--assign names dev{}, and there are {} devices (--devices)",
                                named - 1, devices_max));
  const importing::ImportedMachine machine{
      .program = fmt::format("accesses in {} ({})", options.file, options.format),
      .version = WHERRY_VERSION,
      .devices = options.devices == 0 ? std::max(named, 1) : options.devices,
      .capacity = options.capacity};
  Progress progress;
  progress.show("writing the trace");
  importing::ImportedCounts counts;
  if (const int error = write(accesses, machine, options.output, counts))
    return complain(why_not_written(options.output, error));
  std::string text =
      fmt::format("{}: {} accesses to {} pages in {} ranges, {} devices\n", options.output,
                  counts.accesses, counts.pages, counts.ranges, machine.devices);
  if (accesses.left_out != 0)
    text += fmt::format("{} records have no address of the program, and were left out\n",
                        accesses.left_out);
  return print_out(text);
}

}  // namespace wherry::tool
