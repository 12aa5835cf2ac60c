// What the use of memory suggests: each finding where its reason is, and none where it is not.
#include "report/findings.h"

#include "support/catch.h"
#include "support/sample_trace.h"

namespace wherry::test::findings_test {

using namespace wherry::report;
using wherry::impl::AdviceDetail;
using wherry::impl::TraceProcessor;

namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::size_t host = 0, device_0 = 1, device_1 = 2;

std::vector<TraceProcessor> three_processors() {
  TraceProcessor device{TraceProcessor::Kind::isolated, true, 64 << 20, 1, {0}};
  return {{TraceProcessor::Kind::host, true, 0, 0, {0}}, device, device};
}

std::vector<Finding> findings_of(const MemoryUse& use) {
  return find({{"matrix", use}}, three_processors(), page_bytes);
}

std::vector<Proposal> proposals_of(const MemoryUse& use) {
  std::vector<Proposal> proposals;
  for (const Finding& finding : findings_of(use)) proposals.push_back(finding.proposal);
  return proposals;
}

// 100 pages that went to `b` and back to `a` this often.
MemoryUse disputed(std::size_t a, std::size_t b, std::uint64_t times) {
  MemoryUse use;
  use.moved_pages[a][b] = use.moved_pages[b][a] = 100 * times;
  use.by[a].came_pages = use.by[b].came_pages = 100;
  use.by[a].reads = use.by[b].reads = 100 * times;
  use.by[a].fault_ns = 1'000'000;
  return use;
}

}  // namespace

TEST_CASE("memory that processors read in turns is proposed to be read-mostly") {
  const auto findings = findings_of(disputed(host, device_0, 19));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].proposal == Proposal::read_mostly);
  CHECK(findings[0].memory == "matrix");
  CHECK(findings[0].observation ==
        "matrix moves 38 times between the host and device 0, and is only read");
  CHECK(findings[0].pages == 3800);
  CHECK(findings[0].cost_ns == 1'000'000);
}

TEST_CASE("few writes among many reads do not change that") {
  MemoryUse use = disputed(host, device_0, 16);
  use.by[host].writes = 200;
  CHECK(findings_of(use).at(0).observation ==
        "matrix moves 32 times between the host and device 0, and is hardly ever written");
  use.by[host].writes = 201;
  CHECK(proposals_of(use) == std::vector{Proposal::preferred_location});
}

TEST_CASE("memory that a processor writes and another reads is proposed to stay at the device") {
  MemoryUse use = disputed(host, device_0, 10);
  use.by[host].writes = 1000;
  const auto findings = findings_of(use);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].proposal == Proposal::preferred_location);
  CHECK(findings[0].processor == device_0);
  CHECK(findings[0].observation ==
        "matrix moves 20 times between the host and device 0: the host writes it, and device 0 "
        "reads it");
}

TEST_CASE("of two devices the one with more faults is proposed as the location") {
  MemoryUse use = disputed(device_0, device_1, 10);
  use.by[device_0].writes = 2000;
  use.by[device_1].writes = 1000;
  CHECK(findings_of(use).at(0).processor == device_0);
  use.by[device_1].writes = 3000;
  CHECK(findings_of(use).at(0).processor == device_1);
}

TEST_CASE("advice that the program gave is not proposed again") {
  MemoryUse use = disputed(host, device_0, 10);
  const auto advise = [&](AdviceDetail advice) {
    use.advised |= 1u << static_cast<unsigned>(advice);
  };
  advise(AdviceDetail::set_read_mostly);
  CHECK(proposals_of(use).empty());
  use.by[host].writes = 1000;
  CHECK(proposals_of(use) == std::vector{Proposal::preferred_location});
  advise(AdviceDetail::set_preferred_location);
  CHECK(proposals_of(use) == std::vector{Proposal::less_sharing});
}

TEST_CASE("few moves are no dispute") {
  CHECK(proposals_of(disputed(host, device_0, 1)) == std::vector{Proposal::accessed_by});
  MemoryUse small;
  small.moved_pages[host][device_0] = small.moved_pages[device_0][host] = 20;
  small.by[host].came_pages = small.by[device_0].came_pages = 1;
  CHECK(proposals_of(small).empty());
}

TEST_CASE("memory that visits a device is proposed to be accessed by it, unless it stays there") {
  MemoryUse use = disputed(host, device_0, 1);
  CHECK(findings_of(use).at(0).observation ==
        "matrix goes to device 0 and back to the host, 1 time");
  MemoryUse stays = use;
  stays.moved_pages[device_0][host] = 49;
  CHECK(proposals_of(stays).empty());
  MemoryUse few = use;
  few.by[device_0].came_pages = 63;
  CHECK(proposals_of(few).empty());
  use.advised = 1u << static_cast<unsigned>(AdviceDetail::set_accessed_by);
  CHECK(proposals_of(use).empty());
}

TEST_CASE("faults one after the other are proposed to be a prefetch") {
  MemoryUse use;
  use.by[device_1].reads = 32;
  use.by[device_1].in_order = 16;
  const auto findings = findings_of(use);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].proposal == Proposal::prefetch);
  CHECK(findings[0].processor == device_1);
  use.by[device_1].in_order = 15;
  CHECK(proposals_of(use).empty());
  use.by[device_1].in_order = use.by[device_1].reads = 31;
  CHECK(proposals_of(use).empty());
}

TEST_CASE("evictions are one finding for each device, which names the memory that lost most") {
  MemoryUse small, large;
  small.by[device_0].evicted_pages = 100;
  large.by[device_0].evicted_pages = 412;
  const auto findings = find({{"large", large}, {"small", small}}, three_processors(), page_bytes);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].proposal == Proposal::capacity);
  CHECK(findings[0].memory == "large");
  CHECK(findings[0].processor == device_0);
  CHECK(findings[0].observation.find("2.0 MiB were evicted") != std::string::npos);
}

TEST_CASE("memory whose pages were held is proposed to be pinned, however few they were") {
  MemoryUse use;
  use.holds = 1;
  use.held_pages = 16;
  const auto findings = findings_of(use);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].proposal == Proposal::pin);
  CHECK(to_string(findings[0].proposal) == "pin");
  CHECK(findings[0].memory == "matrix");
  CHECK(findings[0].processor == -1);
  CHECK(findings[0].pages == 16);
  CHECK(findings[0].observation ==
        "matrix could not move 1 time, because a system call, a pipe or another process held its "
        "pages");
  CHECK(findings[0].evidence.starts_with("64 KiB stayed"));
  CHECK(findings[0].attempt.find("wherryPinPages") != std::string::npos);
}

TEST_CASE("the costliest finding comes first, and memory without a name has none") {
  MemoryUse cheap = disputed(host, device_0, 10), dear = cheap;
  dear.by[host].fault_ns = 2'000'000;
  const auto findings =
      find({{"", dear}, {"cheap", cheap}, {"dear", dear}}, three_processors(), page_bytes);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].memory == "dear");
  CHECK(findings[1].memory == "cheap");
}

}  // namespace wherry::test::findings_test
