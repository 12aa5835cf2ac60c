// Threads of the library that run the program's code in the order of its streams: host functions,
// and the kernels of coherent devices. The API refuses their calls, because a call that waited for
// the thread's own stream would never return.
#pragma once

namespace wherry::impl {

// Declares that the calling thread serves streams until it ends.
void this_thread_serves_streams();

// Whether the calling thread serves streams.
bool serves_streams();

}  // namespace wherry::impl
