#include "import/perf_accesses.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "import/time_text.h"

namespace wherry::importing {
namespace {

using impl::EventAccess;
using tool::fail;
using tool::LineReader;
using tool::quote;

constexpr std::uint64_t raw_step_ns = 1000;
constexpr std::uint64_t second_ns = 1'000'000'000;
// Addresses from here on are the kernel's, on all architectures of Linux with 64 bits.
constexpr std::uint64_t kernel_begin = std::uint64_t{1} << 63;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!tool::is_blank(text)) words.push_back(tool::take_word(text));
  return words;
}

std::optional<std::uint32_t> thread_number(std::string_view text) {
  const auto number = tool::to_integer(text);
  if (!number || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

// "1540823.804575:". perf prints 6 digits of the second, or 9.
std::optional<std::uint64_t> perf_time_of(std::string_view word) {
  if (!word.ends_with(':') || word.find('.') == std::string_view::npos) return std::nullopt;
  return decimal_ns(word.substr(0, word.size() - 1), second_ns);
}

// Whether it was a read or a write, as the event's name or the data_src behind it says.
EventAccess kind_of(std::string_view event_and_rest) {
  const auto says = [&](std::string_view word) {
    return event_and_rest.find(word) != std::string_view::npos;
  };
  if (says("|OP STORE")) return EventAccess::write;
  if (says("|OP LOAD")) return EventAccess::read;
  return says("store") ? EventAccess::write : says("load") ? EventAccess::read : EventAccess::none;
}

// Whether the word is what perf prints only behind the address of an instruction.
bool is_symbol(std::string_view word) {
  return word == "[unknown]" || word.find("+0x") != std::string_view::npos;
}

class PerfReader {
 public:
  PerfReader(std::FILE* stream, const SourceSettings& settings)
      : lines_(stream), settings_(settings) {}

  Accesses read() {
    while (const auto line = lines_.next()) {
      const std::string_view text = tool::trimmed(*line);
      if (text.starts_with('#') && text.find("ADDR") != std::string_view::npos)
        take_raw_header(text);
      else if (!text.empty() && !text.starts_with('#'))
        raw_.empty() ? take_script(text) : take_raw(text);
    }
    return std::move(accesses_);
  }

 private:
  // ---- perf script

  void take_script(std::string_view line) {
    const std::vector<std::string_view> words = words_of(line);
    std::size_t at = 0;
    while (at < words.size() && !perf_time_of(words[at])) ++at;
    if (at == words.size())
      fail(lines_.number(),
           "there is no time: it is no line of perf script -F comm,pid,tid,time,event,addr");
    Access access;
    access.time_ns = *perf_time_of(words[at]);
    take_thread(std::span(words).first(at), line, access);
    // A period may precede the event, whose name ends with a colon.
    std::size_t event = at + 1;
    while (event < words.size() && !words[event].ends_with(':')) ++event;
    if (event + 1 >= words.size())
      fail(lines_.number(), "there is no event with an address: perf script -F +addr prints them");
    const auto address = tool::to_integer(words[event + 1], 16);
    if (!address) fail(lines_.number(), fmt::format("{} is no address", quote(words[event + 1])));
    if (event + 2 < words.size() && is_symbol(words[event + 2]))
      fail(lines_.number(), fmt::format("{} is the address of the instruction: perf script -F "
                                        "comm,pid,tid,time,event,addr prints that of the access",
                                        quote(words[event + 1])));
    access.kind = kind_of(line.substr(static_cast<std::size_t>(words[event].data() - line.data())));
    add(access, *address);
  }

  // `words`: the thread's name, which may have blanks; "PID/TID" or "TID"; the CPU, as "[003]".
  void take_thread(std::span<const std::string_view> words, std::string_view line, Access& access) {
    if (!words.empty() && words.back().starts_with('[')) words = words.first(words.size() - 1);
    if (words.empty()) return;
    const std::string_view last = words.back();
    const std::size_t slash = last.find('/');
    const auto thread =
        thread_number(slash == std::string_view::npos ? last : last.substr(slash + 1));
    if (!thread)
      fail(lines_.number(), fmt::format("{} is no thread: perf script -F +tid", quote(last)));
    access.thread = *thread;
    if (slash != std::string_view::npos) {
      const auto process = thread_number(last.substr(0, slash));
      if (!process) fail(lines_.number(), fmt::format("{} is no process", quote(last)));
      access.space = *process;
    }
    const auto name_end = static_cast<std::size_t>(last.data() - line.data());
    access.name = number_of(tool::trimmed(line.substr(0, name_end)));
  }

  std::uint32_t number_of(std::string_view name) {
    auto& names = accesses_.names;
    const auto [found, is_new] =
        name_numbers_.try_emplace(std::string(name), static_cast<std::uint32_t>(names.size()));
    if (is_new) names.emplace_back(name);
    return found->second;
  }

  // ---- perf mem -D report

  void take_raw_header(std::string_view line) {
    raw_.clear();
    line.remove_prefix(1);
    while (!line.empty()) {
      const std::size_t end = std::min(line.find(','), line.size());
      raw_.emplace_back(tool::trimmed(line.substr(0, end)));
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    for (const char* const needed : {"PID", "TID", "ADDR", "DSRC"})
      if (std::ranges::find(raw_, needed) == raw_.end())
        fail(lines_.number(), fmt::format("there is no column {}", needed));
  }

  void take_raw(std::string_view line) {
    // With perf's option -x, commas or other letters separate the fields.
    std::string spaced(line);
    std::ranges::replace(spaced, ',', ' ');
    const std::vector<std::string_view> words = words_of(spaced);
    const auto word_of = [&](std::string_view name) {
      const auto index = static_cast<std::size_t>(std::ranges::find(raw_, name) - raw_.begin());
      return index < words.size() ? words[index] : std::string_view();
    };
    const auto number_in = [&](std::string_view name, std::string_view prefix, int base) {
      const std::string_view word = word_of(name);
      const auto value = word.starts_with(prefix)
                             ? tool::to_integer(word.substr(prefix.size()), base)
                             : std::nullopt;
      if (!value) fail(lines_.number(), fmt::format("{}: {} is no number", name, quote(word)));
      return *value;
    };
    // perf prints the first address in a wrong format, "0x016%x" for "0x%016x".
    const bool is_first_address = word_of("ADDR").starts_with("0x016");
    constexpr std::uint64_t load = 2, store = 4;  // bits of perf_mem_data_src.mem_op
    Access access;
    access.time_ns = samples_++ * raw_step_ns;
    access.space = number_in("PID", "", 10);
    access.thread = static_cast<std::uint32_t>(number_in("TID", "", 10));
    const std::uint64_t source = number_in("DSRC", "0x", 16);
    access.kind = (source & store) != 0  ? EventAccess::write
                  : (source & load) != 0 ? EventAccess::read
                                         : EventAccess::none;
    add(access, number_in("ADDR", is_first_address ? "0x016" : "0x", 16));
  }

  void add(Access access, std::uint64_t address) {
    if (address == 0 || address >= kernel_begin) {
      ++accesses_.left_out;
      return;
    }
    const Access page = page_access(address, settings_);
    access.address = page.address;
    access.bytes = page.bytes;
    accesses_.all.push_back(access);
  }

  LineReader lines_;
  const SourceSettings& settings_;
  Accesses accesses_;
  std::map<std::string, std::uint32_t> name_numbers_{{"", 0}};
  std::vector<std::string> raw_;  // the columns of perf mem -D report; empty: it is perf script's
  std::uint64_t samples_ = 0;
};

}  // namespace

SourceResult read_perf_accesses(std::FILE* stream, const SourceSettings& settings) {
  return unless_malformed([&] { return PerfReader(stream, settings).read(); });
}

}  // namespace wherry::importing
