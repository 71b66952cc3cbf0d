// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace mortise::tool {
namespace {

std::string contentOf(int file) {
  std::string content;
  char part[4096];
  for (ssize_t count; (count = pread(file, part, sizeof part, static_cast<off_t>(content.size()))) > 0;)
    content.append(part, static_cast<size_t>(count));
  return content;
}

using Time = std::chrono::steady_clock::time_point;
Time after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

// The status of a child that ends before `end`.
std::optional<int> waitUntil(pid_t child, Time end) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end)
      return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

// Ends a child that does not end by itself. Where it hangs in a plugin, SIGABRT has it say so (runtime/crash.hpp).
void stop(pid_t child) {
  kill(child, SIGABRT);
  if (waitUntil(child, after(2)))
    return;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

Ended describe(int status) {
  if (WIFSIGNALED(status))
    return {false, "signal " + std::to_string(WTERMSIG(status))};
  return {WEXITSTATUS(status) == 0, "exit status " + std::to_string(WEXITSTATUS(status))};
}

std::vector<char *> pointersOf(const std::vector<std::string> &arguments) {
  std::vector<char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Error notStarted(const std::vector<std::string> &arguments, int code) {
  return {MORTISE_NOT_FOUND, arguments[0] + " cannot be started: " + std::strerror(code)};
}

// Keeps what a child writes, in a file without a name.
class Capture {
public:
  explicit Capture(std::string *said) : said(said), file(said ? memfd_create("said", MFD_CLOEXEC) : -1) {
    posix_spawn_file_actions_init(&list);
    for (int stream : {STDOUT_FILENO, STDERR_FILENO})
      if (file >= 0)
        posix_spawn_file_actions_adddup2(&list, file, stream);
  }
  ~Capture() {
    posix_spawn_file_actions_destroy(&list);
    if (file < 0)
      return;
    *said += contentOf(file);
    close(file);
  }
  Capture(const Capture &) = delete;
  const posix_spawn_file_actions_t *actions() const { return &list; }

private:
  std::string *said;
  int file;
  posix_spawn_file_actions_t list;
};

} // namespace

Result<Ended> runCommand(const std::vector<std::string> &arguments, double seconds, std::string *said) {
  const Capture capture(said);
  pid_t child;
  if (int code =
          posix_spawnp(&child, arguments[0].c_str(), capture.actions(), nullptr, pointersOf(arguments).data(), environ);
      code != 0)
    return notStarted(arguments, code);
  const std::optional<int> status = waitUntil(child, after(seconds));
  if (status)
    return describe(*status);
  stop(child);
  return Ended{false, "no end within " + std::to_string(static_cast<int>(seconds)) + " s"};
}

Result<std::unique_ptr<Child>> Child::start(const std::vector<std::string> &arguments) {
  std::unique_ptr<Child> made(new Child);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return notStarted(arguments, errno);
  made->lines = ends[0];
  made->errors = memfd_create("errors", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (made->errors >= 0)
    posix_spawn_file_actions_adddup2(&actions, made->errors, STDERR_FILENO);
  const int code =
      posix_spawnp(&made->process, arguments[0].c_str(), &actions, nullptr, pointersOf(arguments).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (code != 0) {
    made->process = -1;
    return notStarted(arguments, code);
  }
  return made;
}

Child::~Child() {
  if (process > 0 && !ended)
    stop(process);
  for (const int file : {lines, errors})
    if (file >= 0)
      close(file);
}

std::optional<std::string> Child::readLine(double seconds) {
  const Time end = after(seconds);
  for (;;) {
    if (const size_t at = rest.find('\n'); at != std::string::npos) {
      std::string line = rest.substr(0, at);
      rest.erase(0, at + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd ready{lines, POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) {
      stop(process);
      ended = Ended{false, "no answer within " + std::to_string(static_cast<int>(seconds)) + " s"};
      return std::nullopt;
    }
    char part[4096];
    const ssize_t count = read(lines, part, sizeof part);
    if (count <= 0)
      return std::nullopt;
    rest.append(part, static_cast<size_t>(count));
  }
}

Ended Child::end() {
  if (!ended) {
    int status = 0;
    waitpid(process, &status, 0);
    ended = describe(status);
  }
  return *ended;
}

std::string Child::said() { return errors < 0 ? "" : contentOf(errors); }

std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

Scratch::Scratch() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error)
    return;
  std::string pattern = (parent / "mortise-XXXXXX").string();
  folder = mkdtemp(pattern.data()) ? pattern : "";
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!folder.empty())
    std::filesystem::remove_all(folder, ignored);
}

} // namespace mortise::tool
