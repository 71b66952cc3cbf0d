// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// replay FOLDER...: passes each file of the folders to the fuzz target's function. Needs no libFuzzer.
#include "consume.hpp"

#include <filesystem>
#include <fstream>

int main(int count, char **arguments) {
  size_t files = 0;
  for (int i = 1; i < count; ++i)
    for (const auto &entry : std::filesystem::directory_iterator(arguments[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      std::fprintf(stderr, "%s\n", entry.path().c_str()); // printed first, so that the last name is the file that fails
      mortise::fuzz::consume(std::as_bytes(std::span(bytes)));
      ++files;
    }
  std::printf("%zu files\n", files);
  return files == 0;
}
