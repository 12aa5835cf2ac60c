#include "objects/failures/results.h"

#include "objects/failures/last_failure.h"

namespace wherry::impl {

CUresult to_result(WorkStatus status) {
  switch (status) {
    case WorkStatus::ok:
      return CUDA_SUCCESS;
    case WorkStatus::illegal_address:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case WorkStatus::assertion_failed:
      return CUDA_ERROR_ASSERT;
    case WorkStatus::launch_failed:
      return CUDA_ERROR_LAUNCH_FAILED;
    case WorkStatus::context_destroyed:
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    case WorkStatus::unknown_kernel:
      return CUDA_ERROR_NOT_FOUND;
    case WorkStatus::other_credentials:
      return CUDA_ERROR_NOT_PERMITTED;
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult to_result(Pinning::Result result) {
  switch (result) {
    case Pinning::Result::pinned:
      return CUDA_SUCCESS;
    case Pinning::Result::not_managed:
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the pages are not, or no longer, managed memory; were they freed?");
    case Pinning::Result::no_space:
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "absent pages of the range find no room; free memory, or touch the pages where "
                  "they shall be before pinning them");
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace wherry::impl
