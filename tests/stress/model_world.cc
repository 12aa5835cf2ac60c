#include "stress/model_world.h"

#include <sys/mman.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace wherry::test {
namespace {

constexpr unsigned all_devices = (1u << model_devices) - 1;
constexpr auto limit_to_free = std::chrono::seconds{10};

void* private_pages(std::size_t bytes) {
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(pages != MAP_FAILED, "mmap");
  return pages;
}

// The kind of memory of a lane's allocation; half of the allocations are managed.
Memory drawn_memory(unsigned variant) {
  constexpr std::array choices{Memory::managed,    Memory::managed,  Memory::managed,
                               Memory::managed,    Memory::managed,  Memory::managed,
                               Memory::managed,    Memory::managed,  Memory::device,
                               Memory::device,     Memory::pool,     Memory::pool,
                               Memory::host,       Memory::host,     Memory::write_combined,
                               Memory::registered, Memory::pageable, Memory::mapped};
  return choices[variant % choices.size()];
}

}  // namespace

World::World(const Settings& settings, Board& board)
    : settings_(settings),
      board_(board),
      session_(settings.devices.c_str()),
      lanes_(static_cast<std::ptrdiff_t>(settings.lanes)),
      slots_(slots_max) {
  for (int device = 0; device < model_devices; ++device) let_peers_in(device);
  if (settings.peers) {
    for (int device = 0; device < model_devices; ++device) {
      CUmemoryPool pool = nullptr;
      WHERRY_TRY(cuDeviceGetDefaultMemPool(&pool, device));
      std::vector<CUmemAccessDesc> access;
      for (int peer = 0; peer < model_devices; ++peer) {
        if (peer != device)
          access.push_back(
              {{CU_MEM_LOCATION_TYPE_DEVICE, peer}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
      }
      WHERRY_TRY(cuMemPoolSetAccess(pool, access.data(), access.size()));
    }
  }
  note_processes();
}

void World::check(CUresult result, const char* call, std::size_t operation) const {
  board_.count();
  if (result == CUDA_SUCCESS) return;
  fail(board_, operation, std::string{call} + " answered " + name_of(result));
}

void World::let_peers_in(int device) {
  if (!settings_.peers) return;
  for (int peer = 0; peer < model_devices; ++peer) {
    if (peer == device) continue;
    for (const auto& [user, owner] : {std::pair{device, peer}, std::pair{peer, device}}) {
      WHERRY_TRY(cuCtxSetCurrent(session_.context(user)));
      const CUresult result = cuCtxEnablePeerAccess(session_.context(owner), 0);
      if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) WHERRY_TRY(result);
    }
  }
}

void World::note_processes() {
  for (int device = 0; device < model_devices; ++device)
    board_.devices[device].store(device_process(device));
}

Slot World::make_host_memory(std::size_t bytes, unsigned flags, std::size_t operation) {
  void* address = nullptr;
  const CUresult result = cuMemHostAlloc(&address, bytes, flags);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return {};
  MODEL_TRY(*this, operation, result);
  CUdeviceptr for_kernels = 0;
  MODEL_TRY(*this, operation, cuMemHostGetDevicePointer(&for_kernels, address, 0));
  return {flags == 0 ? Memory::host : Memory::write_combined,
          0,
          bytes,
          address,
          reinterpret_cast<void*>(for_kernels),
          all_devices};
}

Slot World::make_registered(std::size_t bytes, std::size_t operation) {
  void* const address = private_pages(bytes);
  const CUresult result = cuMemHostRegister(address, bytes, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    ::munmap(address, bytes);
    return {};
  }
  MODEL_TRY(*this, operation, result);
  CUdeviceptr for_kernels = 0;
  MODEL_TRY(*this, operation, cuMemHostGetDevicePointer(&for_kernels, address, 0));
  return {Memory::registered, 0, bytes, address, reinterpret_cast<void*>(for_kernels), all_devices};
}

Slot World::make_mapped(int device, bool for_host, std::size_t operation) {
  constexpr std::size_t bytes = std::size_t{2} << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  if (for_host) properties.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = cuMemCreate(&handle, bytes, &properties, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return {};
  MODEL_TRY(*this, operation, result);
  CUdeviceptr address = 0;
  MODEL_TRY(*this, operation, cuMemAddressReserve(&address, bytes, 0, 0, 0));
  MODEL_TRY(*this, operation, cuMemMap(address, bytes, 0, handle, 0));
  MODEL_TRY(*this, operation, cuMemRelease(handle));
  std::vector<CUmemAccessDesc> access;
  for (int user = 0; user < model_devices; ++user)
    access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, user}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  if (for_host)
    access.push_back({{CU_MEM_LOCATION_TYPE_HOST, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  MODEL_TRY(*this, operation, cuMemSetAccess(address, bytes, access.data(), access.size()));
  void* const pointer = reinterpret_cast<void*>(address);
  return {Memory::mapped, device, bytes, for_host ? pointer : nullptr, pointer, all_devices};
}

void World::allocate(unsigned number, unsigned pages, unsigned variant, int device, CUstream stream,
                     std::size_t operation) {
  const std::size_t bytes = pages * model_page;
  const unsigned peers = settings_.peers ? all_devices : 1u << device;
  const Memory memory = drawn_memory(variant);
  CUdeviceptr address = 0;
  Slot& slot = slots_[number];
  switch (memory) {
    case Memory::none:
      return;
    case Memory::managed:
      if (const CUresult result = cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL);
          result != CUDA_ERROR_OUT_OF_MEMORY)
        MODEL_TRY(*this, operation, result);
      break;
    case Memory::device:
      if (const CUresult result = cuMemAlloc(&address, bytes); result != CUDA_ERROR_OUT_OF_MEMORY)
        MODEL_TRY(*this, operation, result);
      break;
    case Memory::pool:
      if (const CUresult result = cuMemAllocAsync(&address, bytes, stream);
          result != CUDA_ERROR_OUT_OF_MEMORY)
        MODEL_TRY(*this, operation, result);
      // New memory of a pool has undefined contents.
      if (address != 0)
        MODEL_TRY(*this, operation, cuMemsetD32Async(address, 0, bytes / 4, stream));
      break;
    case Memory::host:
      slot = make_host_memory(bytes, 0, operation);
      return;
    case Memory::write_combined:
      slot = make_host_memory(bytes, CU_MEMHOSTALLOC_WRITECOMBINED, operation);
      return;
    case Memory::registered:
      slot = make_registered(bytes, operation);
      return;
    case Memory::pageable:
      slot = {memory, 0, bytes, private_pages(bytes), nullptr, 0};
      return;
    case Memory::mapped:
      slot = make_mapped(device, pages % 2 == 0, operation);
      return;
  }
  if (address == 0) return;
  void* const pointer = reinterpret_cast<void*>(address);
  const bool managed = memory == Memory::managed;
  slot = {
      memory, device, bytes, managed ? pointer : nullptr, pointer, managed ? all_devices : peers};
}

void World::allocate_shared(unsigned number, unsigned pages, std::size_t operation) {
  Slot& slot = slots_[number];
  if (slot.exists()) return;
  CUdeviceptr address = 0;
  const std::size_t bytes = pages * model_page;
  MODEL_TRY(*this, operation, cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL));
  void* const pointer = reinterpret_cast<void*>(address);
  slot = {Memory::managed, 0, bytes, pointer, pointer, all_devices};
  slot.share(settings_.lanes, settings_.stripe);
  if (number == counter_slot) slot.make_counters();
}

void World::release(unsigned number, CUstream stream, std::size_t operation) {
  Slot& slot = slots_[number];
  switch (slot.memory()) {
    case Memory::none:
      return;
    case Memory::managed:
    case Memory::device:
      MODEL_TRY(*this, operation, cuMemFree(slot.known()));
      break;
    case Memory::pool:
      MODEL_TRY(*this, operation, cuMemFreeAsync(slot.known(), stream));
      break;
    case Memory::host:
    case Memory::write_combined:
      MODEL_TRY(*this, operation, cuMemFreeHost(slot.for_host()));
      break;
    case Memory::registered:
      MODEL_TRY(*this, operation, cuMemHostUnregister(slot.for_host()));
      if (std::memcmp(slot.for_host(), slot.model(), slot.bytes()) != 0)
        fail(board_, operation, "memory that was registered has other contents");
      ::munmap(slot.for_host(), slot.bytes());
      break;
    case Memory::pageable:
      ::munmap(slot.for_host(), slot.bytes());
      break;
    case Memory::mapped:
      MODEL_TRY(*this, operation, cuMemUnmap(slot.known(), slot.bytes()));
      MODEL_TRY(*this, operation, cuMemAddressFree(slot.known(), slot.bytes()));
      break;
  }
  slot = {};
}

void World::compare(unsigned variant, std::size_t operation) {
  for (unsigned number = 0; number < slots_max; ++number) {
    Slot& slot = slots_[number];
    slot.settle_counters();
    if (slot.exists()) compare(slot, number, variant >> number % 16, operation);
    board_.beats.fetch_add(1, std::memory_order_relaxed);
  }
}

// `variant` selects whether the host reads the contents, a copy does, or a device.
void World::compare(Slot& slot, unsigned number, unsigned variant, std::size_t operation) {
  const int device = slot.is_for_device(static_cast<int>(variant / 4 % model_devices))
                         ? static_cast<int>(variant / 4 % model_devices)
                         : slot.device();
  if (variant % 4 == 0 && slot.is_for_device(device)) {
    Touch touch{slot.for_kernels(),
                0,
                static_cast<std::uint32_t>(slot.bytes()),
                1,
                Touch::Kind::read,
                static_cast<std::uint32_t>(operation),
                slot.hash(),
                0};
    session_.launch(device, 1, [board = &board_, touch](std::size_t) { perform(*board, touch); });
    MODEL_TRY(*this, operation, session_.wait(device));
    return;
  }
  std::vector<std::uint8_t> copied;
  const std::uint8_t* seen = reinterpret_cast<const std::uint8_t*>(slot.for_host());
  if (seen == nullptr || (variant % 4 != 1 && slot.memory() != Memory::pageable)) {
    copied.resize(slot.bytes());
    MODEL_TRY(*this, operation, cuMemcpyDtoH(copied.data(), slot.known(), slot.bytes()));
    seen = copied.data();
  }
  for (std::size_t i = 0; i < slot.bytes(); ++i) {
    if (seen[i] == slot.model()[i]) continue;
    const std::size_t word = i / 8 * 8;
    std::uint64_t wrong = 0, right = 0;
    std::memcpy(&wrong, seen + word, 8);
    std::memcpy(&right, slot.model() + word, 8);
    char text[200];
    std::snprintf(text, sizeof text, "slot %u byte %zu %s: %llx instead of %llx", number, i,
                  copied.empty() ? "seen by the host" : "copied",
                  static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(right));
    fail(board_, operation, text);
  }
}

void World::fail_device(int device, std::size_t operation) {
  auto* const nowhere = reinterpret_cast<volatile int*>(std::uintptr_t{1} << 20);
  session_.launch(device, 1, [nowhere](std::size_t) { *nowhere = 1; });
  const auto require = [&](CUresult result, const char* what) {
    board_.count();
    if (result != CUDA_ERROR_ILLEGAL_ADDRESS)
      fail(board_, operation,
           std::string{what} + " answered " + name_of(result) +
               " after a kernel had accessed an unmapped address");
  };
  require(session_.wait(device), "cuStreamSynchronize");
  WHERRY_TRY(cuCtxSetCurrent(session_.context(device)));
  require(cuCtxSynchronize(), "cuCtxSynchronize");
  MODEL_TRY(*this, operation, cuDevicePrimaryCtxReset(device));
  session_.renew_stream(device);
  let_peers_in(device);
  note_processes();
}

void World::finish() {
  const std::size_t after_all = UINT32_MAX;
  for (unsigned number = 0; number < slots_max; ++number)
    release(number, session_.stream(slots_[number].device()), after_all);
  for (int device = 0; device < model_devices; ++device) {
    WHERRY_TRY(session_.wait(device));
    CUmemoryPool pool = nullptr;
    WHERRY_TRY(cuDeviceGetDefaultMemPool(&pool, device));
    WHERRY_TRY(cuMemPoolTrimTo(pool, 0));
  }
  const auto deadline = std::chrono::steady_clock::now() + limit_to_free;
  for (int processor = 0; processor <= model_devices; ++processor) {
    while (witness_.pool_bytes(processor) != 0) {
      if (std::chrono::steady_clock::now() > deadline)
        fail(board_, after_all,
             "all memory is freed, and the pool of processor " + std::to_string(processor) +
                 " has " + std::to_string(witness_.pool_bytes(processor)) + " bytes");
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }
}

}  // namespace wherry::test
