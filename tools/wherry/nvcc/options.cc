#include "nvcc/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace wherry::tool {
namespace {

struct LongName {
  std::string_view name;
  std::string_view short_name;
};
// nvcc's long names of the options that are honoured.
constexpr std::array long_names = {
    LongName{"--output-file", "-o"},
    LongName{"--compile", "-c"},
    LongName{"--device-c", "-dc"},
    LongName{"--device-w", "-dw"},
    LongName{"--device-link", "-dlink"},
    LongName{"--lib", "-lib"},
    LongName{"--preprocess", "-E"},
    LongName{"--generate-dependencies", "-M"},
    LongName{"--generate-nonsystem-dependencies", "-MM"},
    LongName{"--generate-dependencies-with-compile", "-MD"},
    LongName{"--generate-nonsystem-dependencies-with-compile", "-MMD"},
    LongName{"--dependency-output", "-MF"},
    LongName{"--dependency-target-name", "-MT"},
    LongName{"--generate-dependency-targets", "-MP"},
    LongName{"--include-path", "-I"},
    LongName{"--system-include", "-isystem"},
    LongName{"--pre-include", "-include"},
    LongName{"--define-macro", "-D"},
    LongName{"--undefine-macro", "-U"},
    LongName{"--library", "-l"},
    LongName{"--library-path", "-L"},
    LongName{"--optimize", "-O"},
    LongName{"--debug", "-g"},
    LongName{"--device-debug", "-G"},
    LongName{"--generate-line-info", "-lineinfo"},
    LongName{"--profile", "-pg"},
    LongName{"--std", "-std"},
    LongName{"--x", "-x"},
    LongName{"--compiler-options", "-Xcompiler"},
    LongName{"--linker-options", "-Xlinker"},
    LongName{"--compiler-bindir", "-ccbin"},
    LongName{"--relocatable-device-code", "-rdc"},
    LongName{"--default-stream", "-default-stream"},
    LongName{"--verbose", "-v"},
    LongName{"--dryrun", "-dryrun"},
    LongName{"--keep", "-keep"},
    LongName{"--disable-warnings", "-w"},
    LongName{"--version", "-V"},
    LongName{"--help", "-h"},
    LongName{"--shared", "-shared"},
    LongName{"--cuda", "-cuda"},
    LongName{"--options-file", "-optf"},
    LongName{"--machine", "-m"},
};

// Options for GPU code, for the work of the compilation, or for what Wherry always does. They
// change nothing. First those with a value, then those without one.
constexpr std::array ignored_with_value = {"-arch",
                                           "--gpu-architecture",
                                           "-code",
                                           "--gpu-code",
                                           "-gencode",
                                           "--generate-code",
                                           "-maxrregcount",
                                           "--maxrregcount",
                                           "-Xptxas",
                                           "--ptxas-options",
                                           "-Xnvlink",
                                           "--nvlink-options",
                                           "-cudart",
                                           "--cudart",
                                           "-cudadevrt",
                                           "--cudadevrt",
                                           "-ftz",
                                           "--ftz",
                                           "-prec-div",
                                           "--prec-div",
                                           "-prec-sqrt",
                                           "--prec-sqrt",
                                           "-fmad",
                                           "--fmad",
                                           "-t",
                                           "--threads",
                                           "-Xcudafe",
                                           "-diag-suppress",
                                           "--diag-suppress",
                                           "-diag-error",
                                           "--diag-error",
                                           "-diag-warn",
                                           "--diag-warn",
                                           "-Werror",
                                           "--Werror",
                                           "-split-compile",
                                           "--split-compile",
                                           "-keep-dir",
                                           "--keep-dir",
                                           "-dlto-arch"};
constexpr std::array ignored = {"-use_fast_math",
                                "--use_fast_math",
                                "-extra-device-vectorization",
                                "-res-usage",
                                "--resource-usage",
                                "-restrict",
                                "--restrict",
                                "-expt-relaxed-constexpr",
                                "--expt-relaxed-constexpr",
                                "-expt-extended-lambda",
                                "--expt-extended-lambda",
                                "-extended-lambda",
                                "--extended-lambda",
                                "-Wno-deprecated-gpu-targets",
                                "--Wno-deprecated-gpu-targets",
                                "-forward-unknown-to-host-compiler",
                                "--forward-unknown-to-host-compiler",
                                "-forward-unknown-opts",
                                "--forward-unknown-opts",
                                "-display-error-number",
                                "--display-error-number",
                                "-no-display-error-number",
                                "--no-display-error-number",
                                "-dlto",
                                "-lto",
                                "-source-in-ptx",
                                "--source-in-ptx",
                                "-clean",
                                "--clean-targets",
                                "-Wreorder",
                                "--Wreorder",
                                "-Wext-lambda-captures-this",
                                "-noeh",
                                "-objtemp",
                                "--objdir-as-tempdir",
                                "-nodlink",
                                "-lineinfo",
                                "-save-temps"};

constexpr std::array refused = {
    std::pair{"-ptx", "there is no PTX on Wherry: compile to an object with -c"},
    std::pair{"--ptx", "there is no PTX on Wherry: compile to an object with -c"},
    std::pair{"-cubin", "there are no cubins on Wherry: compile to a shared object with -shared"},
    std::pair{"--cubin", "there are no cubins on Wherry: compile to a shared object with -shared"},
    std::pair{"-fatbin", "there are no fat binaries on Wherry: use -c or -shared"},
    std::pair{"--fatbin", "there are no fat binaries on Wherry: use -c or -shared"},
    std::pair{"-run", "start the program yourself after it is compiled"},
    std::pair{"--run", "start the program yourself after it is compiled"},
};

// Libraries of CUDA that are in libwherry.so.
constexpr std::array contained = {"cudart", "cudart_static", "cuda", "cudadevrt", "nvToolsExt"};
constexpr std::array missing = {"cublas",       "cublasLt",     "cufft",  "curand", "cusparse",
                                "cusolver",     "cudnn",        "nvrtc",  "nppc",   "nppi",
                                "nppif",        "nppig",        "nvjpeg", "cufftw", "cublas_static",
                                "cufft_static", "curand_static"};

template <typename List>
bool has(const List& list, std::string_view word) {
  return std::ranges::any_of(list, [&](std::string_view each) { return each == word; });
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(at);
    if (const auto part = text.substr(0, comma); !part.empty()) parts.emplace_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

class Parser {
 public:
  explicit Parser(const std::vector<std::string>& words) : words_(words) {}

  NvccOptions parse() {
    for (at_ = 0; at_ < words_.size(); ++at_) parse_word(words_[at_]);
    // The headers need C++17.
    if (has(std::array{"c++03", "c++98", "c++11", "c++14", "gnu++11", "gnu++14"},
            options_.standard))
      options_.standard = "gnu++17";
    return std::move(options_);
  }

 private:
  static std::string short_form(const std::string& name) {
    const auto found = std::ranges::find(long_names, std::string_view(name), &LongName::name);
    return found == long_names.end() ? name : std::string(found->short_name);
  }

  void parse_word(const std::string& word) {
    if (word.size() < 2 || word[0] != '-') return add_input(word);
    const std::size_t equals = word.find('=');
    const bool has_equals = equals != std::string::npos;
    const std::string name = short_form(word.substr(0, equals));
    joined_ = has_equals ? word.substr(equals + 1) : "";
    has_joined_ = has_equals;
    for (const auto& [option, reason] : refused)
      if (name == option) throw std::invalid_argument(word + ": " + reason);
    if (has(ignored, name)) return;
    if (has(ignored_with_value, name)) {
      if (!has_joined_) static_cast<void>(value_of(name));
      return;
    }
    if (!parse_named(name)) parse_prefixed(word);
  }

  // The value after =, or the next word.
  std::string value_of(const std::string& name) {
    if (has_joined_) return joined_;
    if (at_ + 1 >= words_.size()) throw std::invalid_argument(name + " needs a value");
    return words_[++at_];
  }

  bool parse_named(const std::string& name) {
    NvccOptions& o = options_;
    using Stage = NvccOptions::Stage;
    if (name == "-o")
      o.output = value_of(name);
    else if (name == "-c")
      o.stage = Stage::compile;
    else if (name == "-dc" || name == "-dw")
      o.stage = Stage::compile, o.relocatable = name == "-dc";
    else if (name == "-dlink")
      o.stage = Stage::device_link;
    else if (name == "-E")
      o.stage = Stage::preprocess;
    else if (name == "-cuda")
      o.stage = Stage::rewrite;
    else if (name == "-lib")
      o.stage = Stage::archive;
    else if (name == "-M" || name == "-MM")
      o.stage = Stage::dependencies, add(o.preprocessing, name);
    else if (name == "-MD" || name == "-MMD" || name == "-MP")
      add(o.preprocessing, name);
    else if (name == "-MF" || name == "-MT" || name == "-MQ" || name == "-isystem" ||
             name == "-include")
      add_values(o.preprocessing, name);
    else if (name == "-I" || name == "-D" || name == "-U")
      add_values(o.preprocessing, name);
    else if (name == "-L")
      add_values(o.linking, name);
    else if (name == "-l")
      add_library(value_of(name));
    else if (name == "-O")
      add(o.compiling, optimization(value_of(name)));
    else if (name == "-g" || name == "-pg")
      add(o.compiling, name);
    else if (name == "-w")
      add(o.common, name);
    else if (name == "-G")
      add(o.compiling, "-g"), o.optimized = false;
    else if (name == "-std")
      o.standard = value_of(name);
    else if (name == "-x")
      o.language = value_of(name);
    else if (name == "-m")
      static_cast<void>(value_of(name));
    else if (name == "-m64")
      return true;
    else if (name == "-Xcompiler")
      add_host(value_of(name));
    else if (name == "-Xlinker")
      for (const auto& part : split(value_of(name), ','))
        add(o.linking, "-Xlinker"), add(o.linking, part);
    else if (name == "-ccbin")
      o.compiler = compiler_in(value_of(name));
    else if (name == "-rdc")
      o.relocatable = value_of(name) == "true";
    else if (name == "-default-stream")
      add_default_stream(value_of(name));
    else if (name == "-v")
      o.verbose = true;
    else if (name == "-dryrun")
      o.dry_run = o.verbose = true;
    else if (name == "-keep")
      o.keep = true;
    else if (name == "-shared")
      o.shared = true;
    else if (name == "-V")
      o.version = true;
    else if (name == "-h")
      o.help = true;
    else if (name == "-optf")
      read_file(value_of(name));
    else
      return false;
    return true;
  }

  // -Ifolder, -DNAME=1, -O2, -lm, and what the host compiler knows.
  void parse_prefixed(const std::string& word) {
    NvccOptions& o = options_;
    const std::string_view two = std::string_view(word).substr(0, 2);
    if (two == "-I" || two == "-D" || two == "-U") return add(o.preprocessing, word);
    if (two == "-L") return add(o.linking, word);
    if (two == "-l") return add_library(word.substr(2));
    if (two == "-O") return add(o.compiling, optimization(word.substr(2)));
    if (word == "-pthread" || word == "-pipe" || word == "-fopenmp" || word == "-rdynamic" ||
        two == "-W" || two == "-f" || word.starts_with("-march"))
      return add_host(word);
    if (word == "-static")
      throw std::invalid_argument(
          "-static: Wherry is a shared library; link the others statically by their files");
    throw std::invalid_argument(word + ": wherry nvcc does not know this option");
  }

  static void add(std::vector<std::string>& list, std::string word) {
    list.push_back(std::move(word));
  }
  // nvcc permits lists: -I a,b
  void add_values(std::vector<std::string>& list, const std::string& name) {
    for (std::string& part : split(value_of(name), ',')) {
      list.push_back(name);
      list.push_back(std::move(part));
    }
  }
  void add_host(const std::string& value) {
    for (std::string& part : split(value, ',')) options_.common.push_back(std::move(part));
  }
  void add_library(const std::string& name) {
    if (has(missing, name))
      throw std::invalid_argument("-l" + name +
                                  ": this library is GPU code, Wherry has none of it");
    if (!has(contained, name)) options_.linking.push_back("-l" + name);
  }
  void add_default_stream(const std::string& which) {
    if (which == "per-thread")
      options_.preprocessing.emplace_back("-DCUDA_API_PER_THREAD_DEFAULT_STREAM");
    else if (which != "legacy" && which != "null")
      throw std::invalid_argument("-default-stream " + which + ": legacy or per-thread");
  }
  // nvcc always fully optimizes code for devices, and loops over threads are vectorized only with
  // -O3.
  static std::string optimization(const std::string& level) {
    return level.empty() || level == "2" || level == "4" ? "-O3" : "-O" + level;
  }
  static std::string compiler_in(const std::string& path) {
    return std::filesystem::is_directory(path) ? path + "/g++" : path;
  }
  void read_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::invalid_argument(path + ": cannot be read");
    std::vector<std::string> words;
    for (std::string word; file >> word;) words.push_back(std::move(word));
    words_.insert(words_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, words.begin(),
                  words.end());
  }

  void add_input(const std::string& path) {
    const std::string suffix = std::filesystem::path(path).extension();
    auto kind = NvccInput::Kind::object;
    if (options_.language == "cu" || (options_.language.empty() && suffix == ".cu"))
      kind = NvccInput::Kind::cuda;
    else if (!options_.language.empty() ||
             has(std::array{".cc", ".cpp", ".cxx", ".c", ".C", ".s", ".S", ".ii", ".i"}, suffix))
      kind = NvccInput::Kind::source;
    options_.inputs.push_back({kind, path});
    if (kind == NvccInput::Kind::object) options_.linking.push_back(path);
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
  std::string joined_;
  bool has_joined_ = false;
  NvccOptions options_;
};

}  // namespace

NvccOptions parse_nvcc(const std::vector<std::string>& words) {
  return Parser(words).parse();
}

}  // namespace wherry::tool
