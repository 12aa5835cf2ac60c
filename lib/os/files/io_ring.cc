#include "os/files/io_ring.h"

#include <liburing.h>
#include <linux/falloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "base/check.h"
#include "os/files/fd.h"
#include "os/files/file_io.h"
#include "os/kernel_abi.h"
#include "os/process/permissions.h"

namespace wherry::impl {
namespace {

class UringRing final : public IoRing {
 public:
  UringRing(io_uring ring, unsigned operations) : ring_(ring) { queued_.reserve(operations); }
  // In a child that the application's fork() made, the descriptor is closed and the memory is not
  // mapped, so nothing is to be freed there.
  ~UringRing() override {
    if (disown_descriptor(ring_.ring_fd)) ::io_uring_queue_exit(&ring_);
  }

  void read(int fd, std::uint64_t offset, std::span<std::byte> into, std::uint64_t tag,
            Link link) override {
    io_uring_sqe* entry = next_entry();
    ::io_uring_prep_read(entry, fd, into.data(), static_cast<unsigned>(into.size()), offset);
    finish(entry, tag, link);
  }
  void write(int fd, std::uint64_t offset, std::span<const std::byte> from, std::uint64_t tag,
             Link link) override {
    io_uring_sqe* entry = next_entry();
    ::io_uring_prep_write(entry, fd, from.data(), static_cast<unsigned>(from.size()), offset);
    finish(entry, tag, link);
  }
  void punch(int fd, std::uint64_t offset, std::size_t bytes, std::uint64_t tag) override {
    io_uring_sqe* entry = next_entry();
    ::io_uring_prep_fallocate(entry, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(offset), static_cast<off_t>(bytes));
    finish(entry, tag, Link::none);
  }
  void populate(std::span<std::byte> pages, std::uint64_t tag) override {
    io_uring_sqe* entry = next_entry();
    ::io_uring_prep_madvise(entry, pages.data(), static_cast<off_t>(pages.size()),
                            abi::populate_write);
    finish(entry, tag, Link::none);
  }

  void fetch(std::span<const std::byte> memory, std::uint64_t tag, Link link) override {
    const std::span<std::byte> pages = pages_around(memory);
    io_uring_sqe* entry = next_entry();
    ::io_uring_prep_madvise(entry, pages.data(), static_cast<off_t>(pages.size()),
                            abi::populate_read);
    finish(entry, tag, link);
  }

  bool submit() override {
    (void)::io_uring_submit(&ring_);
    const std::size_t accepted = queued_.size() - ::io_uring_sq_ready(&ring_);
    if (accepted == 0) return false;
    queued_.erase(queued_.begin(), queued_.begin() + static_cast<std::ptrdiff_t>(accepted));
    prepared_ -= std::min(prepared_, accepted);
    // If Linux accepted only part of a chain, the chain ends there. The remaining operations would
    // run regardless of that part's result, so they are completed with -ECANCELED instead.
    for (std::size_t i = 0; i < prepared_; ++i)
      cancelled_.push_back({queued_[i]->user_data, -ECANCELED});
    discard();
    return true;
  }

  void discard() override {
    for (std::size_t i = 0; i < prepared_; ++i) make_empty(queued_[i]);
    prepared_ = 0;
  }

  Done wait() override {
    if (!cancelled_.empty()) {
      const Done done = cancelled_.front();
      cancelled_.pop_front();
      return done;
    }
    io_uring_cqe* entry = nullptr;
    int error = 0;
    do {
      error = ::io_uring_wait_cqe(&ring_, &entry);
    } while (error == -EINTR || error == -EAGAIN);
    WHERRY_CHECK(error == 0, "io_uring cannot wait for completions: errno {}", -error);
    const Done done{entry->user_data, entry->res};
    ::io_uring_cqe_seen(&ring_, entry);
    return done;
  }

 private:
  // Linux reads the queue only during a submission (the ring has no IORING_SETUP_SQPOLL). Until
  // then an entry may be rewritten, but liburing has no call that removes it from the queue. So an
  // operation that is not to happen becomes an empty one, which Linux accepts with the next
  // submission.
  static void make_empty(io_uring_sqe* entry) {
    std::memset(entry, 0, sizeof *entry);
    ::io_uring_prep_nop(entry);
    entry->flags = IOSQE_CQE_SKIP_SUCCESS;  // no completion is reported
  }
  io_uring_sqe* next_entry() {
    if (prepared_ == queued_.size()) {
      queued_.push_back(::io_uring_get_sqe(&ring_));
      WHERRY_CHECK(queued_.back() != nullptr, "more operations than the ring can hold");
    }
    io_uring_sqe* const entry = queued_[prepared_++];
    std::memset(entry, 0, sizeof *entry);
    return entry;
  }
  static void finish(io_uring_sqe* entry, std::uint64_t tag, Link link) {
    if (link == Link::next) entry->flags |= IOSQE_IO_LINK;
    if (link == Link::after) entry->flags |= IOSQE_IO_HARDLINK;
    entry->user_data = tag;
  }

  io_uring ring_;
  // The entries that Linux has not accepted, in the order of its queue. The first `prepared_` are
  // operations, the others are empty.
  std::vector<io_uring_sqe*> queued_;
  std::size_t prepared_ = 0;
  std::deque<Done> cancelled_;  // operations that wait() has to report
};

// Opens a ring and adds its descriptor to the library's set. Returns nullopt if Linux permits none.
std::optional<io_uring> open_ring(unsigned operations) {
  io_uring ring;
  std::memset(&ring, 0, sizeof ring);
  if (::io_uring_queue_init(operations, &ring, 0) != 0) return std::nullopt;
  if (ring.ring_fd > STDERR_FILENO) {
    WHERRY_CHECK(own_descriptor(ring.ring_fd) == ring.ring_fd, "a ring's descriptor has moved");
    return ring;
  }
  // The number is that of a standard stream, which the program has closed. The descriptor cannot
  // be moved to a higher number, because liburing stores the number in private fields. So another
  // ring is opened while this one occupies the number.
  const auto other = open_ring(operations);
  ::io_uring_queue_exit(&ring);
  return other;
}

}  // namespace

std::unique_ptr<IoRing> IoRing::create(unsigned operations) {
  if (!permissions()[Request::io_uring]) return nullptr;
  auto opened = open_ring(operations);
  if (!opened) return nullptr;
  io_uring& ring = *opened;
  (void)::io_uring_ring_dontfork(&ring);  // otherwise a child inherits it
  unsigned workers[2] = {1, 0};           // the first for files; the second kind is not used
  (void)::io_uring_register_iowq_max_workers(&ring, workers);  // Linux before 5.15 uses more
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof cpus, &cpus) == 0)
    // otherwise the kernel thread may run on distant CPUs
    (void)::io_uring_register_iowq_aff(&ring, sizeof cpus, &cpus);
  return std::make_unique<UringRing>(ring, operations);
}

}  // namespace wherry::impl
