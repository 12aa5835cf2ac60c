// How much time do Wherry's wrappers of read(2) and similar calls add to a call on ordinary memory,
// in a program that is linked with the library and has started it? Calls go by turns through the
// wrapper and to the C library's own function, in the same run.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <thread>

#include "measure/managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int batch = 500;  // calls between two clock readings
constexpr int batches = 1000;
constexpr double goal_ns = 5;

template <typename Function>
Function* from(void* where, const char* name) {
  auto* const found = reinterpret_cast<Function*>(::dlsym(where, name));
  if (found == nullptr) fail(std::string("no function ") + name);
  return found;
}

template <typename Call>
double ns_of_one(const Call& call) {
  return ns_of([&] {
           for (int i = 0; i < batch; ++i) call();
         }) /
         batch;
}

// Adds the median time of the C library's function, and the median time that the wrapper adds.
template <typename Function, typename Call>
void compare(Measurements& results, const std::string& what, const char* name, const Call& call) {
  void* const c_library = ::dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  const auto real = from<Function>(c_library, name);
  const auto wrapper = from<Function>(RTLD_DEFAULT, name);
  if (real == wrapper) fail(std::string("no wrapper of ") + name);
  std::vector<double> times;
  std::vector<double> surplus;
  for (int i = 0; i < batches; ++i) {
    // The function and its wrapper take turns in being called first.
    const double first = ns_of_one([&] { call(i % 2 == 0 ? real : wrapper); });
    const double second = ns_of_one([&] { call(i % 2 == 0 ? wrapper : real); });
    times.push_back(i % 2 == 0 ? first : second);
    surplus.push_back(i % 2 == 0 ? second - first : first - second);
  }
  results.push_back({what + ", the C library's", median(times), "ns", {}, {}});
  results.push_back({what + ", added by the wrapper", median(surplus), "ns", goal_ns, {}});
}

void measure_all(Measurements& results, const std::string& when) {
  static std::array<char, 4096> buffer;
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const int file = ::memfd_create("ordinary_reads", MFD_CLOEXEC);
  if (zeros < 0 || file < 0 || ::ftruncate(file, buffer.size()) != 0) fail("files");
  using Read = ssize_t(int, void*, std::size_t);
  using ReadAt = ssize_t(int, void*, std::size_t, off_t);
  using ReadPieces = ssize_t(int, const iovec*, int);
  const auto name = [&](const char* call) { return when + call; };
  compare<Read>(results, name("read of no file"), "read",
                [&](Read* call) { (void)!call(-1, buffer.data(), 1); });
  compare<Read>(results, name("read of 1 byte of /dev/zero"), "read",
                [&](Read* call) { (void)!call(zeros, buffer.data(), 1); });
  compare<Read>(results, name("read of 4 KiB of /dev/zero"), "read",
                [&](Read* call) { (void)!call(zeros, buffer.data(), buffer.size()); });
  compare<ReadAt>(results, name("pread of 4 KiB of a file"), "pread",
                  [&](ReadAt* call) { (void)!call(file, buffer.data(), buffer.size(), 0); });
  compare<ReadPieces>(results, name("readv of two pieces of /dev/zero"), "readv",
                      [&](ReadPieces* call) {
                        const iovec pieces[] = {{buffer.data(), 1}, {buffer.data() + 1, 1}};
                        (void)!call(zeros, pieces, 2);
                      });
  // Arrays of iovec that are not on the pages of the stack that the call itself uses.
  std::array<iovec, 1024> far;
  far.back() = {buffer.data(), 1};
  const std::vector<iovec> on_heap{{buffer.data(), 1}};
  const auto read_by = [&](const iovec* array) {
    return [zeros, array](ReadPieces* call) { (void)!call(zeros, array, 1); };
  };
  compare<ReadPieces>(results, name("readv, array elsewhere on the stack"), "readv",
                      read_by(&far.back()));
  compare<ReadPieces>(results, name("readv, array on the heap"), "readv", read_by(&on_heap[0]));
  static iovec in_data{buffer.data(), 1};
  compare<ReadPieces>(results, name("readv, array in the program's data"), "readv",
                      read_by(&in_data));
  std::unique_ptr<iovec> of_thread;
  std::thread([&] { of_thread = std::make_unique<iovec>(*far.rbegin()); }).join();
  compare<ReadPieces>(results, name("readv, array that another thread has allocated"), "readv",
                      read_by(of_thread.get()));
  auto* const mapped = static_cast<iovec*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (mapped == MAP_FAILED) fail("mmap");
  *mapped = far.back();
  compare<ReadPieces>(results, name("readv, array in mapped memory"), "readv", read_by(mapped));
  ::munmap(mapped, 4096);
  ::close(zeros);
  ::close(file);
}

Measurements measure() {
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  pin_to_allowed_cpu(0);
  Measurements results;
  measure_all(results, "");
  results.clear();  // that was to warm up
  measure_all(results, "before cuInit, ");
  init_cuda();
  measure_all(results, "");
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  // Measured in several processes, because a process's addresses change how well the CPU predicts
  // jumps.
  std::vector<Measurements> runs;
  for (int i = 0; i < 5; ++i) runs.push_back(measure_in_child(measure));
  return print_report("wrappers of read(2) and its kin on ordinary memory: median times of a call",
                      medians(runs), json);
}
