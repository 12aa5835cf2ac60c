#include "memory/status_board.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/clock.h"

namespace wherry::impl {
namespace {

template <std::size_t Bytes>
void put(std::array<char, Bytes>& to, std::string_view text) {
  to.fill('\0');
  std::ranges::copy(text.substr(0, Bytes - 1), to.begin());
}

// While this exists, readers see that the names are being changed.
class NameChange {
 public:
  explicit NameChange(StatusHeader& header) : changes_(header.name_changes) {
    changes_.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~NameChange() { changes_.fetch_add(1, std::memory_order_release); }
  NameChange(const NameChange&) = delete;
  NameChange& operator=(const NameChange&) = delete;

 private:
  std::atomic<std::uint64_t>& changes_;
};

}  // namespace

StatusBoard::StatusBoard(const StatusFacts& facts)
    : published_(status_name, status_bytes(facts.blocks), &file_) {
  WHERRY_CHECK(!facts.processors.empty() && facts.processors.size() <= max_processors,
               "{} processors", facts.processors.size());
  // The names stay unwritten, so that Linux commits no memory.
  StatusHeader& header = *new (&memory().header) StatusHeader;
  for (ProcessorStatus& processor : memory().processors) new (&processor) ProcessorStatus;
  header.processors = static_cast<std::uint32_t>(facts.processors.size());
  header.start_ns = now_ns();
  header.arena_base = facts.arena_base;
  header.blocks = facts.blocks;
  header.variables_from = facts.variables_from;
  put(header.version, facts.version);
  put(header.trap, facts.trap);
  put(header.policy, facts.policy);
  put(header.policy_in_force, facts.policy_in_force);
  std::ranges::copy(facts.processors, header.about.begin());
  header.mark.store(status_mark, std::memory_order_release);
}

void StatusBoard::name(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset,
                       std::string_view text) {
  StatusHeader& header = memory().header;
  const LockGuard guard(lock_);
  auto found = slots_.find(address);
  if (found == slots_.end()) {
    const std::uint64_t next = header.name_slots.load(std::memory_order_relaxed);
    if (free_slots_.empty() && next == shown_names_max) {
      header.names_left_out.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    // Reserved now, so that forget_names() needs no memory.
    free_slots_.reserve(shown_names_max);
    found = slots_.emplace(address, free_slots_.empty() ? next : free_slots_.back()).first;
    if (free_slots_.empty())
      header.name_slots.store(next + 1, std::memory_order_relaxed);
    else
      free_slots_.pop_back();
    has_names_.store(true, std::memory_order_relaxed);
  }
  const NameChange change(header);
  ShownName& shown = memory().names[found->second];
  shown.address = address;
  shown.bytes = bytes;
  shown.offset = offset;
  put(shown.text, text);
}

void StatusBoard::forget_names(std::uint64_t address, std::uint64_t bytes) {
  // Relaxed is enough: if this memory was named before the call, the load sees that.
  if (!has_names_.load(std::memory_order_relaxed)) return;
  const LockGuard guard(lock_);
  const auto first = slots_.lower_bound(address);
  const auto end = slots_.lower_bound(address + bytes);
  if (first == end) return;
  const NameChange change(memory().header);
  for (auto name = first; name != end; ++name) {
    memory().names[name->second].bytes = 0;
    free_slots_.push_back(name->second);
  }
  slots_.erase(first, end);
  has_names_.store(!slots_.empty(), std::memory_order_relaxed);
}

}  // namespace wherry::impl
