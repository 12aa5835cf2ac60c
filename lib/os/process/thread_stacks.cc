#include "os/process/thread_stacks.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/page.h"
#include "os/arch/cpu.h"

namespace wherry::impl {
namespace {

// Returns an address in the thread's control block, at the end of its stack: that of the robust
// list, which Linux knows. Returns 0 if the thread has none.
std::uintptr_t control_block(pid_t thread) {
  void* list = nullptr;
  std::size_t bytes = 0;
  return ::syscall(SYS_get_robust_list, thread, &list, &bytes) == 0
             ? reinterpret_cast<std::uintptr_t>(list)
             : 0;
}

ThreadStack stack_in(const MappedRange& mapping, std::uintptr_t block, bool is_callers) {
  const AddressRange control_block = control_block_around(block, mapping.range.end);
  ThreadStack stack{{mapping.range.start, control_block.end}, control_block, is_callers};
  if (mapping.name == "[heap]") stack.pages = {};
  const auto own_error = round_down(reinterpret_cast<std::uintptr_t>(&errno), page_size);
  if (is_callers && mapping.range.contains(own_error))
    stack.control_block.start = std::min(control_block.start, own_error);
  return stack;
}

}  // namespace

std::vector<ThreadStack> thread_stacks(std::string_view map) {
  struct Block {
    std::uintptr_t address;
    bool is_callers;
  };
  std::vector<Block> blocks;
  const pid_t self = ::gettid();
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  if (const std::unique_ptr<DIR, Close> threads(::opendir("/proc/self/task")); threads) {
    while (const dirent* entry = ::readdir(threads.get())) {
      const auto thread = static_cast<pid_t>(std::atoi(entry->d_name));
      // The main thread's control block is not on its stack.
      if (thread == 0 || thread == ::getpid()) continue;
      if (const std::uintptr_t block = control_block(thread))
        blocks.push_back({block, thread == self});
    }
  }
  std::vector<ThreadStack> stacks;
  while (const auto mapping = next_mapping(map)) {
    if (mapping->name == "[stack]") stacks.push_back({mapping->range, {}, self == ::getpid()});
    for (const Block& block : blocks)
      if (mapping->range.contains(block.address))
        stacks.push_back(stack_in(*mapping, block.address, block.is_callers));
  }
  return stacks;
}

}  // namespace wherry::impl
