/* The program that runs in each of the surroundings (matrix.py). Every word of its command line is
 * one step; the steps run in order.
 *
 *   init           cuInit, and a context on device 0
 *   life[=SIZE]    uses managed memory: writes by host and kernels, advice, prefetch, eviction,
 *                  copies, free; SIZE such as 8M
 *   children       fork, vfork and posix_spawn while managed memory is in use
 *   memory         prints how much memory devices and the host report
 *   hold=SIZE      writes SIZE of managed memory on the host, checks it, and keeps it
 *   lock           mlockall(MCL_CURRENT)
 *   lock-future    the same with MCL_FUTURE
 *   lock-on-fault  the same with MCL_ONFAULT
 *   resident       prints how many MiB this process and its devices have in memory
 *   charged        prints how many MiB of private memory this process may write: the memory that
 *                  vm.overcommit_memory=2 charges
 *   freed          accesses freed memory 20 times; each access must end in a signal
 *   debugged=WHO   attaches gdb to the host or to the device (WHO) for a while, while kernels run
 *   stopped=WHO    stops the host or the device (WHO) for a second, while kernels run
 *   setuid         becomes nobody: launches are refused until the device is reset
 *   chroot         makes the working directory its root
 *   crash          writes to address 8
 *   device-crash   runs a kernel that writes to address 8, which ends the device
 *   device-dump    ends the device by a signal with a core dump, and waits for the end of its work
 *
 * Prints a line with numbers for some steps, and "STEP ok" after each. Exit status: 0, or 3 if a
 * call of the API failed, or 4 if memory held wrong data. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wherry/cuda.h>
#include <wherry/wherry.h>

enum {
  exit_refused = 3,
  exit_wrong_data = 4,
  exit_child = 7
};

/* No memory is ever mapped there. A variable, because compilers warn about a constant address. */
static volatile int* volatile wild = (volatile int*)8;

static CUstream stream;
static CUdevice device;

static void try_call(CUresult result, const char* call) {
  const char* name = "unknown error";
  if (result == CUDA_SUCCESS) return;
  cuGetErrorName(result, &name);
  printf("refused: %s: %s (%s)\n", call, name, wherryGetLastErrorMessage());
  fflush(stdout);
  _exit(exit_refused);
}
#define TRY(call) try_call((call), #call)

static void wrong(const char* what, size_t index, unsigned value, unsigned expected) {
  printf("wrong data: %s: word %zu is %u, not %u\n", what, index, value, expected);
  fflush(stdout);
  _exit(exit_wrong_data);
}

static size_t parse_size(const char* text, size_t fallback) {
  char* end;
  if (text == NULL) return fallback;
  const size_t number = strtoul(text, &end, 10);
  return *end == 'G' ? number << 30 : *end == 'M' ? number << 20 : number << 10;
}

/* ---- kernels ---- */

typedef struct {
  unsigned* words;
  unsigned sum;
} Addition;

static void add(const void* args, size_t begin, size_t end) {
  const Addition* addition = args;
  for (size_t i = begin; i < end; ++i) addition->words[i] += addition->sum;
}

static void write_wildly(const void* args, size_t begin, size_t end) {
  (void)args;
  if (begin < end) *wild = 1;
}

static void add_on_device(unsigned* words, size_t count, unsigned sum) {
  const Addition addition = {words, sum};
  TRY(wherryLaunchKernel(stream, add, &addition, sizeof addition, count));
  TRY(cuStreamSynchronize(stream));
}

static void expect_all(const char* what, const unsigned* words, size_t count, unsigned base) {
  for (size_t i = 0; i < count; ++i)
    if (words[i] != (unsigned)i + base) wrong(what, i, words[i], (unsigned)i + base);
}

/* ---- Linux's counts ---- */

static int is_pool(const char* name) {
  return strstr(name, "wherry-pool") != NULL;
}

/* Bytes in the pools, and open descriptors. */
static void read_descriptors(unsigned long long* pool_bytes, int* descriptors) {
  *pool_bytes = 0;
  *descriptors = 0;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == NULL) return; /* no /proc here */
  struct dirent* entry;
  while ((entry = readdir(folder)) != NULL) {
    char target[PATH_MAX];
    struct stat status;
    const ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = '\0';
    *descriptors += 1;
    if (is_pool(target) && fstat(atoi(entry->d_name), &status) == 0)
      *pool_bytes += (unsigned long long)status.st_blocks * 512;
  }
  closedir(folder);
}

static unsigned long long field_kib(const char* path, const char* field) {
  char line[256];
  unsigned long long kib = 0;
  FILE* file = fopen(path, "re");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, field, strlen(field)) == 0) kib = strtoull(line + strlen(field), NULL, 10);
  fclose(file);
  return kib;
}

/* ---- steps ---- */

static void init(const char* argument) {
  CUcontext context;
  (void)argument;
  TRY(cuInit(0));
  TRY(cuDeviceGet(&device, 0));
  TRY(cuDevicePrimaryCtxRetain(&context, device));
  TRY(cuCtxSetCurrent(context));
  TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void advise_and_prefetch(CUdeviceptr pointer, size_t bytes) {
  const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
  const size_t quarter = bytes / 4;
  TRY(cuMemAdvise_v2(pointer, quarter, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
  TRY(cuMemAdvise_v2(pointer + quarter, quarter, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
  TRY(cuMemAdvise_v2(pointer + 2 * quarter, quarter, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
  TRY(cuMemPrefetchAsync_v2(pointer, quarter, here, 0, stream));
  TRY(cuMemPrefetchAsync_v2(pointer + quarter, quarter, host, 0, stream));
  TRY(cuStreamSynchronize(stream));
}

static void life(const char* argument) {
  const size_t bytes = parse_size(argument, 8 << 20);
  const size_t count = bytes / sizeof(unsigned);
  CUdeviceptr managed, fixed;
  TRY(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
  unsigned* words = (unsigned*)(uintptr_t)managed;
  for (size_t i = 0; i < count; ++i) words[i] = (unsigned)i;
  add_on_device(words, count, 1);
  expect_all("after a kernel", words, count, 1);
  advise_and_prefetch(managed, bytes);
  add_on_device(words, count, 1);
  expect_all("after advice", words, count, 2);

  const size_t part = bytes / 8;
  TRY(cuMemAlloc(&fixed, part));
  TRY(cuMemcpy(fixed, managed, part));
  add_on_device((unsigned*)(uintptr_t)fixed, part / sizeof(unsigned), 5);
  TRY(cuMemcpy(managed, fixed, part));
  expect_all("after copies", words, part / sizeof(unsigned), 7);
  TRY(cuMemFree(fixed));
  TRY(cuMemFree(managed));

  wherryStats stats = {.size = sizeof stats};
  unsigned long long held;
  int descriptors;
  TRY(wherryGetStats(&stats));
  read_descriptors(&held, &descriptors);
  printf("evicted=%llu held=%llu descriptors=%d\n",
         (unsigned long long)stats.processor[1 + device].evicted, held, descriptors);
}

static void expect_child(pid_t child, const char* what) {
  int status = 0;
  pid_t ended;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == exit_child) return;
  printf("%s: waitpid gave %d with status %#x\n", what, (int)ended, (unsigned)status);
  fflush(stdout);
  _exit(exit_wrong_data);
}

static void start_children(const char* self) {
  char* const words[] = {(char*)self, "child", NULL};
  pid_t child = fork();
  if (child == 0) _exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED ? exit_child : 1);
  if (child < 0) try_call(CUDA_ERROR_OPERATING_SYSTEM, "fork");
  expect_child(child, "fork");
  child = vfork();
  if (child == 0) {
    execv(self, words);
    _exit(1);
  }
  if (child < 0) try_call(CUDA_ERROR_OPERATING_SYSTEM, "vfork");
  expect_child(child, "vfork");
  extern char** environ;
  if (posix_spawn(&child, self, NULL, NULL, words, environ) != 0)
    try_call(CUDA_ERROR_OPERATING_SYSTEM, "posix_spawn");
  expect_child(child, "posix_spawn");
  if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
    printf("a child that the program did not start\n");
    _exit(exit_wrong_data);
  }
}

static const char* self_path;

static void children(const char* argument) {
  const size_t count = 1 << 16;
  CUdeviceptr managed;
  (void)argument;
  TRY(cuMemAllocManaged(&managed, count * sizeof(unsigned), CU_MEM_ATTACH_GLOBAL));
  unsigned* words = (unsigned*)(uintptr_t)managed;
  for (size_t i = 0; i < count; ++i) words[i] = (unsigned)i;
  add_on_device(words, count, 1);
  start_children(self_path);
  add_on_device(words, count, 1);
  expect_all("after children", words, count, 2);
  TRY(cuMemFree(managed));
}

static void memory(const char* argument) {
  size_t free_bytes, total, device_total;
  (void)argument;
  TRY(cuMemGetInfo(&free_bytes, &total));
  TRY(cuDeviceTotalMem(&device_total, device));
  printf("free=%zu total=%zu device=%zu\n", free_bytes, total, device_total);
}

static void hold(const char* argument) {
  const size_t bytes = parse_size(argument, 1 << 20);
  const size_t count = bytes / sizeof(unsigned);
  CUdeviceptr managed;
  TRY(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
  unsigned* words = (unsigned*)(uintptr_t)managed;
  for (size_t i = 0; i < count; ++i) words[i] = (unsigned)i;
  expect_all("held", words, count, 0);
}

static void lock(int flags) {
  if (mlockall(flags) == 0) return;
  printf("refused: mlockall: %s\n", strerror(errno));
  fflush(stdout);
  _exit(exit_refused);
}

static void resident(const char* argument) {
  char path[64];
  pid_t pid = 0;
  (void)argument;
  printf("host=%llu\n", field_kib("/proc/self/status", "VmRSS:") >> 10);
  if (wherryGetDeviceProcess(device, &pid) != CUDA_SUCCESS) return;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  printf("device=%llu\n", field_kib(path, "VmRSS:") >> 10);
}

static void charged(const char* argument) {
  char line[512];
  unsigned long long bytes = 0;
  (void)argument;
  FILE* file = fopen("/proc/self/maps", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    unsigned long long start, end;
    char access[5];
    if (sscanf(line, "%llx-%llx %4s", &start, &end, access) == 3 && access[1] == 'w' &&
        access[3] == 'p')
      bytes += end - start;
  }
  if (file != NULL) fclose(file);
  printf("charged=%llu\n", bytes >> 20);
}

static sigjmp_buf back;

static void jump_back(int signal) {
  siglongjmp(back, signal);
}

static void freed(const char* argument) {
  (void)argument;
  struct sigaction action = {.sa_handler = jump_back};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  for (volatile int i = 0; i < 20; ++i) {
    CUdeviceptr managed;
    TRY(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    volatile int* const word = (int*)(uintptr_t)managed;
    *word = 1;
    TRY(cuMemFree(managed));
    if (sigsetjmp(back, 1) == 0) wrong("freed", 0, (unsigned)*word, 0);
  }
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
}

static pid_t start_debugger(const char* who) {
  char pid[32];
  const int on_device = strcmp(who, "device") == 0;
  pid_t process = getpid(), debugger;
  if (on_device) TRY(wherryGetDeviceProcess(device, &process));
  snprintf(pid, sizeof pid, "%d", (int)process);
  const char* const on_host[] = {
      "gdb", "-nx", "-batch", "-p", pid, "-ex", "thread apply all backtrace 2", NULL};
  const char* const in_kernel[] = {"gdb",
                                   "-nx",
                                   "-batch",
                                   "-p",
                                   pid,
                                   "-ex",
                                   "handle SIGSEGV nostop noprint pass",
                                   "-ex",
                                   "break add",
                                   "-ex",
                                   "continue",
                                   "-ex",
                                   "backtrace",
                                   NULL};
  extern char** environ;
  if (posix_spawnp(&debugger, "gdb", NULL, NULL, (char* const*)(on_device ? in_kernel : on_host),
                   environ) != 0)
    try_call(CUDA_ERROR_OPERATING_SYSTEM, "posix_spawnp");
  return debugger;
}

static void debugged(const char* who) {
  const size_t count = 1 << 16;
  CUdeviceptr managed;
  unsigned rounds = 0;
  int status = 0;
  TRY(cuMemAllocManaged(&managed, count * sizeof(unsigned), CU_MEM_ATTACH_GLOBAL));
  unsigned* words = (unsigned*)(uintptr_t)managed;
  for (size_t i = 0; i < count; ++i) words[i] = (unsigned)i;
  const pid_t debugger = start_debugger(who == NULL ? "host" : who);
  while (waitpid(debugger, &status, WNOHANG) == 0) {
    add_on_device(words, count, 1);
    expect_all("beside a debugger", words, count, ++rounds);
  }
  printf("debugger=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  add_on_device(words, count, 1);
  expect_all("without the debugger", words, count, rounds + 1);
  TRY(cuMemFree(managed));
}

static void stopped(const char* who) {
  const size_t count = 1 << 16;
  CUdeviceptr managed;
  unsigned rounds = 0;
  int status = 0;
  pid_t process = getpid(), ended;
  if (who != NULL && strcmp(who, "device") == 0) TRY(wherryGetDeviceProcess(device, &process));
  TRY(cuMemAllocManaged(&managed, count * sizeof(unsigned), CU_MEM_ATTACH_GLOBAL));
  unsigned* words = (unsigned*)(uintptr_t)managed;
  for (size_t i = 0; i < count; ++i) words[i] = (unsigned)i;
  const pid_t child = fork();
  if (child == 0) {
    usleep(100 * 1000);
    kill(process, SIGSTOP);
    sleep(1);
    kill(process, SIGCONT);
    _exit(exit_child);
  }
  if (child < 0) try_call(CUDA_ERROR_OPERATING_SYSTEM, "fork");
  while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
    add_on_device(words, count, 1);
    expect_all("around a stop", words, count, ++rounds);
  }
  if (ended != child || !WIFEXITED(status) || WEXITSTATUS(status) != exit_child)
    try_call(CUDA_ERROR_OPERATING_SYSTEM, "waitpid");
  TRY(cuMemFree(managed));
}

static void change_user(const char* argument) {
  const uid_t nobody = 65534;
  (void)argument;
  if (setresgid(nobody, nobody, nobody) != 0 || setresuid(nobody, nobody, nobody) != 0)
    try_call(CUDA_ERROR_OPERATING_SYSTEM, "setresuid");
  if (wherryLaunchKernel(stream, add, NULL, 0, 1) != CUDA_ERROR_NOT_PERMITTED)
    try_call(CUDA_ERROR_UNKNOWN, "a launch as nobody");
  TRY(cuDevicePrimaryCtxReset(device));
  TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

// The new root is the working directory, which is empty: no /proc, /sys and /dev.
static void change_root(const char* argument) {
  (void)argument;
  if (chroot(".") != 0) try_call(CUDA_ERROR_OPERATING_SYSTEM, "chroot");
}

static void device_crash(const char* argument) {
  (void)argument;
  TRY(wherryLaunchKernel(stream, write_wildly, NULL, 0, 1));
  const CUresult result = cuStreamSynchronize(stream);
  if (result != CUDA_ERROR_ILLEGAL_ADDRESS) try_call(CUDA_ERROR_UNKNOWN, "device-crash");
}

static void device_dump(const char* argument) {
  pid_t pid;
  (void)argument;
  TRY(wherryGetDeviceProcess(device, &pid));
  if (kill(pid, SIGSYS) != 0) try_call(CUDA_ERROR_OPERATING_SYSTEM, "kill");
  for (int attempt = 0; attempt < 1000; ++attempt) {
    wherryLaunchKernel(stream, write_wildly, NULL, 0, 0);
    if (cuStreamSynchronize(stream) != CUDA_SUCCESS) return;
    usleep(10 * 1000);
  }
  try_call(CUDA_ERROR_UNKNOWN, "the device did not end");
}

static int is_step(const char* word, const char* name, const char** argument) {
  const size_t length = strlen(name);
  *argument = word[length] == '=' ? word + length + 1 : NULL;
  return strncmp(word, name, length) == 0 && (word[length] == '\0' || word[length] == '=');
}

static int run(const char* word) {
  static const struct {
    const char* name;
    void (*step)(const char* argument);
  } steps[] = {
      {"init", init},
      {"life", life},
      {"children", children},
      {"memory", memory},
      {"hold", hold},
      {"resident", resident},
      {"charged", charged},
      {"freed", freed},
      {"device-crash", device_crash},
      {"debugged", debugged},
      {"device-dump", device_dump},
      {"stopped", stopped},
      {"setuid", change_user},
      {"chroot", change_root},
  };
  static const struct {
    const char* name;
    int flags;
  } locks[] = {
      {"lock", MCL_CURRENT},
      {"lock-future", MCL_CURRENT | MCL_FUTURE},
      {"lock-on-fault", MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT},
  };
  const char* argument;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    if (!is_step(word, steps[i].name, &argument)) continue;
    steps[i].step(argument);
    return 1;
  }
  for (size_t i = 0; i < sizeof locks / sizeof *locks; ++i) {
    if (!is_step(word, locks[i].name, &argument)) continue;
    lock(locks[i].flags);
    return 1;
  }
  return 0;
}

int main(int words, char** word) {
  self_path = word[0];
  for (int i = 1; i < words; ++i) {
    if (strcmp(word[i], "child") == 0) return exit_child;
    if (strcmp(word[i], "crash") == 0) *wild = 1;
    if (!run(word[i])) {
      fprintf(stderr, "%s is no step\n", word[i]);
      return 2;
    }
    printf("%s ok\n", word[i]);
    fflush(stdout);
  }
  return 0;
}
