#include "stress/model_script.h"

#include <algorithm>
#include <array>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace wherry::test {
namespace {

using Kind = OperationKind;
using Random = std::mt19937_64;

constexpr unsigned page_bytes = 4096;
constexpr unsigned large_pages = 1200;  // more than the smallest device can hold
constexpr unsigned small_pages = 40;
constexpr unsigned touches_per_burst = 40;

constexpr std::array<std::string_view, static_cast<std::size_t>(last_operation) + 1> kind_names{
    "allocate",     "free",
    "write",        "read",
    "increment",    "count_up",
    "copy",         "fill",
    "advise",       "query",
    "prefetch",     "discard",
    "pin",          "unpin",
    "touch",        "host_function",
    "system_calls", "synchronize",
    "renew_stream", "fork",
    "meet",         "allocate_shared",
    "free_shared",  "fail_device"};

unsigned below(Random& random, unsigned limit) {
  return static_cast<unsigned>(random() % limit);
}

template <typename Choices>
auto one_of(Random& random, const Choices& choices) {
  return choices[random() % choices.size()];
}

Settings draw_settings(Random& random) {
  constexpr std::array capacities{"2M", "2M", "4M", "8M"};
  constexpr std::array policies{"migrate-always", "migrate-always", "uvm",         "uvm",
                                "adaptive",       "adaptive",       "first-touch", "remote-always"};
  constexpr std::array regions{"4K", "64K", "64K", "64K", "2M"};
  constexpr std::array stripes{64u, 64u, 192u, 1024u, 5120u, 12288u};
  constexpr std::array copiers{"1", "2"};
  Settings settings;
  settings.lanes = 2 + below(random, 2);
  settings.peers = below(random, 2) == 0;
  settings.stripe = one_of(random, stripes);
  for (int device = 0; device < model_devices; ++device) {
    settings.devices += std::string{device == 0 ? "" : ";"} +
                        "capacity=" + one_of(random, capacities) +
                        ",workers=" + std::to_string(1 + below(random, 2));
  }
  settings.policy = one_of(random, policies);
  settings.region = one_of(random, regions);
  const auto huge_pages = below(random, 4);
  settings.huge_pages = huge_pages == 0 ? "never" : huge_pages == 1 ? "arriving" : "auto";
  settings.host = below(random, 5) == 0 ? "48M" : "-";
  settings.copiers = one_of(random, copiers);
  return settings;
}

// Draws the operations of one lane.
class LaneDraw {
 public:
  LaneDraw(Random& random, unsigned lane) : random_(random), lane_(lane) {}

  void append(Script& script) {
    const unsigned what = below(random_, 1000);
    if (what < 450) return burst(script);
    if (what < 500) return add(script, Kind::count_up, touch_bytes());
    if (what < 600) return add(script, Kind::copy, bulk_bytes());
    if (what < 660) return add(script, Kind::fill, bulk_bytes());
    if (what < 740) return add(script, Kind::advise, bulk_bytes());
    if (what < 770) return add(script, Kind::query, bulk_bytes());
    if (what < 840) return add(script, Kind::prefetch, bulk_bytes());
    if (what < 860) return add(script, Kind::discard, bulk_bytes());
    if (what < 875) return add(script, Kind::pin, touch_bytes());
    if (what < 890) return add(script, Kind::unpin, 1u << 30);
    if (what < 905) return add(script, Kind::touch, bulk_bytes());
    if (what < 930) return add(script, Kind::host_function, touch_bytes());
    if (what < 940) return add(script, Kind::system_calls, bulk_bytes());
    if (what < 955) return add(script, Kind::synchronize, 0);
    if (what < 963) return add(script, Kind::renew_stream, 0);
    if (what < 964) return add(script, Kind::fork, 0);
    allocate(script);
  }

  void allocate(Script& script) {
    const Operation freed = draw(Kind::free, 0);
    if (below(random_, 4) != 0) script.push_back(freed);
    Operation made = draw(Kind::allocate, pages());
    made.slot = freed.slot;
    script.push_back(made);
  }

 private:
  unsigned pages() {
    return 1 +
           (below(random_, 16) == 0 ? below(random_, large_pages) : below(random_, small_pages));
  }
  unsigned touch_bytes() {
    return 8 * (1 + (below(random_, 8) == 0 ? below(random_, 2048) : below(random_, 24)));
  }
  unsigned bulk_bytes() {
    return 1 + (below(random_, 8) == 0 ? below(random_, 64 * page_bytes)
                                       : below(random_, 4 * page_bytes));
  }
  // Half of the operations are on memory that all lanes use.
  unsigned slot() {
    const unsigned drawn = below(random_, 2 * private_slots);
    return drawn < private_slots ? shared_slots + lane_ * private_slots + drawn
                                 : below(random_, counter_slot);
  }

  Operation draw(Kind kind, unsigned count) {
    Operation operation;
    operation.kind = kind;
    operation.lane = lane_;
    operation.slot = slot();
    operation.other = slot();
    operation.first = below(random_, 1u << 30);
    operation.at = below(random_, 1u << 30);
    operation.count = count;
    operation.device = static_cast<int>(below(random_, 1 + model_devices)) - 1;
    operation.stream = below(random_, streams_per_device);
    operation.variant = below(random_, 1u << 30);
    return operation;
  }
  void add(Script& script, Kind kind, unsigned count) { script.push_back(draw(kind, count)); }

  // Several accesses by one processor, in one stream.
  void burst(Script& script) {
    const Operation like = draw(Kind::read, 0);
    const unsigned writes = below(random_, 3);  // none, a quarter or half of them
    for (unsigned n = 1 + below(random_, touches_per_burst); n != 0; --n) {
      Operation touch = draw(Kind::read, touch_bytes());
      if (below(random_, 4) < writes)
        touch.kind = below(random_, 3) == 0 ? Kind::increment : Kind::write;
      touch.device = like.device;
      touch.stream = like.stream;
      script.push_back(touch);
    }
  }

  Random& random_;
  const unsigned lane_;
};

Operation shared_allocation(Random& random, unsigned slot) {
  Operation operation;
  operation.kind = Kind::allocate_shared;
  operation.slot = slot;
  operation.count = slot == 0 ? large_pages : 1 + below(random, small_pages);
  operation.variant = below(random, 1u << 30);
  return operation;
}

void append_meeting(Random& random, Script& script) {
  Operation operation;
  operation.device = static_cast<int>(below(random, model_devices));
  operation.variant = below(random, 1u << 30);
  switch (below(random, 8)) {
    case 0:
      operation.kind = Kind::free_shared;
      operation.slot = below(random, shared_slots);
      script.push_back(operation);
      script.push_back(shared_allocation(random, operation.slot));
      break;
    case 1:
      operation.kind = Kind::fail_device;
      script.push_back(operation);
      break;
    default:
      operation.kind = Kind::meet;
      script.push_back(operation);
  }
}

Kind kind_from(const std::string& name) {
  const auto found = std::find(kind_names.begin(), kind_names.end(), name);
  if (found == kind_names.end()) throw std::runtime_error("no operation is called " + name);
  return static_cast<Kind>(found - kind_names.begin());
}

}  // namespace

Case draw_case(std::uint64_t seed, std::size_t operations) {
  Random random{seed};
  Case drawn{seed, draw_settings(random), {}};
  Script& script = drawn.script;
  for (unsigned slot = 0; slot < shared_slots; ++slot)
    script.push_back(shared_allocation(random, slot));
  for (unsigned lane = 0; lane < drawn.settings.lanes; ++lane) {
    LaneDraw draws{random, lane};
    for (unsigned n = 0; n < private_slots; ++n) draws.allocate(script);
  }
  const std::size_t between_meetings = 150 + random() % 500;
  std::size_t next_meeting = between_meetings;
  while (script.size() < operations) {
    LaneDraw{random, below(random, drawn.settings.lanes)}.append(script);
    if (script.size() < next_meeting) continue;
    append_meeting(random, script);
    next_meeting = script.size() + between_meetings;
  }
  return drawn;
}

std::string text_of(const Operation& operation) {
  std::ostringstream text;
  text << kind_names[static_cast<std::size_t>(operation.kind)] << " lane " << operation.lane
       << " slot " << operation.slot << " other " << operation.other << " first " << operation.first
       << " at " << operation.at << " count " << operation.count << " device " << operation.device
       << " stream " << operation.stream << " variant " << operation.variant;
  return text.str();
}

std::string text_of(const Case& drawn) {
  const Settings& settings = drawn.settings;
  std::ostringstream text;
  text << "seed " << drawn.seed << "\nlanes " << settings.lanes << "\npeers " << settings.peers
       << "\nstripe " << settings.stripe << "\ndevices " << settings.devices << "\npolicy "
       << settings.policy << "\nregion " << settings.region << "\nhuge_pages "
       << settings.huge_pages << "\nhost " << settings.host << "\ncopiers " << settings.copiers
       << "\noperations\n";
  for (const Operation& operation : drawn.script) text << text_of(operation) << "\n";
  return text.str();
}

Case case_from(const std::string& text) {
  std::istringstream words{text};
  Case read;
  const auto expect_name = [&](std::string_view name) {
    std::string word;
    if (!(words >> word) || word != name)
      throw std::runtime_error("'" + std::string{name} + "' is missing before '" + word + "'");
  };
  const auto value = [&](std::string_view name, auto& field) {
    expect_name(name);
    if (!(words >> field)) throw std::runtime_error("no value for " + std::string{name});
  };
  Settings& settings = read.settings;
  value("seed", read.seed);
  value("lanes", settings.lanes);
  value("peers", settings.peers);
  value("stripe", settings.stripe);
  value("devices", settings.devices);
  value("policy", settings.policy);
  value("region", settings.region);
  value("huge_pages", settings.huge_pages);
  value("host", settings.host);
  value("copiers", settings.copiers);
  expect_name("operations");
  if (settings.lanes == 0 || settings.lanes > model_lanes_max)
    throw std::runtime_error("there are 1 to " + std::to_string(model_lanes_max) + " lanes");
  if (settings.stripe == 0 || settings.stripe % 64 != 0)
    throw std::runtime_error("a stripe is a multiple of 64 bytes");
  for (std::string kind; words >> kind;) {
    Operation operation;
    operation.kind = kind_from(kind);
    value("lane", operation.lane);
    value("slot", operation.slot);
    value("other", operation.other);
    value("first", operation.first);
    value("at", operation.at);
    value("count", operation.count);
    value("device", operation.device);
    value("stream", operation.stream);
    value("variant", operation.variant);
    operation.lane %= settings.lanes;
    operation.slot %= slots_max;
    operation.other %= slots_max;
    operation.device = std::clamp(operation.device, -1, model_devices - 1);
    operation.stream %= streams_per_device;
    read.script.push_back(operation);
  }
  return read;
}

}  // namespace wherry::test
