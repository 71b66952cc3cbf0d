// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "connection.hpp"

#include "../host.hpp"
#include "worker.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;

namespace mortise::runtime::isolation {
namespace {

// Beside the library or program that this code is part of, or in the bin of the folder above.
Result<std::string> findWorker(const std::string &wanted) {
  if (!wanted.empty())
    return wanted;
  Dl_info where{};
  std::error_code failed;
  fs::path image = fs::canonical("/proc/self/exe", failed);
  if (dladdr(reinterpret_cast<const void *>(&findWorker), &where) && where.dli_fname && *where.dli_fname == '/')
    image = fs::canonical(where.dli_fname, failed);
  for (const char *folder : {".", "bin", "../bin", "../../bin"}) {
    const fs::path path = image.parent_path() / folder / "mortise-worker";
    if (access(path.c_str(), X_OK) == 0)
      return path.lexically_normal().string();
  }
  return Error{MORTISE_NOT_FOUND, "expected the program mortise-worker in '" + image.parent_path().string() +
                                      "' or in a folder bin beside it, found none; set isolate_worker to its path"};
}

std::string endText(int status) {
  if (WIFSIGNALED(status)) {
    const char *name = sigabbrev_np(WTERMSIG(status));
    return std::string("was ended by SIG") + (name ? name : "?");
  }
  return "called exit(" + std::to_string(WEXITSTATUS(status)) + ")";
}

} // namespace

void Descriptors::closeAll() {
  for (int *each : {&socket, &memory})
    if (*each >= 0)
      close(std::exchange(*each, -1));
}

Result<void> Connection::ensure() {
  if (isForkedChild())
    return forkedChildError();
  if (pid > 0)
    return {};
  if (isGivenUp())
    return Error{MORTISE_UNSUPPORTED, named() + " is not used any more: its worker ended " +
                                          std::to_string(mostStarts) + " times, the last time " + lastEnd};
  if (auto started = start(); !started)
    return started;
  return load();
}

Result<void> Connection::start() {
  const Isolation &limits = *request.isolation;
  auto program = findWorker(limits.worker);
  if (!program)
    return program.error();
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return Error{MORTISE_OUT_OF_MEMORY, std::string("cannot make a socket for a worker: ") + std::strerror(errno)};
  Descriptors made{pair[0], memfd_create("mortise-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  Descriptors theirs{pair[1], -1};
  // A worker that makes the memory smaller would have the host crash.
  if (made.memory < 0 || ftruncate(made.memory, tensorsBegin) != 0 ||
      fcntl(made.memory, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    made.closeAll();
    theirs.closeAll();
    return Error{MORTISE_OUT_OF_MEMORY, std::string("cannot make memory for a worker: ") + std::strerror(errno)};
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // Above the numbers that are filled, so that no one overwrites another.
  const int socket = fcntl(pair[1], F_DUPFD_CLOEXEC, 16), memory = fcntl(made.memory, F_DUPFD_CLOEXEC, 16);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, workerSocket);
  posix_spawn_file_actions_adddup2(&actions, memory, workerMemory);
  posix_spawn_file_actions_addclosefrom_np(&actions, workerMemory + 1);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::string bytes = std::to_string(limits.bytes);
  char *arguments[] = {program->data(), bytes.data(), nullptr};
  const int failed = posix_spawn(&pid, program->c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  for (int each : {socket, memory})
    if (each >= 0)
      close(each);
  theirs.closeAll();
  if (failed) {
    pid = 0;
    made.closeAll();
    return Error{MORTISE_NOT_FOUND, "cannot start '" + *program + "': " + std::strerror(failed)};
  }
  ends = made;
  return greet(*program);
}

Result<void> Connection::greet(const std::string &program) {
  const auto received = receiveMessage(ends.socket, request.isolation->seconds);
  if (received && *received == greeting())
    return {};
  end(true, "");
  return Error{MORTISE_VERSION_MISMATCH,
               "expected '" + program + "' to be the mortise-worker of this build, which says '" + greeting() +
                   "', found " + (received ? "'" + legible(*received) + "'" : "a program that does not say so") +
                   "; install both from one build, or set isolate_worker to the right program"};
}

Result<void> Connection::load() {
  ++starts;
  const Isolation &limits = *request.isolation;
  Load load{library, request.files.manifest, limits.logLevel, {}, {request.owners.begin(), request.owners.end()}};
  for (const Setting &setting : request.options)
    load.options.push_back({setting.key, setting.value});
  for (const MemoryLimit &limit : request.memoryLimits)
    load.memoryLimits.push_back({limit.device, limit.bytes});
  auto answer = exchange<Loaded>(load);
  if (!answer)
    return answer.error();
  if (starts == 1)
    loaded = std::move(*answer);
  else if (answer->build != loaded.build || answer->devices.size() != loaded.devices.size())
    return Error{MORTISE_CORRUPT, named() + " changed since this process loaded it; start a new process"};
  return {};
}

Result<std::byte *> Connection::memoryOf(uint64_t bytes) {
  if (auto ready = ensure(); !ready)
    return ready.error();
  if (bytes > mapped) {
    bytes = (bytes + 4095) / 4096 * 4096;
    if (ftruncate(ends.memory, static_cast<off_t>(bytes)) != 0)
      return Error{MORTISE_OUT_OF_MEMORY, "cannot share " + std::to_string(bytes) + " bytes with a worker"};
    void *fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ends.memory, 0);
    if (fresh == MAP_FAILED)
      return Error{MORTISE_OUT_OF_MEMORY, "cannot map " + std::to_string(bytes) + " bytes shared with a worker"};
    unmap();
    shared = static_cast<std::byte *>(fresh);
    mapped = bytes;
  }
  return shared;
}
void Connection::finish() {
  ends.closeAll(); // upon which it ends
  end(false, "");
}

void Connection::unmap() {
  if (shared)
    munmap(std::exchange(shared, nullptr), std::exchange(mapped, 0));
}

// The slot that the worker, which has ended, was in; `asked` where it had not got to one.
std::string Connection::shownSlot(const char *asked) const {
  std::array<char, shownBytes> text{};
  if (pread(ends.memory, text.data(), text.size() - 1, 0) <= 0 || text[0] == 0)
    return asked;
  return legible(text.data());
}

// Waits for the end of the process, which has closed its socket or is to be ended. What it was is in `lastEnd`.
void Connection::end(bool hangs, const char *asked) {
  using namespace std::chrono_literals;
  int status = 0;
  pid_t gone = 0;
  const auto wait = [&](std::chrono::milliseconds most) {
    for (const auto until = std::chrono::steady_clock::now() + most;
         gone == 0 && std::chrono::steady_clock::now() < until;) {
      gone = waitpid(pid, &status, WNOHANG);
      if (gone == 0)
        std::this_thread::sleep_for(2ms);
    }
  };
  if (hangs)
    kill(pid, SIGABRT); // the worker's line on standard error names slot and region
  wait(hangs ? 500ms : 2000ms);
  if (gone == 0) {
    kill(pid, SIGKILL);
    do
      gone = waitpid(pid, &status, 0);
    while (gone < 0 && errno == EINTR);
  }
  lastEnd = gone == pid ? endText(status) : "ended";
  lastSlot = shownSlot(asked);
  pid = 0;
  ends.closeAll();
  unmap();
}

Result<std::string> Connection::exchangeBytes(const Question &question, const char *slot, bool *ended) {
  const double seconds = request.isolation->seconds;
  if (auto sent = sendMessage(ends.socket, encode(question), seconds); !sent)
    return sent.error().code == MORTISE_UNSUPPORTED ? sent.error() : giveUp(sent.error(), slot, ended);
  auto received = receiveMessage(ends.socket, seconds);
  if (!received)
    return giveUp(received.error(), slot, ended);
  auto answer = decode<Answer>(*received);
  if (!answer)
    return giveUp(answer.error(), slot, ended);
  if (answer->code == MORTISE_OK)
    return std::move(answer->body);
  const bool known = answer->code > MORTISE_OK && answer->code <= MORTISE_INTERNAL;
  return Error{known ? static_cast<MortiseCode>(answer->code) : MORTISE_INTERNAL, legible(answer->message)};
}

Error Connection::giveUp(const Error &why, const char *slot, bool *ended) {
  const bool hangs = why.code == MORTISE_CANCELLED, wild = why.code == MORTISE_CORRUPT;
  end(hangs || wild, slot);
  if (hangs)
    lastEnd = "gave no answer within " + std::to_string(static_cast<uint64_t>(request.isolation->seconds)) +
              " s and was ended";
  else if (wild)
    lastEnd = "gave an answer that does not verify and was ended";
  lastEnd += " in " + lastSlot;
  if (ended)
    *ended = true;
  const std::string text = named() + ": its worker " + lastEnd;
  logMessage(MORTISE_WARNING, text + (asked.about && *asked.about ? ", " + std::string(asked.about) : ""));
  return {MORTISE_UNSUPPORTED,
          text + "; report this to the plugin's vendor, or set " + setting + " = \"off\" to see it in a debugger"};
}

} // namespace mortise::runtime::isolation
