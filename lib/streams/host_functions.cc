#include "streams/host_functions.h"

#include "os/process/thread.h"
#include "streams/serving_thread.h"

namespace wherry::impl {

HostFunctionThread::HostFunctionThread(std::string name) : name_(std::move(name)) {}

HostFunctionThread::~HostFunctionThread() {
  std::thread thread;
  {
    const LockGuard guard(lock_);
    stopping_ = true;
    functions_.clear();
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

void HostFunctionThread::post(std::function<void()> function) {
  {
    const LockGuard guard(lock_);
    functions_.push_back(std::move(function));
    if (!thread_.joinable()) {
      const SignalBlock no_signals;
      thread_ = std::thread([this] { run(); });
    }
  }
  changed_.notify_one();
}

void HostFunctionThread::run() {
  name_this_thread(name_);
  this_thread_serves_streams();
  while (true) {
    std::function<void()> next;
    {
      const LockGuard guard(lock_);
      while (functions_.empty() && !stopping_) changed_.wait(lock_);
      if (stopping_) return;
      next = std::move(functions_.front());
      functions_.pop_front();
    }
    next();
  }
}

}  // namespace wherry::impl
