// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "message.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <poll.h>
#include <sys/socket.h>

namespace mortise::runtime::isolation {
namespace {

using Clock = std::chrono::steady_clock;

class Deadline {
public:
  explicit Deadline(double seconds)
      : forever(seconds < 0),
        end(Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(seconds, 0.0)))) {}

  Result<void> wait(int socket, short events) const {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (!forever && left <= 0)
        return Error{MORTISE_CANCELLED, "no answer in time"};
      pollfd waiting{socket, events, 0};
      const int ready = poll(&waiting, 1, forever ? -1 : static_cast<int>(std::min<int64_t>(left, 60000)));
      if (ready > 0)
        return {};
      if (ready < 0 && errno != EINTR)
        return Error{MORTISE_DEVICE_LOST, std::string("cannot wait: ") + std::strerror(errno)};
    }
  }

private:
  bool forever;
  Clock::time_point end;
};

template <typename Move>
Result<void> moveAll(int socket, short events, const Deadline &deadline, size_t count, const Move &move) {
  for (size_t done = 0; done < count;) {
    if (auto ready = deadline.wait(socket, events); !ready)
      return ready;
    const ssize_t moved = move(done, count - done);
    if (moved > 0)
      done += static_cast<size_t>(moved);
    else if (moved == 0 || (errno != EINTR && errno != EAGAIN))
      return Error{MORTISE_DEVICE_LOST, "the other side is gone"};
  }
  return {};
}

} // namespace

std::string greeting() { return "mortise-worker " MORTISE_WORKER_PROTOCOL; }

Result<void> sendMessage(int socket, std::string_view bytes, double seconds) {
  const Deadline deadline(seconds);
  const uint64_t size = bytes.size();
  if (size > mostMessage)
    return Error{MORTISE_UNSUPPORTED, "expected a message of at most " + std::to_string(mostMessage) +
                                          " bytes for a worker, found " + std::to_string(size)};
  const auto send = [&](const void *from, size_t count) {
    return moveAll(socket, POLLOUT, deadline, count, [&](size_t done, size_t left) {
      return ::send(socket, static_cast<const char *>(from) + done, left, MSG_NOSIGNAL | MSG_DONTWAIT);
    });
  };
  if (auto sent = send(&size, sizeof size); !sent)
    return sent;
  return send(bytes.data(), bytes.size());
}

Result<std::string> receiveMessage(int socket, double seconds) {
  const Deadline deadline(seconds);
  const auto receive = [&](void *to, size_t count) {
    return moveAll(socket, POLLIN, deadline, count, [&](size_t done, size_t left) {
      return recv(socket, static_cast<char *>(to) + done, left, MSG_DONTWAIT);
    });
  };
  uint64_t size = 0;
  if (auto received = receive(&size, sizeof size); !received)
    return received.error();
  if (size > mostMessage)
    return Error{MORTISE_CORRUPT, "expected a message of at most " + std::to_string(mostMessage) + " bytes, found " +
                                      std::to_string(size)};
  // Grows with what arrives, so that a wild size allocates little.
  std::string bytes;
  while (bytes.size() < size) {
    const size_t before = bytes.size(), part = std::min<size_t>(size - before, size_t(1) << 20);
    bytes.resize(before + part);
    if (auto received = receive(bytes.data() + before, part); !received)
      return received.error();
  }
  return bytes;
}

} // namespace mortise::runtime::isolation
