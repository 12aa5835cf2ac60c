// Passes memory to Linux in which no page exists yet, through functions of the C library. Prints
// what each call answers, which does not depend on where the memory is.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char* next_block;

// Memory whose pages do not exist: the first touch of a page may create others in its block.
static void* absent(size_t bytes) {
  enum {
    block = 2 << 20
  };
  char* const memory = next_block;
  next_block += (bytes + block - 1) / block * block;
  return memory;
}

static void say(const char* what, long result) {
  printf("%s: %ld%s\n", what, result, result == -1 && errno == EFAULT ? " EFAULT" : "");
}

static void* copy_of(const void* object, size_t bytes) {
  return memcpy(absent(bytes), object, bytes);
}

// The sum of bytes, which finds out whether they arrived.
static unsigned long sum(const void* memory, size_t bytes) {
  unsigned long result = 0;
  for (size_t i = 0; i < bytes; ++i) result += ((const unsigned char*)memory)[i] * (i % 7 + 1);
  return result;
}

static void streams(void) {
  enum {
    bytes = 1 << 20
  };
  FILE* const file = tmpfile();
  char* const pattern = malloc(bytes);
  for (int i = 0; i < bytes; ++i) pattern[i] = (char)(i * 31 + i / 4096);
  say("fwrite", (long)fwrite(pattern, 1, bytes, file));
  say("fwrite of absent", (long)fwrite(absent(100000), 7, 100000 / 7, file));
  say("fwrite_unlocked of absent", (long)fwrite_unlocked(absent(20000), 1, 20000, file));
  rewind(file);
  char* const back = absent(bytes);
  say("fread", (long)fread(back, 4096, bytes / 4096, file));
  say("same", memcmp(back, pattern, bytes));
  char* const rest = absent(200000);
  const size_t got = fread_unlocked(rest, 1, 200000, file);
  say("fread_unlocked", (long)got);
  say("end", feof(file) != 0);
  say("sum", (long)sum(rest, got));
  rewind(file);
  setvbuf(file, malloc(1 << 20), _IOFBF, 1 << 20);
  say("fgetc", fgetc(file));
  say("fputs", fputs(memset(absent(50000), 'x', 49999), file) >= 0);
  say("fflush", fflush(file));
  char* line = absent(65536);
  fclose(file);
  FILE* const text = fopen("/proc/self/status", "r");
  setvbuf(text, NULL, _IONBF, 0);
  say("fgets", fgets(line, 65536, text) != NULL && strncmp(line, "Name:", 5) == 0);
  fclose(text);
  free(pattern);
}

static void files(void) {
  const int zero = open("/dev/zero", O_RDONLY);
  char* const path = copy_of("/dev/zero", 10);
  say("open", open(path, O_RDONLY) >= 0);
  say("open of absent", open(absent(1), O_RDONLY));  // an empty name
  say("stat", stat(path, absent(sizeof(struct stat))));
  say("fstat", fstat(zero, absent(sizeof(struct stat))));
  say("lstat", lstat("/", absent(sizeof(struct stat))));
  say("fstatat", fstatat(AT_FDCWD, path, absent(sizeof(struct stat)), 0));
  say("statx", statx(AT_FDCWD, path, 0, STATX_ALL, absent(sizeof(struct statx))));
  say("access", access(path, R_OK));
  say("getcwd", getcwd(absent(PATH_MAX), PATH_MAX) != NULL);
  say("readlink", readlink("/proc/self/exe", absent(PATH_MAX), PATH_MAX) > 0);
  say("realpath", realpath(path, absent(PATH_MAX)) != NULL);
  say("read", read(zero, absent(5000), 5000));
  struct iovec* const pieces = absent(2 * sizeof *pieces);
  pieces[0] = (struct iovec){absent(100), 100};
  pieces[1] = (struct iovec){absent(9000), 9000};
  say("readv", readv(zero, pieces, 2));
  const int null = open("/dev/null", O_WRONLY);
  say("write", write(null, absent(5000), 5000));
  say("raw getcwd", syscall(SYS_getcwd, absent(PATH_MAX), PATH_MAX) > 0);
  DIR* const folder = opendir(copy_of("/", 2));
  say("readdir", readdir(folder) != NULL);
  closedir(folder);
  say("fcntl",
      fcntl(zero, F_GETLK, copy_of(&(struct flock){.l_type = F_RDLCK}, sizeof(struct flock))));
}

static void sockets(void) {
  int* const pair = absent(2 * sizeof *pair);
  say("socketpair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
  say("send", send(pair[0], absent(1000), 1000, 0));
  say("FIONREAD", ioctl(pair[1], FIONREAD, absent(sizeof(int))));
  struct pollfd* const asked = absent(sizeof *asked);
  *asked = (struct pollfd){pair[1], POLLIN, 0};
  say("poll", poll(asked, 1, 1000));
  say("recv", recv(pair[1], absent(2000), 2000, 0));
  struct mmsghdr* const messages = absent(2 * sizeof *messages);
  for (int i = 0; i < 2; ++i) {
    struct iovec* const piece = absent(sizeof *piece);
    *piece = (struct iovec){absent(3000), 3000};
    messages[i].msg_hdr = (struct msghdr){.msg_iov = piece, .msg_iovlen = 1};
  }
  say("sendmmsg", sendmmsg(pair[0], messages, 2, 0));
  for (int i = 0; i < 2; ++i) messages[i].msg_hdr.msg_iov->iov_base = absent(3000);
  say("recvmmsg", recvmmsg(pair[1], messages, 2, 0, NULL));
  say("length", messages[1].msg_len);
  const int set = epoll_create1(0);
  say("epoll_ctl",
      epoll_ctl(set, EPOLL_CTL_ADD, pair[0],
                copy_of(&(struct epoll_event){EPOLLOUT, {.fd = 7}}, sizeof(struct epoll_event))));
  struct epoll_event* const events = absent(4 * sizeof *events);
  say("epoll_wait", epoll_wait(set, events, 4, 1000));
  say("data", events->data.fd);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un* const address = absent(sizeof *address);
  address->sun_family = AF_UNIX;
  snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "wherry-absent-%d", getpid());
  say("bind", bind(listener, (struct sockaddr*)address, sizeof *address));
  say("listen", listen(listener, 1));
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  say("connect", connect(client, (struct sockaddr*)address, sizeof *address));
  socklen_t* const room = absent(sizeof *room);
  *room = sizeof(struct sockaddr_un);
  say("accept", accept(listener, absent(sizeof(struct sockaddr_un)), room) >= 0);
  *room = sizeof(int);
  say("getsockopt", getsockopt(client, SOL_SOCKET, SO_TYPE, absent(sizeof(int)), room));
}

static void processes(void) {
  pid_t* const child = absent(sizeof *child);
  char** const arguments = absent(4 * sizeof *arguments);
  arguments[0] = copy_of("true", 5);
  arguments[1] = absent(1);  // an empty argument
  say("posix_spawn", posix_spawnp(child, "true", NULL, NULL, arguments, absent(sizeof(char*))));
  int* const status = absent(sizeof *status);
  say("waitpid", waitpid(*child, status, 0) == *child);
  say("status", *status);
  fflush(stdout);
  if (vfork() == 0) {
    execve("/bin/true", arguments, absent(sizeof(char*)));
    _exit(9);
  }
  struct rusage* const usage = absent(sizeof *usage);
  int* const second = absent(sizeof *second);
  say("wait4", wait4(-1, second, 0, usage) > 0);
  say("status", *second);
  say("getrusage", getrusage(RUSAGE_SELF, absent(sizeof *usage)));
  say("getrlimit", getrlimit(RLIMIT_NOFILE, absent(sizeof(struct rlimit))));
  say("uname", uname(absent(sizeof(struct utsname))));
  say("getrandom", getrandom(absent(256), 256, 0));
  say("pipe", pipe(absent(2 * sizeof(int))));
  say("times", times(absent(sizeof(struct tms))) != -1);
  say("nanosleep", nanosleep(absent(sizeof(struct timespec)), absent(sizeof(struct timespec))));
  say("clock", clock_gettime(CLOCK_THREAD_CPUTIME_ID, absent(sizeof(struct timespec))));
  say("select", select(0, absent(sizeof(fd_set)), NULL, NULL, absent(sizeof(struct timeval))));
  say("sigprocmask", sigprocmask(SIG_BLOCK, absent(sizeof(sigset_t)), absent(sizeof(sigset_t))));
  say("raw futex", syscall(SYS_futex, absent(4), 128 /* FUTEX_WAIT_PRIVATE */, 0,
                           copy_of(&(struct timespec){0, 1000}, sizeof(struct timespec)), NULL, 0));
}

// ---- Memory that Linux and the C library use unseen

struct Locked {
  char before[5 << 12];
  pthread_mutex_t mutex;
  pthread_cond_t turned;
  int turn;
};

static void* take_turns(void* given) {
  struct Locked* const shared = given;
  for (int i = 0; i < 2000; ++i) {
    pthread_mutex_lock(&shared->mutex);
    while (shared->turn % 2 != 0) pthread_cond_wait(&shared->turned, &shared->mutex);
    ++shared->turn;
    pthread_cond_signal(&shared->turned);
    pthread_mutex_unlock(&shared->mutex);
  }
  return NULL;
}

static void locks(void) {
  struct Locked* const shared = calloc(1, 3 << 20);
  pthread_t thread;
  pthread_create(&thread, NULL, take_turns, shared);
  for (int i = 0; i < 2000; ++i) {
    pthread_mutex_lock(&shared->mutex);
    while (shared->turn % 2 != 1) pthread_cond_wait(&shared->turned, &shared->mutex);
    ++shared->turn;
    pthread_cond_signal(&shared->turned);
    pthread_mutex_unlock(&shared->mutex);
  }
  pthread_join(thread, NULL);
  say("turns", shared->turn);
}

static volatile sig_atomic_t handled;
static void handle(int signal) {
  (void)signal;
  char frame[8192];
  memset(frame, 1, sizeof frame);
  handled = frame[100];
}

static void stacks(void) {
  const stack_t stack = {.ss_sp = malloc(2 << 20), .ss_size = 2 << 20};
  say("sigaltstack", sigaltstack(&stack, NULL));
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  say("handled", handled);
}

int main(void) {
  next_block = calloc(1, 512 << 20);
  streams();
  files();
  sockets();
  processes();
  locks();
  stacks();
  return 0;
}
