#include "os/process/thread_stacks.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/page.h"

namespace wherry::impl {
namespace {

// Linux knows each thread's robust list, whose address lies in the control block at the end of the
// thread's stack. 0: the thread has none.
std::uintptr_t control_block(pid_t thread) {
  void* list = nullptr;
  std::size_t bytes = 0;
  return ::syscall(SYS_get_robust_list, thread, &list, &bytes) == 0
             ? reinterpret_cast<std::uintptr_t>(list)
             : 0;
}

AddressRange stack_in(const MappedRange& mapping, std::uintptr_t block) {
  const std::uintptr_t page = round_down(block, page_size);
#if defined(__x86_64__)
  // The control block is smaller than a page, and thread-local variables precede it. The mapping
  // may extend further, because neighbouring mappings merge.
  const std::uintptr_t end = std::min(page + 2 * page_size, mapping.range.end);
#else
  const std::uintptr_t end = mapping.range.end;
#endif
  if (mapping.name == "[heap]") return {page, std::min(page + 2 * page_size, mapping.range.end)};
  return {mapping.range.start, end};
}

}  // namespace

std::vector<AddressRange> thread_stacks(std::string_view map) {
  std::vector<std::uintptr_t> blocks;
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  if (const std::unique_ptr<DIR, Close> threads(::opendir("/proc/self/task")); threads) {
    while (const dirent* entry = ::readdir(threads.get())) {
      const auto thread = static_cast<pid_t>(std::atoi(entry->d_name));
      // The main thread's control block is not on its stack.
      if (thread == 0 || thread == ::getpid()) continue;
      if (const std::uintptr_t block = control_block(thread)) blocks.push_back(block);
    }
  }
  std::vector<AddressRange> stacks;
  while (const auto mapping = next_mapping(map)) {
    if (mapping->name == "[stack]") stacks.push_back(mapping->range);
    for (const std::uintptr_t block : blocks)
      if (mapping->range.contains(block)) stacks.push_back(stack_in(*mapping, block));
  }
  return stacks;
}

}  // namespace wherry::impl
