// The processes in which a test runs parts of itself: the host, a device, and a peer that is no
// part of the library's program.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "support/session.h"

namespace wherry::test {

enum class Place {
  host,
  device,
  peer
};
const char* name_of(Place place);

// Memory that all places share, for answers. It never moves.
void* map_shared(std::size_t bytes);

// A process of its own that runs functions for the test. It is forked before the library starts and
// before the test gives up privileges, so it keeps them.
class Peer {
 public:
  // Requires: this process has one thread, and the library is not initialized.
  Peer();
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const { return pid_; }
  // Calls function() in the peer, and waits for its end, at most 30 s. The captures are copied as
  // bytes. Throws std::runtime_error if the function throws, or does not return in time.
  template <typename Function>
  void run(const Function& function) const {
    static_assert(std::is_trivially_copyable_v<Function>);
    run(call<Function>, &function, sizeof function);
  }

 private:
  using Call = void (*)(const void* captures);

  template <typename Function>
  static void call(const void* captures) {
    (*static_cast<const Function*>(captures))();
  }
  void run(Call call, const void* captures, std::size_t bytes) const;
  [[noreturn]] static void serve(int socket);

  pid_t pid_ = -1;
  int socket_ = -1;
};

class Places {
 public:
  Places(const Session& session, const Peer& peer) : session_(session), peer_(peer) {}

  template <typename Function>
  void run(Place place, const Function& function) const {
    if (place == Place::peer)
      peer_.run(function);
    else if (place == Place::device)
      session_.run(0, function);
    else
      function();
  }

 private:
  const Session& session_;
  const Peer& peer_;
};

}  // namespace wherry::test
