// Whether other programs use all CPUs, for tests of what the library does only on free CPUs.
#pragma once

#include <fstream>
#include <string>
#include <thread>

namespace wherry::test {

class MachineLoad {
 public:
  // Call it while nothing of this program runs but the calling thread.
  void look() {
    std::ifstream load{"/proc/loadavg"};
    std::string average;
    unsigned running = 0;
    load >> average >> average >> average >> running;
    ++looks_;
    if (running > std::thread::hardware_concurrency()) ++busy_;
  }
  // Whether the machine was busy at half of the looks or more.
  bool was_busy() const { return 2 * busy_ >= looks_; }

 private:
  unsigned looks_ = 0;
  unsigned busy_ = 0;
};

}  // namespace wherry::test
