#include "fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/assert.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace drlnet::sim {
namespace {

constexpr size_t kStackBytes = 1 << 20, kGuardBytes = 1 << 16;

}  // namespace

#ifdef __SANITIZE_ADDRESS__
void Fiber::leave(Stack& from, const Stack& to, bool for_good) {
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.frames, to.bottom, to.bytes);
}

void Fiber::arrive(Stack& on, Stack* from) {
  __sanitizer_finish_switch_fiber(on.frames, from ? &from->bottom : nullptr,
                                  from ? &from->bytes : nullptr);
}
#else
void Fiber::leave(Stack&, const Stack&, bool) {}
void Fiber::arrive(Stack&, Stack*) {}
#endif

Fiber::Fiber(std::shared_ptr<Process> process, std::function<void()> body)
    : process_(std::move(process)), body_(std::move(body)) {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DRLNET_ASSERT(memory != MAP_FAILED);
  DRLNET_ASSERT(mprotect(memory, kGuardBytes, PROT_NONE) == 0);
  stack_ = static_cast<std::byte*>(memory);
  DRLNET_ASSERT(getcontext(&here_) == 0);
  own_ = {stack_ + kGuardBytes, kStackBytes - kGuardBytes};
  here_.uc_stack.ss_sp = stack_ + kGuardBytes;
  here_.uc_stack.ss_size = own_.bytes;
  here_.uc_link = &back_;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&here_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<unsigned>(self & 0xFFFFFFFF), static_cast<unsigned>(self >> 32));
}

Fiber::~Fiber() { free_stack(); }

void Fiber::free_stack() {
  if (stack_ == nullptr) return;
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(own_.bottom, own_.bytes);  // for what is mapped here next
#endif
  munmap(std::exchange(stack_, nullptr), kStackBytes);
}

void Fiber::enter(unsigned low, unsigned high) {
  reinterpret_cast<Fiber*>(uintptr_t{low} | uintptr_t{high} << 32)->run();
}

void Fiber::run() {
  arrive(own_, &callers_);
  try {
    body_();
  } catch (const Killed&) {
    // It has let go of all it held on its way here.
  }
  body_ = {};
  ended_ = true;
  leave(own_, callers_, true);
}

void Fiber::swap_exceptions() {
  Exceptions other;
  void* globals = abi::__cxa_get_globals();
  std::memcpy(&other, globals, sizeof other);
  std::memcpy(globals, &exceptions_, sizeof other);
  exceptions_ = other;
}

void Fiber::go_on() {
  swap_exceptions();
  leave(callers_, own_);
  DRLNET_ASSERT(swapcontext(&back_, &here_) == 0);
  arrive(callers_);
  swap_exceptions();
  if (ended_) free_stack();  // its alarms may be due for long
}

void Fiber::stop() {
  leave(own_, callers_);
  DRLNET_ASSERT(swapcontext(&here_, &back_) == 0);
  arrive(own_, &callers_);
}

}  // namespace drlnet::sim
