// Says whether a direct read into a buffer takes another way than into the buffer itself: Linux
// refuses to read into the buffer's address. For programs in C and C++.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_BYTES 65536ul

static inline int open_file(void) {
  char path[] = "/var/tmp/wherry_direct_reads_XXXXXX";
  const int file = mkstemp(path);
  char* const content = (char*)malloc(FILE_BYTES);
  for (size_t i = 0; i < FILE_BYTES; ++i) content[i] = (char)(i * 7 % 253);
  const int direct = open(path, O_RDONLY | O_DIRECT);
  unlink(path);
  if (file < 0 || direct < 0 || write(file, content, FILE_BYTES) != (ssize_t)FILE_BYTES) {
    perror(path);
    exit(1);
  }
  close(file);
  free(content);
  return direct;
}

// pread() fails with EXDEV if it gets this address.
static inline void refuse_reads_into(const char* address) {
  const uint64_t refused = (uintptr_t)address;
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(refused >> 32), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog all = {sizeof program / sizeof *program, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) != 0) {
    perror("seccomp");
    exit(1);
  }
}

// Reads a file of FILE_BYTES bytes into the buffer with O_DIRECT, and prints what Linux got.
// Returns the exit code for the program.
static inline int read_directly(char* buffer) {
  const int file = open_file();
  memset(buffer, 1, FILE_BYTES);
  refuse_reads_into(buffer);
  if (pread(file, buffer, FILE_BYTES, 0) != (ssize_t)FILE_BYTES) {
    puts(errno == EXDEV ? "Linux got this memory" : strerror(errno));
    return 3;
  }
  for (size_t i = 0; i < FILE_BYTES; ++i)
    if (buffer[i] != (char)(i * 7 % 253)) return 2;
  puts("Linux got other memory, and the data is here");
  return 0;
}
