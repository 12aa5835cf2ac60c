// Streams that are being captured: work given to them becomes nodes of a graph. Any thread.
//
// A capture begins in one stream. Another stream joins it when it waits for an event that was
// recorded in the capture, and must be waited for in turn before the capture ends.
#pragma once

#include <wherry/cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/lock.h"
#include "objects/device.h"
#include "objects/graphs.h"

namespace wherry::impl {

struct Capture;

// What an event stands for if it was recorded in a stream that is captured.
struct CapturedMoment {
  std::shared_ptr<Capture> capture;
  std::vector<CUgraphNode> nodes;  // what the stream's next node would have depended on
};

// The calling thread's capture mode, set by cuThreadExchangeStreamCaptureMode.
CUstreamCaptureMode& capture_mode_of_thread();

class Captures {
 public:
  // What cuStreamGetCaptureInfo tells of a stream. The pointers are valid until the stream's next
  // work, or the end of the capture.
  struct Info {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    std::uint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    std::size_t count = 0;
  };

  explicit Captures(Graphs& graphs) : graphs_(graphs) {}

  // Whether any stream is captured. Takes no lock, so a call costs nothing without a capture.
  bool any() const { return streams_captured_.load(std::memory_order_relaxed) != 0; }

  // Do what cuStreamBeginCapture and cuStreamEndCapture do, for valid arguments.
  CUresult begin(const StreamHandle& stream, CUstreamCaptureMode mode) EXCLUDES(lock_);
  CUresult end(const StreamHandle& stream, CUgraph* graph) EXCLUDES(lock_);
  Info info(const StreamHandle& stream) const EXCLUDES(lock_);

  // Whether `stream` is a context's default stream that a captured stream is ordered with.
  bool is_ordered_with_captured(const StreamHandle& stream) const EXCLUDES(lock_);

  // Adds a node after the stream's last ones. Returns CUDA_ERROR_STREAM_CAPTURE_INVALIDATED if an
  // error has ended the capture.
  CUresult add(const StreamHandle& stream, GraphContent content) EXCLUDES(lock_);
  // Returns the stream's present moment, or null if the stream is not captured.
  std::shared_ptr<const CapturedMoment> moment(const StreamHandle& stream) const EXCLUDES(lock_);
  // Makes the stream's next node depend on the moment's nodes, too. A stream that is not captured
  // joins the moment's capture.
  CUresult join(const StreamHandle& stream, const CapturedMoment& moment) EXCLUDES(lock_);

  // Each refuse function is called by a C function that would conflict with a capture. It returns
  // CUDA_SUCCESS if there is no such capture; else that function's error, and invalidates the
  // capture.
  //
  // For a call that uses the stream and cannot become a node, or uses a context's default stream
  // that the captured stream is ordered with.
  CUresult refuse(const StreamHandle& stream) EXCLUDES(lock_);
  // Refuses a call that waits for all streams of the context.
  CUresult refuse(const Context& context) EXCLUDES(lock_);
  // Refuses a call that may wait for other work of the device, if the mode of a capture forbids
  // that.
  CUresult refuse_unsafe() EXCLUDES(lock_);
  // Refuses to query an event that was recorded in the capture.
  CUresult refuse(const CapturedMoment& moment) EXCLUDES(lock_);
  // Refuses to let the stream wait for an event that was not recorded in its capture.
  CUresult refuse_outside(const StreamHandle& stream) EXCLUDES(lock_);

  // Called when the stream is destroyed. The capture that began in it ends without a graph.
  void forget(const Stream& stream) EXCLUDES(lock_);
  // Called when all streams of the context are destroyed.
  void forget(const Context& context) EXCLUDES(lock_);

 private:
  struct Captured {
    std::shared_ptr<Capture> capture;
    StreamHandle stream;
    std::vector<CUgraphNode> tips;  // what the next node depends on
  };

  void drop(const Capture& capture) REQUIRES(lock_);
  void count() REQUIRES(lock_);

  Graphs& graphs_;
  std::atomic<std::size_t> streams_captured_ = 0;
  mutable Mutex lock_{LockOrder::captures};
  std::map<const Stream*, Captured> streams_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
