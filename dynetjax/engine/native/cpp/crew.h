// Threads that share the loops of large kernels.
#pragma once

#include <algorithm>

// How many compute together: DYNETJAX_THREADS, or one for each processor, but at most 16.
int threads();

// Calls part(context, begin, end) for ranges of `step` that make up [0, count), on several
// threads at a time: those that look for work, and if it `wakes` them those that sleep, too. Where the
// others are at work for somebody else, the caller does it all.
void share(long count, long step, bool wakes, void (*part)(void* context, long begin, long end),
           void* context);

constexpr double WAKING = 8;  // times as much work as is enough, for which threads are woken

// part(begin, end) for ranges that make up [0, count), as many as there is `enough` work for,
// at most one for each thread. Ranges begin at multiples of `unit`.
template <class Part>
void in_parts(long count, long unit, double work, double enough, Part part) {
    const long most = work < 2 * enough ? 1 : std::min((long)threads(), (long)(work / enough));
    const long step = ((count + most - 1) / most + unit - 1) / unit * unit;
    if (step >= count) return part(0L, count);
    const auto call = [](void* p, long begin, long end) { (*static_cast<Part*>(p))(begin, end); };
    share(count, step, work >= WAKING * enough, call, &part);
}
