// What Linux says about the page table of a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "os/files/fd.h"

namespace wherry::impl {

class PageTable {
 public:
  // `process`: another process, or 0 for this one. Where Linux does not permit to look, every
  // answer is nullopt.
  explicit PageTable(pid_t process);

  // How the 2 MiB at this address are mapped; nullopt if Linux cannot report it (before 6.7) or the
  // process has ended. Any thread; takes 1 us, or some us where there are small entries.
  enum class Entries {
    huge,  // by one entry
    small,
    incomplete,  // not all pages are mapped
  };
  std::optional<Entries> entries_of(std::uintptr_t start) const;
  // Whether the page is mapped; nullopt if the process has ended or Linux does not permit to look.
  // Any thread, also in a signal handler; one system call.
  std::optional<bool> is_mapped(std::uintptr_t page) const;
  // The page's word in pagemap (Linux's admin-guide/mm/pagemap.rst), or nullopt as is_mapped().
  std::optional<std::uint64_t> entry_of(std::uintptr_t page) const;

 private:
  Fd pagemap_;
};

}  // namespace wherry::impl
