// stack.hh - stacks and the switch between them, known to the sanitizers. Used by fiber.cc alone.
#ifndef EMULATION_STACK_HH
#define EMULATION_STACK_HH
#include "emulation/fiber.hh"

namespace emu {

// Stops in `from`, goes on in `to`; comes back when something switches to `from`.
void switch_to(Context &from, Context &to);
// The first thing that a new stack calls.
void entered(Context &self);
// The stack that the caller runs on.
void own_stack(Context &self);

// Stacks of one thread, kept for the next launch; below each lies a page that may not be touched.
class Stacks {
  public:
    ~Stacks();
    void reserve(size_t count);
    // Makes stack `at` run `main` when it is switched to.
    void begin(size_t at, Context &context, void (*main)());
    // After a launch that left stacks in the middle of functions.
    void give_up();

  private:
    std::vector<Context> stacks_;
};

} // namespace emu
#endif
