// Pages that a third party holds: another process maps the extents, and it and the kernels and the
// host see each other's writes.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/fd_message.h"
#include "support/session.h"
#include "support/stage.h"

namespace wherry::test::p2p_pages_test {

namespace {

// A request to the third party: add `add` to the word at `offset` of the file that comes with the
// request, and answer with the word's previous value.
struct AddRequest {
  std::uint64_t offset = 0;
  std::uint64_t add = 0;
};

// The third party. It does not use the library.
void serve_requests(int socket) {
  for (;;) {
    AddRequest request;
    int fd = -1;
    if (!receive_from(socket, request, fd)) return;
    const std::uint64_t page = request.offset / page_bytes * page_bytes;
    void* const place = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                               static_cast<off_t>(page));
    expect(place != MAP_FAILED, "the pages cannot be mapped");
    auto* const word =
        reinterpret_cast<std::uint64_t*>(static_cast<char*>(place) + request.offset - page);
    const std::uint64_t was = __atomic_fetch_add(word, request.add, __ATOMIC_SEQ_CST);
    ::munmap(place, page_bytes);
    ::close(fd);
    expect(::write(socket, &was, sizeof was) == sizeof was, "the answer cannot be sent");
  }
}

class ThirdParty {
 public:
  ThirdParty() {
    expect(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_) == 0, "no sockets");
    process_ = std::make_unique<Child>([this] {
      ::close(sockets_[0]);
      serve_requests(sockets_[1]);
    });
    ::close(sockets_[1]);
  }
  ~ThirdParty() {
    ::close(sockets_[0]);
    process_->wait();
  }

  // Adds to the word at this address, and returns the word's previous value.
  std::uint64_t add(const std::vector<wherryPageExtent>& extents, const std::uint64_t* word,
                    std::uint64_t value) const {
    const auto address = reinterpret_cast<CUdeviceptr>(word);
    for (const wherryPageExtent& extent : extents) {
      if (address - extent.address >= extent.bytes) continue;
      const AddRequest request{extent.offset + (address - extent.address), value};
      expect(send_to(sockets_[0], request, extent.fd), "the request cannot be sent");
      std::uint64_t was = 0;
      expect(::read(sockets_[0], &was, sizeof was) == sizeof was, "no answer");
      return was;
    }
    throw std::runtime_error("the word is in no extent");
  }

 private:
  int sockets_[2] = {-1, -1};
  std::unique_ptr<Child> process_;
};

struct Scene {
  ThirdParty other;  // forked before the library starts
  Stage stage{"capacity=16M,workers=1;capacity=16M,workers=1"};
};
Scene& scene() {
  static Scene the_scene;
  return the_scene;
}
Stage& stage() {
  return scene().stage;
}

unsigned token_of(const std::uint64_t* word) {
  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens{};
  WHERRY_TRY(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS,
                                   reinterpret_cast<CUdeviceptr>(word)));
  CHECK(tokens.p2pToken == 0);
  return tokens.vaSpaceToken;
}
CUresult get(unsigned token, const std::uint64_t* first, std::size_t bytes,
             std::vector<wherryPageExtent>& extents) {
  std::size_t count = extents.size();
  const CUresult result = wherryGetP2PPages(0, token, reinterpret_cast<CUdeviceptr>(first), bytes,
                                            extents.data(), &count);
  extents.resize(count);
  return result;
}
CUresult put(unsigned token, const std::uint64_t* first, std::size_t bytes) {
  return wherryPutP2PPages(0, token, reinterpret_cast<CUdeviceptr>(first), bytes);
}

std::uint64_t* allocate_own(std::size_t bytes) {
  CUdeviceptr address = 0;
  stage();
  WHERRY_TRY(cuMemAlloc(&address, bytes));
  return reinterpret_cast<std::uint64_t*>(address);
}
void free_memory(std::uint64_t* words) {
  WHERRY_TRY(cuMemFree(reinterpret_cast<CUdeviceptr>(words)));
}

}  // namespace

TEST_CASE("another process shares device memory with kernels", "[system]") {
  std::uint64_t* const words = allocate_own(mebibyte);
  const unsigned token = token_of(words);
  stage().write(device0, words + 5000, 40);
  std::vector<wherryPageExtent> extents(1);
  REQUIRE(get(token, words + 512, mebibyte / 2, extents) == CUDA_SUCCESS);
  CHECK(extents[0].address == reinterpret_cast<CUdeviceptr>(words + 512));
  CHECK(extents[0].bytes == mebibyte / 2);
  CHECK(scene().other.add(extents, words + 5000, 2) == 40);
  CHECK(stage().read(device0, words + 5000) == 42);
  stage().write(device0, words + 5000, 50);
  CHECK(scene().other.add(extents, words + 5000, 0) == 50);
  CHECK(put(token, words + 512, mebibyte / 2) == CUDA_SUCCESS);
  CHECK(put(token, words + 512, mebibyte / 2) == CUDA_ERROR_INVALID_VALUE);
  free_memory(words);
  CHECK(get(token, words, page_bytes, extents) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("managed memory stays where it is while a third party holds it", "[system]") {
  stage();
  const Words words(4 * region_words);
  stage().write(host, words.data(), 1);
  stage().write(device0, words.data() + region_words, 2);
  stage().write(device1, words.data() + 2 * region_words, 3);
  const unsigned token = token_of(words.data());
  std::vector<wherryPageExtent> extents(2);
  CHECK(get(token, words.data(), words.bytes(), extents) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(extents.size() == 4);
  REQUIRE(get(token, words.data(), words.bytes(), extents) == CUDA_SUCCESS);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(scene().other.add(extents, words.data() + i * region_words, 10) == i + 1);
  for (const int processor : {host, device0, device1}) {
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(stage().read(processor, words.data() + i * region_words) == i + 11);
    stage().write(processor, words.data() + 3 * region_words, 7);
    CHECK(scene().other.add(extents, words.data() + 3 * region_words, 0) == 7);
  }
  CHECK(stage().residents(words.data()) == bit_of(host));
  CHECK(stage().residents(words.data() + region_words) == bit_of(device0));
  REQUIRE(put(token, words.data(), words.bytes()) == CUDA_SUCCESS);
  // The third party holds the memory no longer, but the processors still have it mapped where it
  // is.
  WHERRY_TRY(cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(words.data()), region_bytes,
                                location_of(device1), 0, stage().session().stream(device1)));
  WHERRY_TRY(stage().session().wait(device1));
  CHECK(stage().residents(words.data()) == bit_of(device1));
}

TEST_CASE(
    "pages that the program pinned stay pinned, and pages that two hold stay until both put them",
    "[system]") {
  stage();
  const Words words(2 * region_words);
  stage().write(host, words.data(), 1);
  stage().write(host, words.data() + region_words, 1);
  const unsigned token = token_of(words.data());
  WHERRY_TRY(wherryPinPages(reinterpret_cast<CUdeviceptr>(words.data()), region_bytes));
  std::vector<wherryPageExtent> all(4);
  std::vector<wherryPageExtent> part(4);
  REQUIRE(get(token, words.data(), words.bytes(), all) == CUDA_SUCCESS);
  REQUIRE(get(token, words.data() + region_words, 8, part) == CUDA_SUCCESS);
  REQUIRE(part.size() == 1);
  CHECK(part[0].bytes == page_bytes);
  REQUIRE(put(token, words.data(), words.bytes()) == CUDA_SUCCESS);
  stage().write(device0, words.data() + region_words, 2);
  CHECK(stage().residents(words.data() + region_words) == bit_of(host));
  REQUIRE(put(token, words.data() + region_words, 8) == CUDA_SUCCESS);
  stage().write(device0, words.data(), 3);
  stage().write(device1, words.data() + region_words, 3);
  CHECK(stage().residents(words.data()) == bit_of(host));
  CHECK(stage().residents(words.data() + region_words) == bit_of(device1));
}

TEST_CASE("memory that is freed while a third party holds it is released when it is put",
          "[system]") {
  stage();
  const bool managed = GENERATE(false, true);
  std::uint64_t* words = nullptr;
  if (managed) {
    CUdeviceptr address = 0;
    WHERRY_TRY(cuMemAllocManaged(&address, mebibyte, CU_MEM_ATTACH_GLOBAL));
    words = reinterpret_cast<std::uint64_t*>(address);
  } else {
    words = allocate_own(mebibyte);
  }
  stage().write(device0, words, 9);
  const unsigned token = token_of(words);
  std::vector<wherryPageExtent> extents(4);
  REQUIRE(get(token, words, page_bytes, extents) == CUDA_SUCCESS);
  free_memory(words);
  CHECK(cuMemFree(reinterpret_cast<CUdeviceptr>(words)) == CUDA_ERROR_INVALID_VALUE);
  std::vector<wherryPageExtent> late(4);
  CHECK(get(token, words, page_bytes, late) == CUDA_ERROR_INVALID_VALUE);
  CHECK(scene().other.add(extents, words, 1) == 9);
  CHECK(scene().other.add(extents, words, 1) == 10);
  CHECK(stage().residents(words) == bit_of(device0));
  REQUIRE(put(token, words, page_bytes) == CUDA_SUCCESS);
  CHECK(stage().residents(words) == 0);
  CHECK(put(token, words, page_bytes) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("only a caller with the tokens of an allocation gets its pages", "[system]") {
  std::uint64_t* const words = allocate_own(mebibyte);
  const unsigned token = token_of(words);
  const auto address = reinterpret_cast<CUdeviceptr>(words);
  wherryPageExtent extent{};
  std::size_t count = 1;
  const auto refused = [&](unsigned long long p2p, unsigned space, CUdeviceptr at,
                           std::size_t bytes) {
    CHECK(wherryGetP2PPages(p2p, space, at, bytes, &extent, &count) == CUDA_ERROR_INVALID_VALUE);
  };
  refused(1, token, address, page_bytes);
  refused(0, token + 1, address, page_bytes);
  refused(0, token, address, 0);
  refused(0, token, address, mebibyte + 1);
  refused(0, token, address + mebibyte, 1);
  refused(0, token, address + 8, ~std::size_t{0});
  refused(0, token, 0, page_bytes);
  CHECK(wherryGetP2PPages(0, token, address, 1, &extent, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryGetP2PPages(0, token, address, 1, nullptr, &count) == CUDA_ERROR_INVALID_VALUE);
  count = 0;
  CHECK(wherryGetP2PPages(0, token, address, 1, nullptr, &count) == CUDA_ERROR_INVALID_VALUE);
  CHECK(count == 1);
  free_memory(words);

  CUdeviceptr pooled = 0;
  WHERRY_TRY(cuMemAllocAsync(&pooled, page_bytes, stage().session().stream(device0)));
  const unsigned its = token_of(reinterpret_cast<std::uint64_t*>(pooled));
  CHECK(wherryGetP2PPages(0, its, pooled, 1, &extent, &count) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemFree(pooled) == CUDA_SUCCESS);
}

}  // namespace wherry::test::p2p_pages_test
