// Which function a program of a given CUDA version gets for a name.
#include "api/per_thread_variants.h"

#include "support/catch.h"

namespace wherry::test::entry_points_test {

namespace {

template <typename Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

struct Answer {
  void* function;
  CUdriverProcAddressQueryResult status;
};

Answer ask(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  Answer answer{&answer, CU_GET_PROC_ADDRESS_SUCCESS};
  CHECK(cuGetProcAddress_v2(name, &answer.function, version, flags, &answer.status) ==
        CUDA_SUCCESS);
  void* old_answer = nullptr;
  CHECK(cuGetProcAddress(name, &old_answer, version, flags) == CUDA_SUCCESS);
  CHECK(old_answer == answer.function);
  return answer;
}

void* found(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  const Answer answer = ask(name, version, flags);
  CHECK(answer.status == CU_GET_PROC_ADDRESS_SUCCESS);
  return answer.function;
}

constexpr cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr cuuint64_t own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

}  // namespace

TEST_CASE("a name stands for its newest form that is not newer than the program", "[api]") {
  CHECK(found("cuCtxCreate", 3000) == address_of(&cuCtxCreate));
  CHECK(found("cuCtxCreate", 3020) == address_of(&cuCtxCreate_v2));
  CHECK(found("cuCtxCreate", 11030) == address_of(&cuCtxCreate_v2));
  CHECK(found("cuCtxCreate", 11040) == address_of(&cuCtxCreate_v3));
  CHECK(found("cuCtxCreate", 12040) == address_of(&cuCtxCreate_v3));
  CHECK(found("cuCtxCreate", 12050) == address_of(&cuCtxCreate_v4));
  CHECK(found("cuCtxCreate", 13000) == address_of(&cuCtxCreate_v4));
  CHECK(found("cuCtxCreate", 99000) == address_of(&cuCtxCreate_v4));
  CHECK(found("cuMemAlloc", 3010) == address_of(&cuMemAlloc));
  CHECK(found("cuMemAlloc", 12000) == address_of(&cuMemAlloc_v2));
  CHECK(found("cuMemAdvise", 12010) == address_of(&cuMemAdvise));
  CHECK(found("cuMemAdvise", 12020) == address_of(&cuMemAdvise_v2));
  CHECK(found("cuMemPrefetchAsync", 12000) == address_of(&cuMemPrefetchAsync));
  CHECK(found("cuMemPrefetchAsync", 12020) == address_of(&cuMemPrefetchAsync_v2));
  CHECK(found("cuMemPrefetchAsync", 13000) == address_of(&cuMemPrefetchAsync_v2));
  CHECK(found("cuGetProcAddress", 11030) == address_of(&cuGetProcAddress));
  CHECK(found("cuGetProcAddress", 12000) == address_of(&cuGetProcAddress_v2));
  CHECK(found("cuInit", 2000) == address_of(&cuInit));
}

TEST_CASE("a name that is unknown or newer than the program is not found, which is no error",
          "[api]") {
  for (const auto& [name, version] : {std::pair{"cuMemDiscardBatchAsync", 12090},
                                      {"cuMemAllocManaged", 5050},
                                      {"cuInit", 1000}}) {
    INFO(name);
    const Answer answer = ask(name, version);
    CHECK(answer.function == nullptr);
    CHECK(answer.status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  }
  for (const char* name : {"cuNothing", "cuMemAlloc_v2", "cumemalloc", "cuIni", "cuInitt"}) {
    INFO(name);
    const Answer answer = ask(name, 13000);
    CHECK(answer.function == nullptr);
    CHECK(answer.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  }
}

TEST_CASE("the form with the thread's own default stream is found when it is requested", "[api]") {
  CHECK(found("cuStreamSynchronize", 12000, own) == address_of(&cuStreamSynchronize_ptsz));
  CHECK(found("cuStreamSynchronize", 12000, legacy) == address_of(&cuStreamSynchronize));
  CHECK(found("cuMemPrefetchAsync", 12000, own) == address_of(&cuMemPrefetchAsync_ptsz));
  CHECK(found("cuMemPrefetchAsync", 13000, own) == address_of(&cuMemPrefetchAsync_v2_ptsz));
  // CUDA 6.5 had no such forms yet, and cuInit has none.
  CHECK(found("cuStreamSynchronize", 6050, own) == address_of(&cuStreamSynchronize));
  CHECK(found("cuInit", 13000, own) == address_of(&cuInit));
}

TEST_CASE("queries for entry points with wrong arguments are refused", "[api]") {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  CHECK(cuGetProcAddress_v2(nullptr, &function, 13000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetProcAddress_v2("", &function, 13000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetProcAddress_v2("cuInit", nullptr, 13000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetProcAddress_v2("cuInit", &function, 13000, legacy | own, &status) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetProcAddress_v2("cuInit", &function, 13000, 4, &status) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetProcAddress_v2("cuInit", &function, 13000, 0, nullptr) == CUDA_SUCCESS);
}

TEST_CASE("the runtime API finds the same functions", "[api]") {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  CHECK(cudaGetDriverEntryPoint("cuMemAdvise", &function, cudaEnableDefault, &status) ==
        cudaSuccess);
  CHECK(status == cudaDriverEntryPointSuccess);
  CHECK(function == address_of(&cuMemAdvise_v2));
  CHECK(cudaGetDriverEntryPointByVersion("cuMemAdvise", &function, 12000, cudaEnableDefault,
                                         &status) == cudaSuccess);
  CHECK(function == address_of(&cuMemAdvise));
  CHECK(cudaGetDriverEntryPointByVersion("cuMemAdvise", &function, 7000, cudaEnableDefault,
                                         &status) == cudaSuccess);
  CHECK(status == cudaDriverEntryPointVersionNotSufficent);
  CHECK(cudaGetDriverEntryPoint_ptsz("cuStreamQuery", &function, cudaEnableDefault, nullptr) ==
        cudaSuccess);
  CHECK(function == address_of(&cuStreamQuery_ptsz));
  CHECK(cudaGetDriverEntryPoint_ptsz("cuStreamQuery", &function, cudaEnableLegacyStream, nullptr) ==
        cudaSuccess);
  CHECK(function == address_of(&cuStreamQuery));
  CHECK(cudaGetDriverEntryPoint("cuInit", nullptr, cudaEnableDefault, &status) ==
        cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("tables of functions by number do not exist", "[api]") {
  const void* table = &table;
  const CUuuid number{};
  CHECK(cuGetExportTable(&table, &number) == CUDA_ERROR_NOT_FOUND);
  CHECK(table == nullptr);
  CHECK(cuGetExportTable(nullptr, &number) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetExportTable(&table, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace wherry::test::entry_points_test
