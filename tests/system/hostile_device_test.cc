// A device whose kernel overwrites all memory that the device shares with the host, except the
// pools: the host goes on, at worst ends the device, and trusts nothing that it reads there. A
// device cannot write memory that the host shares read-only.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/session.h"

namespace wherry::test::hostile_device_test {
namespace {

constexpr const char* two_devices = "capacity=16M,workers=2;capacity=16M,workers=2";

struct Found {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  char name[64] = {};
  bool writable = false;
};

// Lists the device's shared mappings except pools: views of pools are managed memory. Runs in a
// kernel, so it does not use the C++ library.
std::size_t shared_mappings(Found* found, std::size_t most) {
  static char text[1 << 20];
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  std::size_t length = 0;
  for (ssize_t got; length < sizeof text - 1 &&
                    (got = ::read(file, text + length, sizeof text - 1 - length)) > 0;)
    length += static_cast<std::size_t>(got);
  ::close(file);
  text[length] = '\0';
  std::size_t count = 0;
  for (char* line = text; line != nullptr && *line != '\0' && count < most;) {
    char* const end = std::strchr(line, '\n');
    if (end != nullptr) *end = '\0';
    std::size_t start = 0;
    std::size_t finish = 0;
    char access[8] = {};
    if (std::sscanf(line, "%zx-%zx %7s", &start, &finish, access) == 3 && access[3] == 's') {
      const char* const name = std::strstr(line, "wherry-");
      if (name != nullptr && std::strncmp(name, "wherry-pool", 11) != 0) {
        found[count] = {start, finish - start, {}, access[1] == 'w'};
        std::strncpy(found[count].name, name, sizeof found[count].name - 1);
        ++count;
      }
    }
    line = end == nullptr ? nullptr : end + 1;
  }
  return count;
}

struct Order {
  std::uint64_t seed;
  unsigned rounds;
  std::uint64_t* writable;  // here the kernel stores how many bytes it overwrites
};

// Overwrites single words and stretches with random bytes, zeros, ones and small numbers.
void scribble(const void* args, std::size_t, std::size_t) {
  const Order order = *static_cast<const Order*>(args);
  static Found found[64];
  const std::size_t count = shared_mappings(found, 64);
  std::mt19937_64 random(order.seed);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (found[i].writable) bytes += found[i].bytes;
  if (order.writable != nullptr) *order.writable = bytes;
  for (unsigned round = 0; round < order.rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!found[i].writable) continue;
      auto* const words = reinterpret_cast<volatile std::uint64_t*>(found[i].start);
      const std::size_t all = found[i].bytes / sizeof *words;
      const std::uint64_t kind = random() % 4;
      const std::size_t first = random() % all;
      const std::size_t length = std::min<std::size_t>(all - first, random() % 4 == 0 ? all : 64);
      for (std::size_t at = first; at < first + length; ++at)
        words[at] = kind == 0   ? 0
                    : kind == 1 ? ~std::uint64_t{0}
                    : kind == 2 ? random() % 8
                                : random();
    }
  }
}

void fill(const void* args, std::size_t begin, std::size_t end) {
  std::uint64_t* const to = *static_cast<std::uint64_t* const*>(args);
  for (std::size_t i = begin; i < end; ++i) to[i] = i * 3;
}

void write_to_owners(const void*, std::size_t, std::size_t) {
  static Found found[64];
  const std::size_t count = shared_mappings(found, 64);
  for (std::size_t i = 0; i < count; ++i)
    if (std::strncmp(found[i].name, "wherry-page-owners", 18) == 0)
      *reinterpret_cast<volatile std::uint8_t*>(found[i].start) = 1;
}

struct Answer {
  int found;
  int permitted;
};

void ask_for_writes(const void* args, std::size_t, std::size_t) {
  Answer& answer = **static_cast<Answer* const*>(args);
  static Found found[64];
  const std::size_t count = shared_mappings(found, 64);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::strncmp(found[i].name, "wherry-page-owners", 18) != 0) continue;
    ++answer.found;
    if (::mprotect(reinterpret_cast<void*>(found[i].start), found[i].bytes,
                   PROT_READ | PROT_WRITE) == 0)
      ++answer.permitted;
  }
}

// Works on both devices and the host, and checks the results of device 1 and the host.
void be_visited(std::uint64_t seed) {
  Session session{two_devices};
  constexpr std::size_t count = 100'000;
  const Managed<std::uint64_t> own(count);
  const Managed<std::uint64_t> others(count);
  for (std::size_t i = 0; i < count; ++i) own[i] = i;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 6; ++round) {
    const Order order{random(), 30, nullptr};
    std::uint64_t* const to = others.data();
    // Launches before and after the attack, so that the launch queues hold entries.
    for (int i = 0; i < 4; ++i)
      (void)wherryLaunchKernel(session.stream(0), fill, &to, sizeof to, count);
    (void)wherryLaunchKernel(session.stream(0), scribble, &order, sizeof order, 1);
    for (int i = 0; i < 4; ++i)
      (void)wherryLaunchKernel(session.stream(0), fill, &to, sizeof to, count);
    // The host and the other device go on during the attack.
    WHERRY_TRY(cuCtxSetCurrent(session.context(1)));
    const Managed<std::uint64_t> mine(count);
    std::uint64_t* const there = mine.data();
    WHERRY_TRY(wherryLaunchKernel(session.stream(1), fill, &there, sizeof there, count));
    WHERRY_TRY(session.wait(1));
    for (std::size_t i = 0; i < count; ++i) {
      expect(mine[i] == i * 3, "a word that device 1 wrote is lost");
      expect(own[i] == i, "a word that the host wrote is lost");
    }
    // The device may have lost its launches, or may wait forever for an answer, like a kernel that
    // never ends. A reset ends it.
    WHERRY_TRY(cuCtxSetCurrent(session.context(0)));
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    session.renew_stream(0);
    WHERRY_TRY(wherryLaunchKernel(session.stream(0), fill, &to, sizeof to, count));
    WHERRY_TRY(session.wait(0));
    for (std::size_t i = 0; i < count; ++i)
      expect(others[i] == i * 3, "a word is wrong after a reset");
  }
}

}  // namespace

TEST_CASE("a device that writes over all memory it shares with the host harms no other processor") {
  const std::uint64_t round = GENERATE(range(0u, 4u));
  const Outcome outcome =
      in_fresh_process([round] { be_visited(seed() + round); }, /*limit_ms=*/100'000);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a device cannot write to the table of page owners") {
  const Outcome outcome = in_fresh_process([] {
    Session session{two_devices};
    const Managed<Answer> answer(1);
    Answer* const to = answer.data();
    WHERRY_TRY(wherryLaunchKernel(session.stream(0), ask_for_writes, &to, sizeof to, 1));
    WHERRY_TRY(session.wait(0));
    expect(answer[0].found > 0, "the device does not map the table of page owners");
    expect(answer[0].permitted == 0, "the device may make the table of page owners writable");
    WHERRY_TRY(wherryLaunchKernel(session.stream(0), write_to_owners, nullptr, 0, 1));
    expect(session.wait(0) == CUDA_ERROR_ILLEGAL_ADDRESS,
           "a write to the table of page owners succeeds");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::hostile_device_test
