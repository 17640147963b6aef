// How kernels use threads: OpenMP, the calling thread's current thread count. Work is cut by shape, never by
// the number of threads, and handed out dynamically, so results do not depend on the thread count and a slow
// core takes fewer pieces. Kernels may be called from one thread at a time per process unless a header says
// otherwise.
#pragma once

namespace lockstep::kernels {

/// Sets the number of threads of all later kernels called from this thread (>= 1).
void set_thread_count(int threads);
int thread_count();

}  // namespace lockstep::kernels
