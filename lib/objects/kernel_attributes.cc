#include "objects/kernel_attributes.h"

#include "objects/device_attributes.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"
#include "objects/grid_arguments.h"

namespace wherry::impl {

namespace {

CUresult refuse_attribute(CUfunction_attribute attribute) {
  return refuse_value("attrib", static_cast<int>(attribute), "CUfunction_attribute");
}

}  // namespace

CUresult kernel_attribute(const Topology& topology, int device, CUfunction_attribute attribute,
                          int* value) {
  if (value == nullptr) return refuse_null("pi");
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return refuse_attribute(attribute);
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
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return value >= 0
               ? CUDA_SUCCESS
               : fail(CUDA_ERROR_INVALID_VALUE, "value is {}; pass a number of bytes", value);
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return value >= -1 && value <= 100
               ? CUDA_SUCCESS
               : fail(CUDA_ERROR_INVALID_VALUE, "value is {}; pass a percentage, or -1", value);
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return refuse_attribute(attribute);
  return fail(CUDA_ERROR_INVALID_VALUE,
              "attrib {} cannot be set; CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES and "
              "_PREFERRED_SHARED_MEMORY_CARVEOUT can",
              static_cast<int>(attribute));
}

CUresult set_kernel_cache(CUfunc_cache config) {
  const bool known = config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
  return known ? CUDA_SUCCESS : refuse_value("config", static_cast<int>(config), "CUfunc_cache");
}

CUresult tell_param(const DeclaredParams& params, std::size_t index, std::size_t* offset,
                    std::size_t* bytes) {
  if (offset == nullptr) return refuse_null("paramOffset");
  if (index >= params.count)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "paramIndex is {}, and the kernel declares {} parameters; pass less than that",
                index, params.count);
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

CUresult refuse_code(CUfunction argument) {
  return fail(CUDA_ERROR_INVALID_HANDLE,
              "{:#x} is no function of the context and no kernel of a library; get one with "
              "cuModuleGetFunction or cuLibraryGetKernel",
              reinterpret_cast<std::uintptr_t>(argument));
}

}  // namespace wherry::impl
