#include "download/web_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace duet {
namespace {

void send_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

}  // namespace

WebServer::WebServer(std::function<Answer(const Request&)> answer) : answer_(std::move(answer)) {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (socket_ < 0 || bind(socket_, generic, size) != 0 || listen(socket_, 8) != 0 ||
      getsockname(socket_, generic, &size) != 0) {
    throw std::runtime_error("no web server");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

WebServer::~WebServer() {
  stops_ = true;
  thread_.join();
  close(socket_);
}

std::string WebServer::url() const { return "http://127.0.0.1:" + std::to_string(port_); }

void WebServer::serve() {
  while (!stops_) {
    pollfd ready{socket_, POLLIN, 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    std::string text;
    char buffer[4096];
    while (text.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = recv(connection, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      text.append(buffer, static_cast<size_t>(count));
    }
    Request request{text.substr(4, text.find(' ', 4) - 4), 0};
    if (const size_t at = text.find("Range: bytes="); at != std::string::npos) {
      request.from = std::atoll(text.c_str() + at + 13);
    }
    const Answer answer = answer_(request);
    const int64_t size = static_cast<int64_t>(answer.body.size());
    const int64_t length = answer.length == -1 ? size : answer.length;
    const std::string announced =
        length >= 0 ? "\r\nContent-Length: " + std::to_string(length) : "";
    send_all(connection, "HTTP/1.1 " + answer.status + announced + "\r\nConnection: close\r\n\r\n" +
                             answer.body.substr(0, answer.stop >= 0 ? answer.stop : size));
    close(connection);
  }
}

}  // namespace duet
