// Wrappers of functions of <stdio.h> that transfer bytes between a stream and memory. The C library
// copies what fits into the stream's buffer in user mode. It passes more than that to Linux
// directly, by internal calls that no wrapper sees. So where Linux does not serve faults inside
// system calls, more goes through private memory of this library, in parts.
//
// fgets, getline, getc and the like take bytes from the buffer alone. printf reads texts in user
// mode just before it passes them on.
#include <stdio.h>
#include <stdio_ext.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>

#include "io/own_pieces.h"
#include "io/preparation.h"
#include "io/real.h"
#include "io/stands_for.h"

namespace wherry::io {
namespace {

using Read = std::size_t(void*, std::size_t, std::size_t, FILE*);
using Write = std::size_t(const void*, std::size_t, std::size_t, FILE*);

// Whole blocks of every file system, and little enough for a CPU's cache.
constexpr std::size_t stream_part_bytes = std::size_t{128} << 10;

// Holds the stream's lock, so that other threads' calls wait until all parts are transferred.
class StreamLock {
 public:
  explicit StreamLock(FILE* stream) : stream_(stream) {
    if (stream != nullptr) ::flockfile(stream);
  }
  ~StreamLock() {
    if (stream_ != nullptr) ::funlockfile(stream_);
  }
  StreamLock(const StreamLock&) = delete;
  StreamLock& operator=(const StreamLock&) = delete;

 private:
  FILE* const stream_;
};

// Whether Linux may get the address. A stream without a buffer yet has the size 0.
bool may_reach_linux(const void* memory, std::size_t bytes, FILE* stream) {
  return prepares() && may_be_managed(memory) && is_managed(memory, bytes) &&
         bytes >= ::__fbufsize(stream);
}

// Calls transfer(memory, bytes) for one part after the other, until one transfers less. `collect`
// says that the call reads the memory. Returns how many bytes were transferred.
template <typename Transfer>
std::size_t in_parts(void* memory, std::size_t bytes, bool collect, const Transfer& transfer) {
  const iovec piece{memory, bytes};
  OwnPieces own(1, std::min(bytes, stream_part_bytes));
  if (!own.exist()) return transfer(memory, bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t asked = own.take(&piece, 1, done, std::min(bytes - done, stream_part_bytes));
    if (collect) own.collect();
    const std::size_t result = transfer(own.pieces()->iov_base, asked);
    if (!collect) own.deliver(static_cast<ssize_t>(result));
    done += result;
    if (result < asked) break;
  }
  return done;
}

std::size_t read_stream(Read* real, void* memory, std::size_t size, std::size_t count, FILE* stream,
                        bool locked) {
  const std::size_t bytes = size * count;
  if (!may_reach_linux(memory, bytes, stream)) return real(memory, size, count, stream);
  const StreamLock lock(locked ? stream : nullptr);
  const std::size_t done =
      in_parts(memory, bytes, /*collect=*/false,
               [&](void* part, std::size_t length) { return real(part, 1, length, stream); });
  return done == bytes ? count : done / size;
}

std::size_t write_stream(Write* real, const void* memory, std::size_t size, std::size_t count,
                         FILE* stream, bool locked) {
  const std::size_t bytes = size * count;
  if (!may_reach_linux(memory, bytes, stream)) return real(memory, size, count, stream);
  const StreamLock lock(locked ? stream : nullptr);
  const std::size_t done =
      in_parts(const_cast<void*>(memory), bytes, /*collect=*/true,
               [&](const void* part, std::size_t length) { return real(part, 1, length, stream); });
  return done == bytes ? count : done / size;
}

template <Name name>
int write_text(const char* text, FILE* stream, bool locked) {
  if (!prepares() || !may_be_managed(text))
    return Real<name, int(const char*, FILE*)>::get()(text, stream);
  const std::size_t bytes = std::strlen(text);
  Write* const real = locked ? Real<"fwrite", Write>::get() : Real<"fwrite_unlocked", Write>::get();
  return write_stream(real, text, 1, bytes, stream, locked) == bytes ? 1 : EOF;
}

}  // namespace

std::size_t io_fread(void*, std::size_t, std::size_t, FILE*) WHERRY_IO_STANDS_FOR("fread");
std::size_t io_fread_unlocked(void*, std::size_t, std::size_t, FILE*)
    WHERRY_IO_STANDS_FOR("fread_unlocked");
std::size_t io_fread_chk(void*, std::size_t, std::size_t, std::size_t, FILE*)
    WHERRY_IO_STANDS_FOR("__fread_chk");
std::size_t io_fread_unlocked_chk(void*, std::size_t, std::size_t, std::size_t, FILE*)
    WHERRY_IO_STANDS_FOR("__fread_unlocked_chk");
std::size_t io_fwrite(const void*, std::size_t, std::size_t, FILE*) WHERRY_IO_STANDS_FOR("fwrite");
std::size_t io_fwrite_unlocked(const void*, std::size_t, std::size_t, FILE*)
    WHERRY_IO_STANDS_FOR("fwrite_unlocked");
int io_fputs(const char*, FILE*) WHERRY_IO_STANDS_FOR("fputs");
int io_fputs_unlocked(const char*, FILE*) WHERRY_IO_STANDS_FOR("fputs_unlocked");
int io_puts(const char*) WHERRY_IO_STANDS_FOR("puts");

std::size_t io_fread(void* memory, std::size_t size, std::size_t count, FILE* stream) {
  return read_stream(Real<"fread", Read>::get(), memory, size, count, stream, /*locked=*/true);
}
std::size_t io_fread_unlocked(void* memory, std::size_t size, std::size_t count, FILE* stream) {
  return read_stream(Real<"fread_unlocked", Read>::get(), memory, size, count, stream,
                     /*locked=*/false);
}
std::size_t io_fread_chk(void* memory, std::size_t room, std::size_t size, std::size_t count,
                         FILE* stream) {
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(size, count, &bytes) && bytes <= room)
    return io_fread(memory, size, count, stream);
  // The buffer is too small: the real function ends the program.
  return Real<"__fread_chk", std::size_t(void*, std::size_t, std::size_t, std::size_t,
                                         FILE*)>::get()(memory, room, size, count, stream);
}
std::size_t io_fread_unlocked_chk(void* memory, std::size_t room, std::size_t size,
                                  std::size_t count, FILE* stream) {
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(size, count, &bytes) && bytes <= room)
    return io_fread_unlocked(memory, size, count, stream);
  return Real<"__fread_unlocked_chk", std::size_t(void*, std::size_t, std::size_t, std::size_t,
                                                  FILE*)>::get()(memory, room, size, count, stream);
}
std::size_t io_fwrite(const void* memory, std::size_t size, std::size_t count, FILE* stream) {
  return write_stream(Real<"fwrite", Write>::get(), memory, size, count, stream, /*locked=*/true);
}
std::size_t io_fwrite_unlocked(const void* memory, std::size_t size, std::size_t count,
                               FILE* stream) {
  return write_stream(Real<"fwrite_unlocked", Write>::get(), memory, size, count, stream,
                      /*locked=*/false);
}
int io_fputs(const char* text, FILE* stream) {
  return write_text<"fputs">(text, stream, /*locked=*/true);
}
int io_fputs_unlocked(const char* text, FILE* stream) {
  return write_text<"fputs_unlocked">(text, stream, /*locked=*/false);
}
int io_puts(const char* text) {
  if (!prepares() || !may_be_managed(text)) return Real<"puts", int(const char*)>::get()(text);
  const StreamLock lock(stdout);
  const std::size_t bytes = std::strlen(text);
  if (io_fputs_unlocked(text, stdout) == EOF || ::putc_unlocked('\n', stdout) == EOF) return EOF;
  return static_cast<int>(std::min<std::size_t>(bytes + 1, INT_MAX));
}

}  // namespace wherry::io
