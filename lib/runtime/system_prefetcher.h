// Brings memory that the library did not allocate to NUMA nodes, on the copiers' threads: Linux
// moves the pages that exist, and creates absent pages of private anonymous memory there. Pages
// that cannot move stay, without an error; contents and access rights stay as they are.
//
// The program may unmap, replace, protect or fork the memory at any time. Each step looks again
// which memory is there, and works only on the memory that was meant (MemoryIdentity).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "migration/copiers.h"
#include "pages/system_memory_books.h"

namespace wherry::impl {

struct SystemPrefetch {
  std::vector<SystemPart> parts;  // ascending
  std::vector<int> nodes;         // destinations, the best first; not empty
};

// The program's memory in `span` as the text of /proc/self/maps shows it, in ascending order.
std::vector<SystemPart> parts_of(std::string_view map, PageSpan span);

class SystemPrefetcher {
 public:
  // `moves`: there is more than one node. The copiers outlive this.
  SystemPrefetcher(Copiers& copiers, bool moves);

  // Returns at once. A copier calls done() once, when each page has had its turn. The caller may
  // hold any lock.
  void submit(std::vector<SystemPrefetch> prefetches, std::function<void()> done);

 private:
  class PrefetchJob;
  class PrefetchTask;

  // A step: creates or moves pages to one of the nodes.
  void bring(const SystemPart& part, const std::vector<int>& nodes) const;
  void create_absent(PageSpan pages, const std::vector<int>& nodes) const;

  Copiers& copiers_;
  const bool moves_;
  // If fewer bytes would be left free, absent pages are not created before their first access. 1/16
  // of the memory that was available when the library started, as for pools.
  const std::uint64_t reserve_;
};

}  // namespace wherry::impl
