// What this process offers to others, on a board that they may read: a memfd with a slot for each
// offer. A handle of 64 bytes names the process, its board and the slot, and travels however the
// program likes.
//
// Whoever has a handle opens the board through /proc/PID/fd, so that the kernel says who may: the
// same user, or who may trace the process. A handle by itself gives nothing.
//
// An offer ends, a slot is used again, and a number of a process as well; none of them is mistaken
// for another one, since every offer has a ticket that was never another's, and handles tell when
// the process started and which file the board is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "os/files/fd.h"
#include "os/files/memory_file.h"
#include "os/memory/mapping.h"
#include "os/process/other_process.h"

namespace wherry::impl {

enum class OfferKind : std::uint32_t {
  memory = 1,  // a device's own
  pool,        // that memory of it may be opened
  pooled,      // memory of a pool
  event,
};

struct Offer {
  OfferKind kind = OfferKind::memory;
  std::int32_t descriptor = -1;  // of the file, in the process that offers
  FileIdentity file;
  std::uint64_t offset = 0;  // in it, bytes
  std::uint64_t bytes = 0;
  std::int32_t device = 0;  // where the memory is: a number that says the same to all processes
  std::int32_t pid = -1;    // set by post(): threads have numbers, too, that lead to the same files
  std::uint64_t pool = 0;   // of pooled memory: the ticket of the pool's offer
};

// Every bit of it counts.
struct OfferHandle {
  std::uint64_t mark = 0;        // that it is one
  std::uint64_t start_time = 0;  // of the process
  FileIdentity board_file;
  std::uint64_t ticket = 0;
  std::int32_t pid = -1;
  std::int32_t board = -1;  // the descriptor
  std::uint32_t slot = 0;
  OfferKind kind = OfferKind::memory;
  std::uint64_t unused = 0;  // 0

  bool operator==(const OfferHandle&) const = default;
  ProcessIdentity process() const { return {pid, start_time}; }
};
static_assert(sizeof(OfferHandle) == 64 && std::has_unique_object_representations_v<OfferHandle>);

class OfferBoard {
 public:
  // How many offers there can be at once.
  static constexpr std::uint32_t slots_max = 1u << 16;

  // Throws std::system_error.
  OfferBoard();

  // Puts it up. Nothing: the board is full. One thread at a time. Throws std::bad_alloc.
  std::optional<OfferHandle> post(const Offer& offer);
  // Nobody can open it from now on; what is open stays so. Requires: it is up. As post().
  void withdraw(const OfferHandle& handle);

 private:
  const ProcessIdentity process_;
  MemoryFile file_;
  const FileIdentity file_identity_;
  const Mapping slots_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
  std::uint64_t next_ticket_ = 1;
};

// Another process's offer, as found by its handle.
class ForeignOffer {
 public:
  enum class Verdict {
    found,
    unknown,  // it is no handle, or the offer or its process has ended
    own,      // it is this process's
    refused,  // the kernel does not let this process see what the other one has open
  };
  // `found` is set where it is. Throws std::system_error, also where the kernel tells nothing at
  // the moment.
  static Verdict find(const OfferHandle& handle, OfferKind kind, ForeignOffer& found);

  const Offer& offer() const { return offer_; }
  // Opens the file that is offered, as a description of its own. Any verdict but `own`. Throws as
  // find().
  Verdict open_file(Fd& file) const;
  // Whether it is still up. True after the file's range was marked as in use
  // (os/files/range_mark.h): whoever ends the offer sees the mark.
  bool stands() const;

 private:
  pid_t pid_ = -1;
  std::uint64_t ticket_ = 0;
  std::uint32_t slot_ = 0;
  Fd board_;
  Offer offer_;
};

}  // namespace wherry::impl
