// `wherry import`: makes a trace of the accesses that another tool recorded.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/page.h"

namespace wherry::tool {

struct ImportOptions {
  std::string file;
  std::string output;
  std::string format = "csv";
  std::uint64_t page_bytes = impl::page_size;
  int devices = 0;                 // if 0, as many as the file and the rules name, at least one
  std::uint64_t capacity = 0;      // bytes of each device; 0: no limit
  std::vector<std::string> rules;  // THREAD=PROCESSOR
};

// Adds the command. Parsing stores its options in `options`, which must outlive `app`.
CLI::App* add_import(CLI::App& app, ImportOptions& options);

// Returns the exit code. Throws std::bad_alloc.
int run_import(const ImportOptions& options);

}  // namespace wherry::tool
