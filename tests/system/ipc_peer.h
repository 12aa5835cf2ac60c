// Another program that uses the library, for tests of memory and events that processes share. It
// executes requests from a socket one at a time, with its own addresses, and ends when the socket
// is closed.
#pragma once

#include <sys/types.h>
#include <wherry/cuda.h>

#include <cstdint>

#include "support/stage.h"

namespace wherry::test {

// The devices of both programs.
inline constexpr const char* ipc_devices = "capacity=16M,workers=2;capacity=16M,workers=2";

// This program's stage.
Stage& stage();

enum class Ask : int {
  allocate,         // allocates `value` bytes; answers with the address
  free,             // calls cuMemFree
  free_async,       // calls cuMemFreeAsync, and waits for the stream
  get_handle,       // a handle of the memory at the address
  open_handle,      // opens it for the device with the flags; answers with the address
  close_handle,     // closes the address
  read,             // reads the word at the address in a kernel
  write,            // writes `value` to the address in a kernel
  read_by_copy,     // reads the word by cuMemcpy
  write_by_copy,    // writes `value` by cuMemcpy
  device_process,   // answers with the id of the device's process
  export_physical,  // calls cuMemCreate for `value` bytes; answers with a descriptor
  free_bytes,       // the free bytes of cuMemGetInfo
  become_nobody,
  make_pool,    // creates a memory pool; answers with the pool
  export_pool,  // answers with a descriptor of the pool
  import_pool,  // takes a descriptor; answers with the pool
  // Allocates `value` bytes from the pool at the address; answers with the memory's address.
  allocate_pooled,
  export_pointer,  // exports the pointer at the address
  import_pointer,  // imports the handle into the pool at the address
  make_event,      // creates an event; answers with it
  get_event_handle,
  open_event_handle,
  destroy_event,
  record,      // records the event at the address
  query,       // queries the event at the address
  await,       // waits for the event at the address
  wait_event,  // makes the device's stream wait for the event
  hold,        // keeps the device's stream busy until `release`
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
  int fd = -1;  // a descriptor of the receiving process
};

class Peer {
 public:
  // Starts this program's stage, then the other program, and returns when that is ready. Throws
  // std::runtime_error. Null: all devices are visible.
  explicit Peer(const char* visible_devices = nullptr);
  ~Peer();  // ends the program
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const { return pid_; }
  Answer ask(const Request& request, int fd = -1);
  // Asks for something that must succeed, and returns the answer's value.
  std::uint64_t get(const Request& request, int fd = -1);
  CUipcMemHandle handle_of(std::uint64_t address);
  // Kills the program. It has ended when this returns; its devices end a little later.
  void kill();

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

}  // namespace wherry::test
