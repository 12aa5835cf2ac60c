#include "memory_activity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/page.h"
#include "first_columns.h"

namespace wherry::tool {
namespace {

using impl::block_size;
using impl::page_size;

std::uint64_t end_of(const NamedMemory& memory) {
  return memory.offset + memory.bytes;
}

// Finds the names in one block after the other, from low to high numbers.
class NamesByBlock {
 public:
  // Requires: `names` is ordered by offset.
  explicit NamesByBlock(const std::vector<NamedMemory>& names) : names_(names) {}

  // The names without duplicates, in alphabetical order.
  std::vector<std::string> in(std::uint64_t block) {
    const std::uint64_t begin = block * block_size;
    for (; next_ < names_.size() && names_[next_].offset < begin + block_size; ++next_)
      open_.push_back(&names_[next_]);
    std::erase_if(open_, [&](const NamedMemory* name) { return end_of(*name) <= begin; });
    std::set<std::string> found;
    for (const NamedMemory* name : open_) found.insert(name->name);
    return {found.begin(), found.end()};
  }

 private:
  const std::vector<NamedMemory>& names_;
  std::size_t next_ = 0;
  std::vector<const NamedMemory*> open_;
};

void add(MemoryActivity& row, const BlockStatus& block) {
  row.faults += block.faults;
  row.moved_bytes += block.arrived * page_size;
  row.evicted_bytes += block.evicted * page_size;
}

}  // namespace

std::uint64_t MemoryActivity::weight() const {
  return moved_bytes + evicted_bytes + faults * page_size;
}

std::vector<BlockStatus> difference(const std::vector<BlockStatus>& before,
                                    const std::vector<BlockStatus>& now) {
  std::vector<BlockStatus> result;
  auto old = before.begin();
  for (const BlockStatus& block : now) {
    while (old != before.end() && old->block < block.block) ++old;
    BlockStatus change = block;
    if (old != before.end() && old->block == block.block) {
      change.faults -= old->faults;
      change.arrived -= old->arrived;
      change.evicted -= old->evicted;
    }
    if (change.faults + change.arrived + change.evicted != 0) result.push_back(change);
  }
  return result;
}

std::vector<MemoryActivity> by_memory(const ProgramStatus& status,
                                      const std::vector<BlockStatus>& blocks) {
  std::vector<MemoryActivity> rows;
  std::map<std::vector<std::string>, std::size_t> places;  // of rows with names
  const auto row_of = [&](const std::vector<std::string>& names) -> MemoryActivity& {
    const auto [place, is_new] = places.emplace(names, rows.size());
    if (is_new) rows.push_back({names, UINT64_MAX});
    return rows[place->second];
  };
  NamesByBlock names_by_block(status.names);
  for (std::uint64_t neighbour = UINT64_MAX; const BlockStatus& block : blocks) {
    std::vector<std::string> names = names_by_block.in(block.block);
    if (names.empty() && block.block >= status.variables_from) names = {"managed variables"};
    if (!names.empty()) {
      add(row_of(names), block);
      neighbour = UINT64_MAX;
      continue;
    }
    if (block.block != neighbour)
      rows.push_back({{}, status.arena_base + block.block * block_size});
    rows.back().bytes += block_size;
    add(rows.back(), block);
    neighbour = block.block + 1;
  }
  // Adds the sizes, and rows for names to whose memory nothing happened.
  for (const NamedMemory& name : status.names) {
    bool has_row = false;
    for (auto& [names, place] : places) {
      if (std::ranges::find(names, name.name) == names.end()) continue;
      has_row = true;
      rows[place].address = std::min(rows[place].address, name.address);
      rows[place].bytes += name.bytes;
    }
    if (has_row) continue;
    MemoryActivity& row = row_of({name.name});
    row.address = name.address;
    row.bytes = name.bytes;
  }
  std::ranges::stable_sort(rows, std::greater(), &MemoryActivity::weight);
  return rows;
}

std::string label_of(const MemoryActivity& memory, std::size_t most) {
  if (memory.names.empty()) return fmt::format("{:#x}", memory.address);
  std::string label = memory.names.front();
  for (std::size_t i = 1; i < memory.names.size(); ++i) {
    const std::string rest = fmt::format(" and {} more", memory.names.size() - i);
    if (label.size() + 2 + memory.names[i].size() + rest.size() > most) {
      label += rest;
      break;
    }
    label += ", " + memory.names[i];
  }
  return first_columns(label, most);
}

}  // namespace wherry::tool
