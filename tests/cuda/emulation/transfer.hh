// transfer.hh - sends, receives and collectives as work of a stream. Before it: nccl.cc, which groups calls; after it: the
// lanes of a world, where a send and its receive meet.
#ifndef EMULATION_TRANSFER_HH
#define EMULATION_TRANSFER_HH
#include "emulation/comm.hh"

namespace emu {

enum class CallKind { send, receive, all_reduce, broadcast };

struct Call {
    CallKind kind;
    const void *from;
    void *to;
    size_t count;
    ncclDataType_t type;
    int peer; // of a send or receive; a broadcast's root
    ncclRedOp_t reduction;
    std::vector<PostPtr> posts = {};
    std::vector<std::string> parts = {}; // rank 0 of an all-reduce: what the others contribute
    bool reduced = false;
};

// The calls of one group on one communicator: one kernel on a GPU. It begins when the batch before it, of the same
// communicator, has ended; all its calls progress together; it ends when all have.
struct Batch {
    CommPtr comm;
    cudaStream_t stream;
    std::vector<Call> calls;
    uint64_t number = 0; // among the communicator's batches
    uint64_t order = 0;  // among the device's
    bool begun = false;
    bool stuck = false;  // by a planted fault: never begins
    bool failed = false; // by a planted fault: is not put into a stream
};

size_t size_of(ncclDataType_t type); // bytes; 0 for a type that is not supported
// Asks for every lane that the batch needs; true when all have been asked for from both sides. NCCL makes connections when
// they are first used, and waits for the other side to come.
bool connect(State &s, const Batch &b);
// Puts the batch into its stream.
cudaError_t enqueue_batch(State &s, const std::shared_ptr<Batch> &b);
std::string describe(const Batch &b);

} // namespace emu
#endif
