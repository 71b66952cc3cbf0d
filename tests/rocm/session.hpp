// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rocm plugin on the stand-in for HIP, and what that saw.
#pragma once

#include "../hip-stand-in/stand_in.hpp"
#include "../slots/slots.hpp"

namespace mortise::test {

// Starts the plugin with this library, as the environment variable names it. The devices that it finds.
Result<std::span<const MortiseDeviceInfo *const>> start(const std::string &driver);

// The plugin with devices of its own: lost devices of other sessions do not matter.
class Session {
public:
  // `settings`: of the stand-in, as devices are found and afterwards.
  explicit Session(const std::string &settings = "", const std::string &library = MORTISE_TEST_STAND_IN);
  ~Session();
  Session(const Session &) = delete;

  std::vector<MortiseDevice *> devices;
  std::vector<const MortiseDeviceInfo *> infos;
  std::string log; // as devices were found, or why there are none

  void configure(const std::string &settings) const; // after those of the constructor
  std::vector<std::string> calls() const;
  size_t callsOf(const std::string &function) const;
  std::string counts() const; // of what there is
  std::vector<std::string> problems() const;
  // Starts up the devices, so that what stays until the process ends is there.
  void warmUp() const;

  template <typename Function> Function *symbol(const char *name) const { // of the stand-in
    return reinterpret_cast<Function *>(find(name));
  }

private:
  void *find(const char *name) const;
  std::string path, settings;
  void *handle = nullptr;
};

} // namespace mortise::test
