// Finds out by a trial whether this Linux keeps the holes of a file with huge pages when it merges
// the other pages into a huge page. Linux before about 6.4 fills holes that a userfaultfd tracks
// with zeros.
//
// Linux also merges pages in the background (khugepaged), and it needs free memory for a huge page.
// Neither changes the result: a refused merge counts only if Linux makes the same merge as soon as
// nothing guards the holes. Otherwise the trial is repeated, up to a limit.
#pragma once

#include <string>

namespace wherry::impl {

// What shall keep Linux from filling the holes.
enum class HoleGuard {
  userfaultfd,    // a userfaultfd tracks them; mappings may permit huge pages
  small_mapping,  // all mappings of the holes forbid huge pages
};

struct HoleProbe {
  enum class Found {
    kept,
    filled,
    not_tried,
  };

  Found found = Found::not_tried;
  // If not_tried: the last step that failed, and its errno.
  const char* step = "";
  int error = 0;

  bool keeps_holes() const { return found == Found::kept; }
  // Whether a later trial may succeed: Linux had no memory for a page, or was busy with the file.
  bool may_succeed_later() const;
};

// Makes the trial at the first call, with a file on a private tmpfs (huge_tmpfs.h). Any thread.
const HoleProbe& probe_holes(HoleGuard guard);

// Makes the trial with a file of 2 MiB that may have huge pages. Frees the file's pages.
HoleProbe probe_holes_of(int fd, HoleGuard guard);

// If not_tried: returns for example "merging pages failed (Cannot allocate memory)".
std::string reason_of(const HoleProbe& probe);

}  // namespace wherry::impl
