// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program that includes mortise.hpp as a user does.
#include <mortise/mortise.hpp>

#include <cstdio>

int main() {
  mortise::Result<mortise::api::Session> session = mortise::api::Session::create({{"device", "reference"}});
  if (!session) {
    std::fprintf(stderr, "%s\n", session.error().message.c_str());
    return 1;
  }
  mortise::Result<std::string> description = session->describe();
  return description && description->find("reference") != std::string::npos ? 0 : 1;
}
