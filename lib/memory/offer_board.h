// The offers of this process to other processes, on a board that these may read: a memfd with one
// slot for each offer. A 64-byte handle names the process, its board and the slot. The program may
// pass the handle on in any way.
//
// A process that has a handle opens the board through /proc/PID/fd, so Linux decides on the
// permission: the same user, or a process that may trace the offering one. The handle alone gives
// no access.
//
// Offers end, and slots and process ids are reused. A reused slot or id is not mistaken for an
// earlier one: each offer has a ticket that is never used again, and the handle also contains the
// start time of the process and the identity of the board's file.
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
  memory = 1,  // a device's own memory
  pool,        // a memory pool whose memory may be opened
  pooled,      // memory of a memory pool
  event,
};

struct Offer {
  OfferKind kind = OfferKind::memory;
  std::int32_t descriptor = -1;  // of the file, in the offering process
  FileIdentity file;
  std::uint64_t offset = 0;  // in the file, in bytes
  std::uint64_t bytes = 0;
  // The number of the device, which is the same in all processes.
  std::int32_t device = 0;
  // The offering process, set by post(). Through the id of one of its threads /proc would show the
  // same files, so a handle that names another id than this one is refused.
  std::int32_t pid = -1;
  // For memory of a pool: the ticket of the pool's offer.
  std::uint64_t pool = 0;
};

// Has no padding, because handles are compared and checked in every bit.
struct OfferHandle {
  std::uint64_t mark = 0;        // says that this is a handle
  std::uint64_t start_time = 0;  // of the process
  FileIdentity board_file;
  std::uint64_t ticket = 0;
  std::int32_t pid = -1;
  std::int32_t board = -1;  // the board's descriptor in that process
  std::uint32_t slot = 0;
  OfferKind kind = OfferKind::memory;
  std::uint64_t unused = 0;  // must be 0

  bool operator==(const OfferHandle&) const = default;
  ProcessIdentity process() const { return {pid, start_time}; }
};
static_assert(sizeof(OfferHandle) == 64 && std::has_unique_object_representations_v<OfferHandle>);

class OfferBoard {
 public:
  // How many offers a board can hold at a time.
  static constexpr std::uint32_t slots_max = 1u << 16;

  // Throws std::system_error.
  OfferBoard();

  // Adds an offer to the board. Returns nullopt if the board is full. One thread at a time. Throws
  // std::bad_alloc.
  std::optional<OfferHandle> post(const Offer& offer);
  // No process can open the offer from now on; files that are open stay open. Requires: the offer
  // is on the board. One thread at a time.
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

// Another process's offer, found by its handle.
class ForeignOffer {
 public:
  enum class Verdict {
    found,
    unknown,  // not a handle, or the offer or its process has ended
    own,      // the offer is this process's own
    refused,  // Linux does not let this process open files of the other one
  };
  // Sets `found` if the verdict is `found`. Throws std::system_error, also when Linux gives no
  // answer at the moment.
  static Verdict find(const OfferHandle& handle, OfferKind kind, ForeignOffer& found);

  const Offer& offer() const { return offer_; }
  // Opens the offered file as a new file description. Returns any verdict but `own`. Throws
  // std::system_error as find() does.
  Verdict open_file(Fd& file) const;
  // Whether the offer is still on the board. The caller marks the file's range as in use
  // (os/files/range_mark.h) before it asks. If the answer is true, the process that ends the offer
  // later sees the mark.
  bool stands() const;

 private:
  pid_t pid_ = -1;
  std::uint64_t ticket_ = 0;
  std::uint32_t slot_ = 0;
  Fd board_;
  Offer offer_;
};

}  // namespace wherry::impl
