// Finds out, without MPI, whether an MPI launcher started this process and as which rank.
#pragma once

#include <optional>

namespace wherry::impl {

// Returns the rank, from the first of these variables that launchers set to a number:
// OMPI_COMM_WORLD_RANK (Open MPI), PMI_RANK (MPICH and others), PMIX_RANK, MV2_COMM_WORLD_RANK
// (MVAPICH2), SLURM_PROCID. Returns nullopt if none has one. Threads that may read the environment
// may call it.
std::optional<unsigned> mpi_rank();

// Whether one of these but SLURM_PROCID has a number. Slurm sets SLURM_PROCID for every program.
bool is_started_by_mpi();

}  // namespace wherry::impl
