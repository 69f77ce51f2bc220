// block.cc - blocks of emulated device memory, full of NaNs at first: large ones are the same few pages mapped again and again
// until they are written, so that what is never used costs nothing. Before it: cudart_memory.cc.
#include "emulation/state.hh"
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

namespace emu {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
constexpr size_t tile = 1 << 21;

size_t in_tiles(size_t bytes) {
    return (bytes + tile - 1) / tile * tile;
}

// A file of one tile of NaNs; -1: there is none to be had.
int nan_file() {
    int file = memfd_create("nan", MFD_CLOEXEC);
    std::string all(tile, '\xff');
    if (file >= 0 && write(file, all.data(), tile) == static_cast<ssize_t>(tile)) return file;
    return -1;
}

void *map(size_t bytes) {
    static const int file = nan_file();
    size_t all = in_tiles(bytes);
    if (file < 0) return nullptr;
    void *p = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    for (size_t at = 0; at < all; at += tile)
        if (mmap(static_cast<char *>(p) + at, tile, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) ==
            MAP_FAILED) {
            munmap(p, all);
            return nullptr;
        }
    return p;
}

} // namespace

// With the address sanitizer exactly as large as asked, so that it sees the end.
void *block_get(size_t bytes, bool *mapped) {
    void *p = nullptr;
    *mapped = !sanitized && bytes >= tile && (p = map(bytes));
    if (*mapped) return p;
    if (posix_memalign(&p, 512, bytes)) return nullptr;
    memset(p, 0xff, bytes);
    return p;
}

void block_free(void *p, size_t bytes, bool mapped) {
    if (mapped) munmap(p, in_tiles(bytes));
    else free(p);
}

} // namespace emu
