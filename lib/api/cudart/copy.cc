// The runtime API's functions that copy and fill.
#include "api/copies.h"
#include "api/cudart/entry.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

using enum Timing;

std::uintptr_t number_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Sets the roles of the two ends. Returns false if the kind is invalid.
bool find_roles(cudaMemcpyKind kind, End& to, End& from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      to.role = from.role = Role::host;
      return true;
    case cudaMemcpyHostToDevice:
      to.role = Role::device;
      from.role = Role::host;
      return true;
    case cudaMemcpyDeviceToHost:
      to.role = Role::host;
      from.role = Role::device;
      return true;
    case cudaMemcpyDeviceToDevice:
      to.role = from.role = Role::device;
      return true;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

// A pitch that is too small has its own error code; one that is too large has not.
cudaError_t check_pitch(std::size_t pitch, const Extent& extent, const char* call) {
  if (extent.rows <= 1 && extent.layers <= 1) return cudaSuccess;
  if (pitch >= extent.width && pitch <= max_pitch) return cudaSuccess;
  const CUresult refused =
      fail(CUDA_ERROR_INVALID_VALUE,
           "a pitch is {} for rows of {} bytes; pass at least that, and at most {}", pitch,
           extent.width, max_pitch);
  return finish_instead(
      refused, pitch < extent.width ? cudaErrorInvalidPitchValue : cudaErrorInvalidValue, call);
}
cudaError_t check_pitches(std::size_t to, std::size_t from, const Extent& extent,
                          const char* call) {
  const cudaError_t checked = check_pitch(to, extent, call);
  return checked != cudaSuccess ? checked : check_pitch(from, extent, call);
}

cudaError_t copy_ends(const End& to, const End& from, const Extent& extent, Timing timing,
                      CUstream stream, const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    return enter(call,
                 [&](Driver& driver) { return copy(driver, stream, timing, to, from, extent); });
  });
}

cudaError_t copy_bytes(void* to, const void* from, std::size_t count, cudaMemcpyKind kind,
                       Timing timing, CUstream stream, const char* call = __builtin_FUNCTION()) {
  End there{Role::any, number_of(to)};
  End here{Role::any, number_of(from)};
  if (!find_roles(kind, there, here)) return refuse_kind(kind, call);
  return copy_ends(there, here, {count}, timing, stream, call);
}

cudaError_t copy_between(void* to, int to_device, const void* from, int from_device,
                         std::size_t count, Timing timing, CUstream stream,
                         const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    return enter(call, [&](Driver& driver) {
      const CUresult checked = check_devices(driver, to_device, from_device);
      if (checked != CUDA_SUCCESS) return checked;
      End there{Role::device, number_of(to)};
      End here{Role::device, number_of(from)};
      there.device = to_device;
      here.device = from_device;
      return copy(driver, stream, timing, there, here, {count});
    });
  });
}

cudaError_t copy_rectangle(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                           std::size_t width, std::size_t rows, cudaMemcpyKind kind, Timing timing,
                           CUstream stream, const char* call = __builtin_FUNCTION()) {
  const Extent extent{width, rows};
  End there{Role::any, number_of(to), to_pitch};
  End here{Role::any, number_of(from), from_pitch};
  if (!find_roles(kind, there, here)) return refuse_kind(kind, call);
  const cudaError_t checked = check_pitches(to_pitch, from_pitch, extent, call);
  if (checked != cudaSuccess) return checked;
  return copy_ends(there, here, extent, timing, stream, call);
}

CUresult find_end(const cudaPitchedPtr& memory, const cudaPos& at, const Extent& extent, End& end) {
  end.address = number_of(memory.ptr);
  end.pitch = memory.pitch;
  std::size_t start = 0;
  std::size_t rows = 0;
  if (__builtin_mul_overflow(memory.pitch, memory.ysize, &end.layer) ||
      __builtin_mul_overflow(at.z, memory.ysize, &rows) ||
      __builtin_add_overflow(rows, at.y, &rows) ||
      __builtin_mul_overflow(rows, memory.pitch, &start) ||
      __builtin_add_overflow(start, at.x, &start) ||
      (end.address != 0 && __builtin_add_overflow(end.address, start, &end.address)))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the position ({}, {}, {}) with pitch {} and ysize {} lies past the last address; "
                "check them",
                at.x, at.y, at.z, memory.pitch, memory.ysize);
  if (extent.layers > 1 && memory.ysize < extent.rows)
    return fail(CUDA_ERROR_INVALID_VALUE, "ysize is {} for layers of {} rows; pass at least that",
                memory.ysize, extent.rows);
  return CUDA_SUCCESS;
}

// Copies a box; both structures have these fields.
template <typename Parameters>
cudaError_t copy_box(const Parameters& what, End to, End from, Timing timing, CUstream stream,
                     const char* call = __builtin_FUNCTION()) {
  if (what.srcArray != nullptr || what.dstArray != nullptr) return refuse_array(call);
  const Extent extent{what.extent.width, what.extent.height, what.extent.depth};
  if (extent.is_empty()) return with_context(call, [] { return CUDA_SUCCESS; });
  const cudaError_t checked = check_pitches(what.dstPtr.pitch, what.srcPtr.pitch, extent, call);
  if (checked != cudaSuccess) return checked;
  CUresult found = find_end(what.dstPtr, what.dstPos, extent, to);
  if (found == CUDA_SUCCESS) found = find_end(what.srcPtr, what.srcPos, extent, from);
  if (found != CUDA_SUCCESS) return finish(found, call);
  return copy_ends(to, from, extent, timing, stream, call);
}

cudaError_t copy_box(const cudaMemcpy3DParms* what, Timing timing, CUstream stream,
                     const char* call = __builtin_FUNCTION()) {
  if (what == nullptr) return finish(refuse_null("p"), call);
  End to;
  End from;
  if (!find_roles(what->kind, to, from)) return refuse_kind(what->kind, call);
  return copy_box(*what, to, from, timing, stream, call);
}

cudaError_t copy_box(const cudaMemcpy3DPeerParms* what, Timing timing, CUstream stream,
                     const char* call = __builtin_FUNCTION()) {
  if (what == nullptr) return finish(refuse_null("p"), call);
  const cudaError_t known = with_context(call, [&] {
    return enter(call, [&](Driver& driver) {
      return check_devices(driver, what->dstDevice, what->srcDevice);
    });
  });
  if (known != cudaSuccess) return known;
  End to{Role::device};
  End from{Role::device};
  to.device = what->dstDevice;
  from.device = what->srcDevice;
  return copy_box(*what, to, from, timing, stream, call);
}

cudaError_t fill_box(const cudaPitchedPtr& memory, int value, const Extent& extent, Timing timing,
                     CUstream stream, const char* call = __builtin_FUNCTION()) {
  End to{Role::device};
  const cudaError_t checked = check_pitch(memory.pitch, extent, call);
  if (checked != cudaSuccess) return checked;
  const CUresult found = find_end(memory, {}, extent, to);
  if (found != CUDA_SUCCESS) return finish(found, call);
  return with_context(call, [&] {
    return enter(call, [&](Driver& driver) {
      return fill(driver, stream, timing, to, extent, static_cast<unsigned char>(value), 1);
    });
  });
}

cudaError_t fill_rows(void* to, std::size_t pitch, int value, std::size_t width, std::size_t rows,
                      Timing timing, CUstream stream, const char* call = __builtin_FUNCTION()) {
  return fill_box({to, pitch, 0, rows}, value, {width, rows}, timing, stream, call);
}
cudaError_t fill_row(void* to, int value, std::size_t count, Timing timing, CUstream stream,
                     const char* call = __builtin_FUNCTION()) {
  return fill_rows(to, 0, value, count, 1, timing, stream, call);
}
cudaError_t fill_box(const cudaPitchedPtr& memory, int value, const cudaExtent& extent,
                     Timing timing, CUstream stream, const char* call = __builtin_FUNCTION()) {
  return fill_box(memory, value, Extent{extent.width, extent.height, extent.depth}, timing, stream,
                  call);
}

}  // namespace

cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return copy_bytes(dst, src, count, kind, synchronous, nullptr);
}
cudaError_t cudaMemcpy_ptds(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return copy_bytes(dst, src, count, kind, synchronous, CU_STREAM_PER_THREAD);
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_bytes(dst, src, count, kind, asynchronous, stream);
}

cudaError_t cudaMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice, size_t count) {
  return copy_between(dst, dstDevice, src, srcDevice, count, synchronous, nullptr);
}
cudaError_t cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice,
                                size_t count, cudaStream_t stream) {
  return copy_between(dst, dstDevice, src, srcDevice, count, asynchronous, stream);
}

cudaError_t cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return copy_rectangle(dst, dpitch, src, spitch, width, height, kind, synchronous, nullptr);
}
cudaError_t cudaMemcpy2D_ptds(void* dst, size_t dpitch, const void* src, size_t spitch,
                              size_t width, size_t height, cudaMemcpyKind kind) {
  return copy_rectangle(dst, dpitch, src, spitch, width, height, kind, synchronous,
                        CU_STREAM_PER_THREAD);
}
cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy_rectangle(dst, dpitch, src, spitch, width, height, kind, asynchronous, stream);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return copy_box(p, synchronous, nullptr);
}
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* p) {
  return copy_box(p, synchronous, CU_STREAM_PER_THREAD);
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return copy_box(p, asynchronous, stream);
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
  return copy_box(p, synchronous, nullptr);
}
cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms* p) {
  return copy_box(p, synchronous, CU_STREAM_PER_THREAD);
}
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  return copy_box(p, asynchronous, stream);
}

cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  return fill_row(devPtr, value, count, synchronous, nullptr);
}
cudaError_t cudaMemset_ptds(void* devPtr, int value, size_t count) {
  return fill_row(devPtr, value, count, synchronous, CU_STREAM_PER_THREAD);
}
cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  return fill_row(devPtr, value, count, asynchronous, stream);
}

cudaError_t cudaMemset2D(void* devPtr, size_t pitch, int value, size_t width, size_t height) {
  return fill_rows(devPtr, pitch, value, width, height, synchronous, nullptr);
}
cudaError_t cudaMemset2D_ptds(void* devPtr, size_t pitch, int value, size_t width, size_t height) {
  return fill_rows(devPtr, pitch, value, width, height, synchronous, CU_STREAM_PER_THREAD);
}
cudaError_t cudaMemset2DAsync(void* devPtr, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return fill_rows(devPtr, pitch, value, width, height, asynchronous, stream);
}

cudaError_t cudaMemset3D(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent) {
  return fill_box(pitchedDevPtr, value, extent, synchronous, nullptr);
}
cudaError_t cudaMemset3D_ptds(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent) {
  return fill_box(pitchedDevPtr, value, extent, synchronous, CU_STREAM_PER_THREAD);
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent,
                              cudaStream_t stream) {
  return fill_box(pitchedDevPtr, value, extent, asynchronous, stream);
}
