#include "nvcc/command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "complain.h"
#include "installation.h"
#include "nvcc/options.h"
#include "nvcc/rewriter.h"
#include "output.h"
#include "temporary_folder.h"

namespace wherry::tool {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// CMake recognizes nvcc by its own name for itself in the version, so this text contains it.
constexpr const char* version_text =
    "wherry nvcc: compiles CUDA C++ for the devices of Wherry, in the place of\n"
    "nvcc: NVIDIA (R) Cuda compiler driver\n"
    "Cuda compilation tools, release 13.0, V13.0.0\n";
constexpr const char* help_text =
    "Usage: wherry nvcc [OPTIONS] FILE.cu ... -o PROGRAM\n\n"
    "Compiles CUDA C++ whose kernels run on the CPUs of Wherry's devices. The options are nvcc's:\n"
    "  -c -dc -E -lib -shared -o FILE -x LANGUAGE -std=c++17|20 -rdc=true|false\n"
    "  -I -isystem -include -D -U -M -MM -MD -MMD -MF -MT -MP -l -L\n"
    "  -O0..3 -g -G -lineinfo -pg -w -Xcompiler -Xlinker -ccbin COMPILER\n"
    "  -default-stream legacy|per-thread -v -dryrun -keep -optf FILE --version\n"
    "Options for GPUs (-arch, -gencode, -maxrregcount, -use_fast_math, ...) are ignored.\n"
    "docs/cuda-sources.md describes what works.\n";

void check(const NvccOptions& options) {
  using Stage = NvccOptions::Stage;
  std::size_t sources = 0;
  for (const NvccInput& input : options.inputs) {
    if (input.kind != NvccInput::Kind::object) ++sources;
    if (!options.dry_run && !fs::exists(input.path))
      throw std::invalid_argument(input.path + ": no such file");
  }
  if (options.inputs.empty())
    throw std::invalid_argument("no input files (try: wherry nvcc --help)");
  if ((options.stage == Stage::compile || options.stage == Stage::rewrite) && sources > 1 &&
      !options.output.empty())
    throw std::invalid_argument("-c and -cuda with -o take one source file");
}

class Driver {
 public:
  explicit Driver(NvccOptions options)
      : options_(std::move(options)), installation_(find_installation()) {}

  int run() {
    using Stage = NvccOptions::Stage;
    // CMake runs `nvcc -v` with a file that does not exist, and learns where the toolkit is.
    if (options_.verbose) print_places();
    check(options_);
    // Kernels are host code, which needs no link of its own: build systems get an empty object.
    if (options_.stage == Stage::device_link)
      return execute({options_.compiler, "-x", "c++", "-fPIC", "-c", "/dev/null", "-o",
                      options_.output.empty() ? "a_dlink.o" : options_.output});
    Words objects;
    for (std::size_t i = 0; i < options_.inputs.size(); ++i) {
      const NvccInput& input = options_.inputs[i];
      if (input.kind == NvccInput::Kind::object) continue;
      if (options_.stage == Stage::rewrite && input.kind != NvccInput::Kind::cuda) continue;
      const bool is_output = options_.stage == Stage::compile || options_.stage == Stage::rewrite;
      const std::string object =
          is_output ? output_for(input) : (scratch_.path() / fmt::format("{}.o", i)).string();
      objects.push_back(object);
      const int status = input.kind == NvccInput::Kind::cuda ? compile_cuda(input, object)
                                                             : compile_source(input, object);
      if (status != 0) return status;
    }
    if (options_.stage == Stage::link) return link(objects);
    if (options_.stage == Stage::archive) return archive(objects);
    return 0;
  }

 private:
  std::string output_for(const NvccInput& input) const {
    if (!options_.output.empty()) return options_.output;
    const fs::path name = fs::path(input.path).filename();
    if (options_.stage == NvccOptions::Stage::rewrite) return name.string() + ".cpp.ii";
    return fs::path(name).replace_extension(".o");
  }

  // Prints the folders as nvcc does: CMake learns from these lines what to link. It refuses a
  // toolkit that names no folder with a device library, so one is named although Wherry needs none.
  void print_places() const {
    const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
    const std::string top = bin.parent_path();
    const std::string base = installation_.include / "wherry";
    const Words includes{"-I" + base + "/cuda", "-I" + base, "-I" + installation_.include.string()};
    fmt::print(stderr,
               "#$ _HERE_={}\n#$ TOP={}\n#$ NVVMIR_LIBRARY_DIR={}/nvvm/libdevice\n"
               "#$ INCLUDES={}\n#$ LIBRARIES={}\n#$ _ARCH_=-arch compute_90\n",
               bin.string(), top, top, quoted(includes), quoted(libraries()));
  }
  Words libraries() const {
    return {"-L" + installation_.link.string(), "-L" + installation_.library.string(),
            "-lcudart_static", "-lwherry"};
  }
  static std::string quoted(const Words& words) {
    std::string line;
    for (const std::string& word : words) line += (line.empty() ? "\"" : " \"") + word + "\"";
    return line;
  }

  // The flags of each call of the compiler.
  Words command(std::initializer_list<const Words*> parts) const {
    Words words{options_.compiler};
    for (const Words* part : parts) words.insert(words.end(), part->begin(), part->end());
    if (options_.shared) words.emplace_back("-fPIC");
    return words;
  }

  Words include_flags() const {
    const std::string base = installation_.include / "wherry";
    Words flags{"-isystem", base + "/cuda", "-isystem", base};
    // The compiler searches /usr/include in any case, and must do so after the C++ library's
    // folders.
    if (installation_.include != "/usr/include")
      flags.insert(flags.end(), {"-isystem", installation_.include});
    return flags;
  }

  // The command that preprocesses the input, and writes the dependency file of -MD.
  Words preprocess_command(const NvccInput& input, const std::string& object) const {
    // The macro for compute capability 9.0, which the devices have. The options that follow may
    // undefine it.
    Words words{options_.compiler, "-D__CUDA_ARCH__=900"};
    const Words options = command({&options_.preprocessing, &options_.common});
    words.insert(words.end(), options.begin() + 1, options.end());
    const Words includes = include_flags();
    words.insert(words.end(), includes.begin(), includes.end());
    for (const char* each :
         {"-E", "-x", "c++", "-D__CUDACC__", "-D__NVCC__", "-D__CUDACC_VER_MAJOR__=13",
          "-D__CUDACC_VER_MINOR__=0", "-D__CUDACC_VER_BUILD__=0", "-D__CUDACC_EXTENDED_LAMBDA__",
          "-D__CUDACC_RELAXED_CONSTEXPR__"})
      words.emplace_back(each);
    words.push_back("-std=" + options_.standard);
    if (options_.relocatable) words.emplace_back("-D__CUDACC_RDC__");
    for (const char* each : {"-include", "cuda_runtime.h"}) words.emplace_back(each);
    const bool names_target = std::ranges::any_of(options_.preprocessing, [](const auto& word) {
      return word.starts_with("-MT") || word.starts_with("-MQ");
    });
    const bool writes_dependencies = std::ranges::any_of(
        options_.preprocessing, [](const auto& word) { return word == "-MD" || word == "-MMD"; });
    const bool names_file = std::ranges::any_of(
        options_.preprocessing, [](const auto& word) { return word.starts_with("-MF"); });
    if (writes_dependencies && !names_target) words.insert(words.end(), {"-MT", object});
    if (writes_dependencies && !names_file)
      words.insert(words.end(), {"-MF", fs::path(object).replace_extension(".d")});
    // Defines the macros of optimization, as the compilation will.
    if (options_.optimized) words.emplace_back("-O");
    words.push_back(input.path);
    return words;
  }

  int compile_cuda(const NvccInput& input, const std::string& object) {
    using Stage = NvccOptions::Stage;
    if (options_.stage == Stage::dependencies || options_.stage == Stage::preprocess) {
      Words words = preprocess_command(input, object);
      if (!options_.output.empty()) words.insert(words.end(), {"-o", options_.output});
      return execute(words);
    }
    const std::string preprocessed = scratch_.path() / "preprocessed.ii";
    Words words = preprocess_command(input, object);
    words.insert(words.end(), {"-o", preprocessed});
    if (const int status = execute(words); status != 0) return status;
    const bool is_last = options_.stage == Stage::rewrite;
    const std::string rewritten = is_last ? object : rewritten_name(object);
    const int status = rewrite(preprocessed, rewritten);
    if (status != 0 || is_last) return status;
    return compile_rewritten(rewritten, object);
  }

  std::string rewritten_name(const std::string& object) const {
    if (options_.keep) return fs::path(object).filename().replace_extension(".wherry.ii");
    return scratch_.path() / "rewritten.ii";
  }

  int rewrite(const std::string& from, const std::string& to) const {
    if (options_.verbose) fmt::print(stderr, "#$ wherry: rewrite \"{}\" to \"{}\"\n", from, to);
    if (options_.dry_run) return 0;
    std::ifstream file(from, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const Rewritten result = rewrite_cuda(std::move(text), options_.relocatable);
    for (const std::string& error : result.errors) fmt::print(stderr, "{}\n", error);
    if (!result.errors.empty()) return exit_failed;
    std::ofstream output(to, std::ios::binary);
    output << result.text << std::flush;
    if (output) return 0;
    complain(fmt::format("cannot write {}", to));
    return exit_failed;
  }

  int compile_rewritten(const std::string& rewritten, const std::string& object) {
    Words words = command({&options_.compiling, &options_.common});
    words.push_back("-std=" + options_.standard);
    // nvcc applies -O0 to host code only, so without -g kernels are optimized in spite of it.
    const bool debugs = std::ranges::find(options_.compiling, "-g") != options_.compiling.end();
    const bool has_level = std::ranges::any_of(options_.compiling, [&](const auto& word) {
      return word.starts_with("-O") && (debugs || word != "-O0");
    });
    if (options_.optimized && !has_level) words.emplace_back("-O3");
    // In CUDA, functions set no errno and operations do not trap. Both keep loops from being
    // vectorized.
    for (const char* each : {"-fno-math-errno", "-fno-trapping-math", "-Wno-unknown-pragmas"})
      words.emplace_back(each);
    words.insert(words.end(), {"-x", "c++-cpp-output", "-c", rewritten, "-o", object});
    return execute(words);
  }

  int compile_source(const NvccInput& input, const std::string& object) {
    using Stage = NvccOptions::Stage;
    const bool is_c = input.path.ends_with(".c");
    Words words = command({&options_.preprocessing, &options_.compiling, &options_.common});
    const Words includes = include_flags();
    words.insert(words.end(), includes.begin(), includes.end());
    if (!is_c) words.push_back("-std=" + options_.standard);
    if (!options_.language.empty()) words.insert(words.end(), {"-x", options_.language});
    if (is_c && options_.language.empty()) words.insert(words.end(), {"-x", "c"});
    if (options_.stage == Stage::preprocess || options_.stage == Stage::dependencies) {
      if (options_.stage == Stage::preprocess) words.emplace_back("-E");
      words.push_back(input.path);
      if (!options_.output.empty()) words.insert(words.end(), {"-o", options_.output});
      return execute(words);
    }
    words.insert(words.end(), {"-c", input.path, "-o", object});
    return execute(words);
  }

  int link(const Words& objects) {
    Words words{options_.compiler};
    words.insert(words.end(), options_.common.begin(), options_.common.end());
    for (const std::string& each : options_.compiling)
      if (each == "-g" || each == "-pg") words.push_back(each);
    if (options_.shared) words.insert(words.end(), {"-shared", "-Wl,-z,now"});
    words.insert(words.end(), objects.begin(), objects.end());
    words.insert(words.end(), options_.linking.begin(), options_.linking.end());
    const Words own = libraries();
    words.insert(words.end(), own.begin(), own.end());
    words.insert(words.end(), {"-pthread", "-Wl,-rpath," + installation_.library.string(), "-o",
                               options_.output.empty() ? "a.out" : options_.output});
    return execute(words);
  }

  int archive(Words objects) {
    if (options_.output.empty()) throw std::invalid_argument("-lib needs -o FILE.a");
    for (const NvccInput& input : options_.inputs)
      if (input.kind == NvccInput::Kind::object) objects.push_back(input.path);
    Words words{"ar", "rcs", options_.output};
    words.insert(words.end(), objects.begin(), objects.end());
    return execute(words);
  }

  // Runs a command; returns its exit status.
  int execute(const Words& words) const {
    if (options_.verbose) fmt::print(stderr, "#$ {}\n", quoted(words));
    if (options_.dry_run) return 0;
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t process = -1;
    const int error =
        ::posix_spawnp(&process, arguments[0], nullptr, nullptr, arguments.data(), ::environ);
    if (error != 0) {
      complain(fmt::format("{}: {} (-ccbin chooses the compiler)", words[0], std::strerror(error)));
      return exit_failed;
    }
    int status = 0;
    while (::waitpid(process, &status, 0) < 0)
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : exit_failed;
  }

  const NvccOptions options_;
  const Installation installation_;
  const TemporaryFolder scratch_{"wherry-nvcc"};
};

}  // namespace

int run_nvcc(const std::vector<std::string>& words) {
  try {
    NvccOptions options = parse_nvcc(words);
    if (options.version) return print_out(version_text);
    if (options.help) return print_out(help_text);
    return Driver(std::move(options)).run();
  } catch (const std::invalid_argument& wrong) {
    complain(std::string("nvcc: ") + wrong.what());
    return exit_usage;
  }
}

}  // namespace wherry::tool
