#include "arena.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>

constexpr size_t CHUNK = (size_t)1 << 18;  // words
constexpr size_t MOST_KEPT = 64;           // chunks

// Chunks that nobody has, for the next arena: memory that is new to a process is slow.
class Chunks {
public:
    Chunks() { free_.reserve(MOST_KEPT); }  // to give back needs no memory
    Arena::Words take() {
        {
            std::lock_guard<std::mutex> held(lock_);
            if (!free_.empty()) {
                Arena::Words found = std::move(free_.back());
                free_.pop_back();
                return found;
            }
        }
        return make(CHUNK);
    }
    void give_back(Arena::Words words) noexcept {
        std::lock_guard<std::mutex> held(lock_);
        if (free_.size() < MOST_KEPT) free_.push_back(std::move(words));
    }
    static Arena::Words make(size_t words) {
        void* p = words > SIZE_MAX / 8 ? nullptr : std::aligned_alloc(64, words * sizeof(float));
        if (!p) throw std::bad_alloc();
        return Arena::Words((float*)p);
    }

private:
    std::mutex lock_;
    std::vector<Arena::Words> free_;
};

namespace {

std::shared_ptr<Chunks> chunks() {
    static const auto all = std::make_shared<Chunks>();
    return all;
}

}  // namespace

Arena::Arena() : pool_(chunks()) {}

Arena::~Arena() {
    for (Chunk& c : chunks_)
        if (c.room == CHUNK) pool_->give_back(std::move(c.words));
}

float* Arena::take(size_t words) {
    words = (words + 15) / 16 * 16;  // lines of the cache
    auto& [chunk, at] = here_;
    if (chunk == chunks_.size() || at + words > chunks_[chunk].room) {
        const size_t next = chunk + (at > 0);  // from there on chunks hold nothing
        have_room(next, words);
        chunk = next;
        at = 0;
    }
    float* found = chunks_[chunk].words.get() + at;
    at += words;
    return found;
}

// Have a chunk with room at a place from which on chunks hold nothing. What is too small for this
// one does for others, unless it is a large one: these grow with a graph, and make way.
void Arena::have_room(size_t next, size_t words) {
    const auto free = chunks_.begin() + next;
    const auto fits = std::find_if(free, chunks_.end(), [&](const Chunk& c) { return words <= c.room; });
    if (fits != chunks_.end()) return std::iter_swap(free, fits);
    chunks_.erase(std::remove_if(free, chunks_.end(), [](const Chunk& c) { return c.room != CHUNK; }),
                  chunks_.end());
    const bool usual = words <= CHUNK;
    chunks_.insert(chunks_.begin() + next,
                   Chunk{usual ? pool_->take() : Chunks::make(words), usual ? CHUNK : words});
}

size_t Arena::words() const {
    size_t all = 0;
    for (const Chunk& c : chunks_) all += c.room;
    return all;
}
