// The program for fault injection (injector.cc): a short program that uses as much of the library
// as possible, checks every byte that it reads, and accepts an error from any call.
//
// Exit codes: 0 the work was done, or refused with errors; 10 wrong data; 11 a refused cuInit left
// something behind. With the argument "peer" it is the other program of an IPC test, and reads the
// handle from stdin.
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace {

constexpr int wrong_data = 10;
constexpr int left_behind = 11;
constexpr std::size_t mib = std::size_t{1} << 20;

const char* step = "start";
int errors = 0;

[[noreturn]] void end(int code, const std::string& why) {
  std::fprintf(stderr, "workload: %s: %s\n", step, why.c_str());
  std::fflush(stderr);
  ::_exit(code);
}

bool ok(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return true;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "workload: %s: %s: %s\n", step, what, name != nullptr ? name : "?");
  ++errors;
  return false;
}
#define OK(call) ok((call), #call)

using Word = std::uint64_t;

// The expected value of each word of an array.
Word word_at(std::size_t index, Word salt) {
  return (index + 1) * 0x9e3779b97f4a7c15 + salt;
}

struct KernelArguments {
  Word* to;
  const Word* from;
  Word salt;
  Word* bad;
};

void fill_kernel(const void* args, std::size_t begin, std::size_t end) {
  const KernelArguments& arguments = *static_cast<const KernelArguments*>(args);
  for (std::size_t i = begin; i < end; ++i) arguments.to[i] = word_at(i, arguments.salt);
}

// Counts wrong words.
void look_kernel(const void* args, std::size_t begin, std::size_t end) {
  const KernelArguments& arguments = *static_cast<const KernelArguments*>(args);
  Word bad = 0;
  for (std::size_t i = begin; i < end; ++i) bad += arguments.from[i] != word_at(i, arguments.salt);
  if (bad != 0) __atomic_fetch_add(arguments.bad, bad, __ATOMIC_RELAXED);
}

void fill_on_host(Word* to, std::size_t count, Word salt) {
  for (std::size_t i = 0; i < count; ++i) to[i] = word_at(i, salt);
}

void look_on_host(const Word* from, std::size_t count, Word salt, const char* what) {
  for (std::size_t i = 0; i < count; ++i)
    if (from[i] != word_at(i, salt))
      end(wrong_data, std::string(what) + ": word " + std::to_string(i) + " is wrong");
}

std::size_t count_entries(const char* folder) {
  DIR* const directory = ::opendir(folder);
  std::size_t count = 0;
  while (directory != nullptr && ::readdir(directory) != nullptr) ++count;
  if (directory != nullptr) ::closedir(directory);
  return count;
}

// Resources that a refused cuInit must not leave behind: descriptors, mappings of pools and of the
// arena's range, threads.
struct Belongings {
  std::size_t descriptors = count_entries("/proc/self/fd");
  std::size_t threads = count_entries("/proc/self/task");
  std::size_t mapped_kib = 0;
  std::string files;  // files of the library that are mapped

  Belongings() {
    std::FILE* const maps = std::fopen("/proc/self/maps", "re");
    char line[4096];
    while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
      std::size_t start = 0;
      std::size_t finish = 0;
      if (std::sscanf(line, "%zx-%zx", &start, &finish) == 2) mapped_kib += (finish - start) / 1024;
      if (std::strstr(line, "wherry-") != nullptr) files += line;
    }
    if (maps != nullptr) std::fclose(maps);
  }
};

// `kept`: how many descriptors may stay open for the life of the process after an attempt.
void check_left_behind(const Belongings& before, std::size_t kept) {
  // Threads that are ending may need a moment.
  for (int i = 0; i < 100 && count_entries("/proc/self/task") > before.threads; ++i)
    ::usleep(20'000);
  const Belongings after;
  if (after.descriptors > before.descriptors + kept)
    end(left_behind, "descriptors after a refused cuInit: " + std::to_string(before.descriptors) +
                         " became " + std::to_string(after.descriptors));
  if (after.threads > before.threads) end(left_behind, "threads after a refused cuInit");
  if (after.files != before.files)
    end(left_behind, "mappings after a refused cuInit: " + after.files);
  constexpr std::size_t allowed_kib = 512 * 1024;  // heaps and stacks that the C library keeps
  if (after.mapped_kib > before.mapped_kib + allowed_kib)
    end(left_behind, "KiB mapped after a refused cuInit: " + std::to_string(before.mapped_kib) +
                         " became " + std::to_string(after.mapped_kib));
}

struct Place {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
};

class Array {
 public:
  explicit Array(std::size_t count) : count_(count) {
    CUdeviceptr pointer = 0;
    if (OK(cuMemAllocManaged(&pointer, count * sizeof(Word), CU_MEM_ATTACH_GLOBAL)))
      data_ = reinterpret_cast<Word*>(pointer);
  }
  ~Array() {
    if (data_ != nullptr) OK(cuMemFree(at()));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  explicit operator bool() const { return data_ != nullptr; }
  Word* data() const { return data_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(Word); }
  CUdeviceptr at() const { return reinterpret_cast<CUdeviceptr>(data_); }

 private:
  std::size_t count_;
  Word* data_ = nullptr;
};

constexpr CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
constexpr CUmemLocation device(int id) {
  return {CU_MEM_LOCATION_TYPE_DEVICE, id};
}

class Program {
 public:
  // Returns false if there is nothing to work with.
  bool start() {
    step = "cuInit";
    const Belongings before;
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (OK(cuInit(0))) break;
      // The SIGSEGV handler, which is never removed, keeps one eventfd. It exists with the mprotect
      // trap, which the library falls back to if it cannot find out what is permitted. A leak of
      // each attempt would be two descriptors.
      check_left_behind(before, 1);
      if (attempt == 1) return false;
    }
    step = "contexts";
    int count = 0;
    if (!OK(cuDeviceGetCount(&count))) return false;
    for (int i = 0; i < count; ++i) {
      Place place;
      if (!OK(cuDevicePrimaryCtxRetain(&place.context, i)) || !OK(cuCtxSetCurrent(place.context)) ||
          !OK(cuStreamCreate(&place.stream, CU_STREAM_NON_BLOCKING)))
        return false;
      places_.push_back(place);
    }
    return OK(cuCtxSetCurrent(places_[0].context));
  }

  void run() {
    const std::pair<const char*, void (Program::*)()> steps[] = {
        {"faults", &Program::faults},
        {"read-mostly", &Program::read_mostly},
        {"remote", &Program::remote},
        {"prefetch", &Program::prefetch},
        {"eviction", &Program::eviction},
        {"copies", &Program::copies},
        {"device memory", &Program::device_memory},
        {"pool", &Program::pool},
        {"registered", &Program::registered},
        {"fork", &Program::forked},
        {"events", &Program::events},
        {"ipc", &Program::ipc},
        {"system calls", &Program::system_calls},
        {"reset", &Program::reset},
    };
    const char* const only = std::getenv("INJECT_STEP");
    for (const auto& [name, what] : steps) {
      if (only != nullptr && std::strcmp(only, name) != 0) continue;
      step = name;
      OK(cuCtxSetCurrent(places_[0].context));
      (this->*what)();
      renew();
    }
  }

 private:
  // Returns true if the launch has completed.
  bool launch(int where, wherryKernel kernel, const KernelArguments& arguments, std::size_t count) {
    CUstream stream = places_[static_cast<std::size_t>(where)].stream;
    return OK(wherryLaunchKernel(stream, kernel, &arguments, sizeof arguments, count)) &&
           OK(cuStreamSynchronize(stream));
  }
  bool fill(int where, const Array& array, Word salt) {
    return launch(where, fill_kernel, {array.data(), nullptr, salt, nullptr}, array.count());
  }
  bool look(int where, const Array& array, Word salt, const char* what) {
    const Array bad(1);
    if (!bad) return false;
    bad.data()[0] = 0;
    if (!launch(where, look_kernel, {nullptr, array.data(), salt, bad.data()}, array.count()))
      return false;
    if (bad.data()[0] != 0)
      end(wrong_data,
          std::string(what) + ": " + std::to_string(bad.data()[0]) + " words are wrong");
    return true;
  }

  void faults() {
    const Array array(40'000);
    if (!array) return;
    fill_on_host(array.data(), array.count(), 1);
    look(0, array, 1, "host to device 0");
    if (!fill(0, array, 2)) return;
    look_on_host(array.data(), array.count(), 2, "device 0 to host");
    look(1, array, 2, "host to device 1");
    if (!fill(1, array, 3)) return;
    look(0, array, 3, "device 1 to device 0");
    look_on_host(array.data(), array.count(), 3, "device 1 to host");
  }

  void read_mostly() {
    const Array array(20'000);
    if (!array) return;
    OK(cuMemAdvise_v2(array.at(), array.bytes(), CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    fill_on_host(array.data(), array.count(), 4);
    look(0, array, 4, "first copy");
    look(1, array, 4, "second copy");
    fill_on_host(array.data(), array.count(), 5);
    look(0, array, 5, "first copy after a write");
    if (!fill(1, array, 6)) return;
    look_on_host(array.data(), array.count(), 6, "the host's copy after a write");
    OK(cuMemAdvise_v2(array.at(), array.bytes(), CU_MEM_ADVISE_UNSET_READ_MOSTLY, host));
    look(0, array, 6, "after the advice");
  }

  void remote() {
    const Array array(3 * mib / sizeof(Word));
    if (!array) return;
    OK(cuMemAdvise_v2(array.at(), array.bytes(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    OK(cuMemAdvise_v2(array.at(), array.bytes(), CU_MEM_ADVISE_SET_ACCESSED_BY, device(0)));
    fill_on_host(array.data(), array.count(), 7);
    look(0, array, 7, "the host's memory from device 0");
    const bool filled = fill(0, array, 8);
    if (filled) look_on_host(array.data(), array.count(), 8, "written through a remote mapping");
    OK(cuMemAdvise_v2(array.at(), array.bytes(), CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host));
    OK(cuMemAdvise_v2(array.at(), array.bytes(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(1)));
    if (filled) look(1, array, 8, "moved to device 1");
    if (filled) look_on_host(array.data(), array.count(), 8, "device 1's memory from the host");
  }

  void prefetch() {
    const Array array(5 * mib / sizeof(Word));
    if (!array) return;
    fill_on_host(array.data(), array.count(), 9);
    OK(cuMemPrefetchAsync_v2(array.at(), array.bytes(), device(0), 0, places_[0].stream));
    look(0, array, 9, "prefetched to device 0");
    OK(cuMemPrefetchAsync_v2(array.at(), array.bytes(), device(1), 0, places_[0].stream));
    OK(cuStreamSynchronize(places_[0].stream));
    look(1, array, 9, "prefetched to device 1");
    OK(cuMemPrefetchAsync_v2(array.at(), array.bytes(), host, 0, places_[0].stream));
    OK(cuStreamSynchronize(places_[0].stream));
    look_on_host(array.data(), array.count(), 9, "prefetched to the host");
  }

  void eviction() {
    const Array array(12 * mib / sizeof(Word));
    if (!array) return;
    if (!fill(0, array, 10)) return;
    look(0, array, 10, "evicted and back");
    look_on_host(array.data(), array.count(), 10, "evicted");
  }

  void copies() {
    const Array from(mib / sizeof(Word));
    const Array to(mib / sizeof(Word));
    if (!from || !to) return;
    fill_on_host(from.data(), from.count(), 11);
    if (OK(cuMemcpyDtoD(to.at(), from.at(), from.bytes())))
      look_on_host(to.data(), to.count(), 11, "copied");
    std::vector<Word> own(from.count());
    if (OK(cuMemcpyDtoH(own.data(), from.at(), from.bytes())))
      look_on_host(own.data(), own.size(), 11, "copied to the program's memory");
    fill_on_host(own.data(), own.size(), 12);
    if (OK(cuMemcpyHtoDAsync(to.at(), own.data(), to.bytes(), places_[1].stream)) &&
        OK(cuStreamSynchronize(places_[1].stream)))
      look_on_host(to.data(), to.count(), 12, "copied from the program's memory");
    if (OK(cuMemsetD8(to.at(), 0x5a, to.bytes())))
      for (std::size_t i = 0; i < to.count(); ++i)
        if (to.data()[i] != 0x5a5a5a5a5a5a5a5a) end(wrong_data, "memset");
  }

  // Copies in, runs a kernel, and copies out.
  void through(CUdeviceptr memory, std::size_t count, Word salt, const char* what) {
    std::vector<Word> own(count);
    const std::size_t bytes = count * sizeof(Word);
    fill_on_host(own.data(), count, salt);
    if (!OK(cuMemcpyHtoD(memory, own.data(), bytes))) return;
    std::memset(own.data(), 0, bytes);
    if (OK(cuMemcpyDtoH(own.data(), memory, bytes))) look_on_host(own.data(), count, salt, what);
    if (!launch(0, fill_kernel, {reinterpret_cast<Word*>(memory), nullptr, salt + 1, nullptr},
                count))
      return;
    if (OK(cuMemcpyDtoH(own.data(), memory, bytes)))
      look_on_host(own.data(), count, salt + 1, what);
  }

  void device_memory() {
    CUdeviceptr memory = 0;
    if (!OK(cuMemAlloc(&memory, mib))) return;
    through(memory, mib / sizeof(Word), 13, "device memory");
    OK(cuMemFree(memory));
  }

  void pool() {
    CUdeviceptr memory = 0;
    if (!OK(cuMemAllocAsync(&memory, mib, places_[0].stream))) return;
    if (OK(cuStreamSynchronize(places_[0].stream)))
      through(memory, mib / sizeof(Word), 15, "pool memory");
    OK(cuMemFreeAsync(memory, places_[0].stream));
    OK(cuStreamSynchronize(places_[0].stream));
  }

  void registered() {
    constexpr std::size_t bytes = mib;
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    Word* const words = static_cast<Word*>(memory);
    constexpr std::size_t count = bytes / sizeof(Word);
    fill_on_host(words, count, 17);
    const bool is_registered = OK(cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
    look_on_host(words, count, 17, "registered");
    Word salt = 17;
    if (is_registered) {
      CUdeviceptr there = 0;
      const bool filled =
          OK(cuMemHostGetDevicePointer(&there, memory, 0)) &&
          launch(0, fill_kernel, {reinterpret_cast<Word*>(there), nullptr, 18, nullptr}, count);
      if (filled) look_on_host(words, count, salt = 18, "registered, filled by device 0");
      if (OK(cuMemHostUnregister(memory)) && filled)
        look_on_host(words, count, salt, "unregistered");
    }
    ::munmap(memory, bytes);
  }

  void forked() {
    const Array array(10'000);
    if (!array) return;
    fill_on_host(array.data(), array.count(), 19);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(3);
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (child > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 3))
      end(wrong_data, "the child of fork() did not end as it must");
    look(0, array, 19, "after a fork");
    look_on_host(array.data(), array.count(), 19, "after a fork");
  }

  void events() {
    const Array array(10'000);
    CUevent event = nullptr;
    if (!array || !OK(cuEventCreate(&event, CU_EVENT_DEFAULT))) return;
    const KernelArguments arguments{array.data(), nullptr, 20, nullptr};
    if (OK(wherryLaunchKernel(places_[0].stream, fill_kernel, &arguments, sizeof arguments,
                              array.count())) &&
        OK(cuEventRecord(event, places_[0].stream)) &&
        OK(cuStreamWaitEvent(places_[1].stream, event, 0)) && OK(cuEventSynchronize(event)) &&
        OK(cuStreamSynchronize(places_[1].stream)))
      look_on_host(array.data(), array.count(), 20, "after an event");
    OK(cuStreamSynchronize(places_[0].stream));
    OK(cuEventDestroy(event));
  }

  void ipc() {
    CUdeviceptr memory = 0;
    if (!OK(cuMemAlloc(&memory, mib))) return;
    std::vector<Word> own(mib / sizeof(Word));
    fill_on_host(own.data(), own.size(), 21);
    CUipcMemHandle handle;
    if (OK(cuMemcpyHtoD(memory, own.data(), mib)) && OK(cuIpcGetMemHandle(&handle, memory)) &&
        run_peer(handle) && OK(cuMemcpyDtoH(own.data(), memory, mib)))
      look_on_host(own.data(), own.size(), 22, "written by another program");
    OK(cuMemFree(memory));
  }

  // Returns true if the other program has written.
  static bool run_peer(const CUipcMemHandle& handle) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    char own[] = "/proc/self/exe";
    char peer[] = "peer";
    char* arguments[] = {own, peer, nullptr};
    pid_t pid = -1;
    const int error = ::posix_spawn(&pid, own, &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[0]);
    if (error == 0 && ::write(ends[1], &handle, sizeof handle) != sizeof handle) errors += 1;
    ::close(ends[1]);
    int status = 0;
    while (error == 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (error != 0) return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) >= wrong_data)
      end(WEXITSTATUS(status), "the other program says so");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  void system_calls() {
    const Array array(10'000);
    if (!array || !fill(0, array, 23)) return;
    const int file = ::memfd_create("workload", MFD_CLOEXEC);
    const ssize_t written = ::write(file, array.data(), array.bytes());
    std::vector<Word> own(array.count());
    // Without a full userfaultfd a system call fails at pages that are on a device, and may have
    // transferred a part before.
    if (written == static_cast<ssize_t>(array.bytes()) &&
        ::pread(file, own.data(), array.bytes(), 0) == written)
      look_on_host(own.data(), own.size(), 23, "written to a file");
    ::close(file);
    OK(wherryTouchPages(array.data(), array.bytes(), WHERRY_TOUCH_WRITE));
    look_on_host(array.data(), array.count(), 23, "touched");
  }

  void reset() {
    const Array array(40'000);
    if (!array || !fill(0, array, 24)) return;
    OK(cuStreamDestroy(places_[0].stream));
    OK(cuDevicePrimaryCtxReset(0));
    renew_place(0);
    look(0, array, 24, "after a reset");
    look_on_host(array.data(), array.count(), 24, "after a reset");
  }

  void renew_place(int number) {
    Place& place = places_[static_cast<std::size_t>(number)];
    OK(cuCtxSetCurrent(place.context));
    place.stream = nullptr;
    OK(cuStreamCreate(&place.stream, CU_STREAM_NON_BLOCKING));
  }

  // Resets each device that has failed, as programs do.
  void renew() {
    for (int i = 0; i < static_cast<int>(places_.size()); ++i) {
      const Place& place = places_[static_cast<std::size_t>(i)];
      if (place.stream != nullptr && cuStreamSynchronize(place.stream) == CUDA_SUCCESS) continue;
      OK(cuDevicePrimaryCtxReset(i));
      renew_place(i);
    }
  }

  std::vector<Place> places_;
};

int be_peer() {
  step = "peer";
  CUipcMemHandle handle;
  CUdeviceptr memory = 0;
  CUcontext context = nullptr;
  if (::read(STDIN_FILENO, &handle, sizeof handle) != sizeof handle || !OK(cuInit(0)) ||
      !OK(cuDevicePrimaryCtxRetain(&context, 0)) || !OK(cuCtxSetCurrent(context)) ||
      !OK(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)))
    return 1;
  std::vector<Word> own(mib / sizeof(Word));
  bool done = false;
  if (OK(cuMemcpyDtoH(own.data(), memory, mib))) {
    look_on_host(own.data(), own.size(), 21, "opened");
    fill_on_host(own.data(), own.size(), 22);
    done = OK(cuMemcpyHtoD(memory, own.data(), mib));
  }
  OK(cuIpcCloseMemHandle(memory));
  return done ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "peer") == 0) return be_peer();
  Program program;
  if (program.start()) program.run();
  std::fprintf(stderr, "workload: end: %d errors\n", errors);
  return 0;
}
