// The attributes of kernels, for functions of modules and for kernels of libraries.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <memory>

#include "machine/topology.h"
#include "objects/driver.h"
#include "objects/module.h"

namespace wherry::impl {

// Does what cuFuncGetAttribute does. All kernels on the device have the same attributes.
CUresult kernel_attribute(const Topology& topology, int device, CUfunction_attribute attribute,
                          int* value);
// Do what cuFuncSetAttribute and cuFuncSetCacheConfig do: only check the argument.
CUresult set_kernel_attribute(CUfunction_attribute attribute, int value);
CUresult set_kernel_cache(CUfunc_cache config);

// Does what cuFuncGetParamInfo does.
CUresult tell_param(const DeclaredParams& params, std::size_t index, std::size_t* offset,
                    std::size_t* bytes);

// Returns the code of `argument`: a function of the context, or a kernel of a library. Null if it
// is neither.
std::shared_ptr<const KernelCode> find_kernel_code(const Driver& driver, CUfunction argument,
                                                   const Context& context);
// CUDA_ERROR_INVALID_HANDLE: find_kernel_code() found neither.
CUresult refuse_code(CUfunction argument);

}  // namespace wherry::impl
