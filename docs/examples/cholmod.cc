// A library of others, CHOLMOD of SuiteSparse, solves a sparse system with all of its memory in
// managed memory, on threads that count as a device.
//
//   cholmod [SIDE]
//
// The system is the 3D Poisson equation on SIDE x SIDE x SIDE points. CHOLMOD factors its matrix,
// and solves it with the factor. The device may be smaller than the factor. Without WHERRY_DEVICES
// there is one coherent device.
#include <suitesparse/cholmod.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <memory_resource>

#include "example.h"

namespace {

using Malloc = void* (*)(std::size_t);
using Calloc = void* (*)(std::size_t, std::size_t);
using Realloc = void* (*)(void*, std::size_t);
using Free = void (*)(void*);

// The size of CHOLMOD's largest team. Before version 7 it is fixed, whatever OMP_NUM_THREADS says.
#if SUITESPARSE_MAIN_VERSION >= 7
constexpr int team_size = 4;
void limit_team(cholmod_common& common) {
  common.nthreads_max = team_size;
}
void set_functions(Malloc malloc, Calloc calloc, Realloc realloc, Free free) {
  SuiteSparse_config_malloc_func_set(malloc);
  SuiteSparse_config_calloc_func_set(calloc);
  SuiteSparse_config_realloc_func_set(realloc);
  SuiteSparse_config_free_func_set(free);
}
#else
constexpr int team_size = CHOLMOD_OMP_NUM_THREADS;
void limit_team(cholmod_common&) {}
void set_functions(Malloc malloc, Calloc calloc, Realloc realloc, Free free) {
  SuiteSparse_config.malloc_func = malloc;
  SuiteSparse_config.calloc_func = calloc;
  SuiteSparse_config.realloc_func = realloc;
  SuiteSparse_config.free_func = free;
}
#endif

// What CHOLMOD calls instead of malloc() and the like. They are C functions: they may not throw.
// Like malloc(), they remember each block's size in front of it.
class Allocator {
 public:
  static void use() { set_functions(allocate, allocate_zeros, reallocate, release); }
  // The bytes of all live blocks.
  static std::size_t in_use() { return in_use_; }

 private:
  static constexpr std::size_t alignment = 64;  // and the space in front of a block

  static std::pmr::memory_resource& memory() {
    // Managed allocations are whole pages, so small blocks come from a pool of them.
    static wherry::managed_resource pages;
    static std::pmr::synchronized_pool_resource pool(&pages);
    return pool;
  }
  static std::size_t& size_of(void* block) {
    return *reinterpret_cast<std::size_t*>(static_cast<char*>(block) - alignment);
  }
  // Whole multiples of the alignment: the pools of libstdc++ 12 align no other sizes.
  static std::size_t with_front(std::size_t size) {
    return alignment + (size + alignment - 1) / alignment * alignment;
  }
  static void* allocate(std::size_t size) {
    if (size > SIZE_MAX - 2 * alignment) return nullptr;
    try {
      void* const block =
          static_cast<char*>(memory().allocate(with_front(size), alignment)) + alignment;
      in_use_ += size_of(block) = size;
      return block;
    } catch (const std::exception&) {
      return nullptr;  // CHOLMOD reports CHOLMOD_OUT_OF_MEMORY
    }
  }
  static void* allocate_zeros(std::size_t count, std::size_t size) {
    if (size != 0 && count > SIZE_MAX / size) return nullptr;
    void* const block = allocate(count * size);
    if (block != nullptr) std::memset(block, 0, count * size);
    return block;
  }
  static void* reallocate(void* block, std::size_t size) {
    if (block == nullptr) return allocate(size);
    void* const larger = allocate(size);
    if (larger == nullptr) return nullptr;  // the block stays
    std::memcpy(larger, block, std::min(size, size_of(block)));
    release(block);
    return larger;
  }
  static void release(void* block) {
    if (block == nullptr) return;
    const std::size_t size = size_of(block);
    in_use_ -= size;
    memory().deallocate(static_cast<char*>(block) - alignment, with_front(size), alignment);
  }

  static inline std::atomic<std::size_t> in_use_ = 0;
};

// OpenMP keeps the threads of a team, so those that this region attaches are those that work for
// CHOLMOD. (The BLAS calls of CHOLMOD run on the calling thread, unless the BLAS library has
// threads of its own.)
void attach_team(const wherry::device& device) {
  int failures = 0;
#pragma omp parallel num_threads(team_size) reduction(+ : failures)
  failures += wherryThreadAttach(device.ordinal()) == CUDA_SUCCESS ? 0 : 1;
  if (failures > 0) throw std::runtime_error("a thread could not be attached");
}

class Cholmod {
 public:
  Cholmod() {
    Allocator::use();
    cholmod_l_start(&common_);
    limit_team(common_);
    common_.supernodal = CHOLMOD_SUPERNODAL;  // the kind of factor that OpenMP and BLAS work on
    // One ordering, AMD: that of METIS would allocate with malloc().
    common_.nmethods = 1;
    common_.method[0].ordering = CHOLMOD_AMD;
    common_.print = 0;  // errors are thrown
  }
  ~Cholmod() { cholmod_l_finish(&common_); }
  Cholmod(const Cholmod&) = delete;
  Cholmod& operator=(const Cholmod&) = delete;

  cholmod_common* common() { return &common_; }
  // Throws if the last call has failed.
  void check(const char* call) const {
    if (common_.status != CHOLMOD_OK)
      throw std::runtime_error(std::string(call) + ": " +
                               (common_.status == CHOLMOD_OUT_OF_MEMORY
                                    ? "out of memory"
                                    : "status " + std::to_string(common_.status)));
  }

 private:
  cholmod_common common_;
};

// One of CHOLMOD's objects, with the function that frees it.
template <typename T, int (*Free)(T**, cholmod_common*)>
class Object {
 public:
  Object(Cholmod& cholmod, const char* call, T* object) : cholmod_(cholmod), object_(object) {
    cholmod.check(call);
  }
  ~Object() { Free(&object_, cholmod_.common()); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  T* get() const { return object_; }
  T* operator->() const { return object_; }

 private:
  Cholmod& cholmod_;
  T* object_;
};
using Sparse = Object<cholmod_sparse, cholmod_l_free_sparse>;
using Dense = Object<cholmod_dense, cholmod_l_free_dense>;
using Factor = Object<cholmod_factor, cholmod_l_free_factor>;
using Triplet = Object<cholmod_triplet, cholmod_l_free_triplet>;

// The upper triangle of the symmetric matrix.
cholmod_sparse* poisson(Cholmod& cholmod, std::size_t side) {
  const std::size_t points = side * side * side;
  Triplet elements(
      cholmod, "cholmod_l_allocate_triplet",
      cholmod_l_allocate_triplet(points, points, points, 1, CHOLMOD_REAL, cholmod.common()));
  const auto put = [&](std::size_t row, std::size_t column, double value) {
    if (elements->nnz == elements->nzmax) {
      cholmod_l_reallocate_triplet(2 * elements->nzmax, elements.get(), cholmod.common());
      cholmod.check("cholmod_l_reallocate_triplet");
    }
    const std::size_t next = elements->nnz++;
    static_cast<SuiteSparse_long*>(elements->i)[next] = static_cast<SuiteSparse_long>(row);
    static_cast<SuiteSparse_long*>(elements->j)[next] = static_cast<SuiteSparse_long>(column);
    static_cast<double*>(elements->x)[next] = value;
  };
  for (std::size_t point = 0; point < points; ++point) {
    put(point, point, 6);
    if (point % side > 0) put(point - 1, point, -1);
    if (point / side % side > 0) put(point - side, point, -1);
    if (point / side / side > 0) put(point - side * side, point, -1);
  }
  return cholmod_l_triplet_to_sparse(elements.get(), 0, cholmod.common());
}

// How far the solution is from that of a system nearby: |b - A x| / (|A| |x| + |b|), all maximum
// norms. Rounding alone gives about 1e-16.
double backward_error(Cholmod& cholmod, const Sparse& matrix, const Dense& solution,
                      const Dense& right_side) {
  double one[] = {1, 0}, minus_one[] = {-1, 0};
  Dense rest(cholmod, "cholmod_l_copy_dense",
             cholmod_l_copy_dense(right_side.get(), cholmod.common()));
  cholmod_l_sdmult(matrix.get(), 0, minus_one, one, solution.get(), rest.get(), cholmod.common());
  cholmod.check("cholmod_l_sdmult");
  const auto norm = [&](const Dense& vector) {
    return cholmod_l_norm_dense(vector.get(), 0, cholmod.common());
  };
  return norm(rest) / (cholmod_l_norm_sparse(matrix.get(), 0, cholmod.common()) * norm(solution) +
                       norm(right_side));
}

// Returns whether the result is right.
bool run(std::size_t side) {
  setenv("WHERRY_DEVICES", "kind=coherent", /*overwrite=*/0);
  wherry::runtime runtime;
  example::require_coherent_devices(runtime, 1);
  const wherry::device device = runtime.device(0);
  attach_team(device);

  Cholmod cholmod;
  Sparse matrix(cholmod, "cholmod_l_triplet_to_sparse", poisson(cholmod, side));
  Dense right_side(cholmod, "cholmod_l_ones",
                   cholmod_l_ones(matrix->nrow, 1, CHOLMOD_REAL, cholmod.common()));
  Factor factor(cholmod, "cholmod_l_analyze", cholmod_l_analyze(matrix.get(), cholmod.common()));
  cholmod_l_factorize(matrix.get(), factor.get(), cholmod.common());
  cholmod.check("cholmod_l_factorize");
  Dense solution(cholmod, "cholmod_l_solve",
                 cholmod_l_solve(CHOLMOD_A, factor.get(), right_side.get(), cholmod.common()));

  const std::span<const double> numbers(static_cast<const double*>(factor->x), factor->xsize);
  example::Residency pages(runtime, 0);
  pages.add(numbers);  // throws if they are not managed memory
  std::printf("a factor of %.1f MiB on a device of %.1f MiB\n",
              static_cast<double>(numbers.size_bytes()) / (1 << 20),
              static_cast<double>(device.total_memory()) / (1 << 20));
  std::printf("%s of CHOLMOD's memory is managed\n",
              Allocator::in_use() == cholmod.common()->memory_inuse ? "all" : "NOT all");
  std::printf("%s of the factor's pages are in the device's memory\n", pages.word());
  const wherryStats stats = runtime.stats();
  std::printf("the device has evicted %s pages\n", stats.processor[1].evicted > 0 ? "some" : "no");
  std::printf(
      "threads that do not count as the device had %s faults\n",
      stats.processor[0].faults_missing + stats.processor[0].faults_minor > 0 ? "some" : "no");
  const double error = backward_error(cholmod, matrix, solution, right_side);
  std::printf("backward error %s\n", error < 1e-14 ? "below 1e-14" : "TOO LARGE");
  return error < 1e-14;
}

}  // namespace

int main(int argc, char** argv) {
  return example::report_errors("cholmod", [&] {
    if (argc > 2) throw std::invalid_argument("usage: cholmod [SIDE]");
    return run(argc == 2 ? example::number("SIDE", argv[1], 2, 64) : 24) ? 0 : 1;
  });
}
