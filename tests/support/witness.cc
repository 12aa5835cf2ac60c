#include "support/witness.h"

#include <poll.h>
#include <unistd.h>
#include <wherry/wherry.h>

#include <fstream>
#include <stdexcept>

namespace wherry::test {

std::size_t count_mappings(pid_t process, const void* first, std::size_t bytes) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2 && from < begin + bytes &&
        to > begin)
      ++count;
  }
  return count;
}

std::size_t count_mappings() {
  std::ifstream file{"/proc/self/maps"};
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

std::optional<std::string> process_status(pid_t process, const std::string& key) {
  std::ifstream file{"/proc/" + std::to_string(process) + "/status"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  }
  return {};
}

bool is_running(pid_t process) {
  const auto state = process_status(process, "State");
  return state && state->front() != 'Z' && state->front() != 'X';
}

bool ends_within(pid_t process, int limit_ms) {
  for (int waited_ms = 0; is_running(process); waited_ms += 5) {
    if (waited_ms >= limit_ms) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

Witness::Witness() : traps_by_entry_(userfaultfd_tracks_memory()) {
  int devices = 0;
  if (cuDeviceGetCount(&devices) != CUDA_SUCCESS)
    throw std::runtime_error("cuDeviceGetCount failed");
  for (int i = 0; i <= devices; ++i) pools_.push_back(std::make_unique<PoolFile>(i));
}

std::uint32_t Witness::residents(const void* address) const {
  std::uint32_t mask = 0;
  for (int i = 0; i < processors(); ++i) {
    if (pools_[static_cast<std::size_t>(i)]->holds(address)) mask |= 1u << i;
  }
  return mask;
}

std::uint32_t Witness::leftovers(const void* address, std::uint32_t pools) const {
  std::uint32_t mask = 0;
  for (int i = 0; i < processors(); ++i) {
    const PoolFile& pool = *pools_[static_cast<std::size_t>(i)];
    if ((pools >> i & 1) != 0 && pool.holds(address) && pool.holds_zeros(address)) mask |= 1u << i;
  }
  return mask;
}

std::uint32_t Witness::mappers(const void* address) const {
  std::uint32_t mask = 0;
  for (int i = 0; i < processors(); ++i) {
    if (access(i, address).read) mask |= 1u << i;
  }
  return mask;
}

std::uint32_t Witness::writers(const void* address) const {
  std::uint32_t mask = 0;
  for (int i = 0; i < processors(); ++i) {
    if (access(i, address).write) mask |= 1u << i;
  }
  return mask;
}

std::uint64_t Witness::pool_bytes(int processor) const {
  return pools_.at(static_cast<std::size_t>(processor))->allocated_bytes();
}

std::uint64_t Witness::used_bytes(int processor) const {
  const PoolFile& pool = *pools_.at(static_cast<std::size_t>(processor));
  return pool.allocated_bytes() - pool.bytes_of_zeros();
}

bool Witness::exceeds(int processor, std::uint64_t bytes) const {
  // Pages come and go while a pool is read. On a slow machine, pages of zeros may leave between the
  // two counts, and then count as pages in use: so one look is not enough.
  for (int i = 0; i < 3; ++i)
    if (pool_bytes(processor) <= bytes || used_bytes(processor) <= bytes) return false;
  return true;
}

Permissions Witness::access(int processor, const void* address) const {
  if (!traps_by_entry_) return permissions_of(process_of(processor), address);
  const PageEntry entry = page_entry(process_of(processor), address);
  return {entry.present, entry.present && !entry.write_protected};
}

pid_t Witness::process_of(int processor) {
  if (processor == 0) return ::getpid();
  pid_t process = -1;
  if (wherryGetDeviceProcess(processor - 1, &process) != CUDA_SUCCESS)
    throw std::runtime_error("wherryGetDeviceProcess failed");
  return process;
}

}  // namespace wherry::test
