// Builds, wires and owns every part: processors with their pools, the page engine, the fault
// daemon, device processes. There is at most one in a process; it is never destroyed, because
// threads may touch managed memory until the very end of the process, and whatever it holds ends
// with the process.
//
// Functions are thread-safe unless they say otherwise. Offsets and sizes are bytes.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "devices/annex.h"
#include "devices/device_process.h"
#include "devices/live_devices.h"
#include "devices/managed_sections.h"
#include "devices/trap.h"
#include "faults/fault_daemon.h"
#include "memory/arena.h"
#include "memory/page_owners.h"
#include "memory/staging_memory.h"
#include "migration/advice_effects.h"
#include "migration/background_evictor.h"
#include "migration/copy_engine.h"
#include "migration/evictor.h"
#include "migration/prefetcher.h"
#include "migration/view_switcher.h"
#include "pages/address_space.h"
#include "pages/advice.h"
#include "pages/memory_records.h"
#include "policy/policy.h"
#include "runtime/copy_settings.h"
#include "runtime/host_memory.h"
#include "runtime/policy_source.h"
#include "runtime/topology.h"
#include "wherry/wherry.h"

namespace wherry::impl {

// How many bytes of the program's memory may wait for their turn in streams, so that the calls that
// copy them return at once. The usual sizes of such copies fit several times.
inline constexpr std::size_t staging_bytes_max = std::size_t{32} << 20;

struct RuntimeOptions {
  Topology topology;
  std::vector<int> handler_cpus;              // a fault handler on each
  std::vector<int> copier_cpus;               // copiers run on these; empty: on any
  UffdAccess uffd_access = UffdAccess::full;  // none: mprotect traps
  std::size_t arena_bytes = 0;
  unsigned region_pages =
      pages_per_region;  // how much a fault brings along: a power of two, 1 to 512
  // What decides where the program's advice leaves room; empty: the usual policy.
  PolicySource policy;
  std::uint64_t mappings_budget =
      0;  // of one process, beyond which remote ones are declined; 0: no limit
  CopySettings copying;
  // Fewer are prefetched, or evicted, under their block's lock, a region at a time.
  unsigned transfer_pages_min = usual_transfer_pages_min;
  bool launches_block = false;  // each waits until its kernel has finished
  // Tests put themselves between the engine and the kernel here, to delay or fail single steps.
  std::function<std::unique_ptr<Mapper>(Processor, Mapper&)> wrap_mapper;
  std::function<std::unique_ptr<PoolFile>(Processor, PoolFile&)> wrap_pool;
  std::function<std::unique_ptr<ViewChanger>(Processor, ViewChanger&)> wrap_changer;
  std::function<std::unique_ptr<CopyBackend>(std::unique_ptr<CopyBackend>)> wrap_backend;

  // Whether system calls that are given managed memory find it wherever it is, as touches do.
  bool serves_system_calls() const { return impl::serves_system_calls(uffd_access); }
};

// Why there are no options.
struct OptionsError {
  enum class Kind {
    malformed,
    not_permitted,  // nothing is malformed: what was asked for cannot be had here
    no_device,      // the program is to see none
  };
  Kind kind = Kind::malformed;
  std::string message;  // one line that says what is wrong and where; empty: nothing is
};

struct PageWhereabouts {
  ProcessorMask resident = 0;
  ProcessorMask mapped = 0;
  ProcessorMask writable = 0;  // of those
  int node = -1;               // of the copy; -1 when the page is nowhere
};

// Why it is where it is.
struct PageExplanation {
  PageWhereabouts where;
  Advice advice;
  std::vector<DecisionRecord> decisions;  // the newest first
};

class Runtime {
 public:
  // Options from the machine and the environment (WHERRY_DEVICES, WHERRY_HOST_NODES,
  // WHERRY_HOST_CAPACITY, WHERRY_FAULT_REGION, WHERRY_COPIERS, WHERRY_HUGE_PAGES, WHERRY_TRAP,
  // CUDA_VISIBLE_DEVICES, CUDA_LAUNCH_BLOCKING, and WHERRY_POLICY unless a policy is chosen
  // already). Nothing: `error` says why.
  static std::optional<RuntimeOptions> options_from_environment(OptionsError& error,
                                                                const PolicySource& chosen = {});

  // Forks the device processes and starts the fault daemon. Throws std::system_error.
  explicit Runtime(const RuntimeOptions& options);
  ~Runtime();

  int device_count() const { return static_cast<int>(options_.topology.devices.size()); }
  const DeviceConfig& device_config(int device) const {
    return options_.topology.devices[static_cast<std::size_t>(device)];
  }
  // The device that has this number (DeviceConfig) in every process; nothing: this one does not see
  // it.
  std::optional<int> ordinal_of(int number) const;
  const RuntimeOptions& options() const { return options_; }
  const Topology& topology() const { return options_.topology; }
  const ArenaLayout& layout() const { return arena_.layout(); }
  std::size_t metadata_bytes_per_block() const { return blocks_.bytes_per_block(); }

  // Managed memory of `bytes` > 0, zero until written. Nothing: the arena has no room, or all pools
  // together have not, or the kernel refused.
  std::optional<Allocation> allocate(std::size_t bytes, unsigned flags) EXCLUDES(arena_lock_);
  // Memory for its audience (Ownership) only, zero until written, with all its pages in the pool of
  // the owner's device until it is freed. Managed memory leaves the pool for it. Nothing: there is
  // no such room.
  std::optional<Allocation> allocate_device(std::size_t bytes, Ownership owner)
      EXCLUDES(arena_lock_, advice_lock_);
  // The same in two steps, so that pages come with their use: the room is the owner's from the
  // first on. False: the pages, which are some of such memory, cannot all be had.
  std::optional<Allocation> reserve_device(std::size_t bytes, Ownership owner)
      EXCLUDES(arena_lock_, advice_lock_);
  [[nodiscard]] bool create_device(std::uintptr_t address, std::size_t bytes, int device);
  // An audience with this device alone in it, for memory of a pool. Nothing: there are as many as
  // there can be.
  std::optional<unsigned> begin_audience(int device) EXCLUDES(audiences_lock_);
  // Nothing is allocated for it any more.
  void end_audience(unsigned audience) EXCLUDES(audiences_lock_);
  // The device may touch the audience's memory from now on, where it is; or not any more: then its
  // mappings are gone when this returns. One at a time for each audience.
  void admit(unsigned audience, int device);
  void exclude(unsigned audience, int device);
  // Memory of the host that every device sees, too (host_memory.h), in the host's pool. Nothing:
  // there is no such room.
  std::optional<HostRange> allocate_host(std::size_t bytes, bool apart);
  // Requires: nobody uses it any more.
  void free_host(const HostRange& range);
  // Room in p's pool for memory that lies in a file of its own; managed memory leaves the pool for
  // it. False: there is none.
  [[nodiscard]] bool take_room(Processor p, std::uint64_t pages);
  // Requires: the pages are gone.
  void give_room_back(Processor p, std::uint64_t pages);
  // Pages of the file come to lie there. Returns 0 or an errno.
  [[nodiscard]] int place(const MemoryFile& file, std::size_t bytes, Location location) const;
  HugePages huge_pages() const { return options_.copying.huge_pages; }
  HostMemory& host_memory() { return host_memory_; }
  Annex& annex() { return annex_; }
  // What the API knows of every address that it gave out or was given. The runtime enters the
  // variables.
  MemoryRecords& memory() { return memory_; }
  // The record of what contains the address, also of a variable of a module that nothing has said
  // of yet.
  std::optional<MemoryRecord> find_memory(std::uintptr_t address);
  // Whether any of it is the library's to place.
  bool overlaps_own(AddressRange range) const;
  // Makes the managed variables of modules that have been loaded since the last call what they are
  // called; they keep their contents and their addresses. Nobody else writes them meanwhile. False:
  // for some there is no room; they stay ordinary memory. Throws std::system_error.
  bool adopt_new_variables() EXCLUDES(arena_lock_, sections_lock_);
  enum class ModuleResult {
    done,
    refused,  // devices cannot have it at its address; the log says why
    no_room,
  };
  // Has the module of this address, `name` for log lines, at the same place in all devices, and its
  // managed variables managed memory; `all_variables`: all its writable memory. Throws
  // std::system_error.
  ModuleResult share_module(const std::string& name, std::uintptr_t address, bool all_variables)
      EXCLUDES(arena_lock_, sections_lock_);
  // Frees the allocation that starts at `address`; false when none does, or it is a variable. Its
  // pages leave every pool at once. Requires: no kernel that may touch it is running or queued.
  bool free(std::uintptr_t address) EXCLUDES(advice_lock_);
  // The live allocation that contains `address`.
  std::optional<Allocation> find(std::uintptr_t address) EXCLUDES(arena_lock_, sections_lock_);
  // Where in all pools the byte is that has this address; nothing: in none.
  std::optional<std::uint64_t> offset_of(std::uintptr_t address) const;
  // Remembers which streams the program says it will use the allocation from.
  void attach(const Allocation& allocation, Attachment attachment) {
    address_space_.attach(allocation, std::move(attachment));
  }
  unsigned attach_flags(const Allocation& allocation) const {
    return address_space_.attach_flags(allocation);
  }
  std::uintptr_t address_of(const Allocation& allocation) const {
    return layout().address_of(allocation.offset / page_size);
  }

  // Whether these are pages of one live managed allocation.
  bool is_managed(PageSpan pages) const;
  // Records what the program says of these pages, and does what follows from it for those that
  // exist. False: they are not (any more) part of one live allocation. Throws std::bad_alloc, and
  // has then changed nothing.
  bool advise(PageSpan pages, const AdviceChange& change) EXCLUDES(advice_lock_);
  enum class PinResult {
    pinned,
    not_managed,  // they are not (any more) part of one live managed allocation
    no_room,      // for pages that did not exist yet
  };
  // Keeps the pages, which all exist then in one copy each, in the pools where they are, until
  // unpin. Changes nothing unless it pins. `fresh`, if there is one: the pages that were not pinned
  // before. Throws std::bad_alloc.
  PinResult pin(PageSpan pages, std::vector<PageSpan>* fresh = nullptr) EXCLUDES(advice_lock_);
  // Lets them move again. False: they are not managed.
  bool unpin(PageSpan pages) EXCLUDES(advice_lock_);
  // Pages that lie one after the other in one pool.
  struct Extent {
    PageSpan pages;
    int fd;
  };
  // Where the pages are, which all exist and cannot move.
  std::vector<Extent> locate(PageSpan pages);
  // Where a device's own memory is.
  struct FilePlace {
    int fd = -1;
    std::uint64_t offset = 0;
  };
  FilePlace file_place(std::uintptr_t address, int device) const;
  // Whether another process has marked any of these bytes of the device's own memory as in use
  // (os/files/range_mark.h).
  bool is_open_elsewhere(std::uintptr_t address, std::size_t bytes, int device) const;
  // While copies are forbidden read-mostly means nothing; existing ones end at once.
  void forbid_copies() { effects_->forbid_copies(); }
  void permit_copies() { effects_->permit_copies(); }
  // What has been said of live pages; of others: nothing.
  const AdviceMap& advice() const { return advice_; }

  // How many bytes the host's pool may hold.
  std::size_t host_capacity() const { return capacity_pages(Processor::host()) * page_size; }
  // Notes where the program wants these pages. False: they are not (any more) part of one live
  // allocation. Throws std::bad_alloc, and has then changed nothing.
  bool note_prefetch(PageSpan pages, Location said) EXCLUDES(advice_lock_);
  // Begins to carry the request out, and returns at once; done() is called once, later, by another
  // thread. Any lock may be held.
  void prefetch(const PrefetchRequest& request, std::function<void()> done);

  // Where bytes of the program's memory wait for their turn in a stream.
  StagingMemory& staging() { return staging_; }
  // Copies and fills memory where it is: CopyEngine has them. The second returns at once and calls
  // done(status) once, later, by another thread; any lock may be held.
  OpStatus copy(const CopyRequest& request) { return copy_engine_->carry(request); }
  void copy(CopyRequest request, std::function<void(OpStatus)> done) {
    copy_engine_->submit(std::move(request), std::move(done));
  }

  // Where the page is that contains `address`; nothing when no live allocation does.
  std::optional<PageWhereabouts> page_whereabouts(std::uintptr_t address);
  // Nothing as there. With at most so many decisions. Throws std::bad_alloc.
  std::optional<PageExplanation> explain(std::uintptr_t address, std::size_t decisions_max);
  wherryStats stats() const;
  // Which blocks left which pool, and for whom.
  EvictionLog& evictions() const { return evictor_->log(); }
  // Bytes of the device's pool that are in use (reserved by pages there, or about to be).
  std::size_t used_bytes(int device) const;

  // The device's process; a new object after restart_device. Never null.
  std::shared_ptr<DeviceProcess> process(int device) const EXCLUDES(arena_lock_);
  // Ends the device's process, if it still runs, and starts a fresh one. Managed memory keeps its
  // contents. Requires: nobody posts launches to the old process any more. Throws
  // std::system_error.
  void restart_device(int device) EXCLUDES(arena_lock_);
  // At the program's end: ends and reaps all device processes; none starts after that.
  void end_devices();

  // Around the application's fork().
  void before_fork();
  void after_fork();
  // ... and in the child, which keeps what is its own, and nothing that would keep ours alive.
  void after_fork_in_child();

 private:
  // In a child: the variables are its own from now on, with their contents.
  void copy_variables_in_forked_child();
  void read_wherever_it_is(std::uint64_t page, std::span<std::byte> into);

  // One processor's parts.
  struct Part {
    Part(Runtime& runtime, Processor processor);

    const Processor id;
    std::unique_ptr<Mapper> wrapped_mapper;  // null unless a test wraps it
    std::unique_ptr<PoolFile> wrapped_pool;  // likewise
    std::unique_ptr<ViewChanger> wrapped_changer;
    ProcessorMemory memory;
    std::shared_ptr<DeviceProcess> process;  // devices only; guarded by arena_lock_
  };

  Part& part(Processor p) const { return *parts_[static_cast<std::size_t>(p.index)]; }
  int processor_count() const { return 1 + device_count(); }
  std::uint64_t capacity_pages(Processor p) const;
  // How much managed memory all pools together hold. Without a limit of the host's: as much as one
  // likes.
  std::uint64_t managed_pages_max() const;
  std::vector<int> pool_fds() const;
  bool pools_map_huge_pages() const;
  std::unique_ptr<Trap> make_trap() const;
  std::unique_ptr<CopyBackend> make_copy_backend(unsigned copier) const;
  std::unique_ptr<CopyBackend> make_plain_backend() const;
  std::unique_ptr<CopyBackend> wrapped(std::unique_ptr<CopyBackend> backend) const;
  bool has_one_node() const;
  std::span<const int> nodes_to_place_on() const;
  void place_pools();
  // Pages of the host's pool are created on the node from now on; nothing: on any of the host's.
  void place_on_host(PageSpan pages, std::optional<int> node);
  void forget_advice(PageSpan pages);
  std::optional<Allocation> place(std::size_t bytes, unsigned flags, Ownership owner)
      EXCLUDES(arena_lock_);
  void record_allocation(const Allocation& allocation) const;
  void record_variables(const ManagedSection& section, const PlacedPages& placed) const;
  void record_advice(PageSpan pages, const AdviceChange& change) const;
  // Counts pages of the device's pool as never managed memory's. False: there are not as many.
  bool claim_device_pages(Processor p, std::uint64_t pages);
  // Pages of a device that cannot leave it, claimed.
  std::atomic<std::uint64_t>& claimed_pages(Processor p) {
    return device_pages_[static_cast<std::size_t>(p.ordinal())];
  }
  bool take_device_room(Processor p, std::uint64_t pages);
  bool take_host_room(std::uint64_t pages);
  bool grow(Reservation& reservation, Processor p, std::uint64_t pages);
  // Creates what is absent of the pages at p. False: they do not all fit; some may have been
  // created.
  bool create(PageSpan pages, Processor p);
  bool create_in_block(std::uint64_t number, PageRun run, Processor p);
  // Has each page of pinned ones in one copy, where that is or else where the host's touch would
  // put it.
  bool settle_pinned(PageSpan pages) REQUIRES_SHARED(advice_lock_);
  // False: some of them are being moved.
  bool collapse_pinned(std::uint64_t number, PageRun run);
  std::shared_ptr<DeviceProcess> fork_device(DeviceProcessOptions options);
  // Forks a process for the device and returns what to listen to.
  std::shared_ptr<const FaultSource> start_device(int device) REQUIRES(arena_lock_);
  bool open_arena(std::size_t needed) EXCLUDES(arena_lock_);
  // Has the module of this address at the same place in all devices. False: some cannot, and the
  // log says why.
  bool have_module_in_devices(const std::string& module, std::uintptr_t address)
      EXCLUDES(arena_lock_);
  // Makes the section's pages managed memory. False: there is no room, and nothing has changed.
  bool adopt(const ManagedSection& section) EXCLUDES(arena_lock_);
  // The parts of the range that are at no place of the arena's layout.
  std::vector<AddressRange> not_placed(AddressRange range) const;
  bool adopt_all(const std::vector<ManagedSection>& sections) EXCLUDES(arena_lock_);
  // Puts what is at the address into the host's pool. False: not all of it fits, and none of it is
  // there.
  bool fill_host_pool(const PlacedPages& placed) REQUIRES(arena_lock_);
  void leave_host_pool(const PlacedPages& placed) REQUIRES(arena_lock_);
  // Has this process see the pages in the host's pool, where all of them are. Throws
  // std::system_error, and has then changed nothing.
  void show_on_host(const PlacedPages& placed) REQUIRES(arena_lock_);
  // Has all processes see them in their pools from now on.
  void show_everywhere(const PlacedPages& placed) REQUIRES(arena_lock_);

  const RuntimeOptions options_;
  std::vector<std::unique_ptr<MemoryPoolFile>> pools_;  // by processor
  Arena arena_;
  Annex annex_;
  LiveDevices live_devices_;
  HostMemory host_memory_;
  const std::unique_ptr<Trap> trap_;
  BlockDirectory blocks_;
  AddressSpace address_space_;
  PageOwners page_owners_;
  MemoryRecords memory_;
  StagingMemory staging_{staging_bytes_max};
  AdviceMap advice_;
  SharedMutex advice_lock_{LockOrder::advising};  // exclusive: allocations end
  std::atomic<std::uint64_t> managed_pages_ = 0;  // of live managed allocations, or about to be
  // Pages of each device's pool that are allocations of its own, or about to be.
  std::array<std::atomic<std::uint64_t>, max_devices> device_pages_{};
  std::atomic<std::uint64_t> host_pages_ =
      0;  // of the host's pool, that no managed memory may have
  std::vector<std::unique_ptr<Part>> parts_;
  Mutex audiences_lock_{LockOrder::audiences};
  std::bitset<Audiences::end> audiences_in_use_ GUARDED_BY(audiences_lock_);  // of pools
  mutable Mutex arena_lock_{LockOrder::arena};
  Mutex sections_lock_{LockOrder::sections};
  ManagedSections sections_ GUARDED_BY(sections_lock_);
  // The first page of those that are being placed and nobody may know of yet.
  std::atomic<std::uint64_t> hidden_from_{~std::uint64_t{0}};
  const std::unique_ptr<const Policy> policy_;
  std::unique_ptr<PageEngine> engine_;
  std::unique_ptr<ViewSwitcher> switcher_;
  std::unique_ptr<AdviceEffects> effects_;
  std::unique_ptr<Evictor> evictor_;
  std::unique_ptr<Copiers> copiers_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<CopyEngine> copy_engine_;
  std::unique_ptr<AccessSampler> sampler_;
  std::unique_ptr<BackgroundEvictor> background_evictor_;
  std::unique_ptr<FaultService> service_;
  std::unique_ptr<FaultDaemon> daemon_;
};

}  // namespace wherry::impl
