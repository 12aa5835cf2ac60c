// What the tests of graphs share: a session with an isolated and a coherent device, lists in which
// kernels write down their launches, and owners of handles.
#pragma once

#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>

#include <vector>

#include "support/own.h"
#include "support/session.h"

namespace wherry::test {

inline const Session& session() {
  static const Session the_session(
      "capacity=64M,workers=2;kind=coherent,capacity=64M,workers=2;capacity=64M");
  return the_session;
}
inline constexpr int isolated = 0;
inline constexpr int coherent = 1;

// A list of numbers in managed memory.
class List {
 public:
  List() { memory_[0] = 0; }
  int* data() const { return memory_.data(); }
  void clear() const { memory_[0] = 0; }
  std::vector<int> numbers() const { return {memory_.data() + 1, memory_.data() + 1 + memory_[0]}; }

 private:
  Managed<int> memory_{1000};
};

// Makes a device's context current, and has a stream of it.
class OnDevice {
 public:
  explicit OnDevice(int device, unsigned flags = CU_STREAM_DEFAULT) {
    WHERRY_TRY(cuCtxPushCurrent(session().context(device)));
    WHERRY_TRY(cuStreamCreate(&stream, flags));
  }
  ~OnDevice() {
    cuStreamDestroy(stream);
    cuCtxPopCurrent(nullptr);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  CUstream stream = nullptr;
};

// A graph, and what it becomes when it is launched.
struct OwnGraph {
  OwnGraph() = default;
  ~OwnGraph() {
    if (handle != nullptr) cuGraphDestroy(handle);
    if (exec != nullptr) cuGraphExecDestroy(exec);
  }
  OwnGraph(const OwnGraph&) = delete;
  OwnGraph& operator=(const OwnGraph&) = delete;

  std::size_t size() const {
    std::size_t count = 0;
    WHERRY_TRY(cuGraphGetNodes(handle, nullptr, &count));
    return count;
  }
  void run(CUstream stream) {
    if (exec == nullptr) WHERRY_TRY(cuGraphInstantiate(&exec, handle, 0));
    WHERRY_TRY(cuGraphLaunch(exec, stream));
    WHERRY_TRY(cuStreamSynchronize(stream));
  }

  CUgraph handle = nullptr;
  CUgraphExec exec = nullptr;
};

inline void give_append(CUstream stream, const List& list, int number) {
  struct Arguments {
    int* list;
    int number;
  } const arguments{list.data(), number};
  const auto kernel = [](const void* bytes, std::size_t, std::size_t) {
    const auto& [to, value] = *static_cast<const Arguments*>(bytes);
    to[++to[0]] = value;
  };
  WHERRY_TRY(wherryLaunchKernel(stream, kernel, &arguments, sizeof arguments, 1));
}

}  // namespace wherry::test
