// One thread that runs a device's host functions, in the order in which they were posted. It starts
// with the first function, because most programs have none. Any thread may post.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "base/lock.h"
#include "os/process/condition.h"

namespace wherry::impl {

class HostFunctionThread {
 public:
  explicit HostFunctionThread(std::string name);
  // Waits for the running function; drops the others.
  ~HostFunctionThread();

  void post(std::function<void()> function) EXCLUDES(lock_);

 private:
  void run() EXCLUDES(lock_);

  const std::string name_;
  Mutex lock_{LockOrder::host_functions};
  Condition changed_;
  std::deque<std::function<void()>> functions_ GUARDED_BY(lock_);
  bool stopping_ GUARDED_BY(lock_) = false;
  std::thread thread_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
