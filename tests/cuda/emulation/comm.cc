// comm.cc - how ranks find one another: each joins at the process that made the unique id; when all have, that process
// checks them and sends every rank the roster. Splits gather at the same place. Before it: nccl.cc; after it: transfer.cc.
#include "emulation/comm.hh"
#include <algorithm>

namespace emu {
namespace {

struct Joined {
    int rank, size, color, key, device;
    bool split;
    std::string process, host, root;
};

struct Tables {
    std::map<std::string, std::vector<Joined>> gatherings;  // at the root
    std::map<std::pair<std::string, int>, CommPtr> waiting; // ranks of this process, by gathering and old rank
    std::map<std::string, std::shared_ptr<World>> worlds;
    std::set<ncclComm *> handles;
};
Tables &tables = *new Tables;

void roster_letter(State &s, Letter &letter);

void deliver(State &s, const std::string &process, const Letter &letter) {
    if (process == own_address(s)) {
        Letter read(letter.bytes());
        read.number();
        roster_letter(s, read);
    } else send_letter(s, process, letter);
}

// What is wrong with the ranks that gathered.
std::string check(const std::vector<Joined> &all) {
    std::map<std::pair<std::string, int>, int> devices;
    std::set<int> ranks;
    for (const Joined &j : all) {
        if (j.size != all[0].size) return "ranks disagree about the number of ranks";
        if (j.rank < 0 || j.rank >= j.size || !ranks.insert(j.rank).second)
            return "rank " + std::to_string(j.rank) + " of " + std::to_string(j.size) +
                   " joined twice or does not exist";
        auto [at, first] = devices.insert({{j.host, j.device}, j.rank});
        if (!first)
            return "Duplicate GPU detected : rank " + std::to_string(at->second) + " and rank " +
                   std::to_string(j.rank) + " both on CUDA device " + std::to_string(j.device);
    }
    return "";
}

// All ranks are here: one roster for each, with its new rank and the members of its color.
void send_rosters(State &s, const std::string &gathering, const std::vector<Joined> &all) {
    std::string wrong = check(all);
    std::map<int, std::vector<const Joined *>> colors;
    for (const Joined &j : all) colors[j.color].push_back(&j);
    for (auto &[color, members] : colors)
        std::sort(members.begin(), members.end(), [](const Joined *a, const Joined *b) {
            return std::make_pair(a->key, a->rank) < std::make_pair(b->key, b->rank);
        });
    for (const Joined &j : all) {
        const auto &members = colors[j.color];
        Letter roster(LetterKind::roster);
        roster.put(gathering);
        roster.put(static_cast<uint64_t>(j.rank));
        roster.put(wrong);
        roster.put(j.split ? gathering + ":" + std::to_string(j.color) : gathering);
        roster.put(j.root);
        roster.put(static_cast<uint64_t>(std::find(members.begin(), members.end(), &j) - members.begin()));
        roster.put(members.size());
        for (const Joined *m : members) {
            roster.put(m->process);
            roster.put(static_cast<uint64_t>(m->device));
            roster.put(m->host);
        }
        deliver(s, j.process, roster);
    }
}

void add_joined(State &s, const std::string &gathering, Joined j) {
    std::vector<Joined> &all = tables.gatherings[gathering];
    all.push_back(std::move(j));
    if (all.size() < static_cast<size_t>(all[0].size)) return;
    std::vector<Joined> complete = std::move(all);
    tables.gatherings.erase(gathering);
    send_rosters(s, gathering, complete);
}

void join_letter(State &s, Letter &letter) {
    std::string gathering = letter.text();
    Joined j;
    j.rank = letter.small();
    j.size = letter.small();
    j.color = letter.small();
    j.key = letter.small();
    j.device = letter.small();
    j.split = letter.number();
    j.process = letter.text();
    j.host = letter.text();
    j.root = letter.text();
    add_joined(s, gathering, std::move(j));
}

void roster_letter(State &s, Letter &letter) {
    std::string gathering = letter.text();
    int old_rank = letter.small();
    auto found = tables.waiting.find({gathering, old_rank});
    if (found == tables.waiting.end()) return;
    CommPtr c = found->second;
    tables.waiting.erase(found);
    if (c->aborted) return;
    std::string wrong = letter.text();
    std::shared_ptr<World> world = world_named(s, letter.text());
    world->root = letter.text();
    c->rank = letter.small();
    c->size = letter.small();
    world->members.resize(static_cast<size_t>(c->size));
    for (Member &m : world->members) {
        m.process = letter.text();
        if (m.process == own_address(s)) m.process.clear();
        m.device = letter.small();
        m.host = letter.text();
    }
    c->world = world;
    world->comms.insert(c.get());
    if (wrong.empty()) c->status = ncclSuccess;
    else fail_comm(s, *c, ncclInvalidUsage, wrong);
    moved(s);
}

void letter(State &s, LetterKind kind, Letter &text) {
    switch (kind) {
    case LetterKind::hello: break;
    case LetterKind::join: join_letter(s, text); break;
    case LetterKind::roster: roster_letter(s, text); break;
    case LetterKind::connect:
    case LetterKind::data:
    case LetterKind::taken:
    case LetterKind::lost:
    case LetterKind::left: lane_letter(s, kind, text); break;
    }
}

// A process ended, in whatever way, before its communicators here did.
void gone(State &s, const std::string &address) {
    for (auto &[name, world] : tables.worlds)
        for (size_t r = 0; r < world->members.size(); r++)
            if (world->members[r].process == address && !world->left.count(static_cast<int>(r)))
                for (Comm *c : world->comms)
                    fail_comm(s, *c, ncclRemoteError, "the process of rank " + std::to_string(r) + " has gone");
}

void forget() {
    for (ncclComm *h : tables.handles) delete h;
    tables = Tables();
    state().communicators = 0;
}

const bool registered = [] {
    on_letter = letter;
    on_gone = gone;
    forget_communicators = forget;
    return true;
}();

} // namespace

void fail_comm(State &s, Comm &c, ncclResult_t e, const std::string &text) {
    if (c.status != ncclSuccess && c.status != ncclInProgress) return;
    c.status = e;
    c.text = text;
    moved(s);
}

void join(State &s, const CommPtr &c, const Joining &j) {
    c->gathering = j.gathering;
    c->rank = j.rank;
    c->size = j.size;
    if (fault(s, EMU_FAULT_INIT)) {
        fail_comm(s, *c, ncclSystemError, "a planted failure to make a communicator");
        return;
    }
    std::string process = own_address(s);
    tables.waiting[{j.gathering, j.rank}] = c;
    if (j.root == process) {
        add_joined(
            s, j.gathering,
            {j.rank, j.size, j.color, j.key, device_of(s, c->device).physical, j.split, process, s.set.host, j.root});
        return;
    }
    Letter letter(LetterKind::join);
    letter.put(j.gathering);
    for (int v : {j.rank, j.size, j.color, j.key, device_of(s, c->device).physical, static_cast<int>(j.split)})
        letter.put(static_cast<uint64_t>(static_cast<int64_t>(v)));
    letter.put(process);
    letter.put(s.set.host);
    letter.put(j.root);
    if (!send_letter(s, j.root, letter)) fail_comm(s, *c, ncclRemoteError, "nobody listens at " + j.root);
}

std::shared_ptr<World> world_named(State &, const std::string &name) {
    std::shared_ptr<World> &world = tables.worlds[name];
    if (!world) {
        world = std::make_shared<World>();
        world->name = name;
    }
    return world;
}

ncclComm *new_handle(State &s, const CommPtr &c) {
    ncclComm *h = new ncclComm{c};
    tables.handles.insert(h);
    s.communicators = tables.handles.size();
    return h;
}

CommPtr comm_of(State &, ncclComm_t handle) {
    return tables.handles.count(handle) ? handle->comm : nullptr;
}

void drop_handle(State &s, ncclComm_t handle) {
    tables.handles.erase(handle);
    delete handle;
    s.communicators = tables.handles.size();
}

void tell_members(State &s, const Comm &c, LetterKind kind) {
    std::set<std::string> told;
    for (const Member &m : c.world->members) {
        if (m.process.empty() || !told.insert(m.process).second) continue;
        Letter letter(kind);
        letter.put(c.world->name);
        letter.put(static_cast<uint64_t>(c.rank));
        send_letter(s, m.process, letter);
    }
}

void leave(State &, Comm &c) {
    tables.waiting.erase({c.gathering, c.rank});
    if (!c.world) return;
    auto mine = [&](const PostPtr &p) { return p->comm == &c; };
    for (auto &[ends, lane] : c.world->lanes)
        for (std::deque<PostPtr> *posts : {&lane.sends, &lane.receives, &lane.away})
            posts->erase(std::remove_if(posts->begin(), posts->end(), mine), posts->end());
    c.world->comms.erase(&c);
    if (c.world->comms.empty()) tables.worlds.erase(c.world->name);
}

} // namespace emu
