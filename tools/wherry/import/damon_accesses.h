// Accesses in the text that DAMON's tool damo prints of a record: `damo report access --raw_form`,
// or in older versions `damo report raw`.
//
//     base_time_absolute: 8 m 59.809 s
//
//     monitoring_start:          104.599 ms
//     monitoring_end:            208.590 ms
//     monitoring_duration:       103.991 ms
//     target_id: 18446623438842320000
//     nr_regions: 2
//     # start_addr     end_addr        length  nr_accesses   age
//     563ebaa00000-563ebaaca000 ( 808.000 KiB)           0    -1
//     563ebadf3000-563ebafec000 (   1.973 MiB)           1    -1
//
// A region that was accessed becomes one access to each of up to damon_pages_max of its pages, the
// same ones in each snapshot. The accesses of a snapshot are spread evenly over its time. Each
// target becomes a thread with an address space of its own: number 1, 2, ..., named by the id.
#pragma once

#include "import/access_source.h"

namespace wherry::importing {

inline constexpr std::uint64_t damon_pages_max = 256;

SourceResult read_damon_accesses(std::FILE* stream, const SourceSettings& settings);

}  // namespace wherry::importing
