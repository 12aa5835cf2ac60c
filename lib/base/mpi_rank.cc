#include "base/mpi_rank.h"

#include <charconv>
#include <string_view>

#include "base/environment.h"

namespace wherry::impl {
namespace {

std::optional<unsigned> number(EnvironmentName name) {
  const char* const value = environment_value(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  unsigned rank = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), rank);
  if (error != std::errc() || end != text.end()) return std::nullopt;
  return rank;
}

std::optional<unsigned> rank_of_mpi() {
  for (const EnvironmentName name :
       {EnvironmentName("OMPI_COMM_WORLD_RANK"), EnvironmentName("PMI_RANK"),
        EnvironmentName("PMIX_RANK"), EnvironmentName("MV2_COMM_WORLD_RANK")})
    if (const auto rank = number(name)) return rank;
  return std::nullopt;
}

}  // namespace

std::optional<unsigned> mpi_rank() {
  const auto rank = rank_of_mpi();
  return rank ? rank : number("SLURM_PROCID");
}

bool is_started_by_mpi() {
  return rank_of_mpi().has_value();
}

}  // namespace wherry::impl
