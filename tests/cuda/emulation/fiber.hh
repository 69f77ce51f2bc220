// fiber.hh - a kernel on the CPU: one fiber for each CUDA thread of a block, all on the calling thread, blocks one after
// another. Before it: kernel.hh, which gives CUDA's names to these functions; after it: stream.hh, which runs launches in
// the order of their streams. What a kernel does wrong ends the launch and comes back as text.
#ifndef EMULATION_FIBER_HH
#define EMULATION_FIBER_HH
#include <vector_types.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace emu {

// Which thread goes on when one has to wait. A missing barrier between threads shows in at least one of them: `greedy`
// runs a warp as far as it can go, which is what finds a missing barrier between warps that step evenly otherwise.
enum class Order { ring, reverse, greedy };

struct Where {
    const char *file;
    int line;
};

struct Launch {
    const char *name;
    dim3 grid, block;
    size_t shared; // dynamic shared memory, bytes
    std::function<void()> body;
    Order order = Order::ring;
    uint64_t block_seed = 0; // the order of blocks; 0: as numbered
};

// Runs all threads. "" when all of them ended, otherwise what went wrong, with the kernel's name.
std::string run(const Launch &launch);

enum class WarpAction : uint8_t { sync, shuffle, vote, mma, load_matrix };

constexpr unsigned warp_size = 32, payload_bytes = 32;

// Lanes that meet under one mask. What they bring is kept twice, by the parity of the meeting: a lane may come to the
// next meeting while another still reads this one.
struct Meeting {
    uint32_t mask, arrived;
    unsigned generation;
    WarpAction action;
    Where where;
    alignas(16) unsigned char brought[2][warp_size][payload_bytes];
    union {
        float product[16][8];          // mma: what is added to D
        uint32_t matrix[warp_size][4]; // load_matrix
    } result[2];
};

struct Warp {
    uint32_t live = 0; // lanes that have not ended
    unsigned used = 0;
    std::vector<Meeting> meetings; // the first `used`, one a mask
};

struct Copy {
    void *to;
    const void *from;
    bool valid;
    unsigned group;
};

// A stack and where it stands; see switch_to.
struct Context {
    void *stack_pointer = nullptr;
    void *bottom = nullptr;
    size_t size = 0;
    void *shadow = nullptr; // the address sanitizer's or the thread sanitizer's own record
};

struct Block;

struct Fiber {
    enum class State : uint8_t { ready, at_block, at_warp, ended };
    uint3 thread;
    unsigned index, lane;
    State state;
    unsigned awaited; // the generation that must have passed
    Warp *warp;
    Meeting *meeting;
    Block *block;
    Where where;
    Context context;
    unsigned copy_group;
    std::vector<Copy> copies; // begun, not waited for
};

struct Block {
    const Launch *launch;
    dim3 grid, size;
    uint3 index;
    unsigned live, arrived, generation; // of __syncthreads
    Where barrier;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    void *dynamic;
    std::vector<void *> slots; // static shared memory by site
    std::vector<size_t> slot_bytes;
    size_t static_bytes;
    Context scheduler;
    std::string wrong;
};

extern __thread Fiber *current; // the CUDA thread that runs on this thread now; null outside of kernels

void block_barrier(Where where);
// Meets the other lanes of the mask; gives the meeting and the parity whose arrays hold what they brought.
Meeting &meet(uint32_t mask, WarpAction action, const void *brought, size_t bytes, Where where, unsigned *parity);
void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Where where);
void load_matrix(uint32_t (&r)[4], const void *row, bool transposed, Where where);
void copy_async(void *to, const void *from, bool valid);
void copy_commit();
void copy_wait(unsigned newest);
void *shared_slot(unsigned site, size_t bytes);
unsigned new_site();

template <class Site> inline const unsigned site_of = new_site();
// The static shared variable of one place in a kernel; Site is a type that only this place has.
template <class T, class Site> T &shared(Site) {
    return *static_cast<T *>(shared_slot(site_of<Site>, sizeof(T)));
}

// A lane outside of the mask, or one that has ended, gives all bits set: a NaN.
template <class T> T shuffle(uint32_t mask, T value, unsigned from, Where where) {
    static_assert(sizeof(T) <= payload_bytes, "a shuffle carries 32 bytes at most");
    unsigned parity;
    Meeting &m = meet(mask, WarpAction::shuffle, &value, sizeof value, where, &parity);
    memcpy(&value, m.brought[parity][from], sizeof value);
    return value;
}
// One bit a lane of the mask, set where it said yes.
uint32_t vote(uint32_t mask, bool yes, Where where);

} // namespace emu
#endif
