// Who changes what one process may do with stretches of its view of the arena: the process itself,
// or somebody there who is asked to.
#pragma once

#include <unistd.h>

#include "base/page.h"
#include "os/memory/mapping.h"
#include "os/memory/mapping_count.h"
#include "pages/arena_layout.h"

namespace wherry::impl {

class Protector {
 public:
  virtual ~Protector() = default;
  // Pages that have no address are passed over. Returns when every thread of the process is bound
  // by it: 0, or an errno. ESRCH: the process is gone, or will never touch anything any more;
  // ENOMEM: it has as many mappings as it may have, and nothing or a part has changed.
  [[nodiscard]] virtual int protect(PageSpan span, Access access) = 0;
  // For a process that does not give up what it may touch no more: ends it. False: it is this one.
  virtual bool end_process() { return false; }
  // How many mappings the process has; 0: the kernel does not say.
  virtual std::uint64_t count_mappings() = 0;
};

// The calling process itself.
class OwnProtector final : public Protector {
 public:
  explicit OwnProtector(const ArenaLayout& layout) : layout_(layout) {}
  int protect(PageSpan span, Access access) override {
    return layout_.for_each_address_range(span, [&](std::uintptr_t address, std::size_t bytes) {
      return set_access(address, bytes, access);
    });
  }
  std::uint64_t count_mappings() override { return impl::count_mappings(::getpid()); }

 private:
  const ArenaLayout& layout_;
};

}  // namespace wherry::impl
