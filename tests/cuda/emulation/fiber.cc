// fiber.cc - runs the threads of a block as fibers: which goes on when one waits, barriers, meetings of a warp's lanes,
// copies that arrive late, shared memory with nothing useful in it at first. Before it: kernel.hh; after it: the kernel.
#include "emulation/fiber.hh"
#include "emulation/stack.hh"
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <algorithm>

namespace emu {

__thread Fiber *current;

static const char *action_name(WarpAction a) {
    switch (a) {
    case WarpAction::sync: return "__syncwarp";
    case WarpAction::shuffle: return "a shuffle";
    case WarpAction::vote: return "a vote";
    case WarpAction::mma: return "an mma";
    case WarpAction::load_matrix: return "a matrix load";
    }
    return "";
}

// Text without a destructor: a launch that is given up leaves its stacks as they are.
struct Text {
    char text[120];
};

static Text place(Where w) {
    Text t;
    const char *slash = strrchr(w.file, '/');
    snprintf(t.text, sizeof t.text, "%s:%d", slash ? slash + 1 : w.file, w.line);
    return t;
}

// Ends the launch: what is wrong goes back through the scheduler, and no fiber of the block runs again.
__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *form, ...) {
    char text[400];
    va_list args;
    va_start(args, form);
    vsnprintf(text, sizeof text, form, args);
    va_end(args);
    Block *b = current->block;
    char head[200];
    snprintf(head, sizeof head, "kernel %s, block (%u,%u,%u): ", b->launch->name, b->index.x, b->index.y, b->index.z);
    b->wrong = std::string(head) + text;
    switch_to(current->context, b->scheduler);
    abort(); // nothing switches back
}

static bool runnable(const Fiber &f) {
    switch (f.state) {
    case Fiber::State::ready: return true;
    case Fiber::State::at_block: return f.block->generation != f.awaited;
    case Fiber::State::at_warp: return f.meeting->generation != f.awaited;
    case Fiber::State::ended: return false;
    }
    return false;
}

// Nobody can go on: says where they stand.
static void deadlock(Block *b) {
    unsigned at_block = 0, at_warp = 0, ended = 0;
    Text block_at = {""}, warp_at = {""};
    for (const Fiber &f : b->fibers) {
        if (f.state == Fiber::State::at_block) {
            if (!at_block++) snprintf(block_at.text, sizeof block_at.text, " (%.100s)", place(f.where).text);
        } else if (f.state == Fiber::State::at_warp) {
            if (!at_warp++)
                snprintf(warp_at.text, sizeof warp_at.text, " (%s, %.80s)", action_name(f.meeting->action),
                         place(f.where).text);
        } else ended++;
    }
    wrong("no thread can go on: %u wait at __syncthreads%s, %u in a warp operation%s, %u have ended", at_block,
          block_at.text, at_warp, warp_at.text, ended);
}

static Fiber *next_of(Block *b, unsigned from, unsigned first, unsigned count, bool backwards) {
    for (unsigned k = 1; k <= count; k++) {
        unsigned at = first + (from - first + (backwards ? count - k : k)) % count;
        if (runnable(b->fibers[at])) return &b->fibers[at];
    }
    return nullptr;
}

// Lets another thread run, in the launch's order; comes back when this one is chosen again.
__attribute__((no_sanitize("thread"))) static void yield() {
    Fiber *me = current;
    Block *b = me->block;
    unsigned n = static_cast<unsigned>(b->fibers.size());
    Fiber *next = nullptr;
    if (b->launch->order == Order::greedy) {
        unsigned first = me->index - me->lane;
        next = next_of(b, me->index, first, std::min(n - first, warp_size), false);
    }
    if (!next) next = next_of(b, me->index, 0, n, b->launch->order == Order::reverse);
    if (!next && b->live) deadlock(b);
    if (!next) {
        switch_to(me->context, b->scheduler);
        return;
    }
    next->state = Fiber::State::ready;
    if (next == me) return;
    current = next;
    switch_to(me->context, next->context);
}

void block_barrier(Where where) {
    Fiber *f = current;
    Block *b = f->block;
    if (b->arrived == 0) b->barrier = where;
    else if (b->barrier.line != where.line || strcmp(b->barrier.file, where.file) != 0)
        wrong("threads wait at two different __syncthreads, %s and %s", place(b->barrier).text, place(where).text);
    if (++b->arrived == b->live) {
        b->arrived = 0;
        b->generation++;
        return;
    }
    f->where = where;
    f->awaited = b->generation;
    f->state = Fiber::State::at_block;
    yield();
}

static float bf16(uint32_t pair, unsigned high) {
    uint32_t bits = high ? pair & 0xffff0000u : pair << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// D's addend from the fragments that all lanes brought: products in ascending k, in f32.
static void multiply(Meeting &m, unsigned parity) {
    float a[16][16], b[16][8];
    for (unsigned lane = 0; lane < warp_size; lane++) {
        uint32_t v[6];
        memcpy(v, m.brought[parity][lane], sizeof v);
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++)
            for (unsigned h = 0; h < 2; h++) a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + h] = bf16(v[i], h);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned h = 0; h < 2; h++) b[2 * t + 8 * i + h][g] = bf16(v[4 + i], h);
    }
    auto &d = m.result[parity].product;
    memset(d, 0, sizeof d);
    for (unsigned r = 0; r < 16; r++)
        for (unsigned k = 0; k < 16; k++)
            for (unsigned c = 0; c < 8; c++) d[r][c] += a[r][k] * b[k][c];
}

struct MatrixRow {
    const unsigned char *row;
    uint32_t transposed;
};

static void load_matrices(Meeting &m, unsigned parity) {
    MatrixRow in[warp_size];
    for (unsigned lane = 0; lane < warp_size; lane++) memcpy(&in[lane], m.brought[parity][lane], sizeof in[lane]);
    for (unsigned lane = 0; lane < warp_size; lane++)
        for (unsigned i = 0; i < 4; i++) {
            unsigned line = lane / 4, two = lane % 4 * 2;
            uint16_t v[2];
            for (unsigned h = 0; h < 2; h++) {
                unsigned row = in[lane].transposed ? two + h : line, column = in[lane].transposed ? line : two + h;
                memcpy(&v[h], in[8 * i + row].row + 2 * column, sizeof v[h]);
            }
            m.result[parity].matrix[lane][i] = v[0] | static_cast<uint32_t>(v[1]) << 16;
        }
}

// All lanes of the mask that still live are there: works out what is common to them and lets them go.
static void release(Meeting &m) {
    unsigned parity = m.generation & 1;
    for (unsigned lane = 0; lane < warp_size; lane++)
        if (!(m.arrived >> lane & 1)) memset(m.brought[parity][lane], 0xff, payload_bytes);
    if ((m.action == WarpAction::mma || m.action == WarpAction::load_matrix) && m.arrived != 0xffffffffu)
        wrong("%s (%s) by lanes %08x, want all 32", action_name(m.action), place(m.where).text, m.arrived);
    if (m.action == WarpAction::mma) multiply(m, parity);
    if (m.action == WarpAction::load_matrix) load_matrices(m, parity);
    m.arrived = 0;
    m.generation++;
}

// Lanes that wait under different masks for one another are found when nobody can go on.
static Meeting &meeting_of(Warp &w, uint32_t mask) {
    for (unsigned i = 0; i < w.used; i++)
        if (w.meetings[i].mask == mask) return w.meetings[i];
    if (w.used == w.meetings.size()) wrong("more than %zu masks in one warp", w.meetings.size());
    Meeting &m = w.meetings[w.used++];
    m.mask = mask;
    m.arrived = m.generation = 0;
    return m;
}

Meeting &meet(uint32_t mask, WarpAction action, const void *brought, size_t bytes, Where where, unsigned *parity) {
    Fiber *f = current;
    Warp &w = *f->warp;
    if (!(mask >> f->lane & 1))
        wrong("lane %u calls %s (%s) without being in its mask %08x", f->lane, action_name(action), place(where).text,
              mask);
    Meeting &m = meeting_of(w, mask);
    if (!m.arrived) {
        m.action = action;
        m.where = where;
    } else if (m.action != action)
        wrong("lanes of one warp meet in %s (%s) and %s (%s)", action_name(m.action), place(m.where).text,
              action_name(action), place(where).text);
    *parity = m.generation & 1;
    if (bytes) memcpy(m.brought[*parity][f->lane], brought, bytes);
    m.arrived |= 1u << f->lane;
    if (m.arrived == (mask & w.live)) {
        release(m);
        return m;
    }
    f->where = where;
    f->meeting = &m;
    f->awaited = m.generation;
    f->state = Fiber::State::at_warp;
    yield();
    return m;
}

uint32_t vote(uint32_t mask, bool yes, Where where) {
    unsigned parity;
    unsigned char v = yes;
    Meeting &m = meet(mask, WarpAction::vote, &v, sizeof v, where, &parity);
    uint32_t bits = 0;
    for (unsigned lane = 0; lane < warp_size; lane++)
        if (m.brought[parity][lane][0] == 1) bits |= 1u << lane;
    return bits;
}

void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Where where) {
    uint32_t v[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    unsigned parity, g = current->lane / 4, t = current->lane % 4;
    const auto &product = meet(0xffffffffu, WarpAction::mma, v, sizeof v, where, &parity).result[parity].product;
    for (unsigned i = 0; i < 4; i++) d[i] += product[g + 8 * (i / 2)][2 * t + i % 2];
}

void load_matrix(uint32_t (&r)[4], const void *row, bool transposed, Where where) {
    if (reinterpret_cast<uintptr_t>(row) % 16)
        wrong("a matrix load (%s) from an address that is no multiple of 16", place(where).text);
    MatrixRow in = {static_cast<const unsigned char *>(row), transposed};
    unsigned parity;
    Meeting &m = meet(0xffffffffu, WarpAction::load_matrix, &in, sizeof in, where, &parity);
    memcpy(r, m.result[parity].matrix[current->lane], sizeof r);
}

static void arrive(const Copy &c) {
    if (c.valid) memcpy(c.to, c.from, 16);
    else memset(c.to, 0, 16);
}

// A copy may arrive at once or only when it is waited for: at once in ring order, late in the others.
void copy_async(void *to, const void *from, bool valid) {
    Fiber *f = current;
    if (reinterpret_cast<uintptr_t>(to) % 16 || (valid && reinterpret_cast<uintptr_t>(from) % 16))
        wrong("an asynchronous copy between addresses that are no multiples of 16");
    Copy c = {to, from, valid, f->copy_group};
    if (f->block->launch->order == Order::ring) arrive(c);
    else f->copies.push_back(c);
}

void copy_commit() {
    current->copy_group++;
}

void copy_wait(unsigned newest) {
    Fiber *f = current;
    size_t done = 0;
    while (done < f->copies.size() && f->copies[done].group + newest < f->copy_group) arrive(f->copies[done++]);
    f->copies.erase(f->copies.begin(), f->copies.begin() + static_cast<ptrdiff_t>(done));
}

static std::atomic<unsigned> sites{0};
unsigned new_site() {
    return sites++;
}

// Exactly as large as asked, so that the address sanitizer sees the end.
static void *allocate(size_t bytes) {
    void *p = nullptr;
    if (posix_memalign(&p, 128, bytes ? bytes : 1)) abort();
    memset(p, 0xff, bytes); // not a number, whatever is read from it
    return p;
}

void *shared_slot(unsigned site, size_t bytes) {
    Block *b = current->block;
    if (b->slots[site]) return b->slots[site];
    b->static_bytes += bytes;
    if (b->static_bytes > 48 * 1024) wrong("%zu bytes of static shared memory, want 49152 at most", b->static_bytes);
    b->slot_bytes[site] = bytes;
    return b->slots[site] = allocate(bytes);
}

static void ended() {
    Fiber *f = current;
    Block *b = f->block;
    f->state = Fiber::State::ended;
    b->live--;
    f->warp->live &= ~(1u << f->lane);
    if (b->arrived && b->arrived == b->live) {
        b->arrived = 0;
        b->generation++;
    }
    for (unsigned i = 0; i < f->warp->used; i++) {
        Meeting &m = f->warp->meetings[i];
        if (m.arrived && m.arrived == (m.mask & f->warp->live)) release(m);
    }
}

// Not seen by the thread sanitizer, whose record of calls would grow with every block: this never returns.
__attribute__((no_sanitize("thread"))) static void fiber_main() {
    entered(current->context);
    current->block->launch->body();
    ended();
    yield();
    abort(); // an ended fiber is never chosen
}

static void begin_block(Block &b, uint3 index, Stacks &stacks) {
    const dim3 &size = b.size;
    unsigned n = static_cast<unsigned>(b.fibers.size());
    b.index = index;
    b.live = n;
    b.arrived = b.generation = 0;
    memset(b.dynamic, 0xff, b.launch->shared);
    for (size_t i = 0; i < b.slots.size(); i++)
        if (b.slots[i]) memset(b.slots[i], 0xff, b.slot_bytes[i]);
    for (unsigned i = 0; i < b.warps.size(); i++) {
        unsigned lanes = std::min(n - i * warp_size, warp_size);
        b.warps[i].live = lanes == warp_size ? 0xffffffffu : (1u << lanes) - 1;
        b.warps[i].used = 0;
    }
    for (unsigned i = 0; i < n; i++) {
        Fiber &f = b.fibers[i];
        f.thread = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
        f.index = i;
        f.lane = i % warp_size;
        f.state = Fiber::State::ready;
        f.warp = &b.warps[i / warp_size];
        f.block = &b;
        f.copy_group = 0;
        f.copies.clear();
        stacks.begin(i, f.context, fiber_main);
    }
}

// The i-th block to run, as a number in x, y, z order.
static std::vector<uint64_t> block_order(uint64_t n, uint64_t seed) {
    std::vector<uint64_t> order(n);
    for (uint64_t i = 0; i < n; i++) order[i] = i;
    if (seed) {
        std::mt19937_64 random(seed);
        for (uint64_t i = n; i > 1; i--) std::swap(order[i - 1], order[random() % i]);
    }
    return order;
}

std::string run(const Launch &launch) {
    static thread_local Stacks stacks;
    Block b;
    unsigned n = launch.block.x * launch.block.y * launch.block.z;
    b.launch = &launch;
    b.grid = launch.grid;
    b.size = launch.block;
    b.fibers.resize(n);
    b.warps.resize((n + warp_size - 1) / warp_size);
    for (Warp &w : b.warps) w.meetings.resize(8);
    b.dynamic = allocate(launch.shared);
    b.slots.resize(sites);
    b.slot_bytes.resize(sites);
    b.static_bytes = 0;
    stacks.reserve(n);
    own_stack(b.scheduler);
    const dim3 &g = launch.grid;
    for (uint64_t at : block_order(static_cast<uint64_t>(g.x) * g.y * g.z, launch.block_seed)) {
        uint3 index = {static_cast<unsigned>(at % g.x), static_cast<unsigned>(at / g.x % g.y),
                       static_cast<unsigned>(at / g.x / g.y)};
        begin_block(b, index, stacks);
        current = &b.fibers[launch.order == Order::reverse ? n - 1 : 0];
        switch_to(b.scheduler, current->context);
        if (b.wrong.empty()) continue;
        stacks.give_up();
        break;
    }
    current = nullptr;
    free(b.dynamic);
    for (void *p : b.slots) free(p);
    return b.wrong;
}

} // namespace emu
