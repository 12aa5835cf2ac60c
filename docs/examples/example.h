// What the examples have in common: numbers of the command line, the devices that they need, where
// memory is, and one line for each error.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <wherry/wherry.hpp>

namespace example {

// Returns the number that `text` consists of. Throws std::invalid_argument if it is none, or not
// between `least` and `most`.
inline std::size_t number(const std::string& name, const char* text, std::size_t least,
                          std::size_t most) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  const bool digits = *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
  if (!digits || value < least || value > most)
    throw std::invalid_argument(name + " must be a number from " + std::to_string(least) + " to " +
                                std::to_string(most) + ", not '" + text + "'");
  return value;
}

// Throws std::runtime_error unless there are at least `count` devices.
inline void require_devices(const wherry::runtime& runtime, int count) {
  if (runtime.device_count() < count)
    throw std::runtime_error("needs " + std::to_string(count) +
                             " devices, and WHERRY_DEVICES has " +
                             std::to_string(runtime.device_count()));
}

// Throws std::runtime_error unless the first `count` devices exist, and threads of the program can
// count as them. `otherwise` says what else can be done.
inline void require_coherent_devices(const wherry::runtime& runtime, int count,
                                     const std::string& otherwise = "") {
  require_devices(runtime, count);
  for (int device = 0; device < count; ++device) {
    if (runtime.device(device).attribute(
            CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) == 0)
      throw std::runtime_error("device " + std::to_string(device) +
                               " is isolated: it needs kind=coherent in WHERRY_DEVICES" +
                               otherwise);
  }
}

// Counts pages: all, and those that are in a device's memory.
class Residency {
 public:
  Residency(const wherry::runtime& runtime, int device) : runtime_(runtime), device_(device) {}

  // Counts the pages of these elements.
  template <typename T>
  void add(std::span<const T> elements) {
    const char* const end = reinterpret_cast<const char*>(elements.data() + elements.size());
    for (const char* page = reinterpret_cast<const char*>(elements.data()); page < end;
         page += 4096) {
      ++pages_;
      if (runtime_.page_state(page).resident == 1u << (1 + device_)) ++here_;
    }
  }
  // The part of the pages that is in the device's memory, from 0 to 1.
  double share() const {
    return pages_ == 0 ? 0 : static_cast<double>(here_) / static_cast<double>(pages_);
  }
  // "most" or "few", which, unlike the share, does not depend on what else the machine does.
  const char* word() const { return share() > 0.8 ? "most" : "few"; }

 private:
  const wherry::runtime& runtime_;
  int device_;
  std::size_t pages_ = 0, here_ = 0;
};

// Calls run() and returns its result, for main() to return. If it throws, prints one line and
// returns 2.
template <typename Run>
int report_errors(const char* program, const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", program);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 2;
  }
}

}  // namespace example
