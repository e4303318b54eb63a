#include "core/running.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

namespace duet {
namespace {

// A handler and a parent process read it: fixed memory, no locks.
struct State {
  char text[256];
  std::atomic<size_t> length = 0;
  std::atomic<size_t> id_length = 0;
  std::atomic<bool> runs = false;
  std::atomic<bool> limited = false;
  std::atomic<uint64_t> count = 0;
  char place[256];
  std::atomic<size_t> place_length = 0;
  char note[512];
  std::atomic<size_t> note_length = 0;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

State own;
State* state = &own;

constexpr struct {
  int signal;
  const char* name;
} kCrashes[] = {{SIGSEGV, "SIGSEGV (an access to memory that is not its own)"},
                {SIGBUS, "SIGBUS (an access to memory that is not there)"},
                {SIGFPE, "SIGFPE (an integer division by zero)"},
                {SIGILL, "SIGILL (an instruction that this processor does not have)"},
                {SIGABRT, "SIGABRT (abort(), a failed assertion or a damaged heap)"}};

/// One line, written at once.
class Line {
 public:
  Line& operator<<(std::string_view part) {
    const size_t taken = std::min(part.size(), sizeof line_ - size_);
    std::memcpy(line_ + size_, part.data(), taken);
    size_ += taken;
    return *this;
  }
  void write() const { [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, line_, size_); }

 private:
  char line_[512];
  size_t size_ = 0;
};

void on_crash(int signal) {
  const auto* crash = std::find_if(std::begin(kCrashes), std::end(kCrashes),
                                   [&](const auto& each) { return each.signal == signal; });
  const std::string_view last(state->text, state->length), place(state->place, state->place_length);
  Line line;
  if (state->runs) {
    line << "error: " << last << (place.empty() ? "" : " ") << place << " crashed: " << crash->name
         << "\n";
  } else {
    line << "error: crashed: " << crash->name;
    if (!last.empty()) line << "; " << last << " ran last";
    line << "\n";
  }
  line.write();
  raise(signal);  // SA_RESETHAND: ends the process when the handler returns
}

}  // namespace

Running::Running(std::string_view id, std::string_view type, std::string_view what,
                 std::string_view layer) {
  state->length = state->id_length = 0;
  size_t size = 0;
  const auto add = [&](std::string_view part) {
    const size_t taken = std::min(part.size(), sizeof state->text - size);
    std::memcpy(state->text + size, part.data(), taken);
    size += taken;
  };
  add(id);
  state->id_length = size;
  add(" in ");
  add(type);
  add(" ");
  add(what);
  if (!layer.empty()) {
    add(" (layer ");
    add(layer);
    add(")");
  }
  state->length = size;
  ++state->count;
  state->limited = !id.ends_with("_reference");
  state->runs = true;
}

Running::~Running() { state->runs = false; }

std::string Running::last() { return {state->text, state->length}; }

std::string Running::last_id() { return {state->text, state->id_length}; }

std::string Running::place() { return {state->place, state->place_length}; }

uint64_t Running::count() { return state->count; }

bool Running::runs() { return state->runs; }

bool Running::is_limited() { return state->runs && state->limited; }

void Running::share() {
  if (state == &own) {
    void* memory =
        mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) state = new (memory) State;
  }
  state->runs = false;  // of a child that ended in the middle of it
  state->length = state->id_length = state->place_length = state->note_length = 0;
}

bool Running::is_shared() { return state != &own; }

void Running::leave_note(std::string_view text) {
  const size_t taken = std::min(text.size(), sizeof state->note);
  std::memcpy(state->note, text.data(), taken);
  state->note_length = taken;
}

std::string Running::note() { return {state->note, state->note_length}; }

RunningPlace::RunningPlace(std::string_view place) {
  const size_t taken = std::min(place.size(), sizeof state->place);
  std::memcpy(state->place, place.data(), taken);
  state->place_length = taken;
}

RunningPlace::~RunningPlace() { state->place_length = 0; }

std::string signal_text(int signal) {
  for (const auto& crash : kCrashes) {
    if (crash.signal == signal) return crash.name;
  }
  if (signal == SIGKILL) return "SIGKILL (by Linux for lack of memory, or by somebody)";
  return std::string("signal ") + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

void name_crashes() {
  static char stack[64 << 10];  // one that overflowed holds no handler
  const stack_t other = {.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&other, nullptr);
  for (const auto& crash : kCrashes) {
    struct sigaction before {};
    sigaction(crash.signal, nullptr, &before);
    if ((before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_RESETHAND | SA_ONSTACK;
    sigaction(crash.signal, &action, nullptr);
  }
}

void write_running(const char* what) {
  const std::string_view last(state->text, state->length);
  if (last.empty()) return;
  Line line;
  line << what << last << (state->runs ? " ran\n" : " ran last\n");
  line.write();
}

}  // namespace duet
