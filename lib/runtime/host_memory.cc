#include "runtime/host_memory.h"

#include "base/page.h"

namespace wherry::impl {
namespace {

// The whole pages that contain a range.
struct Pages {
  explicit Pages(std::uintptr_t address, std::size_t bytes)
      : start(round_down(address, page_size)), size(round_up(address + bytes, page_size) - start) {}

  std::uintptr_t start;
  std::size_t size;
};

}  // namespace

HostMemory::HostMemory(Annex& annex, std::span<const int> nodes, std::optional<UffdAccess> access)
    : annex_(annex),
      file_("wherry-host-memory", annex.size(), HugePages::never),
      shown_(std::make_shared<Fd>(duplicate_fd(file_.fd()))),
      adopted_(file_, access) {
  if (nodes.empty()) return;
  if (const int error = file_.prefer_nodes(0, annex.size(), nodes))
    throw_errno(error, "cannot place host memory on its nodes");
}

Annex::Window HostMemory::window_at(std::uintptr_t address, const HostRange& range,
                                    Access access) const {
  const Pages pages(address, range.bytes);
  const std::uint64_t offset = Pages(range.device_base, range.bytes).start - annex_.base();
  return {{pages.start, pages.size, shown_, offset}, access};
}

std::optional<HostRange> HostMemory::reserve(std::size_t bytes, bool apart) {
  // Memory with two addresses takes whole blocks, so that both are multiples of 2 MiB.
  const std::size_t reserved = apart ? round_up(bytes, block_size) : bytes;
  const auto base = annex_.reserve(reserved);
  if (!base) return std::nullopt;
  const auto device_base = apart ? annex_.reserve(reserved) : base;
  if (device_base) return HostRange{*base, *device_base, bytes};
  annex_.release(*base);
  return std::nullopt;
}

void HostMemory::release(const HostRange& range) {
  annex_.release(range.base);
  if (range.device_base != range.base) annex_.release(range.device_base);
}

bool HostMemory::release_left() {
  std::vector<HostRange> left;
  {
    const LockGuard guard(leaving_);
    left.swap(left_);
  }
  for (const HostRange& range : left) {
    // A child that still maps the freed range may have created pages in the file.
    const Annex::Window window = window_at(range.base, range, Access::none);
    static_cast<void>(file_.punch(window.offset, window.bytes));
    release(range);
  }
  return !left.empty();
}

std::optional<HostRange> HostMemory::find_free(std::size_t bytes, bool apart) {
  const auto range = reserve(bytes, apart);
  return range || !release_left() ? range : reserve(bytes, apart);
}

std::optional<HostRange> HostMemory::allocate(std::size_t bytes, bool apart) {
  const auto range = find_free(bytes, apart);
  if (!range) return std::nullopt;
  Annex::Window window = window_at(range->base, *range, Access::write);
  Annex::Window device_window = window_at(range->device_base, *range, Access::write);
  window.children = device_window.children = InChildren::shared;
  int error = file_.allocate(window.offset, window.bytes);
  if (error == 0) error = annex_.show(window, Processor::host().bit());
  if (error == 0) error = annex_.show(device_window, annex_.all_devices());
  if (error == 0) {
    // Without permission for mlock, Linux may swap these pages, as it may swap any other.
    static_cast<void>(lock_in_memory(window.start, window.bytes));
    return range;
  }
  free(*range);
  return std::nullopt;
}

bool HostMemory::free(const HostRange& range) {
  const Annex::Window window = window_at(range.base, range, Access::none);
  const Annex::Window device_window = window_at(range.device_base, range, Access::none);
  const int host_error = annex_.hide(window.start, window.bytes, Processor::host().bit());
  const int error = annex_.hide(device_window.start, device_window.bytes, annex_.all_devices());
  static_cast<void>(file_.punch(window.offset, window.bytes));
  if (host_error != 0 || error != 0) return false;
  if (has_forked_.load(std::memory_order_relaxed)) {
    const LockGuard guard(leaving_);
    left_.push_back(range);
  } else {
    release(range);
  }
  return true;
}

std::optional<HostRange> HostMemory::find_place(AddressRange bytes) {
  const std::uintptr_t in_page = bytes.start % page_size;
  auto place = annex_.reserve(in_page + bytes.size());
  if (!place && release_left()) place = annex_.reserve(in_page + bytes.size());
  if (!place) return std::nullopt;
  return HostRange{bytes.start, *place + in_page, bytes.size()};
}

std::vector<Annex::Window> HostMemory::windows_of(const HostRange& range, Access access) const {
  std::vector<Annex::Window> windows;
  std::uintptr_t start = round_down(range.device_base, page_size);
  for (const auto& piece : adopted_.pieces_of({range.base, range.base + range.bytes})) {
    windows.push_back({{start, piece.pages.size(), shown_, piece.offset}, access});
    start += piece.pages.size();
  }
  return windows;
}

int HostMemory::hide(std::span<const Annex::Window> windows) {
  int error = 0;
  for (const Annex::Window& window : windows)
    if (const int failed = annex_.hide(window.start, window.bytes, annex_.all_devices()))
      error = failed;
  return error;
}

void HostMemory::release(const Annex::Window& window) {
  kept_.push_back(window);
  std::erase_if(kept_, [&](const Annex::Window& kept) {
    if (adopted_.uses(kept.offset, kept.bytes)) return false;
    annex_.release(kept.start);
    return true;
  });
}

AdoptedRanges::Verdict HostMemory::adopt(const HostRange& range, bool read_only) {
  using Verdict = AdoptedRanges::Verdict;
  const AddressRange bytes{range.base, range.base + range.bytes};
  const Access access = read_only ? Access::read : Access::write;
  const Annex::Window whole = window_at(range.device_base, range, access);
  const Verdict verdict = adopted_.adopt(bytes, whole.offset, read_only);
  if (verdict != Verdict::adopted) {
    annex_.release(whole.start);
    return verdict;
  }
  std::vector<Annex::Window> shown;
  for (const Annex::Window& window : windows_of(range, access)) {
    if (annex_.show(window, annex_.all_devices()) == 0) {
      shown.push_back(window);
      continue;
    }
    if (hide(shown) == 0 && adopted_.give_back(bytes)) release(whole);
    return Verdict::no_space;
  }
  return verdict;
}

bool HostMemory::give_back(const HostRange& range) {
  const int error = hide(windows_of(range, Access::none));
  if (!adopted_.give_back({range.base, range.base + range.bytes})) return false;
  if (error == 0) release(window_at(range.device_base, range, Access::none));
  return true;
}

}  // namespace wherry::impl
