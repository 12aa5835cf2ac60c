// What `wherry run` says at the end: the reports of all processes of the program (lib/run/session),
// added up.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace wherry::tool {

class RunReport {
 public:
  // Reads the lines that the processes have appended to a file. There are no lines if no process
  // had a large allocation.
  static RunReport read(const std::string& path);

  // Prints the summary to stderr: what moved, why, and what to try. `by_signal`: a signal ended the
  // program, so its own report is missing.
  void print(bool by_signal) const;
  // Writes the summary as JSON, or prints why it cannot and returns false.
  [[nodiscard]] bool write(const std::string& path) const;

 private:
  std::vector<std::string> advice() const;

  nlohmann::json sum_;
};

}  // namespace wherry::tool
