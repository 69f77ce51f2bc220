// wire.cc - letters between processes over Unix sockets: one thread accepts, one reads for each process that writes to
// this one, one writes for each that is written to. Before it: comm.cc, transfer.cc; after it: the other process.
#include "emulation/wire.hh"
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <atomic>
#include <cstdlib>
#include <thread>

namespace emu {

void (*on_letter)(State &s, LetterKind kind, Letter &letter);
void (*on_gone)(State &s, const std::string &address);

namespace {

// The letters that wait to be written to one process.
struct Outbox {
    int socket;
    std::deque<std::string> letters;
    bool writing = false, gone = false;
    std::condition_variable filled, empty;
};

std::string &address = *new std::string;
std::map<std::string, Outbox *> &outboxes = *new std::map<std::string, Outbox *>;

bool write_all(int to, const char *p, size_t bytes) {
    while (bytes) {
        ssize_t n = send(to, p, bytes, MSG_NOSIGNAL);
        if (n <= 0) return false;
        p += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}

bool read_all(int from, char *p, size_t bytes) {
    while (bytes) {
        ssize_t n = recv(from, p, bytes, 0);
        if (n <= 0) return false;
        p += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}

bool socket_address(const std::string &path, sockaddr_un *a) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    if (path.size() >= sizeof a->sun_path) return false;
    memcpy(a->sun_path, path.c_str(), path.size() + 1);
    return true;
}

void reader(int from) {
    State &s = state();
    std::string peer;
    for (;;) {
        uint64_t bytes;
        if (!read_all(from, reinterpret_cast<char *>(&bytes), sizeof bytes) || bytes > (uint64_t(1) << 32)) break;
        std::string text(bytes, 0);
        if (!read_all(from, text.data(), bytes)) break;
        Letter letter(std::move(text));
        LetterKind kind = static_cast<LetterKind>(letter.number());
        Lock l(s.lock);
        if (kind == LetterKind::hello) peer = letter.text();
        else on_letter(s, kind, letter);
        moved(s);
    }
    close(from);
    Lock l(s.lock);
    if (!peer.empty()) on_gone(s, peer);
    unlink(peer.c_str()); // it may have been killed
    moved(s);
}

void writer(Outbox *box) {
    State &s = state();
    Lock l(s.lock);
    for (;;) {
        box->filled.wait(l, [&] { return !box->letters.empty(); });
        std::string bytes = std::move(box->letters.front());
        box->letters.pop_front();
        box->writing = true;
        l.unlock();
        uint64_t size = bytes.size();
        bool written = write_all(box->socket, reinterpret_cast<const char *>(&size), sizeof size) &&
                       write_all(box->socket, bytes.data(), bytes.size());
        l.lock();
        box->writing = false;
        box->gone |= !written;
        if (box->letters.empty()) box->empty.notify_all();
    }
}

void acceptor(int listening) {
    for (;;) {
        int from = accept(listening, nullptr, nullptr);
        if (from >= 0) std::thread(reader, from).detach();
    }
}

void remove_socket() {
    unlink(address.c_str());
}

Outbox *outbox_of(State &s, const std::string &to) {
    auto found = outboxes.find(to);
    if (found != outboxes.end()) return found->second;
    sockaddr_un a;
    int out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!socket_address(to, &a) || connect(out, reinterpret_cast<sockaddr *>(&a), sizeof a)) {
        close(out);
        return nullptr;
    }
    Outbox *box = outboxes[to] = new Outbox;
    box->socket = out;
    std::thread(writer, box).detach();
    Letter hello(LetterKind::hello);
    hello.put(own_address(s));
    box->letters.push_back(hello.bytes());
    return box;
}

} // namespace

uint64_t Letter::number() {
    uint64_t v = 0;
    if (bytes_.size() - at_ >= sizeof v) memcpy(&v, bytes_.data() + at_, sizeof v);
    at_ = std::min(bytes_.size(), at_ + sizeof v);
    return v;
}

std::string Letter::text() {
    size_t bytes = std::min<size_t>(number(), bytes_.size() - at_);
    at_ += bytes;
    return bytes_.substr(at_ - bytes, bytes);
}

std::string own_address(State &) {
    if (!address.empty()) return address;
    const char *folder = getenv("TMPDIR");
    std::string path = std::string(folder && *folder ? folder : "/tmp") + "/ppl-emu-" + std::to_string(getpid()) + "-" +
                       std::to_string(Clock::now().time_since_epoch().count() % 1000000);
    sockaddr_un a;
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!socket_address(path, &a) || bind(listening, reinterpret_cast<sockaddr *>(&a), sizeof a) ||
        listen(listening, 64)) {
        close(listening);
        return "";
    }
    address = path;
    atexit(remove_socket);
    std::thread(acceptor, listening).detach();
    return address;
}

bool send_letter(State &s, const std::string &to, Letter letter) {
    Outbox *box = outbox_of(s, to);
    if (!box || box->gone) return false;
    box->letters.push_back(letter.bytes());
    box->filled.notify_one();
    return true;
}

void flush_letters() {
    Lock l(state().lock);
    Clock::time_point until = Clock::now() + std::chrono::seconds(5); // a process that does not read is not waited for
    for (auto &[to, box] : outboxes)
        while (!box->gone && (!box->letters.empty() || box->writing) && Clock::now() < until)
            box->empty.wait_for(l, std::chrono::milliseconds(20));
}

} // namespace emu
