// The C functions that allocate memory in rows.
#include "api/copies.h"
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

// Rows begin at multiples of this many bytes, as with NVIDIA's driver for this generation.
constexpr std::size_t pitch_unit = 512;

}  // namespace

CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
  if (dptr != nullptr) *dptr = 0;
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    if (dptr == nullptr) return refuse_null("dptr");
    if (pPitch == nullptr) return refuse_null("pPitch");
    // A larger pitch would be of no use: no copy accepts it.
    if (WidthInBytes == 0 || WidthInBytes > max_pitch)
      return fail(CUDA_ERROR_INVALID_VALUE, "WidthInBytes is {}; pass 1 to {}", WidthInBytes,
                  max_pitch);
    if (Height == 0) return refuse_zero("Height");
    if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
      return fail(CUDA_ERROR_INVALID_VALUE, "ElementSizeBytes is {}; pass 4, 8 or 16",
                  ElementSizeBytes);
    const std::size_t pitch = round_up(WidthInBytes, pitch_unit);
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(pitch, Height, &bytes))
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "{} rows with a pitch of {} bytes are more than 2^64 bytes; pass fewer", Height,
                  pitch);
    const CUresult result = cuMemAlloc_v2(dptr, bytes);
    if (result == CUDA_SUCCESS) *pPitch = pitch;
    return result;
  });
}
// No allocation has an address that fits into 32 bits, so this old variant never succeeds.
CUresult cuMemAllocPitch(CUdeviceptr_v1* dptr, unsigned int* pPitch, unsigned int WidthInBytes,
                         unsigned int Height, unsigned int ElementSizeBytes) {
  CUdeviceptr address = 0;
  std::size_t pitch = 0;
  if (dptr != nullptr) *dptr = 0;
  const CUresult result =
      cuMemAllocPitch_v2(dptr == nullptr ? nullptr : &address, pPitch == nullptr ? nullptr : &pitch,
                         WidthInBytes, Height, ElementSizeBytes);
  if (result != CUDA_SUCCESS) return result;
  cuMemFree_v2(address);
  return with_message([] { return refuse_old_variant(CUDA_ERROR_OUT_OF_MEMORY); });
}
