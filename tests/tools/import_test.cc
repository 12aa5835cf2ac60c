// Accesses of other tools: what is read of each format, which lines are refused, where the memory
// lies in the trace, and what a replay of it counts.
#include <algorithm>
#include <string>

#include "import/access_trace_writer.h"
#include "import/csv_accesses.h"
#include "import/damon_accesses.h"
#include "import/perf_accesses.h"
#include "import/processor_rules.h"
#include "import/synthetic_arena.h"
#include "machine/policy_source.h"
#include "replay/policy_machine.h"
#include "replay/replay.h"
#include "support/catch.h"
#include "support/text_stream.h"
#include "trace_reader.h"

namespace wherry::importing::import_test {
namespace {

using namespace impl;
using test::stream_of;
using tool::TextError;
using tool::Trace;

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

SourceResult read_text(ReadAccesses read, std::string text,
                       const SourceSettings& settings = {page_size, max_devices}) {
  return read(stream_of(text).get(), settings);
}

Accesses good(ReadAccesses read, const std::string& text,
              const SourceSettings& settings = {page_size, max_devices}) {
  auto result = read_text(read, text, settings);
  if (const auto* error = std::get_if<TextError>(&result)) FAIL(describe("text", *error));
  return std::get<Accesses>(std::move(result));
}

// Returns why the text is refused, as "LINE: reason".
std::string bad(ReadAccesses read, const std::string& text,
                const SourceSettings& settings = {page_size, max_devices}) {
  const auto result = read_text(read, text, settings);
  if (std::holds_alternative<Accesses>(result)) FAIL("accepted:\n" << text);
  const auto& error = std::get<TextError>(result);
  return std::to_string(error.line) + ": " + error.reason;
}

bool begins(const std::string& text, const std::string& with) {
  UNSCOPED_INFO(text);
  return text.starts_with(with);
}

Trace trace_of(Accesses accesses, const std::vector<ProcessorRule>& rules = {},
               const ImportedMachine& machine = {"accesses", "0", 1, 0}) {
  (void)assign(accesses, rules);
  TraceBytes file;
  (void)write_access_trace(accesses, machine, [&](const TraceBytes& piece) {
    file.insert(file.end(), piece.begin(), piece.end());
    return true;
  });
  auto result = tool::read_trace(file);
  if (const auto* error = std::get_if<tool::TraceError>(&result)) FAIL(error->message);
  return std::get<Trace>(std::move(result));
}

replay::ReplayResult replayed(const Trace& trace, const std::string& policy) {
  replay::CostModel costs;
  costs.populate_host = costs.populate_device = {1000, 0};
  costs.migrate_to_host = costs.migrate_to_device = {10'000, 0};
  costs.remote_map = {5000, 0};
  costs.minor_ns = 500;
  costs.round_trip_host_ns = 200;
  costs.round_trip_device_ns = 300;
  const auto timeline = std::get<replay::Timeline>(replay::make_timeline(trace));
  const replay::MachineSetting setting = replay::setting_of(timeline);
  const auto source = std::get<PolicySource>(find_policy(policy));
  const auto its = source(replay::policy_machine_of(trace.machine, setting));
  return replay::replay({timeline, setting, costs, *its, replay::whole(trace)});
}

std::uint64_t count(const Trace& trace, EventKind kind) {
  return static_cast<std::uint64_t>(std::ranges::count(trace.events, kind, &TraceEvent::kind));
}

// The host and device 0 write to a page in turns, the host first.
std::string ping_pong(int turns) {
  std::string text = "time_us,address,thread,processor,access\n";
  for (int i = 0; i < turns; ++i)
    text += std::to_string(i * 100) + ",0x7f0000000000," + (i % 2 == 0 ? "1,host" : "2,dev0") +
            ",write\n";
  return text;
}

TEST_CASE("a table has what its columns say") {
  const Accesses read = good(read_csv_accesses,
                             "# from a tool\n"
                             "address, bytes ,time_us,processor,access,thread\n"
                             "\n"
                             "0x1ff0,32,1.5,dev1,write,7\r\n"
                             "8192,1,2,0,read,8\n"
                             "8193,1,2,2,read,8\n");
  REQUIRE(read.all.size() == 3);
  CHECK(read.all[0].time_ns == 1500);
  CHECK(read.all[0].address == 0x1ff0);
  CHECK(read.all[0].bytes == 32);
  CHECK(read.all[0].processor == 2);
  CHECK(read.all[0].kind == EventAccess::write);
  CHECK(read.all[0].thread == 7);
  CHECK(read.all[1].address == 8192);
  CHECK(read.all[1].processor == 0);
  CHECK(read.all[1].kind == EventAccess::read);
  CHECK(read.all[2].processor == 2);
}

TEST_CASE("an access without a size is to a whole page") {
  const Accesses read =
      good(read_csv_accesses, "time_s,address\n0.000000001,0x12345\n", {65536, max_devices});
  REQUIRE(read.all.size() == 1);
  CHECK(read.all[0].time_ns == 1);
  CHECK(read.all[0].address == 0x10000);
  CHECK(read.all[0].bytes == 65536);
  CHECK(read.all[0].processor == Access::unknown_processor);
}

TEST_CASE("a table that is wrong is refused with the line") {
  const auto refusal = [](const std::string& text) { return bad(read_csv_accesses, text); };
  CHECK(begins(refusal(""), "0: it has no line with the names"));
  CHECK(begins(refusal("\ntime_ns,adress\n"), "2: there is no column 'adress'"));
  CHECK(begins(refusal("time_ns,address,time_ns\n"), "1: there are two columns time_ns"));
  CHECK(begins(refusal("time_ns,time_s,address\n"), "1: there must be one of the columns time_ns"));
  CHECK(begins(refusal("address\n"), "1: there must be one of the columns time_ns"));
  CHECK(begins(refusal("time_ns\n"), "1: there is no column address"));
  const std::string head = "time_ns,address,bytes,thread,processor,access\n1,2,3,4,host,read\n";
  CHECK(begins(refusal(head + "1,2,3,4,host\n"), "3: it has 5 fields, and there are 6 columns"));
  CHECK(begins(refusal(head + "-1,2,3,4,host,read\n"), "3: '-1' is no time"));
  CHECK(begins(refusal(head + "99999999999999999999,2,3,4,host,read\n"), "3: '999"));
  CHECK(begins(refusal(head + "1,7f00,3,4,host,read\n"), "3: '7f00' is no address"));
  CHECK(begins(refusal(head + "1,2,0,4,host,read\n"), "3: an access must be to at least one byte"));
  CHECK(begins(refusal(head + "1,2,1073741825,4,host,read\n"), "3: bytes: '1073741825' is no"));
  CHECK(begins(refusal(head + "1,2,3,4294967296,host,read\n"), "3: thread: '4294967296' is no"));
  CHECK(begins(refusal(head + "1,2,3,4,gpu,read\n"), "3: 'gpu' is no processor"));
  CHECK(begins(refusal(head + "1,2,3,4,dev8,read\n"), "3: 'dev8' is no processor"));
  CHECK(begins(refusal(head + "1,2,3,4,host,rw\n"), "3: 'rw' is neither read nor write"));
  CHECK(begins(refusal(head + "1,18446744073709551615,2,4,host,read\n"), "3: the access ends"));
  CHECK(begins(bad(read_csv_accesses, head + "1,2,3,4,dev1,read\n", {page_size, 1}),
               "3: there is no 'dev1': there are 1 devices"));
}

TEST_CASE("a region that DAMON saw accessed is its pages at times within the snapshot") {
  const Accesses read = good(read_damon_accesses,
                             "base_time_absolute: 1 m 2.5 s\n"
                             "data source: unknown\n"
                             "\n"
                             "monitoring_start:                0 ns\n"
                             "monitoring_end:            100.000 ms\n"
                             "monitoring_duration:       100.000 ms\n"
                             "target_id: 18446623438842320000\n"
                             "nr_regions: 3\n"
                             "# start_addr     end_addr        length  nr_accesses   age\n"
                             "563ebaa00000-563ebaa02000 (   8.000 KiB)           3    -1\n"
                             "563ebaa02000-563ebaa04000 (   8.000 KiB)           0    -1\n"
                             "7f0000001000-7f0001001000 (  16.000 MiB)           1     2\n"
                             "\n"
                             "monitoring_start:          100.000 ms\n"
                             "monitoring_end:          1,200.000 ms\n"
                             "target_id: 18446623438842320000\n"
                             "7f0000000000-7f0000001000(   4.000 KiB):        1\n"
                             "7f0000001000-7f0000002000(   4.000 KiB):       -1\n");
  constexpr std::uint64_t base_ns = 62'500'000'000, ms = 1'000'000;
  // 16 MiB are 4096 pages: each 16th, or with a page more each 32nd.
  REQUIRE(read.all.size() == 2 + 256 + 1);
  CHECK(read.all[0].address == 0x563ebaa00000);
  CHECK(read.all[1].address == 0x563ebaa01000);
  CHECK(read.all[2].address == 0x7f0000010000);
  CHECK(read.all[3].address == 0x7f0000020000);
  CHECK(read.all[0].time_ns == base_ns);
  CHECK(read.all[129].time_ns == base_ns + 50 * ms);
  CHECK(read.all[257].time_ns < base_ns + 100 * ms);
  CHECK(read.all[258].time_ns == base_ns + 100 * ms);
  CHECK(read.all[258].address == 0x7f0000000000);
  CHECK(read.end_ns == base_ns + 1200 * ms);
  for (const Access& access : read.all) {
    CHECK(access.kind == EventAccess::none);
    CHECK(access.thread == 1);
  }
  CHECK(read.names[read.all[0].name] == "18446623438842320000");
}

TEST_CASE("DAMON's targets have memory of their own") {
  std::string text = "base_time_absolute: 0\n";
  for (const char* const target : {"0", "1"})
    text += std::string("monitoring_start: 0\nmonitoring_end: 1000\ntarget_id: ") + target +
            "\n1000-2000 (4096) 1 0\n";
  const Accesses read = good(read_damon_accesses, text);
  REQUIRE(read.all.size() == 2);
  const SyntheticArena arena(read.all);
  CHECK(arena.ranges().size() == 2);
  CHECK(arena.address_of(read.all[0]) != arena.address_of(read.all[1]));
}

TEST_CASE("text that is not DAMON's is refused with the line") {
  const auto refusal = [](const std::string& text) { return bad(read_damon_accesses, text); };
  const std::string head =
      "base_time_absolute: 0 ns\nmonitoring_start: 0 ns\nmonitoring_end: 1 s\n";
  CHECK(begins(refusal("time_ns,address\n"), "1: 'time_ns,address' is no line of damo"));
  CHECK(begins(refusal("base_time_absolute: soon\n"), "1: 'soon' is no time"));
  CHECK(begins(refusal("base_time_absolute: 1 y\n"), "1: '1 y' is no time"));
  CHECK(begins(refusal(head + "1000-0fff (1 B) 1 0\n"), "4: its addresses are no region"));
  CHECK(begins(refusal(head + "1000-xyz (1 B) 1 0\n"), "4: its addresses are no region"));
  CHECK(begins(refusal(head + "1000-2000 (1 B) many 0\n"), "4: 'many' is no number of accesses"));
  CHECK(begins(refusal("1000-2000 (4 KiB) 1 0\n"), "1: a region before monitoring_start"));
}

TEST_CASE("samples of perf script are loads and stores of threads") {
  const Accesses read = good(
      read_perf_accesses,
      "# captured on: today\n"
      "     my thread  4712/4713  [003]   100.000001:      10000      cpu/mem-loads,ldlat=30/P: "
      "     7f938d7e1040\n"
      "            cg  4712/4712  [001]   100.000003001:   cpu/mem-stores/P:     7f938d7e1000\n"
      "            cg    77 [001]   100.000004:  1 ibs_op//:  1000 68100142 |OP STORE|LVL L1 hit\n"
      "            cg    77 [001]   100.000004:  1 ibs_op//:  1000 68100142 |OP LOAD|LVL L1 hit\n"
      "            cg    77   100.000004: ibs_op//:  1000\n"
      "            cg    77   100.000004:  mem-loads-aux:      0\n"
      "            cg    77   100.000004:  mem-loads:   ffffa7c22b4b2a00\n");
  REQUIRE(read.all.size() == 5);
  CHECK(read.left_out == 2);
  CHECK(read.names[read.all[0].name] == "my thread");
  CHECK(read.all[0].thread == 4713);
  CHECK(read.all[0].space == 4712);
  CHECK(read.all[0].time_ns == 100'000'001'000);
  CHECK(read.all[0].address == 0x7f938d7e1000);
  CHECK(read.all[0].kind == EventAccess::read);
  CHECK(read.all[1].time_ns == 100'000'003'001);
  CHECK(read.all[1].kind == EventAccess::write);
  CHECK(read.all[2].thread == 77);
  CHECK(read.all[2].space == 0);
  CHECK(read.all[2].kind == EventAccess::write);
  CHECK(read.all[3].kind == EventAccess::read);
  CHECK(read.all[4].kind == EventAccess::none);
}

TEST_CASE("samples of perf mem -D report come a microsecond apart") {
  const Accesses read =
      good(read_perf_accesses,
           "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n"
           "19057 19057 0xffffffff81752b6a 0x01655d01f2ac5c0     0 0x1e05080021 [kernel]:elf_load\n"
           "  381   381 0xffffffff8102a9e3 0xffff88021f50e2c0     0 0x5080144 vmlinux:__switch_to\n"
           "  381   382 0x000000401136 0x7f938d7e1040     7 0x5080144 /bin/cg:a b\n"
           "381,383,0x401136,0x7f938d7e1041,7,0x5080142,/bin/cg:multiply\n");
  REQUIRE(read.all.size() == 3);
  CHECK(read.left_out == 1);
  CHECK(read.all[0].address == 0x55d01f2ac000);
  CHECK(read.all[0].kind == EventAccess::none);
  CHECK(read.all[1].thread == 382);
  CHECK(read.all[1].space == 381);
  CHECK(read.all[1].kind == EventAccess::write);
  CHECK(read.all[2].kind == EventAccess::read);
  CHECK(read.all[2].time_ns - read.all[1].time_ns == 1000);
}

TEST_CASE("text that is not perf's is refused with the line") {
  const auto refusal = [](const std::string& text) { return bad(read_perf_accesses, text); };
  CHECK(begins(refusal("\ntime_ns,address\n"), "2: there is no time"));
  CHECK(begins(refusal("cg 1.0: mem-loads: 1000\n"), "1: 'cg' is no thread"));
  CHECK(begins(refusal("cg 7 1.0: mem-loads:\n"), "1: there is no event with an address"));
  CHECK(begins(refusal("cg 7 1.0: mem-loads: [unknown]\n"), "1: '[unknown]' is no address"));
  CHECK(begins(refusal("cg 7 1.0: 1 page-faults: 7f3d5f802b70 _start+0x0 (/bin/cg)\n"),
               "1: '7f3d5f802b70' is the address of the instruction"));
  CHECK(begins(refusal("# PID, TID, IP, ADDR\n"), "1: there is no column DSRC"));
  CHECK(begins(refusal("# PID, TID, ADDR, DSRC\n1 2 0x1000\n"), "2: DSRC: '' is no number"));
}

TEST_CASE("rules give threads to processors, the first one for a thread counts") {
  Accesses accesses;
  accesses.names = {"", "worker 1", "main"};
  accesses.all.resize(4);
  accesses.all[0].name = accesses.all[1].name = 1;
  accesses.all[1].thread = 12;
  accesses.all[2].name = 2;
  accesses.all[3].processor = 3;
  std::vector<ProcessorRule> rules;
  for (const char* const text : {"12=dev1", "worker*=dev0", "nobody=host"})
    rules.push_back(std::get<ProcessorRule>(parse_rule(text)));
  CHECK(assign(accesses, rules) == std::vector<std::uint64_t>{1, 1, 0});
  CHECK(accesses.all[0].processor == 1);
  CHECK(accesses.all[1].processor == 2);
  CHECK(accesses.all[2].processor == 0);
  CHECK(accesses.all[3].processor == 3);
  for (const char* const wrong : {"worker", "=dev0", "worker=", "worker=dev8", "worker=9"})
    CHECK(std::holds_alternative<std::string>(parse_rule(wrong)));
}

TEST_CASE("memory keeps its distances, except for long gaps, and its place in a block") {
  const auto at = [](std::uint64_t address, std::uint64_t space = 0) {
    Access access;
    access.address = address;
    access.bytes = 8;
    access.space = space;
    return access;
  };
  constexpr std::uint64_t first = 0x7f0000123000, second = first + gib, third = second + 2 * gib;
  const std::vector<Access> accesses{
      at(third + 5), at(first), at(second), at(first + 4096), at(first + 0x100000), at(first, 9)};
  const SyntheticArena arena(accesses);
  const auto where = [&](int i) { return arena.address_of(accesses[static_cast<std::size_t>(i)]); };
  CHECK(where(1) % block_size == first % block_size);
  CHECK(where(3) == where(1) + 4096);
  CHECK(where(2) == where(1) + gib);
  CHECK(where(0) % block_size == (third + 5) % block_size);
  CHECK(where(0) > where(2));
  CHECK(where(0) < where(2) + 2 * block_size);
  CHECK(where(5) > where(0));
  CHECK(where(5) % block_size == first % block_size);
  CHECK(arena.bytes() % block_size == 0);
  // Pages that are less than a block apart are of one range.
  REQUIRE(arena.ranges().size() == 4);
  CHECK(arena.ranges()[0].pages == 0x101);
}

TEST_CASE("a trace of accesses has what happens to pages that do not move") {
  const Trace trace = trace_of(good(read_csv_accesses, ping_pong(5)));
  CHECK(trace.complete);
  REQUIRE(trace.settings);
  CHECK(trace.settings->policy.empty());
  REQUIRE(trace.machine.processors.size() == 2);
  CHECK(trace.machine.processors[1].kind == TraceProcessor::Kind::isolated);
  CHECK(trace.end_ns - trace.machine.start_ns == 401'000);
  CHECK(count(trace, EventKind::allocation) == 1);
  CHECK(count(trace, EventKind::fault) == 5);
  CHECK(count(trace, EventKind::populate) == 1);
  CHECK(count(trace, EventKind::remote_map) == 1);
  REQUIRE(trace.names.size() == 1);
  CHECK(trace.names[0].name == "0x7f0000000000");
}

TEST_CASE("an access to several pages is one of each") {
  const Trace trace = trace_of(good(read_csv_accesses, "time_ns,address,bytes\n0,0x1ffc,4101\n"));
  std::vector<std::uint64_t> addresses;
  for (const TraceEvent& event : trace.events)
    if (event.kind == EventKind::fault) addresses.push_back(event.address % block_size);
  CHECK(addresses == std::vector<std::uint64_t>{0x1ffc, 0x2000, 0x3000});
}

TEST_CASE("a replay moves the page at each turn, or never, as the policy has it") {
  const Trace trace = trace_of(good(read_csv_accesses, ping_pong(10)));
  CHECK(replayed(trace, "migrate-always").counts.migrations == 9);
  CHECK(replayed(trace, "migrate-always").counts.faults == 10);
  for (const char* const policy : {"first-touch", "remote-always"}) {
    const auto result = replayed(trace, policy);
    CHECK(result.counts.migrations == 0);
    CHECK(result.counts.faults == 2);
    CHECK(result.counts.mapped_pages == 1);
  }
}

TEST_CASE("a replay adds the costs of faults to times that contain none") {
  const Trace trace = trace_of(good(read_csv_accesses, ping_pong(3)));
  // The host creates the page, the device maps it, and the host finds it.
  CHECK(replayed(trace, "first-touch").time_ns == 201'000 + (200 + 1000) + (300 + 5000));
  // It moves twice.
  CHECK(replayed(trace, "migrate-always").time_ns ==
        201'000 + (200 + 1000) + (300 + 10'000) + (200 + 10'000));
}

}  // namespace
}  // namespace wherry::importing::import_test
