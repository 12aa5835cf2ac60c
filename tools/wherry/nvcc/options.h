// The command line of `wherry nvcc`: nvcc's options, sorted by who needs them.
#pragma once

#include <string>
#include <vector>

namespace wherry::tool {

struct NvccInput {
  enum class Kind {
    cuda,    // .cu, or -x cu
    source,  // what the host compiler compiles as it is
    object,  // what the linker takes: objects, archives, libraries
  };
  Kind kind = Kind::object;
  std::string path;
};

struct NvccOptions {
  enum class Stage {
    link,
    compile,
    preprocess,
    rewrite,
    archive,
    dependencies,
    device_link
  };

  Stage stage = Stage::link;
  std::vector<NvccInput> inputs;
  std::string output;
  std::string compiler = "g++";
  std::vector<std::string> preprocessing;  // -I, -D, -MD, ...: used before the rewriting only
  std::vector<std::string> common;         // -std, -Xcompiler, ...: for each call of the compiler
  std::vector<std::string> compiling;      // -O, -g, ...
  std::vector<std::string> linking;        // -l, -L, -Xlinker
  std::string standard = "gnu++17";
  std::string language;   // from -x; if empty, from the file's name
  bool optimized = true;  // whether kernels are; -G prevents it
  bool shared = false;
  bool relocatable = false;
  bool verbose = false;
  bool dry_run = false;
  bool keep = false;  // keeps the rewritten files beside the outputs
  bool version = false;
  bool help = false;
};

// Throws std::invalid_argument with what cannot be honoured, and what to do.
NvccOptions parse_nvcc(const std::vector<std::string>& words);

}  // namespace wherry::tool
