#include "measure/check/fenced_memory.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>

#include "core/arena.h"
#include "core/error.h"

namespace duet {
namespace {

constexpr size_t kFenceBytes = size_t{256} << 10;

// All that live. They change only while nothing runs that could fault.
std::atomic<FencedMemory*> all = nullptr;
struct sigaction before;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

bool is_write([[maybe_unused]] const void* machine) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;  // of a page fault's error code
  return static_cast<const ucontext_t*>(machine)->uc_mcontext.gregs[REG_ERR] & kWrite;
#else
  return false;
#endif
}

}  // namespace

FencedMemory::FencedMemory(size_t bytes, Side side) : side_(side), bytes_(bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t whole = round_up(std::max<size_t>(bytes, 1), page);
  mapped_bytes_ = whole + kFenceBytes;
  void* mapped =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw OutOfMemoryError("no memory of " + std::to_string(mapped_bytes_) + " bytes to be had");
  }
  mapped_ = static_cast<char*>(mapped);
  const bool after = side == Side::kAfter;
  fence_ = after ? mapped_ + whole : mapped_;
  data_ = after ? fence_ - round_up(bytes, kAlignment) : mapped_ + kFenceBytes;
  mprotect(fence_, kFenceBytes, PROT_NONE);
  if (!all) {
    struct sigaction action {};
    action.sa_sigaction = on_access;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &before);
  }
  next_ = all;
  all = this;
}

FencedMemory::~FencedMemory() {
  FencedMemory* first = all;
  if (first == this) {
    all = next_;
  } else {
    while (first->next_ != this) first = first->next_;
    first->next_ = next_;
  }
  if (!all) sigaction(SIGSEGV, &before, nullptr);
  munmap(mapped_, mapped_bytes_);
}

bool FencedMemory::let_through(const void* address, bool writes) {
  const char* at = static_cast<const char*>(address);
  if (at < fence_ || at >= fence_ + kFenceBytes) return false;
  const char* none = nullptr;
  if (first_.compare_exchange_strong(none, at)) writes_ = writes;
  mprotect(fence_, kFenceBytes, PROT_READ | PROT_WRITE);
  return true;
}

void FencedMemory::on_access(int, siginfo_t* info, void* machine) {
  for (FencedMemory* each = all; each; each = each->next_) {
    if (each->let_through(info->si_addr, is_write(machine))) return;
  }
  sigaction(SIGSEGV, &before, nullptr);  // the access is repeated, and is theirs
}

std::string FencedMemory::touched() const {
  const char* at = first_;
  if (!at) return "";
  const bool after = side_ == Side::kAfter;
  const size_t distance = static_cast<size_t>(after ? at - (data_ + bytes_) : data_ - at);
  return "memory " + std::to_string(distance) +
         (after ? " bytes past the end" : " bytes before the start") + " was " +
         (writes_ ? "written" : "read");
}

}  // namespace duet
