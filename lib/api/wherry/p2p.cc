// The C functions of wherry.h that give third parties access to pages.
#include "api/entry.h"

using namespace wherry::impl;

namespace {

// The p2p token that this library gives to every allocation; vaSpaceToken names the allocation.
constexpr unsigned long long the_p2p_token = 0;

}  // namespace

CUresult wherryGetP2PPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length, wherryPageExtent* extents,
                           size_t* count) {
  return enter([&](Driver& driver) {
    if (count == nullptr || (extents == nullptr && *count != 0) || p2pToken != the_p2p_token)
      return CUDA_ERROR_INVALID_VALUE;
    return driver.p2p_pages().get({vaSpaceToken, address, length}, {extents, *count}, *count);
  });
}

CUresult wherryPutP2PPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length) {
  return enter([&](Driver& driver) {
    if (p2pToken != the_p2p_token) return CUDA_ERROR_INVALID_VALUE;
    return driver.p2p_pages().put({vaSpaceToken, address, length});
  });
}
