/* Part of cuda.h, which includes it: graphs of work, and the capture of streams into graphs. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_GRAPHS_H
#define WHERRY_CUDA_GRAPHS_H

#include "cuda_copies.h"
#include "cuda_libraries.h"
#include "cuda_modules.h"

#define cuStreamBeginCapture __CUDA_API_PTSZ(cuStreamBeginCapture_v2)
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2
#define cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2
#define cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2
#define cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
#define cuGraphExecUpdate cuGraphExecUpdate_v2
#define cuGraphInstantiate cuGraphInstantiateWithFlags
#if WHERRY_CUDA_API != 12
#define cuGraphAddDependencies cuGraphAddDependencies_v2
#define cuGraphGetEdges cuGraphGetEdges_v2
#endif
#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cuStreamEndCapture __CUDA_API_PTSZ(cuStreamEndCapture)
#define cuGraphLaunch __CUDA_API_PTSZ(cuGraphLaunch)
#define cuGraphUpload __CUDA_API_PTSZ(cuGraphUpload)
#endif

typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphNode_st* CUgraphNode;
typedef struct CUgraphExec_st* CUgraphExec;

typedef struct CUgraphEdgeData_st {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
} CUgraphEdgeData;

typedef enum CUstreamCaptureStatus_enum {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
} CUstreamCaptureStatus;

typedef enum CUstreamCaptureMode_enum {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
} CUstreamCaptureMode;

/* Types of nodes for which this header has no function are listed because CUDA has them. */
typedef enum CUgraphNodeType_enum {
  CU_GRAPH_NODE_TYPE_KERNEL = 0,
  CU_GRAPH_NODE_TYPE_MEMCPY = 1,
  CU_GRAPH_NODE_TYPE_MEMSET = 2,
  CU_GRAPH_NODE_TYPE_HOST = 3,
  CU_GRAPH_NODE_TYPE_GRAPH = 4,
  CU_GRAPH_NODE_TYPE_EMPTY = 5,
  CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
  CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
  CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL = 8,
  CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT = 9,
  CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10,
  CU_GRAPH_NODE_TYPE_MEM_FREE = 11,
  CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12,
  CU_GRAPH_NODE_TYPE_CONDITIONAL = 13
} CUgraphNodeType;

typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st {
  CUfunction func;
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  void** kernelParams; /* as of cuLaunchKernel */
  void** extra;        /* as of cuLaunchKernel */
  CUkernel kern;       /* instead of func, which is then NULL */
  CUcontext ctx;       /* NULL: the current one */
} CUDA_KERNEL_NODE_PARAMS_v2;
typedef CUDA_KERNEL_NODE_PARAMS_v2 CUDA_KERNEL_NODE_PARAMS;

typedef struct CUDA_MEMSET_NODE_PARAMS_st {
  CUdeviceptr dst;
  size_t pitch;             /* bytes from row to row; not used if height is 1 */
  unsigned int value;       /* its low elementSize bytes */
  unsigned int elementSize; /* 1, 2 or 4 */
  size_t width;             /* elements of a row */
  size_t height;            /* rows */
} CUDA_MEMSET_NODE_PARAMS_v1;
typedef CUDA_MEMSET_NODE_PARAMS_v1 CUDA_MEMSET_NODE_PARAMS;

typedef struct CUDA_HOST_NODE_PARAMS_st {
  CUhostFn fn;
  void* userData;
} CUDA_HOST_NODE_PARAMS_v1;
typedef CUDA_HOST_NODE_PARAMS_v1 CUDA_HOST_NODE_PARAMS;

typedef enum CUgraphInstantiate_flags_enum {
  CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,
  CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,
  CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4,
  CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8
} CUgraphInstantiate_flags;

typedef enum CUgraphExecUpdateResult_enum {
  CU_GRAPH_EXEC_UPDATE_SUCCESS = 0x0,
  CU_GRAPH_EXEC_UPDATE_ERROR = 0x1,
  CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 0x2,
  CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 0x3,
  CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED = 0x4,
  CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 0x5,
  CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED = 0x6,
  CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE = 0x7,
  CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED = 0x8
} CUgraphExecUpdateResult;

typedef struct CUgraphExecUpdateResultInfo_st {
  CUgraphExecUpdateResult result;
  CUgraphNode errorNode;     /* of the new graph; NULL: no single one */
  CUgraphNode errorFromNode; /* always NULL */
} CUgraphExecUpdateResultInfo_v1;
typedef CUgraphExecUpdateResultInfo_v1 CUgraphExecUpdateResultInfo;

/* ---- Capture: work that is given to a stream becomes nodes of a graph, and does not run ----
 *
 * Captured are: kernels, asynchronous copies and fills, host functions (cuLaunchHostFunc),
 * cuMemPrefetchAsync, and events. An event that is recorded in a captured stream stands for the
 * stream's nodes; it adds none. Another stream that waits for it joins the capture, and must be
 * waited for, by an event of its own, in the stream in which the capture began, before the end.
 * With CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL recording and waiting become nodes.
 * Arguments are copied at the call. The memory of copies and fills is read and written when the
 * graph runs.
 *
 * Everything else that uses a captured stream fails, and the capture with it: from then on its
 * calls return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, and cuStreamEndCapture returns no graph.
 * - CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a call that waits for the stream or its context, or
 *   queries it; cuStreamAddCallback, cuStreamAttachMemAsync, cuGraphLaunch, batches, stream-ordered
 *   allocations; also a call that the mode forbids, see below.
 * - CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the context's default stream is used, by name or by a
 *   synchronous copy, while a stream that it is ordered with is captured; or it waits for an event
 *   of a capture.
 * - CUDA_ERROR_STREAM_CAPTURE_ISOLATION: the stream waits for an event that was not recorded in a
 *   capture, and not with CU_EVENT_WAIT_EXTERNAL.
 * - CUDA_ERROR_STREAM_CAPTURE_MERGE: the stream waits for an event of another capture.
 * - CUDA_ERROR_CAPTURED_EVENT: an event that was last recorded in a capture is queried or waited
 *   for by the host, or by a stream after the capture's end.
 *
 * A destroyed stream leaves its capture, which fails. */

/* Begins to capture the stream. mode: which calls are forbidden until the end, because they might
 * wait for other work: allocating and freeing memory (except stream-ordered), registering host
 * memory, synchronous copies and fills, cuEventQuery, cuEventSynchronize. GLOBAL: to all threads;
 * THREAD_LOCAL: to this thread; RELAXED: none. See also cuThreadExchangeStreamCaptureMode.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a mode.
 * - CUDA_ERROR_ILLEGAL_STATE: the stream is being captured.
 * - CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a context's default stream.
 * - CUDA_ERROR_INVALID_HANDLE: not a stream.
 * - CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context. */
CUresult CUDAAPI cuStreamBeginCapture(CUstream hStream, CUstreamCaptureMode mode);

/* Ends the capture that began in the stream, and returns its graph in *phGraph; with an error,
 * NULL.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: phGraph is NULL.
 * - CUDA_ERROR_ILLEGAL_STATE: the stream is not being captured.
 * - CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: an error has ended the capture.
 * - CUDA_ERROR_STREAM_CAPTURE_UNJOINED: another stream has nodes that this one has not waited for.
 * - CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: the capture began in another stream, and goes on there,
 *   invalid.
 * - CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: another thread began it, not with RELAXED. The capture
 *   goes on.
 * - CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_CONTEXT, as of cuStreamBeginCapture. */
CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph* phGraph);

/* Return in *captureStatus and *captureStatus_out whether the stream is being captured. If it is,
 * cuStreamGetCaptureInfo also returns a number that no other capture of the process has, and, of a
 * valid capture, its graph and the nodes that the stream's next node will depend on. The list of
 * nodes is valid until the next call that uses the stream. *edgeData_out is NULL, because no edge
 * has data. All outputs but the status may be NULL.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: the status pointer is NULL.
 * - CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the context's default stream, while a stream that it is
 *   ordered with is captured. The capture goes on.
 * - CUDA_ERROR_INVALID_HANDLE: not a stream.
 * - CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context. */
CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus);
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        size_t* numDependencies_out);
CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream hStream,
                                           CUstreamCaptureStatus* captureStatus_out,
                                           cuuint64_t* id_out, CUgraph* graph_out,
                                           const CUgraphNode** dependencies_out,
                                           const CUgraphEdgeData** edgeData_out,
                                           size_t* numDependencies_out);
#else
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        const CUgraphEdgeData** edgeData_out,
                                        size_t* numDependencies_out);
#endif

/* Exchanges the calling thread's mode with *mode. It is initially CU_STREAM_CAPTURE_MODE_GLOBAL.
 * GLOBAL: captures of other threads with this mode forbid calls to this thread. THREAD_LOCAL: only
 * its own captures do. RELAXED: none does.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: mode is NULL, or *mode is not a mode. */
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode);

/* ---- Graphs: nodes of work that depend on each other ----
 *
 * Errors of the functions of this section:
 * - CUDA_ERROR_INVALID_VALUE: a pointer for a result is NULL, or as the function's comment says.
 * - CUDA_ERROR_INVALID_HANDLE: not a graph, node or executable graph. */

/* Creates a graph without nodes. flags: 0, else CUDA_ERROR_INVALID_VALUE. */
CUresult CUDAAPI cuGraphCreate(CUgraph* phGraph, unsigned int flags);
/* Destroys the graph and its nodes. Executable graphs that were made from it stay. */
CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph);
/* Copies the graph. */
CUresult CUDAAPI cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph);
/* Finds the node of the copy hClonedGraph that stands for hOriginalNode.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: there is none. */
CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode,
                                        CUgraph hClonedGraph);

/* Each of these adds a node, which runs after the numDependencies nodes of `dependencies`. These
 * must be different nodes of the same graph, else CUDA_ERROR_INVALID_VALUE. What a node needs is
 * copied at the call: parameters of kernels, values of fills, functions and their userData pointer,
 * and a child with its nodes.
 *
 * A kernel node, which launches like cuLaunchKernel, with its errors. */
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      const CUDA_KERNEL_NODE_PARAMS* nodeParams);
/* A node that copies like cuMemcpy3DAsync, and one that fills like cuMemsetD2D8Async and the like,
 * with their errors. They run as in a stream of the context `ctx`; there must be at least one byte,
 * else CUDA_ERROR_INVALID_VALUE. Both are asynchronous whatever the memory is.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT: ctx is not a context. */
CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      const CUDA_MEMCPY3D* copyParams, CUcontext ctx);
CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx);
/* A node that calls a function of the host, like cuLaunchHostFunc. */
CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                    const CUgraphNode* dependencies, size_t numDependencies,
                                    const CUDA_HOST_NODE_PARAMS* nodeParams);
/* A node that does nothing, on which other nodes can depend. */
CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                     const CUgraphNode* dependencies, size_t numDependencies);
/* A node that records an event, and one that waits for what it stands for at the graph's launch. */
CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                           const CUgraphNode* dependencies, size_t numDependencies,
                                           CUevent event);
CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                         const CUgraphNode* dependencies, size_t numDependencies,
                                         CUevent event);
/* A node that contains all nodes of another graph, as they are now. */
CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                          const CUgraphNode* dependencies, size_t numDependencies,
                                          CUgraph childGraph);

/* Node to[i] depends on node from[i] from now on. edgeData: NULL, or zeros.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a list is NULL, a node is not of the graph, a dependency is there
 *   already, or is of a node on itself; none is added.
 * - CUDA_ERROR_NOT_SUPPORTED: edge data other than 0. */
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from,
                                        const CUgraphNode* to, size_t numDependencies);
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                           const CUgraphNode* to, const CUgraphEdgeData* edgeData,
                                           size_t numDependencies);
#else
CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from,
                                        const CUgraphNode* to, const CUgraphEdgeData* edgeData,
                                        size_t numDependencies);
#endif

/* Return all nodes; those that depend on no other; and each dependency. If the list (or `from` and
 * `to`) is NULL, only their number is returned. Otherwise the caller sets the number to the room in
 * the list; the call sets it to how many were stored, and the rest of the list to NULL. edgeData
 * may be NULL; it gets zeros. */
CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes);
CUresult CUDAAPI cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes);
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                 size_t* numEdges);
CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                    CUgraphEdgeData* edgeData, size_t* numEdges);
#else
CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                 CUgraphEdgeData* edgeData, size_t* numEdges);
#endif

/* Returns what the node does. A captured prefetch is a CU_GRAPH_NODE_TYPE_MEMCPY. */
CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type);
/* Takes the node out of its graph, with the dependencies on it. */
CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode hNode);

/* Return and replace what a kernel node launches. kernelParams points to the node's own copies,
 * until they are replaced; they must not be written.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a node of a kernel with a handle.
 * - The errors of cuLaunchKernel, for cuGraphKernelNodeSetParams. */
CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams);
CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode hNode,
                                            const CUDA_KERNEL_NODE_PARAMS* nodeParams);

/* ---- Executable graphs ----
 *
 * Errors of the functions of this section are those of the section before, and: */

/* Makes an executable graph of the graph as it is now. flags: CUDA_GRAPH_INSTANTIATE_FLAG_*; those
 * that are supported mean nothing here.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: unknown flags, or nodes depend on each other in a circle.
 * - CUDA_ERROR_NOT_SUPPORTED: CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH. */
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph,
                                    unsigned long long flags);
/* Destroys the executable graph. What was launched of it still runs. */
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec);

/* Gives the nodes to the stream: after earlier work of the stream, after what was launched of this
 * executable graph before, and before later work of the stream. Asynchronous. The nodes run one
 * after the other, each after those that it depends on. Nodes of another context run there.
 * Errors:
 * - Those that the nodes' functions have for a stream. The nodes before the one with the error
 *   still run.
 * - CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: the stream is being captured. */
CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream);
/* Does nothing but check its arguments: no device has a copy of a graph. */
CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream);

/* Replaces what later launches do at the node hNode of the graph that was instantiated, or of a
 * graph that it was updated from.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: it has no such node of a kernel.
 * - The errors of cuGraphKernelNodeSetParams. */
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS* nodeParams);

/* Makes later launches do what the graph says. Its nodes must be the same as before: as many, of
 * the same types and contexts, with the same dependencies, added in the same order.
 * Errors:
 * - CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: the nodes are not the same; *resultInfo says why. Nothing
 *   changes. */
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphExecUpdateResultInfo* resultInfo);

#endif
