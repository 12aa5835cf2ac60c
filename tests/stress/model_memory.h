// Memory of every kind in the API. Each piece has a model in ordinary memory: the bytes that it
// must hold. Also the accesses to it, which the host, kernels and host functions execute with the
// same code.
//
// A slot belongs to one lane, or is shared. Stripes of a shared slot belong to the lanes in turn,
// so lanes never write each other's bytes, but often each other's pages. Lanes may use different
// bytes of a shared slot at the same time; a slot is allocated and freed while no lane uses it.
#pragma once

#include <wherry/cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stress/model_script.h"

namespace wherry::test {

inline constexpr std::size_t word_bytes = sizeof(std::uint64_t);

inline constexpr std::size_t model_page = 4096;

// State in memory that all processes of a case share, also with the parent that watches them.
struct Board {
  static constexpr int exit_code = 3;  // the exit code of a process that recorded a failure here
  enum : std::uint32_t {
    good,
    failing,
    failed
  };

  std::atomic<std::uint64_t> operations;  // calls of the API, and accesses
  std::atomic<std::uint64_t> beats;       // changes while the process makes progress
  std::atomic<std::uint64_t> migrated, evicted, duplicated, collapsed, remote;
  std::atomic<int> devices[model_devices];  // process ids
  std::atomic<std::uint32_t> state;
  std::uint32_t operation;  // the operation of the script that failed
  char what[1000];

  void count(std::uint64_t number = 1) {
    operations.fetch_add(number, std::memory_order_relaxed);
    beats.fetch_add(1, std::memory_order_relaxed);
  }
};

// Records the first failure of a process. Kernels may call it.
void note_failure(Board& board, std::size_t operation, const char* what);
// Records a failure like note_failure(), and ends this process.
[[noreturn]] void fail(Board& board, std::size_t operation, const std::string& what);

// Rows of equal length in a slot.
struct View {
  std::size_t offset = 0;
  std::size_t width = 0;
  std::size_t height = 1;
  std::size_t pitch = 0;

  std::size_t end() const { return offset + (height - 1) * pitch + width; }
};

struct Touch {
  enum class Kind : std::uint32_t {
    write,
    read,
    increment,
    count_up
  };
  std::byte* address = nullptr;
  std::uint64_t pitch = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  Kind kind = Kind::read;
  std::uint32_t operation = 0;
  std::uint64_t value =
      0;  // read: the hash of what must be there; increment, count_up: the summand
  std::uint64_t offset = 0;  // the address's offset in the slot; written values depend on it
};

// Executes an access. Requires: whole words. A read of other data than expected is recorded as a
// failure.
void perform(Board& board, const Touch& touch);

enum class Memory {
  none,
  managed,
  device,
  pool,
  mapped,  // cuMemCreate and cuMemMap
  host,
  write_combined,
  registered,
  pageable
};

class Slot {
 public:
  // The expected attributes of a page, in the API's terms. Only kept for slots of one lane.
  struct Page {
    bool touched = false;
    bool read_mostly = false;
    CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
    std::uint32_t accessed_by = 0;  // bit 0 the host, 1 + n device n
  };

  Slot() = default;
  // Memory at these addresses; an address is null if the host, or kernels, cannot access it.
  // `devices` is a mask of the devices whose kernels can.
  Slot(Memory memory, int device, std::size_t bytes, void* for_host, void* for_kernels,
       unsigned devices);

  // Divides the slot between lanes.
  void share(unsigned lanes, unsigned stripe);
  void make_counters();

  Memory memory() const { return memory_; }
  bool exists() const { return memory_ != Memory::none; }
  bool is_shared() const { return lanes_ > 1; }
  int device() const { return device_; }
  std::size_t bytes() const { return model_.size(); }
  std::byte* for_host() const { return for_host_; }
  std::byte* for_kernels() const { return for_kernels_; }
  bool is_for_device(int device) const {
    return for_kernels_ != nullptr && (devices_ >> device & 1) != 0;
  }
  // An address that the API accepts; for pageable memory the host's address.
  CUdeviceptr known(std::size_t offset = 0) const;
  std::vector<Page>& pages() { return pages_; }

  // The lane's bytes from its byte `first` on, about `count` of them, both rounded to multiples of
  // `unit`. Returns nullopt if the slot has no such bytes.
  std::optional<View> view(unsigned lane, std::size_t first, std::size_t count,
                           std::size_t unit) const;

  // An access at this address: the data that a read must find, or that a write leaves in the model.
  Touch touch(Touch::Kind kind, const View& view, std::byte* base, std::size_t operation);
  Touch count_up(std::size_t first, std::size_t words, std::byte* base, std::size_t operation);
  void fill(const View& view, const void* pattern, std::size_t pattern_bytes);
  // Requires: the views have equal widths and heights.
  void copy_from(const Slot& source, const View& from, const View& to);

  const std::uint8_t* model() const { return model_.data(); }
  // Writes the sums of all lanes' additions to the counters into the model.
  void settle_counters();
  std::uint64_t hash() const;

 private:
  Memory memory_ = Memory::none;
  int device_ = 0;
  std::byte* for_host_ = nullptr;
  std::byte* for_kernels_ = nullptr;
  unsigned devices_ = 0;
  unsigned lanes_ = 1;
  std::size_t stripe_ = 0;
  std::vector<std::uint8_t> model_;
  std::vector<Page> pages_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> counters_;
};

}  // namespace wherry::test
