// transfer.cc - moves data along the lanes of a world: a send and its receive meet in order, in one process by a copy, in
// two by letters. Collectives go through rank 0 and add in the order of ranks. Before it: nccl.cc.
#include "emulation/transfer.hh"
#include <algorithm>
#include <cstdlib>

namespace emu {
namespace {

// What both sides of a message must agree on besides its size.
uint64_t tag_of(const Call &call) {
    if (call.kind == CallKind::send || call.kind == CallKind::receive) return 0;
    uint64_t root = call.kind == CallKind::broadcast ? static_cast<uint64_t>(call.peer) : 0;
    return 1 + ((static_cast<uint64_t>(call.kind) * 64 + call.type) * 64 + call.reduction) * 4096 + root;
}

bool elsewhere(const World &w, int rank) {
    return !w.members[static_cast<size_t>(rank)].process.empty();
}

Letter lane_head(LetterKind kind, const World &w, int from, int to) {
    Letter letter(kind);
    letter.put(w.name);
    letter.put(static_cast<uint64_t>(from));
    letter.put(static_cast<uint64_t>(to));
    return letter;
}

void mismatch(State &s, World &w, int from, int to, const Post &send, const Post &receive) {
    report(s, "NCCL: rank " + std::to_string(from) + " sends " + std::to_string(send.bytes) + " bytes and rank " +
                  std::to_string(to) + " receives " + std::to_string(receive.bytes) + " bytes" +
                  (send.tag == receive.tag ? "" : " in another kind of call"));
    std::set<int> devices;
    for (Comm *c : w.comms) devices.insert(c->device);
    for (int d : devices) break_device(s, d, cudaErrorLaunchFailure);
}

// Pairs sends with receives, the first with the first.
void match(State &s, World &w, int from, int to) {
    Lane &lane = w.lanes[{from, to}];
    while (!lane.sends.empty() && !lane.receives.empty()) {
        PostPtr send = lane.sends.front(), receive = lane.receives.front();
        if (send->bytes != receive->bytes || send->tag != receive->tag)
            return mismatch(s, w, from, to, *send, *receive);
        lane.sends.pop_front();
        lane.receives.pop_front();
        if (send->bytes) memcpy(receive->data, send->comm ? send->data : send->kept.data(), send->bytes);
        send->done = receive->done = true;
        if (!send->comm)
            send_letter(s, w.members[static_cast<size_t>(from)].process, lane_head(LetterKind::taken, w, from, to));
        moved(s);
    }
}

PostPtr post_send(State &s, Comm &c, int to, const void *data, size_t bytes, uint64_t tag) {
    World &w = *c.world;
    PostPtr p = std::make_shared<Post>(Post{&c, const_cast<void *>(data), "", bytes, tag});
    if (elsewhere(w, to)) {
        w.lanes[{c.rank, to}].away.push_back(p);
        Letter letter = lane_head(LetterKind::data, w, c.rank, to);
        letter.put(tag);
        letter.put(data, bytes);
        send_letter(s, w.members[static_cast<size_t>(to)].process, letter);
    } else {
        w.lanes[{c.rank, to}].sends.push_back(p);
        match(s, w, c.rank, to);
    }
    return p;
}

PostPtr post_receive(State &s, Comm &c, int from, void *data, size_t bytes, uint64_t tag) {
    PostPtr p = std::make_shared<Post>(Post{&c, data, "", bytes, tag});
    c.world->lanes[{from, c.rank}].receives.push_back(p);
    match(s, *c.world, from, c.rank);
    return p;
}

// ---- reductions ----

template <class T> T reduced(T a, T b, ncclRedOp_t how) {
    switch (how) {
    case ncclProd: return a * b;
    case ncclMax: return b > a ? b : a;
    case ncclMin: return b < a ? b : a;
    default: return a + b;
    }
}

template <class T> void reduce(void *into, const void *from, size_t n, ncclRedOp_t how) {
    T *a = static_cast<T *>(into);
    const T *b = static_cast<const T *>(from);
    for (size_t i = 0; i < n; i++) a[i] = reduced(a[i], b[i], how);
}

// Each step rounds to bf16, to nearest even.
void reduce_bf16(void *into, const void *from, size_t n, ncclRedOp_t how) {
    uint16_t *a = static_cast<uint16_t *>(into);
    const uint16_t *b = static_cast<const uint16_t *>(from);
    for (size_t i = 0; i < n; i++) {
        uint32_t x = static_cast<uint32_t>(a[i]) << 16, y = static_cast<uint32_t>(b[i]) << 16;
        float fx, fy;
        memcpy(&fx, &x, sizeof fx);
        memcpy(&fy, &y, sizeof fy);
        float f = reduced(fx, fy, how);
        memcpy(&x, &f, sizeof x);
        a[i] = f != f ? 0x7fff : static_cast<uint16_t>((x + 0x7fff + (x >> 16 & 1)) >> 16);
    }
}

void reduce_into(const Call &call, const std::string &part) {
    switch (static_cast<int>(call.type)) {
    case ncclFloat32: return reduce<float>(call.to, part.data(), call.count, call.reduction);
    case ncclFloat64: return reduce<double>(call.to, part.data(), call.count, call.reduction);
    case ncclInt32: return reduce<int32_t>(call.to, part.data(), call.count, call.reduction);
    case ncclInt64: return reduce<int64_t>(call.to, part.data(), call.count, call.reduction);
    case ncclUint64: return reduce<uint64_t>(call.to, part.data(), call.count, call.reduction);
    case ncclBfloat16: return reduce_bf16(call.to, part.data(), call.count, call.reduction);
    default: return reduce<uint8_t>(call.to, part.data(), call.count, call.reduction);
    }
}

// ---- calls ----

void begin_all_reduce(State &s, Comm &c, Call &call, size_t bytes, uint64_t tag) {
    if (c.rank) {
        call.posts.push_back(post_send(s, c, 0, call.from, bytes, tag));
        call.posts.push_back(post_receive(s, c, 0, call.to, bytes, tag));
        return;
    }
    call.parts.resize(static_cast<size_t>(c.size));
    for (int r = 1; r < c.size; r++) {
        std::string &part = call.parts[static_cast<size_t>(r)];
        part.resize(bytes);
        call.posts.push_back(post_receive(s, c, r, part.data(), bytes, tag));
    }
}

void begin_call(State &s, Comm &c, Call &call) {
    size_t bytes = call.count * size_of(call.type);
    uint64_t tag = tag_of(call);
    switch (call.kind) {
    case CallKind::send: call.posts.push_back(post_send(s, c, call.peer, call.from, bytes, tag)); break;
    case CallKind::receive: call.posts.push_back(post_receive(s, c, call.peer, call.to, bytes, tag)); break;
    case CallKind::all_reduce: begin_all_reduce(s, c, call, bytes, tag); break;
    case CallKind::broadcast:
        if (c.rank != call.peer) call.posts.push_back(post_receive(s, c, call.peer, call.to, bytes, tag));
        else {
            for (int r = 0; r < c.size; r++)
                if (r != c.rank) call.posts.push_back(post_send(s, c, r, call.from, bytes, tag));
            if (call.to != call.from) memmove(call.to, call.from, bytes);
        }
    }
}

bool all_done(const Call &call) {
    return std::all_of(call.posts.begin(), call.posts.end(), [](const PostPtr &p) { return p->done; });
}

// Whether the call has ended; rank 0 of an all-reduce adds when all contributions are here, and sends the result.
bool step_call(State &s, Comm &c, Call &call) {
    if (!all_done(call)) return false;
    if (call.kind != CallKind::all_reduce || c.rank || call.reduced) return true;
    call.reduced = true;
    call.posts.clear();
    size_t bytes = call.count * size_of(call.type);
    if (call.to != call.from) memmove(call.to, call.from, bytes);
    for (int r = 1; r < c.size; r++) reduce_into(call, call.parts[static_cast<size_t>(r)]);
    for (int r = 1; r < c.size; r++) call.posts.push_back(post_send(s, c, r, call.to, bytes, tag_of(call)));
    return all_done(call);
}

bool ordered_launches() {
    const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return order && *order == '1';
}

// The batch has been dropped or has ended.
void left_device(Device &d, const Batch &b) {
    d.transfers_in_flight--;
    d.unbegun.erase(b.order);
}

// Begins the batch in its turn, then looks whether all its calls have ended.
bool step_batch(State &s, Batch &b) {
    Comm &c = *b.comm;
    Device &d = device_of(s, c.device);
    if (c.aborted) {
        left_device(d, b);
        return true;
    }
    if (b.stuck || c.finished != b.number) return false;
    if (!b.begun) {
        if (ordered_launches() && *d.unbegun.begin() != b.order) return false;
        d.unbegun.erase(b.order);
        b.begun = true;
        moved(s);
        for (Call &call : b.calls) begin_call(s, c, call);
    }
    bool ended = true;
    for (Call &call : b.calls) ended &= step_call(s, c, call);
    if (!ended || d.broken) return false;
    c.finished++;
    left_device(d, b);
    return true;
}

// The lanes that a call uses: from, to.
std::vector<std::pair<int, int>> lanes_of(const Comm &c, const Call &call) {
    std::vector<std::pair<int, int>> lanes;
    int centre = call.kind == CallKind::broadcast ? call.peer : 0;
    switch (call.kind) {
    case CallKind::send: lanes = {{c.rank, call.peer}}; break;
    case CallKind::receive: lanes = {{call.peer, c.rank}}; break;
    case CallKind::all_reduce:
    case CallKind::broadcast:
        for (int r = 0; r < c.size; r++) {
            if (r == centre || (c.rank != centre && c.rank != r)) continue;
            lanes.push_back({centre, r});
            if (call.kind == CallKind::all_reduce) lanes.push_back({r, centre});
        }
    }
    return lanes;
}

} // namespace

size_t size_of(ncclDataType_t type) {
    switch (static_cast<int>(type)) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: return 0;
    }
}

std::string describe(const Batch &b) {
    std::string text = "NCCL rank " + std::to_string(b.comm->rank) + " of " + std::to_string(b.comm->size) + " (";
    for (const Call &call : b.calls) {
        if (&call != &b.calls[0]) text += ", ";
        switch (call.kind) {
        case CallKind::send: text += "send to " + std::to_string(call.peer); break;
        case CallKind::receive: text += "receive from " + std::to_string(call.peer); break;
        case CallKind::all_reduce: text += "all-reduce"; break;
        case CallKind::broadcast: text += "broadcast from " + std::to_string(call.peer); break;
        }
        text += ", " + std::to_string(call.count * size_of(call.type)) + " bytes";
    }
    return text + ")";
}

bool connect(State &s, const Batch &b) {
    Comm &c = *b.comm;
    bool all = true;
    for (const Call &call : b.calls)
        for (auto [from, to] : lanes_of(c, call)) {
            Lane &lane = c.world->lanes[{from, to}];
            unsigned side = (from == c.rank ? 1u : 0u) | (to == c.rank ? 2u : 0u);
            if ((lane.connected & side) != side) {
                lane.connected |= side;
                int peer = from == c.rank ? to : from;
                if (elsewhere(*c.world, peer)) {
                    Letter letter = lane_head(LetterKind::connect, *c.world, from, to);
                    letter.put(static_cast<uint64_t>(side));
                    send_letter(s, c.world->members[static_cast<size_t>(peer)].process, letter);
                }
                moved(s);
            }
            all &= lane.connected == 3;
        }
    return all;
}

cudaError_t enqueue_batch(State &s, const std::shared_ptr<Batch> &b) {
    Device &d = device_of(s, b->comm->device);
    b->number = b->comm->issued;
    b->order = d.transfers_issued;
    Work w = {describe(*b), [&s, b] { return step_batch(s, *b); }, nullptr};
    if (cudaError_t e = enqueue(s, b->stream, std::move(w))) return e;
    b->comm->issued++;
    d.unbegun.insert(d.transfers_issued++);
    d.transfers_in_flight++;
    s.counts.transfers += b->calls.size();
    return cudaSuccess;
}

void lane_letter(State &s, LetterKind kind, Letter &letter) {
    std::shared_ptr<World> w = world_named(s, letter.text());
    if (kind == LetterKind::left) {
        w->left.insert(letter.small());
        return;
    }
    if (kind == LetterKind::lost) {
        int rank = letter.small();
        for (Comm *c : w->comms) fail_comm(s, *c, ncclRemoteError, "rank " + std::to_string(rank) + " is lost");
        return;
    }
    int from = letter.small(), to = letter.small();
    Lane &lane = w->lanes[{from, to}];
    if (kind == LetterKind::connect) lane.connected |= static_cast<unsigned>(letter.number());
    else if (kind == LetterKind::data) {
        PostPtr p = std::make_shared<Post>(Post{nullptr, nullptr, "", 0, letter.number()});
        p->kept = letter.text();
        p->bytes = p->kept.size();
        lane.sends.push_back(p);
        match(s, *w, from, to);
    } else if (!lane.away.empty()) {
        lane.away.front()->done = true;
        lane.away.pop_front();
    }
}

} // namespace emu
