// What `wherry run` says at the end: the reports of all processes of the program (lib/run/session),
// added up.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace wherry::tool {

class RunReport {
 public:
  // Reads the files of a folder, one for each process that had managed memory.
  static RunReport read(const std::string& folder);

  // Writes the summary to stderr: what moved, why, and what to try. `by_signal`: a signal ended the
  // program, and its own report is missing.
  void print(bool by_signal) const;
  // Writes it as JSON. Otherwise says why not, and returns false.
  [[nodiscard]] bool write(const std::string& path) const;

 private:
  std::vector<std::string> advice() const;

  nlohmann::json sum_;
};

}  // namespace wherry::tool
