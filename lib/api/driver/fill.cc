// The C functions that fill memory.
#include "api/copies.h"

using namespace wherry::impl;

namespace {

using enum Timing;

template <typename Value>
CUresult fill_rows(CUdeviceptr to, std::size_t pitch, Value value, std::size_t width,
                   std::size_t rows, Timing timing, CUstream stream,
                   const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    WorkStream target;
    const CUresult ready = find_target(driver, stream, timing, target);
    if (ready != CUDA_SUCCESS) return ready;
    Extent extent{0, rows};
    if (__builtin_mul_overflow(width, sizeof value, &extent.width))
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "{} values of {} bytes reach past the last address; pass fewer", width,
                  sizeof value);
    if (!extent.is_empty() && rows > 1 && (pitch < extent.width || pitch > max_pitch))
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "dstPitch is {} for rows of {} bytes; pass at least that, and at most {}", pitch,
                  extent.width, max_pitch);
    return fill(driver, stream, timing, {Role::device, to, pitch}, extent, value, sizeof value);
  });
}

template <typename Value>
CUresult fill_row(CUdeviceptr to, Value value, std::size_t count, Timing timing, CUstream stream,
                  const char* call = __builtin_FUNCTION()) {
  return fill_rows(to, 0, value, count, 1, timing, stream, call);
}

}  // namespace

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return fill_row(dstDevice, uc, N, synchronous, nullptr);
}
CUresult cuMemsetD8_v2_ptds(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return fill_row(dstDevice, uc, N, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return fill_row(dstDevice, uc, N, asynchronous, hStream);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                         size_t Height) {
  return fill_rows(dstDevice, dstPitch, uc, Width, Height, synchronous, nullptr);
}
CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                              size_t Width, size_t Height) {
  return fill_rows(dstDevice, dstPitch, uc, Width, Height, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                           size_t Height, CUstream hStream) {
  return fill_rows(dstDevice, dstPitch, uc, Width, Height, asynchronous, hStream);
}

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return fill_row(dstDevice, us, N, synchronous, nullptr);
}
CUresult cuMemsetD16_v2_ptds(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return fill_row(dstDevice, us, N, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return fill_row(dstDevice, us, N, asynchronous, hStream);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                          size_t Height) {
  return fill_rows(dstDevice, dstPitch, us, Width, Height, synchronous, nullptr);
}
CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                               size_t Width, size_t Height) {
  return fill_rows(dstDevice, dstPitch, us, Width, Height, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                            size_t Height, CUstream hStream) {
  return fill_rows(dstDevice, dstPitch, us, Width, Height, asynchronous, hStream);
}

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return fill_row(dstDevice, ui, N, synchronous, nullptr);
}
CUresult cuMemsetD32_v2_ptds(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return fill_row(dstDevice, ui, N, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return fill_row(dstDevice, ui, N, asynchronous, hStream);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                          size_t Height) {
  return fill_rows(dstDevice, dstPitch, ui, Width, Height, synchronous, nullptr);
}
CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                               size_t Width, size_t Height) {
  return fill_rows(dstDevice, dstPitch, ui, Width, Height, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                            size_t Height, CUstream hStream) {
  return fill_rows(dstDevice, dstPitch, ui, Width, Height, asynchronous, hStream);
}
