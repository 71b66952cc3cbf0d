// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "channels.hpp"

namespace mortise::cpu {

using memory = dnnl::memory;

std::optional<memory::desc> sameKind(const memory::desc &layout, const memory::dims &extents) {
  using tag = memory::format_tag;
  // Channels last come first: an image of one element is row-major as well, and channelLayout() sees channels last.
  static constexpr tag tags[3][4] = {{tag::nwc, tag::ncw, tag::nCw16c, tag::nCw8c},
                                     {tag::nhwc, tag::nchw, tag::nChw16c, tag::nChw8c},
                                     {tag::ndhwc, tag::ncdhw, tag::nCdhw16c, tag::nCdhw8c}};
  memory::dims from = layout.get_dims();
  for (tag name : tags[from.size() - 3])
    if (memory::desc(from, layout.get_data_type(), name) == layout)
      return memory::desc(extents, layout.get_data_type(), name);
  return std::nullopt;
}

ChannelLayout channelLayout(const memory::desc &layout) {
  ChannelLayout made;
  memory::dims strides = layout.get_strides(), extents = layout.get_dims();
  made.n = strides[0];
  made.c = strides[1];
  size_t spatial = strides.size() - 2;
  for (size_t i = 0; i < spatial; ++i)
    made.s[3 - spatial + i] = strides[2 + i];
  if (layout.get_inner_nblks() == 1) {
    made.block = layout.get_inner_blks()[0];
  } else if (strides[1] == 1 && extents[1] > 1) { // channels last: one block of them all
    made.block = extents[1];
    made.c = 0;
  }
  return made;
}

} // namespace mortise::cpu
