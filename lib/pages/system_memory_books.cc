#include "pages/system_memory_books.h"

#include <vector>

namespace wherry::impl {

PageSpan whole(std::span<const SystemPart> parts) {
  return {parts.front().pages.first, parts.back().pages.end() - parts.front().pages.first};
}

void SystemMemoryBooks::keep(PageSpan span, std::span<const SystemPart> parts) {
  if (identities_.empty()) return;
  // The parts of the span for which there are entries, and the memory that these are for.
  std::vector<StretchMap<MemoryIdentity>::Segment> known;
  identities_.for_each(span, [&](const auto& segment) {
    if (segment.value.kind != MemoryIdentity::Kind::none) known.push_back(segment);
    return true;
  });
  auto part = parts.begin();
  for (const auto& [pages, identity] : known) {
    for (PageIndex next = pages.first; next < pages.end();) {
      while (part != parts.end() && part->pages.end() <= next) ++part;
      const bool is_mapped = part != parts.end() && part->pages.first <= next;
      const PageIndex end = part == parts.end() ? pages.end()
                            : is_mapped         ? part->pages.end()
                                                : part->pages.first;
      const PageSpan same = intersect(pages, {next, end - next});
      if (!is_mapped || part->identity != identity) forget(same);
      next = same.end();
    }
  }
}

void SystemMemoryBooks::forget(PageSpan span) {
  // The identities go last: after an exception, keep() still compares the rest with them.
  advice_.forget(span);
  last_prefetches_.forget(span);
  policies_.forget(span);
  identities_.forget(span);
}

void SystemMemoryBooks::advise(std::span<const SystemPart> parts, const AdviceChange& change) {
  identify(parts);
  advice_.change(whole(parts), change);
}

void SystemMemoryBooks::note_prefetch(std::span<const SystemPart> parts, Location destination) {
  identify(parts);
  last_prefetches_.set(whole(parts), destination);
}

void SystemMemoryBooks::identify(std::span<const SystemPart> parts) {
  for (const SystemPart& part : parts) identities_.set(part.pages, part.identity);
}

}  // namespace wherry::impl
