#include "devices/kernel_module.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "os/process/thread.h"
#include "os/signals/fatal_signals.h"

namespace wherry::impl {
namespace {

AddressRange extent_of(const dl_phdr_info& info) {
  AddressRange extent{~std::uintptr_t{0}, 0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t start = info.dlpi_addr + segment.p_vaddr;
    extent.start = std::min(extent.start, start);
    extent.end = std::max<std::uintptr_t>(extent.end, start + segment.p_memsz);
  }
  return extent;
}

std::optional<FileIdentity> file_mapped_at(std::uintptr_t address, std::string* path = nullptr) {
  const std::string map = read_address_map();
  const auto mapping = find_mapping(map, address);
  if (!mapping || mapping->inode == 0) return {};
  if (path != nullptr) *path = mapping->name;
  return FileIdentity{mapping->device, mapping->inode};
}

}  // namespace

ModuleCounts ModuleCounts::now() {
  ModuleCounts counts;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<ModuleCounts*>(result) = {info->dlpi_adds, info->dlpi_subs};
        return 1;  // stops: every module reports the same counts
      },
      &counts);
  return counts;
}

ModuleSnapshot::ModuleSnapshot() {
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* pointer) {
        auto& snapshot = *static_cast<ModuleSnapshot*>(pointer);
        const AddressRange extent = extent_of(*info);
        // the program is the first in the list
        if (snapshot.modules_.empty()) snapshot.program_ = extent;
        snapshot.modules_.push_back(extent);
        snapshot.unloads_ = info->dlpi_subs;
        return 0;
      },
      this);
  std::sort(modules_.begin(), modules_.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.start < b.start; });
}

bool ModuleSnapshot::still_has(std::uintptr_t address) const {
  if (program_.contains(address)) return true;
  if (ModuleCounts::now().unloads != unloads_) return false;
  const auto after = std::upper_bound(
      modules_.begin(), modules_.end(), address,
      [](std::uintptr_t value, const AddressRange& module) { return value < module.start; });
  return after != modules_.begin() && std::prev(after)->contains(address);
}

std::optional<ModuleLocation> locate_module(std::uintptr_t address) {
  Dl_info info{};
  link_map* module = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&module),
                RTLD_DL_LINKMAP) == 0 ||
      module == nullptr)
    return {};
  ModuleLocation location;
  location.base = module->l_addr;
  const auto file = file_mapped_at(address, &location.path);
  if (!file || !location.path.starts_with('/')) return {};
  location.file = *file;
  return location;
}

std::optional<std::uintptr_t> ModuleLoader::load(const std::string& path, FileIdentity file) {
  // Tries twice: the host may have unloaded the file that this process has loaded from the path,
  // and loaded a newer one.
  for (int attempt = 0; attempt < 2; ++attempt) {
    void*& handle = handles_[path];
    if (handle == nullptr) handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    link_map* module = nullptr;
    if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &module) != 0) return {};
    if (file_mapped_at(reinterpret_cast<std::uintptr_t>(module->l_ld)) == file)
      return module->l_addr;
    ::dlclose(handle);
    handle = nullptr;
  }
  return {};
}

int BackgroundLoader::load(const std::string& path, FileIdentity file, std::uint64_t& base) {
  const LockGuard guard(lock_);
  const auto request = std::ranges::find_if(
      requests_, [&](const LoadRequest& one) { return one.path == path && one.file == file; });
  if (request == requests_.end()) {
    if (!started_) {
      try {
        std::thread([this] { work(); }).detach();
      } catch (const std::system_error&) {
        return EAGAIN;
      }
      started_ = true;
    }
    requests_.push_back({path, file});
    added_.notify_all();
    return EINPROGRESS;
  }
  if (!request->done) return EINPROGRESS;
  const auto loaded = request->base;
  // Forget the result: the file may have changed by the next request.
  requests_.erase(request);
  if (!loaded) return ENOEXEC;
  base = *loaded;
  return 0;
}

void BackgroundLoader::work() {
  name_this_thread("wherry-load");
  const AlternateStack stack;
  const auto is_open = [](const LoadRequest& request) { return !request.done; };
  for (;;) {
    std::string path;
    FileIdentity file;
    {
      const LockGuard guard(lock_);
      while (std::ranges::none_of(requests_, is_open)) added_.wait(lock_);
      const LoadRequest& request = *std::ranges::find_if(requests_, is_open);
      path = request.path;
      file = request.file;
    }
    const auto base = loader_.load(path, file);
    const LockGuard guard(lock_);
    // Only finished requests are erased, so this one still exists, perhaps at another index.
    LoadRequest& request = *std::ranges::find_if(requests_, is_open);
    request.base = base;
    request.done = true;
  }
}

}  // namespace wherry::impl
