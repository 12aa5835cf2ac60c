// The machine that a measurement ran on, for reports.
#pragma once

#include <string>

namespace wherry::bench {

struct MachineFacts {
  std::string cpu;  // the model's name
  int cpus;         // that this program may use
  long long memory_mib;
  int nodes;
  std::string kernel;  // "Linux 6.18.0"
};

MachineFacts machine_facts();

}  // namespace wherry::bench
