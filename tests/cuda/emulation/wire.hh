// wire.hh - letters between processes of one machine, over Unix sockets: what NCCL's bootstrap and transports are here.
// Each process has one address, the path of a socket, which the unique id of a communicator carries. Letters from one
// process to another arrive in order. Before it: comm.cc and transfer.cc.
#ifndef EMULATION_WIRE_HH
#define EMULATION_WIRE_HH
#include "emulation/state.hh"

namespace emu {

enum class LetterKind : uint64_t { hello, join, roster, connect, data, taken, lost, left };

// Numbers and texts one after another; read in the order in which they were put.
class Letter {
  public:
    Letter() = default;
    explicit Letter(LetterKind kind) { put(static_cast<uint64_t>(kind)); }
    explicit Letter(std::string bytes) : bytes_(std::move(bytes)) {}
    void put(uint64_t v) { bytes_.append(reinterpret_cast<const char *>(&v), sizeof v); }
    void put(const std::string &text) {
        put(text.size());
        bytes_ += text;
    }
    void put(const void *p, size_t bytes) {
        put(bytes);
        bytes_.append(static_cast<const char *>(p), bytes);
    }
    uint64_t number();
    int small() { return static_cast<int>(static_cast<int64_t>(number())); }
    std::string text();
    const std::string &bytes() const { return bytes_; }

  private:
    std::string bytes_;
    size_t at_ = 0;
};

// This process's address; opens its socket when first asked. "" where that is not possible.
std::string own_address(State &s);
// Sends a letter, under the lock; it leaves later. False where nobody is at the address.
bool send_letter(State &s, const std::string &address, Letter letter);
// Waits until all letters have left, without the lock.
void flush_letters();

// Given by comm.cc: called under the lock for each letter, and when a process has gone.
extern void (*on_letter)(State &s, LetterKind kind, Letter &letter);
extern void (*on_gone)(State &s, const std::string &address);

} // namespace emu
#endif
