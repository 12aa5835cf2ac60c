#include "bench_oracle.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "apart.h"
#include "calibration.h"
#include "cost_file.h"
#include "kept_file.h"
#include "objects/driver.h"
#include "replay/cost_scale.h"
#include "replay/oracle.h"
#include "replay/replay.h"
#include "trace/trace_name.h"
#include "trace_file.h"

namespace wherry::tool {
namespace {

// A temporary file, which the destructor removes.
class PassingFile {
 public:
  PassingFile() : path_(std::filesystem::temp_directory_path() / "wherry-XXXXXX") {
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) throw std::system_error(errno, std::generic_category(), path_);
    ::close(fd);
  }
  PassingFile(const PassingFile&) = delete;
  PassingFile& operator=(const PassingFile&) = delete;
  ~PassingFile() { ::unlink(path_.c_str()); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string record(const Workload& workload, const std::string& policy, std::uint64_t seed,
                   const std::string& file, Interval& interval) {
  return run_apart(interval, [&](Interval& result) {
    ::setenv("WHERRY_TRACE", impl::trace_pattern_of(file).c_str(), 1);
    detail::check(wherrySetPolicy(policy.c_str()), "wherrySetPolicy");
    const runtime library;
    result = workload.run({library, seed});
    // The process ends without exit handlers, so the trace must be finished here.
    if (impl::TraceWriter* const trace = impl::Driver::current()->trace()) trace->finish();
  });
}

}  // namespace

std::variant<replay::CostModel, std::string> costs_here() {
  const std::string file = usual_cost_file();
  if (exists(file)) return load_costs(file);
  auto costs = calibrate();
  // Costs that cannot be saved are measured again the next time.
  if (const auto* const measured = std::get_if<replay::CostModel>(&costs))
    (void)save_kept(replay::to_json(*measured), file);
  return costs;
}

std::variant<double, std::string> oracle_share(const Workload& workload, const std::string& policy,
                                               std::uint64_t seed, const replay::CostModel& costs,
                                               const std::string& kept_as) {
  std::optional<PassingFile> passing;
  const std::string& file = kept_as.empty() ? passing.emplace().path() : kept_as;
  Interval interval;
  if (std::string wrong = record(workload, policy, seed, file, interval); !wrong.empty())
    return wrong;
  auto loaded = load_trace(file);
  if (auto* wrong = std::get_if<std::string>(&loaded)) return std::move(*wrong);
  const auto& trace = std::get<Trace>(loaded);
  const auto made = replay::make_timeline(trace);
  if (const auto* wrong = std::get_if<std::string>(&made)) return *wrong;
  const auto& timeline = std::get<replay::Timeline>(made);
  const replay::CostModel model = replay::scaled(costs, replay::cost_scale(timeline, costs));
  replay::Oracle oracle(timeline, model);
  const auto result = replay::replay({timeline,
                                      replay::setting_of(timeline),
                                      model,
                                      oracle,
                                      {interval.begin_ns, interval.end_ns},
                                      oracle.current()});
  return static_cast<double>(result.time_ns) / 1e9 / interval.seconds();
}

}  // namespace wherry::tool
