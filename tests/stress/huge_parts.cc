#include "stress/huge_parts.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <stdexcept>

#include "support/conditions.h"
#include "support/kernel_view.h"

namespace wherry::test {
namespace {

constexpr std::size_t host_visitor = 0;
constexpr std::size_t device_visitor = 1;

std::atomic<std::uint64_t>* map_shared_word() {
  void* const place =
      ::mmap(nullptr, impl::page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw std::runtime_error("no shared memory");
  return static_cast<std::atomic<std::uint64_t>*>(place);
}

int number_of(const impl::Location& place) {
  return place.processor().index;
}

}  // namespace

// ---- Visitors

Visitors::Visitors(unsigned kept) : wrong_(map_shared_word()), kept_(kept) {}

void Visitors::Visit::operator()() const {
  for (std::size_t page = 0; page < pages; ++page) {
    if (page / impl::pages_per_region % turns != number % turns) continue;
    if (page % impl::pages_per_block >= kept) continue;
    volatile PageWords& words = PageWords::of(memory, page);
    const std::uint64_t before = number / turns;
    if (words.mark != PageWords::mark_of(page) || words.visits[visitor] != before) ++*wrong;
    words.visits[visitor] = before + 1;
  }
}

void Visitors::begin(std::byte* memory, std::size_t bytes) {
  memory_ = memory;
  pages_ = bytes / impl::page_size;
  numbers_ = {};
  for (std::size_t page = 0; page < pages_; ++page)
    PageWords::of(memory_, page).mark = PageWords::mark_of(page);
}

void Visitors::visit_by_host() {
  next_of(host_visitor)();
  ++numbers_[host_visitor];
}

void Visitors::visit_by_device(Rig& rig) {
  if (rig.launch_beside(0, next_of(device_visitor))) ++numbers_[device_visitor];
}

std::string Visitors::end(Rig& rig) {
  rig.wait_beside(0);
  std::uint64_t wrong = wrong_->exchange(0);
  // Each visitor looks at all pages once more.
  for (unsigned visitor = 0; visitor < numbers_.size(); ++visitor)
    for (std::size_t i = 0; i < turns; ++i, ++numbers_.at(visitor)) next_of(visitor)();
  wrong += wrong_->exchange(0);
  if (wrong == 0) return {};
  return std::to_string(wrong) + " visits found a page with other contents than the last one left";
}

// ---- PipeHolder

PipeHolder::PipeHolder() {
  if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
}

PipeHolder::~PipeHolder() {
  (void)stop();
  for (const int end : ends_) ::close(end);
}

void PipeHolder::start(std::byte* memory, std::size_t bytes) {
  memory_ = memory;
  pages_ = bytes / impl::page_size;
  stops_ = false;
  thread_ = std::thread([this] { hold_until_stopped(); });
}

std::string PipeHolder::stop() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
  return std::exchange(violated_, {});
}

void PipeHolder::hold_until_stopped() {
  constexpr std::size_t pages_max = 8;
  while (!stops_ && violated_.empty()) {
    const std::size_t count = 1 + random_() % pages_max;
    hold(random_() % (pages_ - count), count);
  }
}

void PipeHolder::hold(std::size_t first, std::size_t count) {
  constexpr int hold_ms_max = 4;
  const auto read_words = [&] {
    std::vector<PageWords> all;
    for (std::size_t page = first; page < first + count; ++page) {
      const volatile PageWords& words = PageWords::of(memory_, page);
      all.push_back({words.mark, {words.visits[0], words.visits[1]}});
    }
    return all;
  };
  const std::vector<PageWords> floor = read_words();
  const iovec given{memory_ + first * impl::page_size, count * impl::page_size};
  const ssize_t taken = ::vmsplice(ends_[1], &given, 1, SPLICE_F_NONBLOCK);
  ::poll(nullptr, 0, static_cast<int>(random_() % hold_ms_max));
  if (taken <= 0) return;  // EFAULT
  std::vector<std::byte> found(static_cast<std::size_t>(taken));
  for (std::size_t at = 0; at < found.size();) {
    const ssize_t got = ::read(ends_[0], found.data() + at, found.size() - at);
    if (got <= 0) {
      violated_ = "the pipe has lost a page";
      return;
    }
    at += static_cast<std::size_t>(got);
  }
  const std::vector<PageWords> ceiling = read_words();
  for (std::size_t i = 0; (i + 1) * impl::page_size <= found.size(); ++i) {
    PageWords words;
    std::memcpy(&words, found.data() + i * impl::page_size + PageWords::offset, sizeof words);
    ++held_pages_;
    bool right = words.mark == floor[i].mark && words.mark == ceiling[i].mark;
    for (std::size_t v = 0; v < std::size(words.visits); ++v)
      right =
          right && words.visits[v] >= floor[i].visits[v] && words.visits[v] <= ceiling[i].visits[v];
    if (!right && violated_.empty())
      violated_ = "the pipe has " + std::to_string(words.mark) + ", " +
                  std::to_string(words.visits[0]) + ", " + std::to_string(words.visits[1]) +
                  " for page " + std::to_string(first + i);
  }
}

// ---- HugeParts

void HugeParts::begin(std::byte* memory, std::size_t bytes) {
  memory_ = memory;
  bytes_ = bytes;
  const std::size_t place = begun_++ % homes_.size();
  gather_at(homes_[place]);
  if (is_huge_at(homes_[place])) ++huge_seen_[place];
}

void HugeParts::gather() {
  gather_at(homes_[turns_++ % homes_.size()]);
}

// A block is a huge page where it comes as a whole, in one piece. Otherwise it is merged.
void HugeParts::gather_at(const impl::Location& home) {
  const impl::Location device = impl::Location::device(0);
  const impl::Location away =
      number_of(home) == number_of(device) ? impl::Location::host() : device;
  for (const impl::Location& place : {away, home}) {
    rig_.wait_for_prefetches();
    rig_.prefetch(memory_, bytes_, place);
    rig_.wait_for_prefetches();
  }
  for (std::size_t block = 0; block < bytes_; block += impl::block_size)
    (void)rig_.runtime().consolidator().consolidate(rig_.block_of(memory_ + block));
}

void HugeParts::scatter() {
  constexpr int parts = 3;
  constexpr std::size_t pages_max = impl::pages_per_region;
  for (int i = 0; i < parts; ++i) {
    const std::size_t pages = draw(1, pages_max);
    const std::size_t first = i == 0 ? 0 : draw(0, bytes_ / impl::page_size - pages);
    const impl::Location to = everywhere[draw(0, everywhere.size() - 1)];
    if (number_of(to) >= 1 + rig_.runtime().device_count()) continue;
    rig_.prefetch(memory_ + first * impl::page_size, pages * impl::page_size, to);
    rig_.wait_for_prefetches();
  }
}

void HugeParts::discard(unsigned kept) {
  for (std::size_t block = 0; block < bytes_; block += impl::block_size) {
    const std::size_t pages = draw(1, impl::pages_per_region);
    const std::size_t first = draw(kept, impl::pages_per_block - pages);
    rig_.discard(memory_ + block + first * impl::page_size, pages * impl::page_size);
    rig_.wait_for_prefetches();
  }
}

pid_t HugeParts::process_of(const impl::Location& home) const {
  const int number = number_of(home);
  if (number == 0 || rig_.runtime().options().is_coherent(number - 1)) return ::getpid();
  return rig_.runtime().devices().process(number - 1)->pid();
}

bool HugeParts::is_huge_at(const impl::Location& home) const {
  const pid_t process = process_of(home);
  const auto touch = [memory = memory_] { (void)PageWords::of(memory, 0).mark; };
  if (const int device = number_of(home) - 1; device >= 0) {
    rig_.launch_beside(device, touch);
    rig_.wait_beside(device);
  } else {
    touch();
  }
  const auto shown = is_in_huge_page(page_entry(process, memory_).frame);
  return shown ? *shown : huge_entries(process, memory_) != 0;
}

void HugeParts::require_parted() const {
  std::uint64_t separated = 0;
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    const int number = number_of(homes_[i]);
    if (huge_seen_[i] == 0)
      throw std::runtime_error("Linux shows no huge page at processor " + std::to_string(number));
    separated += rig_.injector().separated(number);
    if (scale() == 1 && rig_.injector().separated(number) == 0)
      throw std::runtime_error("no part of a huge page has left processor " +
                               std::to_string(number));
  }
  // A short course has few huge pages at each processor, so the processors are not checked one by
  // one then.
  if (separated == 0) throw std::runtime_error("no part of a huge page has left any processor");
}

MatchHooks hooks_with_holder(Rig& rig, HugeParts& parts, Visitors& visitors, PipeHolder& holder,
                             std::function<void(std::byte*, std::size_t)> share) {
  return {[&, share = std::move(share)](std::byte* memory, std::size_t bytes) {
            visitors.begin(memory, bytes);
            parts.begin(memory, bytes);
            if (share) share(memory, bytes);
            holder.start(memory, bytes);
          },
          [&] {
            parts.scatter();
            visitors.visit_by_device(rig);
            parts.gather();
            visitors.visit_by_host();
          },
          [&] {
            const std::string wrong_in_pipe = holder.stop();
            const std::string wrong = visitors.end(rig);
            return wrong_in_pipe.empty() ? wrong : wrong_in_pipe;
          }};
}

}  // namespace wherry::test
