// Programs whose use of memory `wherry report` has something to say about. Each can do what the
// report proposes, so that a test can compare.
//
// Usage: advised PATTERN [PROPOSAL PROCESSOR]
//   table     the host fills a table; then a device and the host read it in turns
//   exchange  the host writes a vector, a device reads it, ten times
//   sweep     the host fills memory, and a device goes through it once
//   visit     the host fills memory, a device reads one number of each page, and the host goes on
//   PROPOSAL  read-mostly, preferred-location, accessed-by, prefetch: as the report names it
//   PROCESSOR host or "device 0"
#include <wherry/events.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <wherry/wherry.hpp>

namespace {

using Numbers = std::span<std::uint64_t>;
constexpr std::size_t page_numbers = 4096 / sizeof(std::uint64_t);

class Program {
 public:
  Program(std::string proposal, std::string processor)
      : proposal_(std::move(proposal)), processor_(std::move(processor)) {
    wherry::detail::check(wherryNameRange(memory_.data(), memory_.size_bytes(), "data"),
                          "wherryNameRange");
  }

  void advise() {
    using wherry::advice;
    if (proposal_ == "read-mostly") wherry::advise(memory_.span(), advice::set_read_mostly);
    if (proposal_ == "preferred-location")
      wherry::advise(memory_.span(), advice::set_preferred_location, runtime_.device(0));
    if (proposal_ == "accessed-by")
      wherry::advise(memory_.span(), advice::set_accessed_by, runtime_.device(0));
  }
  void fill() {
    prefetch_to("host");
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = i;
  }
  void read_on_device(std::size_t step) {
    prefetch_to("device 0");
    stream_.parallel_for(1, [numbers = memory_.span(), sum = sum_.span(), step](std::size_t) {
      sum[0] = 0;
      for (std::size_t i = 0; i < numbers.size(); i += step) sum[0] += numbers[i];
    });
    stream_.synchronize();
  }
  std::uint64_t read_on_host() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t number : memory_) sum += number;
    return sum;
  }

 private:
  // What the report proposes just before the processor uses the memory.
  void prefetch_to(const std::string& processor) {
    if (proposal_ != "prefetch" || processor_ != processor) return;
    if (processor == "host")
      wherry::prefetch(memory_.span(), wherry::host, stream_);
    else
      wherry::prefetch(memory_.span(), runtime_.device(0), stream_);
    stream_.synchronize();
  }

  const std::string proposal_, processor_;
  wherry::runtime runtime_;
  wherry::stream stream_{runtime_.device(0)};
  wherry::managed_array<std::uint64_t> memory_ = wherry::managed_array<std::uint64_t>(1 << 19);
  wherry::managed_array<std::uint64_t> sum_ = wherry::managed_array<std::uint64_t>(1);
};

void table(Program& program) {
  program.fill();
  program.advise();
  for (int round = 0; round < 10; ++round) {
    program.read_on_device(1);
    (void)program.read_on_host();
  }
}

void exchange(Program& program) {
  program.advise();
  for (int round = 0; round < 10; ++round) {
    program.fill();
    program.read_on_device(1);
  }
}

void sweep(Program& program) {
  program.fill();
  program.read_on_device(1);
}

void visit(Program& program) {
  program.fill();
  program.advise();
  program.read_on_device(page_numbers);
  (void)program.read_on_host();
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(Program&)>> patterns{
      {"table", table}, {"exchange", exchange}, {"sweep", sweep}, {"visit", visit}};
  const auto pattern = patterns.find(argc > 1 ? argv[1] : "");
  if (pattern == patterns.end() || (argc != 2 && argc != 4)) {
    std::fputs("usage: advised PATTERN [PROPOSAL PROCESSOR]\n", stderr);
    return 2;
  }
  Program program(argc == 4 ? argv[2] : "", argc == 4 ? argv[3] : "");
  pattern->second(program);
}
