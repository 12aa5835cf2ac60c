// Finds out, without MPI, whether an MPI launcher started this process and as which rank.
#pragma once

#include <optional>

namespace wherry::impl {

// Returns the rank, from the first of these variables that launchers set to a number:
// OMPI_COMM_WORLD_RANK (Open MPI), PMI_RANK (MPICH and others), PMIX_RANK, MV2_COMM_WORLD_RANK
// (MVAPICH2), SLURM_PROCID. Returns nullopt if none is a number. Requires: no other thread changes
// the environment meanwhile.
std::optional<unsigned> mpi_rank();

// Whether one of these variables is a number, but not SLURM_PROCID: Slurm sets it in every program.
bool is_started_by_mpi();

}  // namespace wherry::impl
