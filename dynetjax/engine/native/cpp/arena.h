// Memory for rows, which goes as a whole.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

class Chunks;

// Memory that is handed out piece by piece, and taken back as a whole.
class Arena {
public:
    struct Top {
        size_t chunk = 0, at = 0;
    };
    float* take(size_t words);
    Top here() const { return here_; }
    void rewind(Top to) { here_ = to; }
    size_t words() const;  // that it has, handed out or not

    struct Free {
        void operator()(float* p) const { std::free(p); }
    };
    using Words = std::unique_ptr<float, Free>;
    Arena();
    ~Arena();

private:
    std::shared_ptr<Chunks> pool_;  // of the process; it lives as long as any arena
    struct Chunk {
        Words words;
        size_t room;
    };
    std::vector<Chunk> chunks_;
    Top here_;

    void have_room(size_t next, size_t words);
};
