// What `wherry run` tells this library in the variable WHERRY_RUN: parts NAME=VALUE, separated by
// semicolons. The tool has checked them; unknown or wrong parts are ignored.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace wherry::run {

struct Settings {
  std::size_t min_bytes = std::size_t{1} << 20;  // min: smaller requests are left alone
  std::string attach;                            // attach: see attachment.h
  std::string reports;                           // reports: the file for reports; empty: none
  pid_t tool = 0;                                // tool: the process of `wherry run`
  bool records_children = false;                 // children=1: each process writes its own trace
};

// Reads the settings. Call it once, before the program has threads.
void read_settings();
// Returns this process's settings, or null if `wherry run` did not start it, or read_settings() was
// not called yet (constructors of other libraries allocate memory, too).
const Settings* settings();

}  // namespace wherry::run
