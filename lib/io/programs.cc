// Wrappers of functions that start programs. Linux reads the name, the arguments and the
// environment: texts, and arrays of texts. The functions change nothing when they fail.
#include <spawn.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>

#include "io/served_call.h"

namespace wherry::io {
namespace {

using Texts = char* const*;

bool prepare_texts(Texts texts) {
  bool managed = false;
  for (; texts != nullptr && *texts != nullptr; ++texts)
    managed |= prepare_used({in(texts), text(*texts)});
  return managed;
}

// Arguments and environment may be in any memory, so all texts are prepared.
template <Name name, typename... Arguments>
int start_program(const char* path, Texts arguments, Texts environment, Arguments... given) {
  const auto real = Real<name, int(Arguments...)>::get();
  return call_prepared(
      [&] {
        bool managed = prepare_used({text(path)});
        managed |= prepare_texts(arguments);
        return prepare_texts(environment) || managed;
      },
      [&] { return real(given...); });
}

// The posix_spawn functions return the error.
template <Name name>
int spawn(pid_t* process, const char* path, const posix_spawn_file_actions_t* actions,
          const posix_spawnattr_t* attributes, Texts arguments, Texts environment) {
  const auto real = Real<name, int(pid_t*, const char*, const posix_spawn_file_actions_t*,
                                   const posix_spawnattr_t*, Texts, Texts)>::get();
  if (!prepares()) return real(process, path, actions, attributes, arguments, environment);
  const int errno_before = errno;
  int error = 0;
  // The C library blocks all signals until it has stored the process id and the child has called
  // exec. A fault that a signal handler serves would end the program then, so the id goes into
  // memory of this function.
  pid_t own_process = 0;
  (void)call_prepared(
      [&] {
        bool managed = prepare_used({text(path), in(actions), in(attributes)});
        managed |= prepare_texts(arguments);
        return prepare_texts(environment) || managed;
      },
      [&] {
        error = real(&own_process, path, actions, attributes, arguments, environment);
        errno = error;
        return error == 0 ? 0 : -1;
      });
  errno = errno_before;
  if (error == 0 && process != nullptr) *process = own_process;
  return error;
}

}  // namespace

int io_execve(const char*, Texts, Texts) WHERRY_IO_STANDS_FOR("execve");
int io_execv(const char*, Texts) WHERRY_IO_STANDS_FOR("execv");
int io_execvp(const char*, Texts) WHERRY_IO_STANDS_FOR("execvp");
int io_execvpe(const char*, Texts, Texts) WHERRY_IO_STANDS_FOR("execvpe");
int io_fexecve(int, Texts, Texts) WHERRY_IO_STANDS_FOR("fexecve");
int io_posix_spawn(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
                   Texts, Texts) WHERRY_IO_STANDS_FOR("posix_spawn");
int io_posix_spawnp(pid_t*, const char*, const posix_spawn_file_actions_t*,
                    const posix_spawnattr_t*, Texts, Texts) WHERRY_IO_STANDS_FOR("posix_spawnp");

// These run the shell, which gets the text as an argument.
WHERRY_IO_SERVED(int, system, (const char* command), (command), text(command))
WHERRY_IO_SERVED(FILE*, popen, (const char* command, const char* mode), (command, mode),
                 text(command))

int io_execve(const char* path, Texts arguments, Texts environment) {
  return start_program<"execve">(path, arguments, environment, path, arguments, environment);
}
int io_execv(const char* path, Texts arguments) {
  return start_program<"execv">(path, arguments, ::environ, path, arguments);
}
int io_execvp(const char* path, Texts arguments) {
  return start_program<"execvp">(path, arguments, ::environ, path, arguments);
}
int io_execvpe(const char* path, Texts arguments, Texts environment) {
  return start_program<"execvpe">(path, arguments, environment, path, arguments, environment);
}
int io_fexecve(int file, Texts arguments, Texts environment) {
  return start_program<"fexecve">(nullptr, arguments, environment, file, arguments, environment);
}
int io_posix_spawn(pid_t* process, const char* path, const posix_spawn_file_actions_t* actions,
                   const posix_spawnattr_t* attributes, Texts arguments, Texts environment) {
  return spawn<"posix_spawn">(process, path, actions, attributes, arguments, environment);
}
int io_posix_spawnp(pid_t* process, const char* path, const posix_spawn_file_actions_t* actions,
                    const posix_spawnattr_t* attributes, Texts arguments, Texts environment) {
  return spawn<"posix_spawnp">(process, path, actions, attributes, arguments, environment);
}

}  // namespace wherry::io
