// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts of images that loops of our own know: row-major, channels last, and channels in blocks as oneDNN's
// convolutions leave them.
#pragma once

#include <mortise/views.hpp>

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

// A view of the same extents, from offset 0 on, whose memory has the channels (dimension 1) of a position side by side.
View channelsLast(View view);
// Whether the view is such a one, and no other: with extents of 1 it may be row-major as well.
bool isChannelsLast(const View &view);
// Such a layout for the library.
dnnl::memory::desc channelsLast(const dnnl::memory::dims &extents, dnnl::memory::data_type type);

// Whether a tensor that the view shows has the layout already. Extents of 1 may have any stride.
bool isLayoutOf(const FixedView &view, dnnl::memory::data_type type, const dnnl::memory::desc &layout);

// Whether the value's own memory is all of what its root (Units::roots) lies in, which may be a merged product's.
bool ownsRoot(const MortiseValue &value, const std::optional<View> &root);

// The same kind of layout for other extents of equal rank; nullopt for one that the loops do not know.
std::optional<dnnl::memory::desc> sameKind(const dnnl::memory::desc &layout, const dnnl::memory::dims &extents);

} // namespace mortise::cpu
