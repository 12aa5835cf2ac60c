// Accesses that `perf mem record` sampled, in one of two texts:
//
// - of `perf script -F comm,pid,tid,cpu,time,event,addr`, with or without pid and cpu. Further
//   fields may follow, as by default after perf mem record; data_src is understood:
//
//     cg  4712/4713  [003] 1540823.804575:  cpu/mem-loads,ldlat=30/P:      7f938d7e1040
//     cg  4712/4712  [001] 1540823.804766:  cpu/mem-stores/P:              7f938d7e2000
//
// - of `perf mem -D report`. It has no times: each sample comes a microsecond after the one before.
//
//     # PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL
//     4712  4713 0x000000401136 0x7f938d7e1040     7 0x5080144 /usr/bin/cg:multiply
//
// Samples without an address, and of the kernel's addresses, are left out. Each process is an
// Access::space.
#pragma once

#include "import/access_source.h"

namespace wherry::importing {

SourceResult read_perf_accesses(std::FILE* stream, const SourceSettings& settings);

}  // namespace wherry::importing
