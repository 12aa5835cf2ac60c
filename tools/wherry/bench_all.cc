#include "bench_all.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "apart.h"
#include "bench_questions.h"
#include "bench_report.h"
#include "complain.h"
#include "measure/machine.h"
#include "os/memory/memory_limit.h"
#include "progress.h"
#include "warm_memory.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr int group_limit_ms = 240'000;
constexpr std::uint64_t usual_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t usual_teardown_bytes = std::uint64_t{16} << 30;

// The group of questions that needs the most memory has five times BenchScale::bytes resident.
constexpr std::uint64_t resident_most = 5;

struct Answer {
  Question question;
  Figures figures;
  std::string error;  // empty if there are figures

  // The value divided by the limit; NaN without a limit.
  double ratio() const { return figures.value / figures.limit; }
};

BenchScale scale_for(std::uint64_t asked) {
  constexpr std::uint64_t unit = std::uint64_t{4} << 20;
  const std::uint64_t available = impl::available_memory();
  std::uint64_t bytes = asked;
  if (bytes == 0)
    for (bytes = usual_bytes; bytes > all_bytes_min && bytes > available / 8;) bytes /= 2;
  bytes = bytes / unit * unit;
  const std::uint64_t most = std::min(available / 2, usual_teardown_bytes / usual_bytes * bytes);
  return {bytes, std::max(bytes, most / unit * unit),
          static_cast<int>(bench::allowed_cpus().size())};
}

bool asks_for(const AllBenchOptions& options, const QuestionGroup& group,
              const Question& question) {
  return options.only.empty() || std::ranges::any_of(options.only, [&](const std::string& name) {
           return name == question.key || name == group.name;
         });
}

// Returns a line that lists the possible names if `only` contains any other; else an empty text.
std::string why_not(const std::vector<std::string>& only,
                    const std::vector<QuestionGroup>& groups) {
  std::vector<std::string> names, group_names;
  for (const QuestionGroup& group : groups) {
    group_names.push_back(group.name);
    for (const Question& question : group.questions) names.push_back(question.key);
  }
  for (const std::string& name : only) {
    if (std::ranges::find(names, name) != names.end()) continue;
    if (std::ranges::find(group_names, name) != group_names.end()) continue;
    return fmt::format("there is no question '{}': there are {}; groups of them: {}", name,
                       fmt::join(names, ", "), fmt::join(group_names, ", "));
  }
  return {};
}

std::vector<Answer> answers_of(const QuestionGroup& group, const AllBenchOptions& options,
                               const BenchScale& scale) {
  std::array<Figures, questions_of_group_max> figures;
  const std::string wrong =
      run_apart([&] { group.measure(scale, figures); }, &figures, sizeof figures, group_limit_ms);
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < group.questions.size(); ++i)
    if (asks_for(options, group, group.questions[i]))
      answers.push_back({group.questions[i], figures[i], wrong});
  return answers;
}

Json to_json(const std::string& name, double value) {
  return {{"name", name}, {"value", value}};
}

Json to_json(const Answer& answer) {
  const Question& question = answer.question;
  Json json{{"key", question.key},
            {"question", question.text},
            {"unit", question.unit},
            {"better", question.less_is_better ? "less" : "more"}};
  if (!answer.error.empty()) {
    json["error"] = answer.error;
    return json;
  }
  const Figures& figures = answer.figures;
  json["value"] = figures.value;
  if (!std::isnan(figures.limit)) {
    json["limit"] = to_json(question.limit, figures.limit);
    json["ratio"] = answer.ratio();
  }
  if (!std::isnan(figures.peer)) json["peer"] = to_json(question.peer, figures.peer);
  return json;
}

// One object; each answer is one line of it.
std::string as_json(const std::vector<Answer>& answers, const BenchScale& scale, double seconds) {
  const bench::MachineFacts machine = bench::machine_facts();
  Json json{{"machine",
             {{"cpu", machine.cpu},
              {"cpus", machine.cpus},
              {"memory_mib", machine.memory_mib},
              {"nodes", machine.nodes},
              {"kernel", machine.kernel}}},
            {"bytes", scale.bytes},
            {"teardown_bytes", scale.teardown_bytes},
            {"seconds", seconds}};
  const auto line_of = [](const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::vector<std::string> lines;
  for (const Answer& answer : answers) lines.push_back(line_of(to_json(answer)));
  std::string head = line_of(json);
  head.pop_back();
  return fmt::format("{},\"answers\":[\n{}\n]}}\n", head, fmt::join(lines, ",\n"));
}

// Empty if the value was not measured.
std::string cell(double value, const std::string& unit) {
  if (std::isnan(value)) return "";
  return fmt::format("{:.{}f} {}", value,
                     value < 0.1   ? 3
                     : value < 10  ? 2
                     : value < 100 ? 1
                                   : 0,
                     unit);
}

std::string to_text(const Answer& answer) {
  const Question& question = answer.question;
  if (!answer.error.empty())
    return fmt::format("{:<58}  not measured: {}\n", question.text, answer.error);
  const Figures& figures = answer.figures;
  std::string against = std::isnan(figures.limit) ? "" : question.limit;
  if (!std::isnan(figures.peer)) against += (against.empty() ? "" : "; ") + question.peer;
  return fmt::format(
      "{:<58}{:>11}{:>11}{:>11}{:>7}  {}\n", question.text, cell(figures.value, question.unit),
      cell(figures.limit, question.unit), cell(figures.peer, question.unit),
      std::isnan(figures.limit) ? "" : fmt::format("{:.2f}", answer.ratio()), against);
}

std::string as_text(const std::vector<Answer>& answers, const BenchScale& scale, double seconds) {
  const bench::MachineFacts machine = bench::machine_facts();
  std::string text = fmt::format(
      "{}, {} CPUs, {} MiB, {} NUMA node(s), {}\nlarge memory: {} MiB; very large: {} MiB; "
      "measured in {:.0f} s; ratio: value / limit\n\n{:<58}{:>11}{:>11}{:>11}{:>7}  {}\n",
      machine.cpu, machine.cpus, machine.memory_mib, machine.nodes, machine.kernel,
      scale.bytes >> 20, scale.teardown_bytes >> 20, seconds, "", "value", "limit", "peer", "ratio",
      "limit; peer");
  for (const Answer& answer : answers) text += to_text(answer);
  return text;
}

}  // namespace

int run_bench_all(const AllBenchOptions& options) {
  std::vector<QuestionGroup> groups = question_groups();
  if (const std::string wrong = why_not(options.only, groups); !wrong.empty()) {
    complain(wrong);
    return exit_usage;
  }
  std::erase_if(groups, [&](const QuestionGroup& group) {
    return std::ranges::none_of(group.questions, [&](const Question& question) {
      return asks_for(options, group, question);
    });
  });
  const BenchScale scale = scale_for(options.bytes);
  std::vector<Answer> answers;
  std::vector<std::string> errors;
  Progress progress;
  const double seconds = seconds_of([&] {
    if (std::ranges::any_of(groups, &QuestionGroup::uses_large_memory))
      warm_up_memory(resident_most * scale.bytes, progress);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      progress.enter_step(i + 1, groups.size());
      progress.show(groups[i].name);
      for (Answer& answer : answers_of(groups[i], options, scale)) {
        if (!answer.error.empty()) errors.push_back(answer.question.key + ": " + answer.error);
        answers.push_back(std::move(answer));
      }
    }
  });
  const int printed =
      print_out(options.json ? as_json(answers, scale, seconds) : as_text(answers, scale, seconds));
  for (const std::string& error : errors) complain(error);
  return errors.empty() ? printed : exit_failed;
}

}  // namespace wherry::tool
