#include "memory/offer_board.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/page.h"
#include "os/files/file_io.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t the_mark = 0x31'79'72'72'65'68'77;  // "wherry1"

// Is 0 if the slot is free. Otherwise the offer was written before the ticket (release).
using Ticket = std::atomic<std::uint64_t>;
struct Slot {
  Ticket ticket;
  Offer offer;
};
// A slot, as other processes read it.
struct SlotBytes {
  std::uint64_t ticket = 0;
  Offer offer;
};
static_assert(sizeof(Slot) == sizeof(SlotBytes) && std::is_trivially_copyable_v<Offer>);
constexpr std::size_t board_bytes = round_up(OfferBoard::slots_max * sizeof(Slot), page_size);

template <typename Value>
bool read_value(const Fd& board, std::uint64_t offset, Value& value) {
  return read_at(board.get(), offset, std::as_writable_bytes(std::span(&value, 1))) ==
         static_cast<int>(sizeof value);
}

// The verdict for an errno that a look at another process returned.
ForeignOffer::Verdict to_verdict(int error, pid_t pid) {
  switch (error) {
    case 0:
      return ForeignOffer::Verdict::found;
    case ENOENT:
    case ESRCH:
      return ForeignOffer::Verdict::unknown;
    case EACCES:
    case EPERM:
      return ForeignOffer::Verdict::refused;
    default:
      throw_errno(error, fmt::format("cannot read the offers of process {}", pid));
  }
}

}  // namespace

OfferBoard::OfferBoard()
    : process_(own_identity()),
      file_("wherry-offers", board_bytes, HugePages::never),
      file_identity_(identify_file(file_.fd())),
      slots_(Mapping::file_alias(file_.fd(), board_bytes, page_size, Access::write)) {}

std::optional<OfferHandle> OfferBoard::post(const Offer& offer) {
  if (free_.empty()) {
    if (used_ == slots_max) return std::nullopt;
    free_.push_back(used_++);
  }
  OfferHandle handle;
  handle.mark = the_mark;
  handle.start_time = process_.start_time;
  handle.board_file = file_identity_;
  handle.ticket = next_ticket_++;
  handle.pid = process_.pid;
  handle.board = file_.fd();
  handle.kind = offer.kind;
  handle.slot = free_.back();
  free_.pop_back();
  Slot& slot = reinterpret_cast<Slot*>(slots_.data())[handle.slot];
  // A reader that sees a part of the new offer also sees that the slot's previous ticket is gone.
  std::atomic_thread_fence(std::memory_order_release);
  slot.offer = offer;
  slot.offer.pid = process_.pid;
  slot.ticket.store(handle.ticket, std::memory_order_release);
  return handle;
}

void OfferBoard::withdraw(const OfferHandle& handle) {
  Slot& slot = reinterpret_cast<Slot*>(slots_.data())[handle.slot];
  WHERRY_CHECK(slot.ticket.load() == handle.ticket, "offer {} is not on the board", handle.ticket);
  // The ticket is cleared before the caller looks for marks on the offered range: a process that
  // marks the range later finds the offer gone.
  slot.ticket.store(0);
  free_.push_back(handle.slot);
}

ForeignOffer::Verdict ForeignOffer::find(const OfferHandle& handle, OfferKind kind,
                                         ForeignOffer& found) {
  if (handle.mark != the_mark || handle.kind != kind || handle.unused != 0 || handle.ticket == 0 ||
      handle.board < 0 || handle.slot >= OfferBoard::slots_max)
    return Verdict::unknown;
  const FoundProcess process = identify_process(handle.pid);
  if (process.error != 0) return to_verdict(process.error, handle.pid);
  if (process.identity != handle.process()) return Verdict::unknown;
  if (handle.process() == own_identity()) return Verdict::own;
  OpenedFile board = open_file_of(handle.pid, handle.board, handle.board_file, O_RDONLY);
  if (board.error != 0) return to_verdict(board.error, handle.pid);
  SlotBytes slot;
  if (!read_value(board.fd, handle.slot * sizeof(Slot), slot) || slot.ticket != handle.ticket ||
      slot.offer.kind != kind || slot.offer.pid != handle.pid)
    return Verdict::unknown;
  found.pid_ = handle.pid;
  found.ticket_ = handle.ticket;
  found.slot_ = handle.slot;
  found.board_ = std::move(board.fd);
  found.offer_ = slot.offer;
  return Verdict::found;
}

ForeignOffer::Verdict ForeignOffer::open_file(Fd& file) const {
  OpenedFile opened = open_file_of(pid_, offer_.descriptor, offer_.file, O_RDWR);
  file = std::move(opened.fd);
  return to_verdict(opened.error, pid_);
}

bool ForeignOffer::stands() const {
  std::uint64_t ticket = 0;
  // Reads the ticket after find() has read the offer; pairs with the fence in post().
  std::atomic_thread_fence(std::memory_order_acquire);
  return read_value(board_, slot_ * sizeof(Slot), ticket) && ticket == ticket_;
}

}  // namespace wherry::impl
