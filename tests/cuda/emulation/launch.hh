// launch.hh - a launch: a kernel, where its threads lie, and its arguments, which are copied now and used when the stream
// comes to it. Before it: PPL_LAUNCH in kernel.hh; after it: the stream's queue.
#ifndef EMULATION_LAUNCH_HH
#define EMULATION_LAUNCH_HH
#include "emulation/fiber.hh"
#include <driver_types.h>
#include <memory>
#include <tuple>
#include <utility>

namespace emu {

// Checks the launch, then queues it; what is wrong with it is left for cudaGetLastError, as in CUDA.
void queue_launch(const void *kernel, Launch launch, cudaStream_t stream);

template <class... P, class... A>
void launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
            A &&...args) {
    auto copied = std::make_shared<std::tuple<P...>>(std::forward<A>(args)...);
    Launch l;
    l.name = name;
    l.grid = grid;
    l.block = block;
    l.shared = shared;
    l.body = [kernel, copied] { std::apply(kernel, *copied); };
    queue_launch(reinterpret_cast<const void *>(kernel), std::move(l), stream);
}

} // namespace emu
#endif
