#include "measure/segv_pages.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "measure/timing.h"

namespace wherry::bench {
namespace {

constexpr std::size_t page = 4096;
std::atomic<SegvPages*> current{nullptr};

}  // namespace

SegvPages::SegvPages(std::size_t bytes)
    : near_(bytes, PlainMemory::Pages::small), far_(bytes, PlainMemory::Pages::small) {
  near_.fill();
  far_.fill();
  current.store(this);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (::sigaction(SIGSEGV, &action, &before_) != 0) fail("sigaction");
}

SegvPages::~SegvPages() {
  ::sigaction(SIGSEGV, &before_, nullptr);
  current.store(nullptr);
}

void SegvPages::protect() {
  if (::mprotect(near_.data(), near_.size(), PROT_NONE) != 0) fail("mprotect");
}

void SegvPages::on_fault(int signal, siginfo_t* info, void*) {
  if (current.load()->bring(static_cast<std::byte*>(info->si_addr))) return;
  // The address is outside of the trapped pages. The access is repeated, and with the default
  // action it ends the program.
  ::signal(signal, SIG_DFL);
}

bool SegvPages::bring(std::byte* address) {
  const std::size_t offset = static_cast<std::size_t>(address - near_.data()) / page * page;
  if (address < near_.data() || offset >= near_.size()) return false;
  if (::mprotect(near_.data() + offset, page, PROT_READ | PROT_WRITE) != 0) return false;
  std::memcpy(near_.data() + offset, far_.data() + offset, page);
  return true;
}

}  // namespace wherry::bench
