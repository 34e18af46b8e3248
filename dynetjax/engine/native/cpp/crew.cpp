// Threads that share the loops of large kernels. They live as long as the process, asleep
// while there is nothing to do; a process that was forked has threads of its own.
#include "crew.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace {

constexpr int MOST = 16;        // threads that nobody asked for
constexpr int PATIENCE = 4000;  // looks for more to do, before a thread sleeps

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}
long process() {
#if defined(__unix__) || defined(__APPLE__)
    return (long)getpid();
#else
    return 0;
#endif
}
int count_threads() {
    if (const char* asked = std::getenv("DYNETJAX_THREADS")) return std::clamp(std::atoi(asked), 1, 64);
#if defined(__linux__)
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) return std::clamp(CPU_COUNT(&set), 1, MOST);
#endif
    return std::clamp((int)std::thread::hardware_concurrency(), 1, MOST);
}

// What caller and helpers have in common. The fields of a loop change only while it is not
// open and no helper is in it.
struct Crew {
    std::mutex in_use;  // by the caller of one loop
    std::mutex mutex;
    std::condition_variable wake, left;
    std::atomic<long> loops{0};  // begun so far
    bool open = false;
    int inside = 0;
    void (*part)(void*, long, long) = nullptr;
    void* context = nullptr;
    long count = 0, step = 1;
    std::atomic<long> next{0};
    std::exception_ptr failure;  // the first of this loop

    // An exception stays within its thread; the caller raises it when all have left.
    void work() noexcept {
        try {
            for (long at; (at = next.fetch_add(step, std::memory_order_relaxed)) < count;)
                part(context, at, std::min(at + step, count));
        } catch (...) {
            next.store(count, std::memory_order_relaxed);  // no more of it
            const std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
        }
    }
    void help() {
        (void)
            std::uncaught_exceptions();  // where an exception lies is made now: later there may be no memory
        for (long seen = 0;;) {
            for (int i = 0; i < PATIENCE && loops.load(std::memory_order_relaxed) == seen; i++) pause();
            {
                std::unique_lock lock(mutex);
                wake.wait(lock, [&] { return loops.load(std::memory_order_relaxed) != seen; });
                seen = loops.load(std::memory_order_relaxed);
                if (!open) continue;
                inside++;
            }
            work();
            const std::lock_guard lock(mutex);
            if (!--inside) left.notify_all();
        }
    }
    void run(long n, long by, bool wakes, void (*f)(void*, long, long), void* with) {
        {
            const std::lock_guard lock(mutex);
            part = f;
            context = with;
            count = n;
            step = by;
            next = 0;
            open = true;
            loops.fetch_add(1, std::memory_order_relaxed);
        }
        if (wakes)
            for (long at = by; at < n; at += by) wake.notify_one();
        work();
        std::unique_lock lock(mutex);
        open = false;
        left.wait(lock, [&] { return !inside; });
        if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
    }
};

std::shared_ptr<Crew> hired() {
    auto crew = std::make_shared<Crew>();
    try {
        for (int i = 1; i < threads(); i++) std::thread([crew] { crew->help(); }).detach();
    } catch (const std::exception&) {  // there may be no more, or no memory: some will do
    }
    return crew;
}

std::shared_ptr<Crew> crew_of_process() {
    static std::mutex mutex;
    static std::shared_ptr<Crew> crew;
    static long of = -1;
    const std::lock_guard lock(mutex);
    if (of != process()) {
        crew = hired();
        of = process();
    }
    return crew;
}

}  // namespace

int threads() {
    static const int found = count_threads();
    return found;
}

void share(long count, long step, bool wakes, void (*part)(void*, long, long), void* context) {
    const std::shared_ptr<Crew> crew = crew_of_process();
    const std::unique_lock lock(crew->in_use, std::try_to_lock);
    if (lock)
        crew->run(count, step, wakes, part, context);
    else
        part(context, 0, count);
}
