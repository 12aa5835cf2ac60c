// What is known of every kernel, and what may be said of one: shared by functions and by kernels of
// libraries.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <memory>

#include "machine/topology.h"
#include "objects/driver.h"
#include "objects/module.h"

namespace wherry::impl {

// cuFuncGetAttribute, of any kernel on the device.
CUresult kernel_attribute(const Topology& topology, int device, CUfunction_attribute attribute,
                          int* value);
// cuFuncSetAttribute and cuFuncSetCacheConfig: what means nothing here, and is checked.
CUresult set_kernel_attribute(CUfunction_attribute attribute, int value);
CUresult set_kernel_cache(CUfunc_cache config);

// cuFuncGetParamInfo.
CUresult tell_param(const DeclaredParams& params, std::size_t index, std::size_t* offset,
                    std::size_t* bytes);

// What a function argument means in the context: a function of it, or a kernel of a library. Null:
// neither.
std::shared_ptr<const KernelCode> find_kernel_code(const Driver& driver, CUfunction argument,
                                                   const Context& context);
// CUDA_ERROR_INVALID_HANDLE: it is neither.
CUresult refuse_code(CUfunction argument);

}  // namespace wherry::impl
