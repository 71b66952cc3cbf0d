// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "command.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace mortise::tool {
namespace {

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
    lseek(file, 0, SEEK_SET);
    char part[4096];
    for (ssize_t count; (count = read(file, part, sizeof part)) > 0;)
      said->append(part, static_cast<size_t>(count));
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
  std::vector<char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);
  const Capture capture(said);
  pid_t child;
  if (int code = posix_spawnp(&child, pointers[0], capture.actions(), nullptr, pointers.data(), environ); code != 0)
    return Error{MORTISE_NOT_FOUND, arguments[0] + " cannot be started: " + std::strerror(code)};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return Ended{false, "no end within " + std::to_string(static_cast<int>(seconds)) + " s"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (WIFSIGNALED(status))
    return Ended{false, "signal " + std::to_string(WTERMSIG(status))};
  const int code = WEXITSTATUS(status);
  return Ended{code == 0, "exit status " + std::to_string(code)};
}

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
