#include "run/attachment.h"

#include <fnmatch.h>
#include <pthread.h>
#include <unistd.h>
#include <wherry/wherry.h>

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "run/own_calls.h"
#include "run/settings.h"

namespace wherry::run {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local unsigned own_index = 0;

struct Thread {
  unsigned index = 0;
  std::array<char, 16> name{};
};

Thread this_thread() {
  Thread thread{own_index, {}};
  (void)::pthread_getname_np(::pthread_self(), thread.name.data(), thread.name.size());
  return thread;
}

// Takes the text up to the separator off the front of `left`.
std::string_view take_until(std::string_view& left, char separator) {
  const std::size_t end = left.find(separator);
  const std::string_view taken = left.substr(0, end);
  left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
  return taken;
}

std::optional<unsigned> number_in(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool fits(std::string_view condition, const Thread& thread) {
  std::string_view value = condition;
  const std::string_view kind = take_until(value, '=');
  if (kind == "name") return ::fnmatch(std::string(value).c_str(), thread.name.data(), 0) == 0;
  const auto first = number_in(take_until(value, '-'));
  const auto last = value.empty() ? first : number_in(value);
  return kind == "index" && first && last && thread.index >= *first && thread.index <= *last;
}

// Returns what the rules say that the thread counts as: "host" if no rule fits.
std::string_view role_of(const Thread& thread) {
  for (std::string_view left = settings()->attach; !left.empty();) {
    std::string_view rule = take_until(left, ',');
    const std::size_t colon = rule.rfind(':');
    if (colon == std::string_view::npos) return rule;
    if (fits(rule.substr(0, colon), thread)) return rule.substr(colon + 1);
  }
  return "host";
}

// Whether the machine has several nodes. With one node all CPUs belong to the host and to every
// device, so no thread can count as a device by its CPU.
bool has_nodes() {
  static const bool found = ::access("/sys/devices/system/node/node1", F_OK) == 0;
  return found;
}

void attach() {
  const OwnCalls own;
  const std::string_view role = role_of(this_thread());
  if (role == "by-cpu") {
    if (has_nodes()) (void)wherryThreadAttachByCpu();
  } else if (const auto device = number_in(role)) {
    (void)wherryThreadAttach(static_cast<CUdevice>(*device));
  } else {
    (void)wherryThreadDetach();
  }
}

}  // namespace

bool rules_matter() {
  const std::string& rules = settings()->attach;
  if (rules.empty() || rules == "host") return false;
  return rules != "by-cpu" || has_nodes();
}

void attach_first_thread() {
  attach();
}

void attach_thread(unsigned index) {
  own_index = index;
  attach();
}

void attach_renamed_thread() {
  if (settings()->attach.find("name=") != std::string::npos) attach();
}

}  // namespace wherry::run
