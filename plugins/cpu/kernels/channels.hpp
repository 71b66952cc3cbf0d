// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts of images that loops of our own know: row-major, channels last, and channels in blocks as oneDNN's
// convolutions leave them.
#pragma once

#include <dnnl.hpp>

#include <cstdint>
#include <optional>

namespace mortise::cpu {

// Where an element is: batch * n + (channel / block) * c + channel % block + sum(position * s). Of fewer than three
// spatial dimensions, the last ones.
struct ChannelLayout {
  int64_t n = 0, c = 0, s[3] = {0, 0, 0}, block = 1;
};
// The layout has to be one of those that sameKind() knows.
ChannelLayout channelLayout(const dnnl::memory::desc &layout);

// The same kind of layout for other extents of equal rank; nullopt for one that the loops do not know.
std::optional<dnnl::memory::desc> sameKind(const dnnl::memory::desc &layout, const dnnl::memory::dims &extents);

} // namespace mortise::cpu
