/* Prints from which file each function comes that Wherry interposes, one line each: name, file.
 * With an argument it loads that library first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <unistd.h>

#define ROW(name) \
  { #name, (void*)name }

int main(int argc, char** argv) {
  if (argc > 1 && dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const struct {
    const char* name;
    void* function;
  } rows[] = {ROW(sigaction),
              ROW(signal),
              ROW(sigprocmask),
              ROW(pthread_sigmask),
              ROW(sigsuspend),
              ROW(sigpending),
              ROW(sigwait),
              ROW(ppoll),
              ROW(pselect),
              ROW(epoll_pwait),
              ROW(sigwaitinfo),
              ROW(sigtimedwait),
              ROW(mlockall),
              ROW(read),
              ROW(pread),
              ROW(readv),
              ROW(preadv),
              ROW(preadv2),
              ROW(process_vm_writev)};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; ++i) {
    Dl_info info;
    if (dladdr(rows[i].function, &info) == 0) return 1;
    const char* slash = strrchr(info.dli_fname, '/');
    printf("%s %s\n", rows[i].name, slash != NULL ? slash + 1 : info.dli_fname);
  }
  return 0;
}
