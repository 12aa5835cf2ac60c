#include "devices/annex.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <vector>

#include "base/check.h"
#include "base/page.h"

namespace wherry::impl {
namespace {

std::vector<Processor> processors_in(ProcessorMask mask) {
  std::vector<Processor> processors;
  for (int i = 0; i < max_processors; ++i)
    if ((mask & Processor{i}.bit()) != 0) processors.push_back(Processor{i});
  return processors;
}

// Returns the error for a caller who waits for all devices: one that has ended counts as done.
int settle(DeviceProcess& process, int error) {
  // It is unknown whether the device has executed the command or still will.
  if (error == ETIMEDOUT) process.give_up();
  return error == ETIMEDOUT || error == ESRCH ? 0 : error;
}

}  // namespace

Annex::Annex(std::size_t bytes, int devices, ProcessorMask coherent)
    : range_(Mapping::reserve(bytes, std::min(std::size_t{1} << 30, std::bit_floor(bytes)))),
      all_devices_(((ProcessorMask{1} << devices) - 1) << 1),
      coherent_(coherent),
      addresses_(bytes) {}

void Annex::release(std::uintptr_t address) {
  const auto place = addresses_.begin_free(address - base());
  WHERRY_CHECK(place, "address {:#x} of the annex is not reserved", address);
  addresses_.end_free(*place);
}

bool Annex::is_used_in_host(Processor except, std::uintptr_t address) {
  for (const Processor p : processors_in(coherent_ | Processor::host().bit()))
    if (p != except && state(p).windows.contains(address)) return true;
  return false;
}

int Annex::map(Processor p, const Window& window) {
  if (is_in_host(p))
    return map_file_range(window.start, window.bytes, window.file->get(), window.offset,
                          window.access, /*huge_pages=*/true, window.children);
  const auto& process = state(p).process;
  if (!process) return 0;
  return settle(*process, process->map_file(window.start, window.bytes, window.file->get(),
                                            window.offset, window.access));
}

int Annex::unmap(Processor p, std::uintptr_t address, std::size_t bytes) {
  if (is_in_host(p)) return is_used_in_host(p, address) ? 0 : unmap_file_range(address, bytes);
  const auto& process = state(p).process;
  return process ? settle(*process, process->unmap_file(address, bytes)) : 0;
}

int Annex::show(const Window& window, ProcessorMask processors) {
  WHERRY_CHECK(contains(window.start) && contains(window.start + window.bytes - 1),
               "{:#x}+{:#x} is not in the annex", window.start, window.bytes);
  const LockGuard guard(lock_);
  std::vector<Processor> reached;
  for (const Processor p : processors_in(processors)) {
    if (const int error = map(p, window)) {
      for (const Processor before : reached) undo(before, window);
      return error;
    }
    reached.push_back(p);
  }
  for (const Processor p : reached) state(p).windows[window.start] = window;
  return 0;
}

void Annex::undo(Processor p, const Window& window) {
  const auto& windows = state(p).windows;
  const auto before = windows.find(window.start);
  const int error =
      before == windows.end() ? unmap(p, window.start, window.bytes) : map(p, before->second);
  // Ends the process, whose successor gets the right mappings.
  if (error != 0 && !is_in_host(p)) state(p).process->give_up();
}

int Annex::hide(std::uintptr_t address, std::size_t bytes, ProcessorMask processors) {
  const LockGuard guard(lock_);
  int error = 0;
  for (const Processor p : processors_in(processors)) {
    if (const int failed = unmap(p, address, bytes))
      error = failed;
    else
      state(p).windows.erase(address);
  }
  return error;
}

std::optional<std::vector<FileMapping>> Annex::locate(AddressRange bytes, Processor p,
                                                      Access wanted) {
  const LockGuard guard(lock_);
  const auto& windows = state(p).windows;
  auto next = windows.upper_bound(bytes.start);
  if (next == windows.begin()) return std::nullopt;
  std::vector<FileMapping> found;
  std::uintptr_t reached = bytes.start;
  for (--next; reached < bytes.end; ++next) {
    if (next == windows.end()) return std::nullopt;
    const Window& window = next->second;
    if (window.start > reached || window.end() <= reached || window.access < wanted)
      return std::nullopt;
    found.push_back(window);
    reached = window.end();
  }
  return found;
}

void Annex::attach(int device, std::shared_ptr<DeviceProcess> process) {
  const LockGuard guard(lock_);
  const Processor p = Processor::device(device);
  state(p).process = std::move(process);
  for (const auto& [address, window] : state(p).windows)
    if (const int error = map(p, window)) throw_errno(error, "a device cannot map shared memory");
}

}  // namespace wherry::impl
