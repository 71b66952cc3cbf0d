// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The process of an isolated plugin. The runtime starts it: docs/decisions/0042-isolation.md.
#include "isolation/worker.hpp"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <sys/resource.h>
#include <sys/socket.h>

// The argument: bytes of memory that the process may have; 0: no limit.
int main(int count, char **arguments) {
  int type = 0;
  socklen_t size = sizeof type;
  rlim_t bytes = 0;
  if (count != 2 || std::from_chars(arguments[1], arguments[1] + std::strlen(arguments[1]), bytes).ec != std::errc() ||
      getsockopt(mortise::runtime::isolation::workerSocket, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::fputs("mortise-worker: the runtime of mortise starts this program, for plugins that the setting isolate "
               "names; it does nothing by itself\n",
               stderr);
    return 2;
  }
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
#ifndef MORTISE_SANITIZED // whose shadow memory counts
  if (const rlimit most{bytes, bytes}; bytes)
    setrlimit(RLIMIT_DATA, &most);
#endif
  return mortise::runtime::isolation::serve();
}
