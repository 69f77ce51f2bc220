// comm.hh - communicators: who is in one, how ranks find one another, what state it is in. Before it: nccl.cc, the calls;
// after it: transfer.cc, which moves data along the lanes of a world.
#ifndef EMULATION_COMM_HH
#define EMULATION_COMM_HH
#include "emulation/state.hh"
#include "emulation/wire.hh"
#include <nccl.h>

namespace emu {

struct Comm;

// One side of a message: it ends when the other side is there and the data have been copied. A send never ends before its
// receive has begun, which is the worst that NCCL allows.
struct Post {
    Comm *comm;       // null: it came from another process
    void *data;       // read, or written
    std::string kept; // a copy of what another process sends
    size_t bytes;
    uint64_t tag; // 0 point to point, else which collective
    bool done = false;
};
using PostPtr = std::shared_ptr<Post>;

// Messages from one rank to another, in order.
struct Lane {
    std::deque<PostPtr> sends, receives;
    std::deque<PostPtr> away; // sent to another process and not yet taken there
    unsigned connected = 0;   // bit 0: the sender has asked for the lane, bit 1: the receiver
};

struct Member {
    std::string process; // its address, "" for this process
    int device;          // on its host
    std::string host;
};

// The ranks of one communicator, as this process sees them.
struct World {
    std::string name, root; // the root's process gathers the ranks of splits as well
    std::vector<Member> members;
    std::map<std::pair<int, int>, Lane> lanes;
    std::set<Comm *> comms; // of this process
    std::set<int> left;     // ranks that have destroyed their communicator: their process may end
};

struct Batch;

// One rank's communicator.
struct Comm {
    std::shared_ptr<World> world;
    int rank = 0, size = 0, device = 0;
    bool blocking = true, aborted = false;
    ncclResult_t status = ncclInProgress;
    std::string text;                  // of the last error
    uint64_t issued = 0, finished = 0; // batches: one after another, whatever their streams
    uint64_t splits = 0;
    std::string gathering;              // what it waits for while it is made
    std::shared_ptr<Batch> unconnected; // waits for its lanes before it goes into its stream
};
using CommPtr = std::shared_ptr<Comm>;

// Fails the communicator for good; the first error stays.
void fail_comm(State &s, Comm &c, ncclResult_t e, const std::string &text);

// Begins to make a communicator: joins the ranks that gather under the name at the root's process.
struct Joining {
    std::string gathering, root;
    int rank, size;
    bool split;
    int color, key; // of a split
};
void join(State &s, const CommPtr &c, const Joining &j);

std::shared_ptr<World> world_named(State &s, const std::string &name);
// Tells all other processes of the world something about this rank.
void tell_members(State &s, const Comm &c, LetterKind kind);
// Forgets the rank's posts and its place in the world.
void leave(State &s, Comm &c);

// Handles that the program holds; null for one that it does not.
ncclComm *new_handle(State &s, const CommPtr &c);
CommPtr comm_of(State &s, ncclComm_t handle);
void drop_handle(State &s, ncclComm_t handle);

// transfer.cc: letters for lanes.
void lane_letter(State &s, LetterKind kind, Letter &letter);

} // namespace emu

// NCCL's handle.
struct ncclComm {
    emu::CommPtr comm;
};
#endif
