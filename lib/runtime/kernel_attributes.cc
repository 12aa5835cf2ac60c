#include "runtime/kernel_attributes.h"

#include "runtime/device_attributes.h"
#include "runtime/grid_arguments.h"

namespace wherry::impl {

CUresult kernel_attribute(const Topology& topology, int device, CUfunction_attribute attribute,
                          int* value) {
  if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  const auto of_device = [&](CUdevice_attribute which) {
    return device_attribute(which, topology, device).value_or(0);
  };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = of_device(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 10 * of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
               of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult set_kernel_attribute(CUfunction_attribute attribute, int value) {
  const bool is_size = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0;
  const bool is_share = attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT &&
                        value >= -1 && value <= 100;
  return is_size || is_share ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_kernel_cache(CUfunc_cache config) {
  const bool known = config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tell_param(const DeclaredParams& params, std::size_t index, std::size_t* offset,
                    std::size_t* bytes) {
  if (offset == nullptr || index >= params.count) return CUDA_ERROR_INVALID_VALUE;
  *offset = packed_offset(params, index);
  if (bytes != nullptr) *bytes = params.sizes[index];
  return CUDA_SUCCESS;
}

std::shared_ptr<const KernelCode> find_kernel_code(const Driver& driver, CUfunction argument,
                                                   const Context& context) {
  if (const auto function = driver.find_function(argument))
    return function->module->context.get() == &context
               ? std::shared_ptr<const KernelCode>(function, &function->code)
               : nullptr;
  const auto kernel = driver.libraries().find_kernel(reinterpret_cast<CUkernel>(argument));
  return kernel ? std::shared_ptr<const KernelCode>(kernel, &kernel->code) : nullptr;
}

}  // namespace wherry::impl
