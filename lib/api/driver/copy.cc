// The C functions that copy. Each says what its pointers must refer to.
#include "api/copies.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

using enum Timing;

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

CUresult refuse_ended_context(const char* argument) {
  return fail(CUDA_ERROR_INVALID_CONTEXT, "{} is no context; was it destroyed?", argument);
}

CUresult copy_bytes(End to, End from, std::size_t count, Timing timing, CUstream stream,
                    const char* call = __builtin_FUNCTION()) {
  return enter(call,
               [&](Driver& driver) { return copy(driver, stream, timing, to, from, {count}); });
}

CUresult copy_any(CUdeviceptr to, CUdeviceptr from, std::size_t count, Timing timing,
                  CUstream stream, const char* call = __builtin_FUNCTION()) {
  return copy_bytes({Role::any, to}, {Role::any, from}, count, timing, stream, call);
}
CUresult copy_to_device(CUdeviceptr to, const void* from, std::size_t count, Timing timing,
                        CUstream stream, const char* call = __builtin_FUNCTION()) {
  return copy_bytes({Role::device, to}, {Role::host, address_of(from)}, count, timing, stream,
                    call);
}
CUresult copy_to_host(void* to, CUdeviceptr from, std::size_t count, Timing timing, CUstream stream,
                      const char* call = __builtin_FUNCTION()) {
  return copy_bytes({Role::host, address_of(to)}, {Role::device, from}, count, timing, stream,
                    call);
}
CUresult copy_in_devices(CUdeviceptr to, CUdeviceptr from, std::size_t count, Timing timing,
                         CUstream stream, const char* call = __builtin_FUNCTION()) {
  return copy_bytes({Role::device, to}, {Role::device, from}, count, timing, stream, call);
}

CUresult copy_between(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, std::size_t count, Timing timing, CUstream stream,
                      const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const auto target = driver.find_context(to_context);
    const auto source = driver.find_context(from_context);
    if (!target) return refuse_ended_context("dstContext");
    if (!source) return refuse_ended_context("srcContext");
    End there{Role::device, to};
    End here{Role::device, from};
    there.device = target->device.ordinal;
    here.device = source->device.ordinal;
    return copy(driver, stream, timing, there, here, {count});
  });
}

// One side of a rectangle or box, as in the API's structures.
struct Box {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t x;
  std::size_t y;
  std::size_t pitch;
  std::size_t z = 0;
  std::size_t height = 0;
  std::size_t lod = 0;
  std::optional<int> ordinal = {};  // of the device whose context was given with it
};

CUresult refuse_place(const Box& box) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the byte {} of row {} of layer {} of one side lies past the last address; check x, "
              "y, z, the pitch and the height",
              box.x, box.y, box.z);
}

CUresult find_end(const Box& box, const Extent& extent, End& end) {
  switch (box.type) {
    case CU_MEMORYTYPE_HOST:
      end = {Role::host, address_of(box.host)};
      break;
    case CU_MEMORYTYPE_DEVICE:
      end = {Role::device, box.device};
      break;
    case CU_MEMORYTYPE_UNIFIED:
      end = {Role::any, box.device};
      break;
    case CU_MEMORYTYPE_ARRAY:
      return fail(CUDA_ERROR_NOT_SUPPORTED, "there are no arrays; copy memory");
    default:
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "a memory type is {}; pass CU_MEMORYTYPE_HOST, _DEVICE or _UNIFIED",
                  static_cast<int>(box.type));
  }
  end.device = box.ordinal;
  if (box.lod != 0)
    return fail(CUDA_ERROR_INVALID_VALUE, "a level of detail is {}; pass 0", box.lod);
  if (extent.is_empty()) return CUDA_SUCCESS;
  // The pitch or height may have any value if no address depends on it.
  const bool uses_height = extent.layers > 1 || box.z != 0;
  const bool uses_pitch = extent.rows > 1 || box.y != 0 || uses_height;
  // A pitch or height of 0 says that rows, or layers, follow each other without a gap.
  const std::size_t pitch = box.pitch != 0 ? box.pitch : extent.width;
  const std::size_t height = box.height != 0 ? box.height : extent.rows;
  std::size_t row_end = 0;
  std::size_t layer_end = 0;
  if (__builtin_add_overflow(box.x, extent.width, &row_end) ||
      __builtin_add_overflow(box.y, extent.rows, &layer_end) ||
      (uses_pitch && (pitch < row_end || pitch > max_pitch)) || (uses_height && height < layer_end))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the pitch {} and height {} of one side do not hold {} bytes of a row from byte {} "
                "and {} rows from row {}; check them",
                pitch, height, extent.width, box.x, extent.rows, box.y);
  end.pitch = uses_pitch ? pitch : 0;
  std::size_t rows = 0;
  std::size_t start = 0;
  if ((uses_height && (__builtin_mul_overflow(end.pitch, height, &end.layer) ||
                       __builtin_mul_overflow(box.z, height, &rows))) ||
      __builtin_add_overflow(rows, box.y, &rows) ||
      __builtin_mul_overflow(rows, end.pitch, &start) ||
      __builtin_add_overflow(start, box.x, &start))
    return refuse_place(box);
  // A null base is never valid memory, so the box's position is not added to it.
  if (end.address != 0 && __builtin_add_overflow(end.address, start, &end.address))
    return refuse_place(box);
  return CUDA_SUCCESS;
}

CUresult copy_sides(Driver& driver, const Box& to, const Box& from, const Extent& extent,
                    Timing timing, CUstream stream) {
  // find_target() comes first: a missing context is the first error to be reported.
  WorkStream target;
  CUresult ready = find_target(driver, stream, timing, target);
  End there;
  End here;
  if (ready == CUDA_SUCCESS) ready = find_end(to, extent, there);
  if (ready == CUDA_SUCCESS) ready = find_end(from, extent, here);
  return ready != CUDA_SUCCESS ? ready : copy(driver, stream, timing, there, here, extent);
}

Box source_of(const CUDA_MEMCPY2D_v2& what) {
  return {what.srcMemoryType, what.srcHost, what.srcDevice,
          what.srcXInBytes,   what.srcY,    what.srcPitch};
}
Box target_of(const CUDA_MEMCPY2D_v2& what) {
  return {what.dstMemoryType, what.dstHost, what.dstDevice,
          what.dstXInBytes,   what.dstY,    what.dstPitch};
}
template <typename Copy3D>
Box source_of(const Copy3D& what) {
  return {what.srcMemoryType, what.srcHost, what.srcDevice, what.srcXInBytes, what.srcY,
          what.srcPitch,      what.srcZ,    what.srcHeight, what.srcLOD};
}
template <typename Copy3D>
Box target_of(const Copy3D& what) {
  return {what.dstMemoryType, what.dstHost, what.dstDevice, what.dstXInBytes, what.dstY,
          what.dstPitch,      what.dstZ,    what.dstHeight, what.dstLOD};
}

// Returns false if this side needs a context, and the handle does not name one.
bool find_device(Driver& driver, CUcontext handle, Box& box) {
  if (box.type != CU_MEMORYTYPE_DEVICE) return true;
  const auto context = driver.find_context(handle);
  if (context) box.ordinal = context->device.ordinal;
  return context != nullptr;
}

CUresult copy_rectangle(const CUDA_MEMCPY2D_v2* what, Timing timing, CUstream stream,
                        const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (what == nullptr) return refuse_null("pCopy");
    return copy_sides(driver, target_of(*what), source_of(*what),
                      {what->WidthInBytes, what->Height}, timing, stream);
  });
}

CUresult copy_box(const CUDA_MEMCPY3D_v2* what, Timing timing, CUstream stream,
                  const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (what == nullptr) return refuse_null("pCopy");
    return copy_sides(driver, target_of(*what), source_of(*what),
                      {what->WidthInBytes, what->Height, what->Depth}, timing, stream);
  });
}

CUresult copy_box(const CUDA_MEMCPY3D_PEER_v1* what, Timing timing, CUstream stream,
                  const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (what == nullptr) return refuse_null("pCopy");
    Box to = target_of(*what);
    Box from = source_of(*what);
    if (!find_device(driver, what->srcContext, from) || !find_device(driver, what->dstContext, to))
      return refuse_ended_context("srcContext or dstContext");
    return copy_sides(driver, to, from, {what->WidthInBytes, what->Height, what->Depth}, timing,
                      stream);
  });
}

}  // namespace

CUresult wherry::impl::plan_box(Driver& driver, const StreamHandle& target,
                                const CUDA_MEMCPY3D_v2& what, PlannedCopy& plan) {
  const Extent extent{what.WidthInBytes, what.Height, what.Depth};
  End there;
  End here;
  if (extent.is_empty())
    return fail(CUDA_ERROR_INVALID_VALUE,
                "WidthInBytes, Height and Depth are {}, {} and {}; pass at least 1 each",
                extent.width, extent.rows, extent.layers);
  CUresult ready = find_end(target_of(what), extent, there);
  if (ready == CUDA_SUCCESS) ready = find_end(source_of(what), extent, here);
  return ready == CUDA_SUCCESS ? plan_copy(driver, target, there, here, extent, plan) : ready;
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return copy_any(dst, src, ByteCount, synchronous, nullptr);
}
CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return copy_any(dst, src, ByteCount, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return copy_any(dst, src, ByteCount, asynchronous, hStream);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return copy_to_device(dstDevice, srcHost, ByteCount, synchronous, nullptr);
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return copy_to_device(dstDevice, srcHost, ByteCount, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                              CUstream hStream) {
  return copy_to_device(dstDevice, srcHost, ByteCount, asynchronous, hStream);
}

CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return copy_to_host(dstHost, srcDevice, ByteCount, synchronous, nullptr);
}
CUresult cuMemcpyDtoH_v2_ptds(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return copy_to_host(dstHost, srcDevice, ByteCount, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream) {
  return copy_to_host(dstHost, srcDevice, ByteCount, asynchronous, hStream);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return copy_in_devices(dstDevice, srcDevice, ByteCount, synchronous, nullptr);
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return copy_in_devices(dstDevice, srcDevice, ByteCount, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream) {
  return copy_in_devices(dstDevice, srcDevice, ByteCount, asynchronous, hStream);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, size_t ByteCount) {
  return copy_between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, synchronous,
                      nullptr);
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount) {
  return copy_between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, synchronous,
                      CU_STREAM_PER_THREAD);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  return copy_between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, asynchronous,
                      hStream);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D_v2* pCopy) {
  return copy_rectangle(pCopy, synchronous, nullptr);
}
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D_v2* pCopy) {
  return copy_rectangle(pCopy, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D_v2* pCopy, CUstream hStream) {
  return copy_rectangle(pCopy, asynchronous, hStream);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D_v2* pCopy) {
  return copy_rectangle(pCopy, synchronous, nullptr);
}
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D_v2* pCopy) {
  return copy_rectangle(pCopy, synchronous, CU_STREAM_PER_THREAD);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D_v2* pCopy) {
  return copy_box(pCopy, synchronous, nullptr);
}
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D_v2* pCopy) {
  return copy_box(pCopy, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D_v2* pCopy, CUstream hStream) {
  return copy_box(pCopy, asynchronous, hStream);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER_v1* pCopy) {
  return copy_box(pCopy, synchronous, nullptr);
}
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER_v1* pCopy) {
  return copy_box(pCopy, synchronous, CU_STREAM_PER_THREAD);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER_v1* pCopy, CUstream hStream) {
  return copy_box(pCopy, asynchronous, hStream);
}
