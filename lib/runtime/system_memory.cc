#include "runtime/system_memory.h"

#include <algorithm>
#include <new>
#include <string>

namespace wherry::impl {
namespace {

// Books with fewer stretches are not worth a look at all of the program's mappings.
constexpr std::size_t few_stretches = 64;

bool differ_in_node(const Topology& topology) {
  return topology.host_nodes.size() > 1 ||
         std::ranges::any_of(topology.devices, [&](const DeviceConfig& device) {
           return device.node != topology.host_nodes.front();
         });
}

// The pages that the bytes touch. Requires: not empty.
PageSpan pages_of(AddressRange bytes) {
  const PageIndex first = page_at_offset(bytes.start);
  return {first, page_at_offset(bytes.end - 1) + 1 - first};
}

std::uintptr_t address_of(PageIndex page) {
  return offset_of(page);
}

}  // namespace

SystemMemory::SystemMemory(const Topology& topology, Copiers& copiers)
    : topology_(topology),
      has_choice_(differ_in_node(topology)),
      prefetcher_(copiers, has_choice_) {}

bool SystemMemory::look(AddressRange bytes) {
  const LockGuard guard(lock_);
  return look_locked(bytes).has_value();
}

bool SystemMemory::advise(AddressRange bytes, const AdviceChange& change) {
  const LockGuard guard(lock_);
  const auto parts = look_locked(bytes);
  if (!parts) return false;
  books_.advise(*parts, change);
  set_policies(*parts);
  return true;
}

std::optional<SystemPrefetch> SystemMemory::note_prefetch(AddressRange bytes, Location said,
                                                          Location to) {
  const LockGuard guard(lock_);
  auto parts = look_locked(bytes);
  if (!parts) return {};
  SystemPrefetch prefetch{std::move(*parts), nodes_of(to)};
  books_.note_prefetch(prefetch.parts, said);
  set_policies(prefetch.parts);
  return prefetch;
}

std::optional<std::vector<SystemPart>> SystemMemory::look_locked(AddressRange bytes) {
  const std::string map = read_address_map();
  const PageSpan pages = pages_of(bytes);
  if (calls_until_tidy_ == 0) tidy(map);
  --calls_until_tidy_;
  std::vector<SystemPart> parts = parts_of(map, pages);
  books_.keep(pages, parts);
  PageIndex covered = pages.first;
  for (const SystemPart& part : parts) {
    forget_if_replaced(part);
    if (part.pages.first != covered || !part.accessible) return {};
    covered = part.pages.end();
  }
  if (covered != pages.end()) return {};
  return parts;
}

void SystemMemory::tidy(std::string_view map) {
  const PageSpan all{{}, page_at_offset(UINTPTR_MAX) - PageIndex{}};
  books_.keep(all, parts_of(map, all));
  std::size_t stretches = few_stretches;
  books_.identities().for_each(all, [&](const auto&) { return ++stretches != 0; });
  calls_until_tidy_ = stretches;
}

void SystemMemory::forget_if_replaced(const SystemPart& part) {
  std::vector<PageSpan> given;
  books_.policies().for_each(part.pages, [&](const auto& segment) {
    if (segment.value.kind != GivenPolicy::Kind::none) given.push_back(segment.span);
    return true;
  });
  if (given.empty()) return;
  // A mapping has one policy for all of its pages, so the first page shows it.
  const auto policy = mapping_policy(address_of(part.pages.first));
  if (!policy || policy->kind != MemoryPolicy::Kind::none) return;
  for (const PageSpan pages : given) books_.forget(pages);
}

std::vector<StretchMap<GivenPolicy>::Segment> SystemMemory::policies_for(
    const SystemPart& part) const {
  using Kind = GivenPolicy::Kind;
  std::vector<StretchMap<GivenPolicy>::Segment> all;
  // Only anonymous memory needs a mark: `identity` tells other memory apart. And a mark must not
  // replace the policy that the program chose for its threads.
  bool is_marked = part.identity.kind == MemoryIdentity::Kind::anonymous;
  if (is_marked) {
    const auto threads = thread_policy();
    is_marked = threads && threads->kind == MemoryPolicy::Kind::none;
  }
  const auto add = [&](PageSpan pages, bool has_place, bool is_known, Location location) {
    const GivenPolicy policy = has_place               ? GivenPolicy{Kind::place, location}
                               : is_known && is_marked ? GivenPolicy{Kind::mark, {}}
                                                       : GivenPolicy{};
    all.push_back({pages, policy});
    return true;
  };
  books_.advice().for_each(part.pages, [&](const AdviceMap::Segment& advised) {
    const bool has_place = has_choice_ && !advised.value.preferred.is_none();
    if (advised.value != Advice{})
      return add(advised.span, has_place, true, advised.value.preferred);
    books_.last_prefetches().for_each(advised.span, [&](const LastPrefetches::Segment& prefetched) {
      return add(prefetched.span, false, !prefetched.value.is_none(), {});
    });
    return true;
  });
  return all;
}

void SystemMemory::set_policies(std::span<const SystemPart> parts) {
  try {
    for (const SystemPart& part : parts) set_policies_of(part);
  } catch (const std::bad_alloc&) {
    // The advice is entered, but pages lie where they would lie without it.
  }
}

void SystemMemory::set_policies_of(const SystemPart& part) {
  // The policy of shared memory belongs to the file and applies to other processes, too.
  if (part.identity.shared) return;
  std::optional<MemoryPolicy> found;
  for (const StretchMap<GivenPolicy>::Segment& wanted : policies_for(part)) {
    std::vector<StretchMap<GivenPolicy>::Segment> changes;
    books_.policies().for_each(wanted.span, [&](const auto& segment) {
      if (segment.value != wanted.value) changes.push_back(segment);
      return true;
    });
    for (const auto& [pages, given] : changes) {
      if (!found) found = mapping_policy(address_of(part.pages.first));
      if (!found) return;
      if (!is_replaceable(*found, given)) {
        books_.policies().set(pages, {});
        continue;
      }
      // If Linux refuses, pages lie where they would lie without advice.
      if (set_mapping_policy(address_of(pages.first), pages.bytes(), in_nodes(wanted.value)) == 0)
        books_.policies().set(pages, wanted.value);
    }
  }
}

MemoryPolicy SystemMemory::in_nodes(const GivenPolicy& policy) const {
  switch (policy.kind) {
    case GivenPolicy::Kind::mark:
      return {MemoryPolicy::Kind::local, {}};
    case GivenPolicy::Kind::place:
      return {MemoryPolicy::Kind::prefers, nodes_of(policy.location)};
    default:
      return {};
  }
}

bool SystemMemory::is_replaceable(const MemoryPolicy& policy, const GivenPolicy& given) const {
  using Kind = MemoryPolicy::Kind;
  if (policy.kind == Kind::none || policy.kind == Kind::local) return true;
  if (policy.kind != Kind::prefers || given.kind != GivenPolicy::Kind::place) return false;
  // Old Linux kernels keep only one of the preferred nodes.
  const std::vector<int> nodes = nodes_of(given.location);
  return std::ranges::all_of(
      policy.nodes, [&](int node) { return std::ranges::find(nodes, node) != nodes.end(); });
}

std::vector<int> SystemMemory::nodes_of(Location location) const {
  switch (location.kind) {
    case Location::Kind::device:
      return {topology_.devices[static_cast<std::size_t>(location.id)].node};
    case Location::Kind::host_node:
      return {location.id};
    default:
      break;
  }
  std::vector<int> nodes = topology_.host_nodes;
  const int here = current_node();
  std::ranges::stable_sort(nodes, {}, [here](int node) { return node_distance(here, node); });
  return nodes;
}

}  // namespace wherry::impl
