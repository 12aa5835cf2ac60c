// The order in which threads take the library's locks. A thread that holds a lock takes only locks
// that stand below it here, and at most one of each kind. Test builds check this at run time
// (base/lock_checks.h); clang checks which lock guards which field (base/lock.h).
//
// Each entry says what the lock protects, and what a thread may do while it holds the lock:
//   "waits"   it may wait for another thread or process, always with a limit
//   "forks"   it may start a device process
//   nothing   only computing, kernel calls that do not wait, and locks further down
//
// From `changes` on the locks are those of the fault path. The threads that answer faults take
// them, or wait for threads that do. While an application's thread holds one of these, its signals
// are blocked (base/signal_hold.h): a signal handler that touches managed memory would wait for its
// own thread. So nothing touches managed memory, and nothing calls the program's allocator, under
// one of these locks.
#pragma once

#include <cstdint>

namespace wherry::impl {

enum class LockOrder : std::uint8_t {
  giving,          // managed variables of compiled programs get memory.               waits, forks
  start,           // the library starts once.                                         waits, forks
  trace_end,       // one end of a trace at a time.                                    waits
  policies,        // which policies the program registered.
  reset,           // one reset of a device at a time.                                 waits, forks
  device,          // a device's primary context.                                      waits
  peers,           // which contexts may access whose memory.                          waits
  offers,          // what other processes may open.
  imported,        // what is open here of other processes.                            waits
  held_pages,      // which pages third parties have.                                  waits
  pools,           // which memory pools devices take.
  memory_pool,     // what is allocated from one pool.                                 waits
  own_libraries,   // which kernels the program has by itself.
  library,         // the handles of one library's, or one module's, functions.
  virtual_memory,  // what is reserved and mapped by hand.                             waits
  sections,        // which managed variables modules have.                            waits
  advising,        // shared: advice is given; exclusive: an allocation ends.          waits
  registering,     // one registration of host memory at a time.                       waits
  arena,           // the open part of the arena; which process each device has.       waits, forks
  adopted,         // memory of the program's that is in a file. Signals are blocked.  waits
  annex,           // what processors have mapped in the annex.                        waits
  exclusive,       // how many contexts forbid copies of pages.                        waits
  event,           // what one event recorded last.
  engine,  // a device's streams and launches. Waits for a command to the device, not for a launch.
  launch_board,         // the slots of launches on a device's board.
  host_functions,       // functions that wait for one device's thread. May start a thread.
  shared_event,         // the waiters of an event that processes share. May start a thread.
  recording,            // when the moment of one recording was.
  handles,              // what one kind of handle stands for.
  registered,           // which kernels and variables compiled programs registered.
  live_devices,         // the device processes that the program's end has to end.
  loader,               // in a device: which modules it has to load.
  audiences,            // which audiences are in use.
  records,              // what the API knows of addresses.
  addresses,            // the table that finds a record by its address.
  trace,                // names that wait to be written to the trace.
  recorder,             // the reader of recorded events.
  evictions,            // one reader of the log of evictions.
  modules,              // which modules a device has.                                      waits
  changes,              // one change of a view at a time.                                  waits
  view_changer,         // the process that a view changer asks.
  agent,                // one command to a device's process.                               waits
  device_end,           // how a device's process ended.
  copiers,              // the jobs of the copiers.
  blocks,               // the creation of one block.
  block,                // the page states of one 2 MiB block. Kernel calls on its pages.
  temporary_pins,       // until when pages stay where they are.
  suspects,             // late touches of freed memory.
  pool,                 // which blocks one pool holds, and which leaves next.
  address_space,        // what is allocated.
  advice,               // what the program said of pages.
  view_requests,        // which views are to be changed.
  copy_backends,        // carriers that no thread uses.
  capacity,             // which requests wait for room in one pool.
  in_flight_transfers,  // which threads carry which pages.
  completions,          // what others finished for one engine.
  fault_sources,        // where the fault handlers read.
  mapper,               // the descriptor by which one page table is changed.
  protector,            // the slot by which another process is asked to change its page table.
};

inline constexpr unsigned lock_orders = static_cast<unsigned>(LockOrder::protector) + 1;

constexpr bool is_of_fault_path(LockOrder order) {
  return order >= LockOrder::changes;
}

// Also held around a fork: a handler that forks would wait for its own thread.
constexpr bool blocks_signals(LockOrder order) {
  return is_of_fault_path(order) || order == LockOrder::adopted;
}

// Whether a thread that holds such a lock may wait.
constexpr bool may_wait_under(LockOrder order) {
  switch (order) {
    case LockOrder::giving:
    case LockOrder::start:
    case LockOrder::trace_end:
    case LockOrder::reset:
    case LockOrder::device:
    case LockOrder::peers:
    case LockOrder::imported:
    case LockOrder::held_pages:
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
    case LockOrder::modules:
    case LockOrder::changes:
    case LockOrder::agent:
      return true;
    default:
      return false;
  }
}

// For messages.
const char* name_of(LockOrder order);

}  // namespace wherry::impl
