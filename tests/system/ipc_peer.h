// Another program that uses the library, for tests of what processes share: it does what it is
// asked over a socket, one thing after another, with addresses as it has them, and ends when the
// socket is closed.
#pragma once

#include <sys/types.h>
#include <wherry/cuda.h>

#include <cstdint>

namespace wherry::test {

// "capacity=16M,workers=2" twice: the test's own devices should be the same.
inline constexpr const char* ipc_devices = "capacity=16M,workers=2;capacity=16M,workers=2";

enum class Ask : int {
  allocate,         // value bytes; answers with the address
  free,             // cuMemFree
  free_async,       // and waits for the stream
  get_handle,       // of the memory at the address
  open_handle,      // for the device; flags; answers with the address
  close_handle,     // the address
  read,             // the word at the address, by a kernel
  write,            // value
  read_by_copy,     // the word, by cuMemcpy
  write_by_copy,    // value
  device_process,   // its number
  export_physical,  // cuMemCreate of value bytes; answers with a descriptor
  free_bytes,       // what cuMemGetInfo says
  become_nobody,
  make_pool,        // answers with the pool
  export_pool,      // answers with a descriptor
  import_pool,      // comes with a descriptor; answers with the pool
  allocate_pooled,  // value bytes, flags: of the pool at the address
  export_pointer,   // the address
  import_pointer,   // the handle, into the pool at the address
  make_event,       // answers with the event
  get_event_handle,
  open_event_handle,
  destroy_event,
  record,      // the event at the address
  query,       // likewise
  await,       // likewise
  wait_event,  // the device's stream waits for it
  hold,        // the device's stream is busy until release
  release,
};

struct Request {
  Ask ask = Ask::read;
  int device = 0;
  std::uint64_t address = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;
  CUipcMemHandle handle = {};
};
struct Answer {
  CUresult result = CUDA_SUCCESS;
  std::uint64_t value = 0;
  CUipcMemHandle handle = {};
  int fd = -1;  // as it is here
};

class Peer {
 public:
  // Starts the program; the test goes on when it is ready. Throws std::runtime_error.
  explicit Peer(const char* visible_devices = nullptr);  // null: all
  ~Peer();                                               // ends it
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const { return pid_; }
  Answer ask(const Request& request, int fd = -1);
  // ... what must succeed: its value.
  std::uint64_t get(const Request& request, int fd = -1);
  CUipcMemHandle handle_of(std::uint64_t address);
  // It is killed, and gone when this returns; its devices a little later.
  void kill();

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

}  // namespace wherry::test
