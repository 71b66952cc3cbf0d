// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "channels.hpp"

namespace mortise::cpu {

using memory = dnnl::memory;

View channelsLast(View view) {
  view.offset = 0;
  Dim stride = 1;
  const auto take = [&](size_t i) {
    view.strides[i] = stride;
    if (view.dims[i] != Dim(0))
      stride *= view.dims[i];
  };
  if (view.dims.size() > 1)
    take(1);
  for (size_t i = view.dims.size(); i-- > 2;)
    take(i);
  if (!view.dims.empty())
    take(0);
  return view;
}

bool isChannelsLast(const View &view) {
  const View wanted = channelsLast(view);
  size_t positions = 0; // dimensions besides the channels that are more than one element
  for (size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == Dim(1))
      continue;
    if (!(view.strides[i] == wanted.strides[i]))
      return false;
    positions += i > 1;
  }
  return view.dims.size() >= 3 && positions > 0 && !(view.dims[1] == Dim(1));
}

memory::desc channelsLast(const memory::dims &extents, memory::data_type type) {
  using tag = memory::format_tag;
  static constexpr tag tags[] = {tag::nwc, tag::nhwc, tag::ndhwc};
  return {extents, type, tags[extents.size() - 3]};
}

bool isLayoutOf(const FixedView &view, memory::data_type type, const memory::desc &layout) {
  if (layout.get_data_type() != type || layout.get_inner_nblks() != 0 || layout.get_dims() != view.dims)
    return false;
  const memory::dims strides = layout.get_strides();
  for (size_t i = 0; i < strides.size(); ++i)
    if (view.dims[i] != 1 && strides[i] != view.strides[i])
      return false;
  return true;
}

bool ownsRoot(const MortiseValue &value, const std::optional<View> &root) {
  return !root || *root == channelsLast(denseView(value));
}

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
