// Copies from slow memory, such as a file on a network or swapped pages: the source is memory of
// the test's own, whose pages arrive when the test supplies them. Accesses to the destination, and
// freeing it, wait until the copy completes.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/stage.h"

namespace wherry::test::slow_source_test {

using namespace std::chrono_literals;

namespace {

// Longer than a fault waits for pages that are not in a transfer.
constexpr auto slowness = 13s;
// A thread that does not wait for the slow source has finished long before.
constexpr int soon_ms = 20'000;
constexpr std::size_t bytes = 4 * region_bytes;
// An upper limit on wake-ups of a waiting thread. Ten wake-ups a second would be about a hundred.
constexpr long looks_max = 5000;

// Reads of this memory block until come() has been called.
class SlowMemory {
 public:
  SlowMemory() {
    fd_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
    uffdio_api api{};
    api.api = UFFD_API;
    expect(fd_ >= 0 && ::ioctl(fd_, UFFDIO_API, &api) == 0, "no userfaultfd");
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    expect(memory_ != MAP_FAILED, "no memory");
    uffdio_register request{};
    request.range = {reinterpret_cast<std::uintptr_t>(memory_), bytes};
    request.mode = UFFDIO_REGISTER_MODE_MISSING;
    expect(::ioctl(fd_, UFFDIO_REGISTER, &request) == 0, "the memory cannot be registered");
  }
  ~SlowMemory() { ::close(fd_); }

  const void* data() const { return memory_; }
  // Waits until one more reader blocks.
  void wait_for_reader() const {
    uffd_msg message{};
    expect(::read(fd_, &message, sizeof message) == sizeof message, "no reader blocks");
  }
  void come() const {
    const std::vector<std::uint64_t> contents(bytes / sizeof(std::uint64_t), 7);
    uffdio_copy copy{};
    copy.dst = reinterpret_cast<std::uintptr_t>(memory_);
    copy.src = reinterpret_cast<std::uintptr_t>(contents.data());
    copy.len = bytes;
    expect(::ioctl(fd_, UFFDIO_COPY, &copy) == 0, "the pages cannot be supplied");
  }

 private:
  int fd_;
  std::byte* memory_;
};

// Starts to copy the slow memory to the words, in a thread and a stream of its own. Returns after
// the copy has begun.
std::thread copy_to(const Stage& stage, const Words& words, const SlowMemory& slow) {
  std::thread copies([&stage, to = address_of(words), from = slow.data()] {
    WHERRY_TRY(cuCtxSetCurrent(const_cast<Stage&>(stage).session().context(0)));
    CUstream stream = nullptr;
    WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    WHERRY_TRY(cuMemcpyHtoDAsync(to, from, bytes, stream));
    WHERRY_TRY(cuStreamSynchronize(stream));
  });
  slow.wait_for_reader();
  return copies;
}

long sleeps_of_this_thread() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

void wait_for_transfers() {
  const Stage stage("capacity=16M;capacity=16M");
  const SlowMemory slow;
  const SlowMemory slow_too;
  const Words touched(bytes / sizeof(std::uint64_t));
  Words freed(bytes / sizeof(std::uint64_t));
  // Moves the pages to device 0, so that the host and device 1 do not have them mapped.
  stage.write_pages(device0, touched.data(), bytes, 1);
  stage.write_pages(device0, freed.data(), bytes, 1);
  std::thread copies[] = {copy_to(stage, touched, slow), copy_to(stage, freed, slow_too)};

  std::atomic<std::uint64_t> seen{0};
  std::thread faulting_processor(
      [&] { seen = *const_cast<volatile std::uint64_t*>(touched.data()); });
  std::thread device_faulting_processor(
      [&] { (void)stage.read(device1, touched.data() + page_words); });
  long sleeps = 0;
  std::thread freer([&] {
    WHERRY_TRY(cuCtxSetCurrent(const_cast<Stage&>(stage).session().context(0)));
    freed.free();
    sleeps = sleeps_of_this_thread();
  });
  std::this_thread::sleep_for(slowness);
  expect(seen == 0, "the page was used during its transfer");
  slow.come();
  slow_too.come();
  for (std::thread& copy : copies) copy.join();
  for (std::thread* thread : {&faulting_processor, &device_faulting_processor, &freer})
    thread->join();
  expect(seen == 7, "the access read " + std::to_string(seen));
  expect(touched[0] == 7, "the copied data is not there");
  expect(sleeps < looks_max, "cuMemFree woke up " + std::to_string(sleeps) + " times");
}

void use_same_pool() {
  const Stage stage("capacity=16M;capacity=16M");
  const SlowMemory slow;
  const Words copied(bytes / sizeof(std::uint64_t));
  const Words touched(bytes / sizeof(std::uint64_t));
  stage.write_pages(device0, copied.data(), bytes, 1);
  stage.write_pages(device0, touched.data(), bytes, 1);
  std::thread copies = copy_to(stage, copied, slow);

  std::atomic<bool> done = false;
  // Moves the pages out of the pool and back, and copies to them.
  std::thread faulting_processor([&] {
    stage.write_pages(host, touched.data(), bytes, 2);
    stage.write_pages(device0, touched.data(), bytes, 3);
    WHERRY_TRY(cuCtxSetCurrent(const_cast<Stage&>(stage).session().context(0)));
    const std::vector<std::uint64_t> contents(touched.size(), 4);
    CUstream stream = nullptr;
    WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    WHERRY_TRY(cuMemcpyHtoDAsync(address_of(touched), contents.data(), bytes, stream));
    WHERRY_TRY(cuStreamSynchronize(stream));
    done = true;
  });
  for (int waited_ms = 0; !done && waited_ms < soon_ms; ++waited_ms) ::poll(nullptr, 0, 1);
  const bool came = done;
  slow.come();
  faulting_processor.join();
  copies.join();
  expect(came, "pages waited for a copy to other pages of their pool");
  expect(touched[0] == 4 && copied[0] == 7, "written data is not there");
}

}  // namespace

TEST_CASE("accesses to pages whose copy is slow wait for it, and so does freeing them",
          "[system]") {
  const Outcome outcome = in_fresh_process(wait_for_transfers, 120'000);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a copy whose source is slow does not delay other pages of its destination pool",
          "[system]") {
  const Outcome outcome = in_fresh_process(use_same_pool, 120'000);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::slow_source_test
