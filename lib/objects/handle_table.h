// Handles that the API gives out: numbers that are never used twice, so that a stale or made-up one
// is not found rather than followed. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/lock.h"

namespace wherry::impl {

// `Handle` is a pointer to an incomplete type, and is never dereferenced.
template <typename Handle, typename Object>
class HandleTable {
 public:
  // Tables that get different kinds, 0 to 15, never give out the same handle.
  explicit HandleTable(std::uintptr_t kind) : next_(first + kind) {}

  // Returns a new handle, to which assign() gives an object.
  Handle reserve() EXCLUDES(lock_) {
    const WriteGuard guard(lock_);
    next_ += step;
    return reinterpret_cast<Handle>(next_);
  }
  Handle insert(std::shared_ptr<Object> object) {
    const Handle handle = reserve();
    assign(handle, std::move(object));
    return handle;
  }
  void assign(Handle handle, std::shared_ptr<Object> object) EXCLUDES(lock_) {
    const WriteGuard guard(lock_);
    objects_[handle] = std::move(object);
  }

  // Returns null if the handle has no object.
  std::shared_ptr<Object> find(Handle handle) const EXCLUDES(lock_) {
    const ReadGuard guard(lock_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  // Calls look(const Object&) with the object, under the table's lock, so that no other thread can
  // remove it meanwhile. Returns false if there is none. `look` must be short, because it delays
  // threads that add or remove objects.
  template <typename Look>
  bool look_at(Handle handle, const Look& look) const EXCLUDES(lock_) {
    const ReadGuard guard(lock_);
    const auto found = objects_.find(handle);
    if (found == objects_.end() || found->second == nullptr) return false;
    look(std::as_const(*found->second));
    return true;
  }
  // Removes the object and returns it: only one caller gets it.
  std::shared_ptr<Object> take(Handle handle) EXCLUDES(lock_) {
    const WriteGuard guard(lock_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::vector<std::shared_ptr<Object>> all() const EXCLUDES(lock_) {
    std::vector<std::shared_ptr<Object>> objects;
    const ReadGuard guard(lock_);
    for (const auto& [handle, object] : objects_) objects.push_back(object);
    return objects;
  }
  template <typename Predicate>
  std::vector<std::shared_ptr<Object>> take_if(const Predicate& predicate) EXCLUDES(lock_) {
    std::vector<std::shared_ptr<Object>> taken;
    const WriteGuard guard(lock_);
    std::erase_if(objects_, [&](auto& entry) {
      if (!predicate(*entry.second)) return false;
      taken.push_back(std::move(entry.second));
      return true;
    });
    return taken;
  }

 private:
  // Far above the handles with a meaning of their own (0, 1, 2), and no addresses of objects.
  static constexpr std::uintptr_t first = 0x1000;
  static constexpr std::uintptr_t step = 16;

  mutable SharedMutex lock_{LockOrder::handles};
  std::uintptr_t next_ GUARDED_BY(lock_);
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
