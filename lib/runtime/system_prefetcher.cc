#include "runtime/system_prefetcher.h"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "os/memory/memory_limit.h"
#include "os/memory/numa.h"
#include "os/memory/presence.h"

namespace wherry::impl {
namespace {

// The pages of a step. A step begins with a look at the program's mappings, which takes about as
// long as moving some pages. Other jobs of the copier wait until the step ends.
constexpr std::uint64_t pages_per_step = 2 * pages_per_block;

AddressRange addresses_of(PageSpan pages) {
  return {offset_of(pages.first), offset_of(pages.end())};
}

MemoryIdentity identity_of(const MappedRange& mapping) {
  using Kind = MemoryIdentity::Kind;
  MemoryIdentity identity;
  identity.shared = mapping.shared;
  if (mapping.inode != 0) {
    identity.kind = Kind::file;
    identity.device = mapping.device;
    identity.inode = mapping.inode;
    identity.origin = mapping.offset - mapping.range.start;
  } else if (mapping.name == "[heap]") {
    identity.kind = Kind::heap;
  } else if (mapping.name == "[stack]") {
    identity.kind = Kind::stack;
  } else {
    identity.kind = Kind::anonymous;
  }
  return identity;
}

// Whether absent pages of this memory may be created: an access would give each one zeros or its
// swapped contents, and no other process sees them.
bool is_creatable(const SystemPart& part) {
  return part.identity.kind != MemoryIdentity::Kind::file && !part.identity.shared && part.writable;
}

// While an object lives, this thread creates the absent pages of some memory on one of `nodes`,
// unless the memory has a policy that places them: that of a preferred location, or the program's.
class CreationPlace {
 public:
  CreationPlace(PageSpan pages, const std::vector<int>& nodes) : pages_(pages) {
    const auto policy = mapping_policy(offset_of(pages.first));
    if (!policy || policy->kind == MemoryPolicy::Kind::none) {
      thread_.emplace(nodes);
    } else if (policy->kind == MemoryPolicy::Kind::local) {
      // The library has marked the memory by this policy, which overrides the thread's.
      is_mark_replaced_ = set({MemoryPolicy::Kind::prefers, nodes});
    }
  }
  ~CreationPlace() {
    if (is_mark_replaced_) (void)set({MemoryPolicy::Kind::local, {}});
  }
  CreationPlace(const CreationPlace&) = delete;
  CreationPlace& operator=(const CreationPlace&) = delete;

 private:
  bool set(const MemoryPolicy& policy) const {
    return set_mapping_policy(offset_of(pages_.first), pages_.bytes(), policy) == 0;
  }

  const PageSpan pages_;
  std::optional<ThreadPlacement> thread_;
  bool is_mark_replaced_ = false;
};

}  // namespace

std::vector<SystemPart> parts_of(std::string_view map, PageSpan span) {
  std::vector<SystemPart> parts;
  while (const auto mapping = next_mapping(map)) {
    const PageIndex first = page_at_offset(mapping->range.start);
    const PageSpan pages = intersect({first, page_at_offset(mapping->range.end) - first}, span);
    if (pages.empty()) continue;
    parts.push_back({pages, identity_of(*mapping), mapping->accessible(), mapping->writable});
  }
  return parts;
}

// A step: brings some pages of one part.
class SystemPrefetcher::PrefetchTask final : public Copiers::Task {
 public:
  PrefetchTask(const SystemPrefetcher& prefetcher, const SystemPart& part,
               const std::vector<int>& nodes)
      : prefetcher_(prefetcher), part_(part), nodes_(nodes) {}

  Copiers::TaskState advance(Copiers::AnyTransfer& /*transfer*/) override {
    try {
      const std::string map = read_address_map();
      for (const SystemPart& now : parts_of(map, part_.pages))
        if (now.identity == part_.identity) prefetcher_.bring(now, nodes_);
    } catch (const std::bad_alloc&) {
      // A prefetch is a hint: these pages stay where they are.
    }
    return Copiers::TaskState::done;
  }
  void complete_transfer(const TransferResult& /*outcome*/) override {}
  void cancel_transfer() override {}

 private:
  const SystemPrefetcher& prefetcher_;
  const SystemPart part_;
  const std::vector<int>& nodes_;  // the job's
};

class SystemPrefetcher::PrefetchJob final : public Copiers::Job {
 public:
  // Requires: each prefetch has a part.
  PrefetchJob(const SystemPrefetcher& prefetcher, std::vector<SystemPrefetch> prefetches,
              std::function<void()> done)
      : prefetcher_(prefetcher), prefetches_(std::move(prefetches)), done_(std::move(done)) {}

  std::unique_ptr<Copiers::Task> next_task() override {
    if (!has_more()) return nullptr;
    const SystemPrefetch& prefetch = prefetches_[prefetch_];
    SystemPart step = prefetch.parts[part_];
    step.pages.first += done_pages_;
    step.pages.count = std::min(step.pages.count - done_pages_, pages_per_step);
    done_pages_ += step.pages.count;
    if (done_pages_ == prefetch.parts[part_].pages.count) {
      done_pages_ = 0;
      if (++part_ == prefetch.parts.size()) {
        part_ = 0;
        ++prefetch_;
      }
    }
    return std::make_unique<PrefetchTask>(prefetcher_, step, prefetch.nodes);
  }
  bool has_more() const override { return prefetch_ < prefetches_.size(); }
  void finish(Copiers::Task& /*task*/) override {}
  void done() override { done_(); }

 private:
  const SystemPrefetcher& prefetcher_;
  const std::vector<SystemPrefetch> prefetches_;
  const std::function<void()> done_;
  // Where the next step begins.
  std::size_t prefetch_ = 0;
  std::size_t part_ = 0;
  std::uint64_t done_pages_ = 0;
};

SystemPrefetcher::SystemPrefetcher(Copiers& copiers, bool moves)
    : copiers_(copiers), moves_(moves), reserve_(available_memory() / 16) {}

void SystemPrefetcher::submit(std::vector<SystemPrefetch> prefetches, std::function<void()> done) {
  for (SystemPrefetch& prefetch : prefetches)
    std::erase_if(prefetch.parts,
                  [&](const SystemPart& part) { return !moves_ && !is_creatable(part); });
  std::erase_if(prefetches, [](const SystemPrefetch& prefetch) { return prefetch.parts.empty(); });
  copiers_.submit(std::make_shared<PrefetchJob>(*this, std::move(prefetches), std::move(done)));
}

void SystemPrefetcher::bring(const SystemPart& part, const std::vector<int>& nodes) const {
  if (is_creatable(part)) create_absent(part.pages, nodes);
  if (moves_) move_to_one_of(offset_of(part.pages.first), part.pages.count, page_size, nodes);
}

void SystemPrefetcher::create_absent(PageSpan pages, const std::vector<int>& nodes) const {
  const std::vector<AddressRange> absent = absent_pages(addresses_of(pages));
  if (absent.empty() || available_memory() < reserve_ + pages.bytes()) return;
  std::optional<CreationPlace> place;
  if (moves_) place.emplace(pages, nodes);
  for (const AddressRange range : absent)
    if (create_pages(range) != 0) return;
}

}  // namespace wherry::impl
