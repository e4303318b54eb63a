// A web server on this machine, with faults.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace duet {

/// Serves one connection at a time at url() until its end.
class WebServer {
 public:
  /// Of a request for a file: the first byte asked for, 0 without a range.
  struct Request {
    std::string path;
    int64_t from;
  };
  struct Answer {
    std::string status = "200 OK", body = {};
    int64_t length = -1;  // as announced; -1: the body's; -2: none is
    int64_t stop = -1;    // bytes of the body that are sent; -1: all
  };
  explicit WebServer(std::function<Answer(const Request&)> answer);
  ~WebServer();

  std::string url() const;

 private:
  void serve();

  const std::function<Answer(const Request&)> answer_;
  int socket_ = -1, port_ = 0;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

}  // namespace duet
