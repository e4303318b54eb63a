// Work beside a context's stream: what nothing on the stream needs for a while runs on another one,
// and the stream waits for it later. In a captured graph these are branches.
#pragma once

#include <memory>
#include <vector>

#include "device/context.h"

namespace duet {

/// A stream that follows another context's, `main`, which outlives it.
class SideStream {
 public:
  explicit SideStream(Context& main);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// For what is to run on it.
  Context& context() { return *context_; }
  /// What is queued on it from here on waits for all that is queued on main.
  void follow_main();
  /// Of what is queued on it by now.
  size_t mark();
  /// What is queued on main from here on waits for that. Marks are good until join().
  void hold_main(size_t mark);
  /// What is queued on main from here on waits for all that is queued on it.
  void join();

 private:
  void* new_mark(CUstream_st* stream);

  Context& main_;
  CUstream_st* stream_ = nullptr;
  std::unique_ptr<Context> context_;
  std::vector<void*> events_;
  size_t marks_ = 0;      // of events_, in use
  bool is_used_ = false;  // since the last join()
};

/// A stream and workspace of its own for a part of a pass.
struct RunAside {
  SideStream& stream;
  void* workspace;
  size_t workspace_bytes;
  bool is_taken = false;  // by aside()
};

/// Call in backward_filter once everything that backward_data needs is queued. Returns the Run for the
/// remaining work, which may execute beside the passes that follow; returns `run` if that is not
/// allowed.
Run aside(const Run& run);

}  // namespace duet
