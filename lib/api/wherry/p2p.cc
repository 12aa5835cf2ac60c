// The C functions of wherry.h that give third parties access to pages.
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

// The p2p token that this library gives to every allocation; vaSpaceToken names the allocation.
constexpr unsigned long long the_p2p_token = 0;

CUresult refuse_token(unsigned long long token) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "p2pToken is {}; pass the tokens of CU_POINTER_ATTRIBUTE_P2P_TOKENS", token);
}

}  // namespace

CUresult wherryGetP2PPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length, wherryPageExtent* extents,
                           size_t* count) {
  return enter([&](Driver& driver) {
    if (count == nullptr) return refuse_null("count");
    if (extents == nullptr && *count != 0) return refuse_null("extents");
    if (p2pToken != the_p2p_token) return refuse_token(p2pToken);
    return driver.p2p_pages().get({vaSpaceToken, address, length}, {extents, *count}, *count);
  });
}

CUresult wherryPutP2PPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length) {
  return enter([&](Driver& driver) {
    if (p2pToken != the_p2p_token) return refuse_token(p2pToken);
    return driver.p2p_pages().put({vaSpaceToken, address, length});
  });
}
