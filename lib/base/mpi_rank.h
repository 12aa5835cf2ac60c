// Whether an MPI launcher started this process, and as which rank: from the variables that
// launchers set, without MPI itself.
#pragma once

#include <optional>

namespace wherry::impl {

// The rank, from the first of these variables that has a number: OMPI_COMM_WORLD_RANK (Open MPI),
// PMI_RANK (MPICH and others), PMIX_RANK, MV2_COMM_WORLD_RANK (MVAPICH2), SLURM_PROCID. Nullopt:
// none has. Any thread that may read the environment.
std::optional<unsigned> mpi_rank();

// Whether one of them but SLURM_PROCID has a number: Slurm sets that for every program.
bool is_started_by_mpi();

}  // namespace wherry::impl
