// The order in which threads take the library's locks. A thread that holds a lock takes only locks
// that stand below it here, and at most one lock of each kind. Test builds check this at run time
// (base/lock_checks.h); clang checks which lock guards which field (base/lock.h).
//
// Each entry says what the lock protects. The words in brackets say what a thread may do while it
// holds the lock:
//
//   [waits]   wait for another thread or process, always with a limit
//   [forks]   start a device process
//   none      only compute, make system calls that do not wait, and take locks further down
//
// Two operations wait under the lock of a block nevertheless (docs/decisions/moving-pages.md,
// "Waits under a block's lock").
//
// The locks from `changes` on belong to the fault path: the threads that resolve faults take them,
// or wait for threads that hold them. While a thread of the application holds one of these, its
// signals are blocked (base/signal_blocking.h): a signal handler that accessed managed memory would
// wait for its own thread. For the same reason, code under one of these locks must not access
// managed memory or call the program's allocator.
#pragma once

#include <cstdint>

namespace wherry::impl {

enum class LockOrder : std::uint8_t {
  giving,          // assigning memory to managed variables of compiled programs [waits, forks]
  start,           // the one-time start of the library [waits, forks]
  trace_end,       // one end of a trace at a time [waits]
  policies,        // which policies the program has registered
  reset,           // one device reset at a time [waits, forks]
  device,          // the primary context of one device [waits]
  captures,        // which streams are captured into which graphs
  graph_exec,      // the steps of one executable graph, while they are launched [waits]
  graph,           // the nodes of one graph
  peers,           // which contexts may access the memory of which others [waits]
  offers,          // what other processes may open
  imported,        // what this process has opened of other processes [waits]
  p2p_pages,       // which pages third parties have pinned [waits]
  pools,           // which memory pools the devices use
  memory_pool,     // the allocations of one memory pool [waits]
  own_libraries,   // which kernels the program itself contains
  library,         // the function handles of one library or module
  virtual_memory,  // reserved and mapped virtual memory (cuMem*) [waits]
  sections,        // which managed variables the modules have [waits]
  advising,        // shared: advice is given; exclusive: an allocation is freed [waits]
  system_memory,   // what was said of memory that the library did not allocate
  registering,     // one registration of host memory at a time [waits]
  arena,           // the open part of the arena; the process of each device [waits, forks]
  adopted,         // the program's memory that was moved to a file; signals are blocked [waits]
  annex,           // what the processors have mapped in the annex [waits]
  leftovers,       // freed host memory that children may still map
  exclusive,       // how many contexts forbid copies of pages [waits]
  event,           // the last recording of one event
  cooperative,     // the last cooperative launch of one device
  // the streams and launches of a device [waits for a command to the device, not for a launch]
  engine,
  launch_board,      // the launch slots of one device's board
  host_functions,    // host functions that are queued for one device's thread; may start a thread
  shared_event,      // the waiters of an event that processes share; may start a thread
  recording,         // the time of one recording
  handles,           // the objects behind one kind of handle
  registered,        // which kernels and variables compiled programs have registered
  live_devices,      // the device processes to end when the program ends
  attached_threads,  // which threads count as devices
  loader,            // in a device process: which modules it must load
  audiences,         // which audiences are in use
  spare_memory,      // freed memory of devices that keeps its pages
  held_memory,       // freed memory of which somebody holds pages [waits]
  records,           // what the API knows about addresses
  addresses,         // the table that finds a record by its address
  crowds,            // pages with several pieces of registered memory
  trace,             // names that are not yet written to the trace
  shown_names,       // the names of memory that other processes see
  marks,             // the texts and ranges that the program marks
  recorder,          // the reader of recorded events
  evictions,         // the reader of the eviction log
  modules,           // which modules a device has loaded [waits]
  pins,              // background work on pages that are not pinned [waits]
  changes,           // one change of a view at a time [waits]
  view_changer,      // the process that a view changer asks
  agent,             // one command to a device process [waits]
  device_end,        // how a device process ended
  copiers,           // the jobs of the copiers
  blocks,            // the creation of one block
  block,             // the page states of one 2 MiB block; system calls on its pages are allowed
  temporary_pins,    // until when pages stay where they are
  suspects,          // late accesses to freed memory
  pool,              // which blocks one pool holds, and in which order they are evicted
  address_space,     // what is allocated
  advice,            // the program's advice, or prefetches, of pages
  view_requests,     // which views are to be changed
  copy_backends,     // copy backends that no thread uses
  capacity,          // which requests wait for free pages in one pool
  scattered_blocks,  // which blocks wait for the consolidator
  held_blocks,       // which blocks have pages that could not leave their pools
  in_flight_transfers,  // which threads transfer which pages
  completions,          // work that other threads completed for one engine
  fault_sources,        // the descriptors that the fault handlers read
  folios,               // the memory with which one pool looks at huge pages and replaces them
  mapper,               // the descriptor through which one page table is changed
  protector,            // the slot through which another process is asked to change its page table
};

constexpr bool is_of_fault_path(LockOrder order) {
  return order >= LockOrder::changes;
}

// `adopted` blocks signals because it is held around a fork: a handler that forks would wait for
// its own thread.
constexpr bool blocks_signals(LockOrder order) {
  return is_of_fault_path(order) || order == LockOrder::adopted;
}

// Whether threads look something up under the lock without blocking signals (BriefReadGuard). A
// thread that writes under such a lock holds no other lock of the fault path.
constexpr bool has_brief_readers(LockOrder order) {
  return order == LockOrder::address_space || order == LockOrder::advice;
}

// Returns whether a thread that holds the lock may wait.
constexpr bool may_wait_under(LockOrder order) {
  switch (order) {
    case LockOrder::giving:
    case LockOrder::start:
    case LockOrder::trace_end:
    case LockOrder::reset:
    case LockOrder::device:
    case LockOrder::graph_exec:
    case LockOrder::peers:
    case LockOrder::imported:
    case LockOrder::p2p_pages:
    case LockOrder::memory_pool:
    case LockOrder::virtual_memory:
    case LockOrder::sections:
    case LockOrder::advising:
    case LockOrder::registering:
    case LockOrder::arena:
    case LockOrder::adopted:
    case LockOrder::annex:
    case LockOrder::exclusive:
    case LockOrder::engine:
    case LockOrder::held_memory:
    case LockOrder::modules:
    case LockOrder::pins:
    case LockOrder::changes:
    case LockOrder::agent:
      return true;
    default:
      return false;
  }
}

// The lock's name in messages.
const char* name_of(LockOrder order);

}  // namespace wherry::impl
