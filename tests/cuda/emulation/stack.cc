// stack.cc - stacks and the switch between them, for x86-64, as the engine's own kernels are. Before it: fiber.cc.
#include "emulation/stack.hh"
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace emu {

#ifdef __SANITIZE_ADDRESS__
constexpr size_t stack_bytes = 256 * 1024; // frames are larger with red zones
#else
constexpr size_t stack_bytes = 64 * 1024;
#endif

// Saves what a called function must keep, then takes the other stack's.
extern "C" void emulation_switch(void **save, void *load);
asm(R"(
.text
.globl emulation_switch
.type emulation_switch, @function
emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulation_switch, . - emulation_switch
)");
static void prepare(Context &c, void (*main)()) {
    void **top = reinterpret_cast<void **>(static_cast<char *>(c.bottom) + c.size - 64);
    *--top = nullptr; // main never returns; keeps the stack aligned as after a call
    *--top = reinterpret_cast<void *>(main);
    for (int i = 0; i < 6; i++) *--top = nullptr;
    c.stack_pointer = top;
}

__attribute__((no_sanitize("thread"))) void switch_to(Context &from, Context &to) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from.shadow, to.bottom, to.size);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(to.shadow, 0);
#endif
    emulation_switch(&from.stack_pointer, to.stack_pointer);
    entered(from);
}

void entered(Context &self) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(self.shadow, nullptr, nullptr);
#endif
    (void)self;
}

void own_stack(Context &self) {
    pthread_attr_t attr;
    if (pthread_getattr_np(pthread_self(), &attr)) abort();
    pthread_attr_getstack(&attr, &self.bottom, &self.size);
    pthread_attr_destroy(&attr);
#ifdef __SANITIZE_THREAD__
    self.shadow = __tsan_get_current_fiber();
#endif
}

void Stacks::reserve(size_t count) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    while (stacks_.size() < count) {
        void *p = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1, 0);
        if (p == MAP_FAILED || mprotect(p, page, PROT_NONE)) abort();
        Context c;
        c.bottom = static_cast<char *>(p) + page;
        c.size = stack_bytes;
#ifdef __SANITIZE_THREAD__
        c.shadow = __tsan_create_fiber(0);
#endif
        stacks_.push_back(c);
    }
}

void Stacks::begin(size_t at, Context &context, void (*main)()) {
    Context &c = stacks_[at];
#ifdef __SANITIZE_ADDRESS__
    // The fiber before ended inside its last switch: the red zones of those frames, next to the top, still stand.
    constexpr size_t left = 4096;
    __asan_unpoison_memory_region(static_cast<char *>(c.bottom) + c.size - left, left);
#endif
    prepare(c, main);
    context = c;
}

void Stacks::give_up() {
#ifdef __SANITIZE_ADDRESS__
    for (Context &c : stacks_) __asan_unpoison_memory_region(c.bottom, c.size);
#endif
}

Stacks::~Stacks() {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (Context &c : stacks_) {
#ifdef __SANITIZE_THREAD__
        __tsan_destroy_fiber(c.shadow);
#endif
        munmap(static_cast<char *>(c.bottom) - page, page + c.size);
    }
}

} // namespace emu
