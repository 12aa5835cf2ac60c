#include "os/files/io_ring.h"

#include <liburing.h>
#include <linux/falloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "base/check.h"
#include "os/files/fd.h"
#include "os/files/file_io.h"
#include "os/process/permissions.h"

namespace wherry::impl {
namespace {

// The kernel refuses a submission while it has no memory for it. The limit is short, because the
// submitter can work without io_uring, and other threads wait for the copied data.
constexpr int submit_attempts_max = 20;
constexpr timespec submit_pause{0, 1'000'000};

class UringRing final : public IoRing {
 public:
  explicit UringRing(io_uring ring) : ring_(ring) {}
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
                            MADV_POPULATE_WRITE);
    finish(entry, tag, Link::none);
  }

  void fetch(std::span<const std::byte> memory, std::uint64_t tag, Link link) override {
    const std::span<std::byte> pages = pages_around(memory);
    io_uring_sqe* entry = next_entry();
    ::io_uring_prep_madvise(entry, pages.data(), static_cast<off_t>(pages.size()),
                            MADV_POPULATE_READ);
    finish(entry, tag, link);
  }

  bool submit() override {
    for (int attempt = 0; attempt < submit_attempts_max; ++attempt) {
      const int result = ::io_uring_submit(&ring_);
      if (result >= 0 && ::io_uring_sq_ready(&ring_) == 0) return true;
      if (result > 0) {
        cancel_rest();
        return true;
      }
      if (result != -EINTR) ::nanosleep(&submit_pause, nullptr);
    }
    take_back_rest();
    return false;
  }

  Done wait() override {
    if (!taken_back_.empty()) {
      const Done done = taken_back_.front();
      taken_back_.pop_front();
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
  // The kernel accepted only part of a chain, which ends the chain there. The remaining operations
  // would run regardless of that part's result, so they are completed with -ECANCELED instead.
  void cancel_rest() {
    for (unsigned i = *ring_.sq.khead; i != ring_.sq.sqe_tail; ++i)
      // Entries are in queue order. The index array is not used, because newer rings have none.
      taken_back_.push_back({ring_.sq.sqes[i & *ring_.sq.kring_mask].user_data, -ECANCELED});
    take_back_rest();
  }
  // The kernel reads the queue only during a submission, so unread entries can be removed.
  void take_back_rest() {
    ring_.sq.sqe_head = ring_.sq.sqe_tail = *ring_.sq.ktail = *ring_.sq.khead;
  }
  io_uring_sqe* next_entry() {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    WHERRY_CHECK(entry != nullptr, "more operations than the ring can hold");
    return entry;
  }
  static void finish(io_uring_sqe* entry, std::uint64_t tag, Link link) {
    if (link == Link::next) entry->flags |= IOSQE_IO_LINK;
    if (link == Link::after) entry->flags |= IOSQE_IO_HARDLINK;
    entry->user_data = tag;
  }

  io_uring ring_;
  std::deque<Done> taken_back_;
};

}  // namespace

std::unique_ptr<IoRing> IoRing::create(unsigned operations) {
  if (!permissions()[Request::io_uring]) return nullptr;
  io_uring ring;
  std::memset(&ring, 0, sizeof ring);
  if (::io_uring_queue_init(operations, &ring, 0) != 0) return nullptr;
  ring.ring_fd = ring.enter_ring_fd = own_descriptor(ring.ring_fd);
  (void)::io_uring_ring_dontfork(&ring);  // otherwise a child inherits it
  unsigned workers[2] = {1, 0};           // the first for files; the second kind is not used
  (void)::io_uring_register_iowq_max_workers(&ring, workers);  // Linux before 5.15 uses more
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof cpus, &cpus) == 0)
    // otherwise it may run farther away
    (void)::io_uring_register_iowq_aff(&ring, sizeof cpus, &cpus);
  return std::make_unique<UringRing>(ring);
}

}  // namespace wherry::impl
