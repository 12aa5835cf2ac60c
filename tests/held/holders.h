// The ways in which Linux holds pages of a program: it looks the pages up, and works on their
// frames some time later. Each holder begins at a moment that the test chooses, and ends when the
// test lets it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "held/places.h"

namespace wherry::test {

enum class HolderKind {
  // These read the memory.
  vmsplice,
  tee,
  splice_to_pipe,
  splice_to_socket,
  zerocopy_send,
  direct_write,      // pwritev of the C library
  raw_direct_write,  // the system call
  aio_write,
  ring_write,
  ring_write_fixed,
  peer_read,
  peer_file_read,  // /proc/PID/mem
  ptrace_peek,
  // These write to it.
  direct_read,      // preadv of the C library
  raw_direct_read,  // the system call
  aio_read,
  ring_read,
  ring_read_fixed,
  peer_write,
};
const char* name_of(HolderKind kind);
const std::vector<HolderKind>& all_holders();
bool writes(HolderKind kind);
// The flags of the wherryTouchPages that must come before the holder.
unsigned touch_flags(HolderKind kind);
// Whether the call goes through a function of the C library that the library under test wraps.
bool is_wrapped(HolderKind kind);
// Whether a process outside the program is the holder.
bool is_of_peer(HolderKind kind);
// Whether it holds a page only for an instant, so that the test lets it run all the time.
bool is_brief(HolderKind kind);

// What the word at this address contains, as written with this salt. Never 0.
inline std::uint64_t value_at(const std::uint64_t* word, std::uint64_t salt) {
  return (reinterpret_cast<std::uintptr_t>(word) / sizeof *word + salt * 0x1'0000'01b3) *
             0x9e37'79b9'7f4a'7c15 |
         1;
}

// Words that are not what they should be.
struct Comparison {
  std::uint64_t compared = 0;
  std::uint64_t wrong = 0;
  std::uint64_t zeros = 0;             // of the wrong ones
  std::uint64_t first_wrong = 0;       // its number among the compared words
  std::uint64_t first_difference = 0;  // the wrong value

  // Compares `found`, which a holder or a processor has read at `place`, with the right values.
  void add(const std::uint64_t* found, const std::uint64_t* place, std::size_t count,
           std::uint64_t salt);
};

struct HoldOrder {
  HolderKind kind = HolderKind::vmsplice;
  std::uint64_t* first = nullptr;  // at the start of a page
  std::size_t bytes = 0;           // whole pages
  std::uint64_t salt = 0;          // of the memory's contents
  std::uint64_t new_salt = 0;      // of what the holder writes
  pid_t target = -1;               // for a peer: whose memory it is
  pid_t thread = -1;               // for ptrace: the thread that stops meanwhile
  // The trap is page protection. Forced reads (of debuggers) ignore it, and find zeros in holes.
  bool protects = false;
  bool serves_system_calls = true;  // otherwise the memory is touched before the call
};

struct HoldAnswer {
  // Why the holder is not possible here, and how it has failed. Empty if neither is true.
  char missing[160];
  char failure[160];
  Comparison seen;  // what a holder that reads has read
};

// Both are called in the process of the holder; one holder at a time in each process.
// Returns when the holder holds all pages.
void begin_hold(const HoldOrder& order, HoldAnswer& answer);
// Has the holder read or write what it holds, and let go.
void end_hold(HoldAnswer& answer);

}  // namespace wherry::test
