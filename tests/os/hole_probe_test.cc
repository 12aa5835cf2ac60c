// What is found about the holes of files with huge pages does not depend on what else Linux does
// with the file.
#include "os/files/hole_probe.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "os/files/fd.h"
#include "os/files/file_io.h"
#include "os/files/huge_tmpfs.h"
#include "os/kernel_abi.h"
#include "os/memory/mapping.h"
#include "os/process/permissions.h"
#include "os/process/resource_limits.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::hole_probe_test {
namespace {

using impl::HoleGuard;
using impl::HoleProbe;
using Found = HoleProbe::Found;

constexpr std::size_t huge_page = std::size_t{2} << 20;

// An empty file that may have huge pages; no descriptor where the machine permits none.
impl::Fd probe_file() {
  impl::Fd file = impl::create_on_huge_tmpfs("wherry-probe-test").take_only();
  if (file) REQUIRE(impl::set_file_size(file.get(), huge_page) == 0);
  return file;
}

// Merges the pages of a file again and again, as khugepaged may. Pauses for as long as each merge
// took: a thread that merges all the time leaves a probe no moment for its own merge where a merge
// takes 10 ms, as in an emulated machine.
class Merger {
 public:
  explicit Merger(int fd)
      : place_(impl::Mapping::file_alias(fd, huge_page, huge_page, impl::Access::write,
                                         /*huge_pages=*/true)),
        thread_([this] {
          while (!stop_) {
            const std::uint64_t begun = impl::now_ns();
            static_cast<void>(impl::merge_pages({place_.data(), huge_page}));
            tries_.fetch_add(1);
            std::this_thread::sleep_for(std::chrono::nanoseconds(impl::now_ns() - begun));
          }
        }) {}
  ~Merger() {
    stop_ = true;
    thread_.join();
  }
  long tries() const { return tries_; }

 private:
  const impl::Mapping place_;
  std::atomic<bool> stop_ = false;
  std::atomic<long> tries_ = 0;
  std::thread thread_;
};

TEST_CASE("Whether holes are kept is found beside a thread that merges the file's pages") {
  const HoleGuard guard = GENERATE(HoleGuard::userfaultfd, HoleGuard::small_mapping);
  if (guard == HoleGuard::userfaultfd && !impl::permissions().userfaultfd()) {
    WARN("not tried: no userfaultfd is permitted");
    return;
  }
  const impl::Fd file = probe_file();
  if (!file) {
    WARN("not tried: no file with huge pages can be made");
    return;
  }
  const HoleProbe alone = impl::probe_holes_of(file.get(), guard);
  INFO(impl::reason_of(alone));
  if (alone.found == Found::not_tried && ::madvise(nullptr, 0, impl::abi::collapse) != 0) {
    WARN("not tried: this Linux merges no pages on request");
    return;
  }
  REQUIRE(alone.found != Found::not_tried);
  // This guard relies on no mapping of the file permitting huge pages. That of the Merger does.
  if (guard == HoleGuard::small_mapping) return;

  const Merger merger(file.get());
  while (merger.tries() == 0) std::this_thread::yield();
  for (std::uint64_t round = 0; round < scaled(400); ++round) {
    const HoleProbe beside = impl::probe_holes_of(file.get(), guard);
    INFO("round " << round << ": " << impl::reason_of(beside));
    REQUIRE(beside.found == alone.found);
  }
}

TEST_CASE("The first trial's result remains") {
  const HoleProbe& first = impl::probe_holes(HoleGuard::small_mapping);
  CHECK(&impl::probe_holes(HoleGuard::small_mapping) == &first);
}

TEST_CASE("A file that cannot have the pages is not tried, and says which step failed") {
  const impl::Fd file(::memfd_create("wherry-probe-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(file);
  REQUIRE(impl::set_file_size(file.get(), huge_page) == 0);
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE) == 0);
  const HoleProbe found = impl::probe_holes_of(file.get(), HoleGuard::small_mapping);
  CHECK(found.found == Found::not_tried);
  CHECK((found.error == EACCES || found.error == EPERM));  // the latter before Linux 6.7
  CHECK_FALSE(found.may_succeed_later());
  CHECK_THAT(impl::reason_of(found),
             Catch::Matchers::ContainsSubstring(std::strerror(found.error)));
}

}  // namespace
}  // namespace wherry::test::hole_probe_test
