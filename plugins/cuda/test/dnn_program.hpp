// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an operation graph of the stand-in for cuDNN computes, and how.
#pragma once

#include "../cudnn.hpp"
#include "numbers.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

namespace mortise::cuda::stand_in {

using namespace cudnn;

struct Tensor {
  DataType type = Float;
  int64_t id = 0;
  bool isVirtual = false;
  std::vector<int64_t> dims, strides;
  int64_t alignment = 0;
};
struct Pointwise {
  PointwiseMode mode = Add;
  Tensor x, result;
  std::optional<Tensor> other;
};
// What an operation graph computes.
struct Program {
  Tensor x, weight, sums; // of the convolution
  std::vector<int64_t> strides, padding, dilations;
  std::vector<Pointwise> pointwise;
  const Tensor &result() const { return pointwise.empty() ? sums : pointwise.back().result; }
};

inline Number numberOf(DataType type) {
  return type == Float ? Number::F32 : type == Half ? Number::F16 : Number::BF16;
}

// The next index of a tensor with these extents; false after the last.
inline bool advance(std::vector<int64_t> &index, const std::vector<int64_t> &dims) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (++index[i] < dims[i])
      return true;
    index[i] = 0;
  }
  return false;
}

inline int64_t placeIn(const Tensor &tensor, const std::vector<int64_t> &index) {
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i)
    at += (tensor.dims[i] == 1 ? 0 : index[i]) * tensor.strides[i];
  return at;
}

struct Queued {
  Program program;
  std::map<int64_t, void *> pointers; // by the tensor's number
  void *workspace;
  int64_t workspaceBytes;
  bool isFixed;

  double read(const Tensor &tensor, const std::vector<int64_t> &index) const {
    return load(numberOf(tensor.type), pointers.at(tensor.id), placeIn(tensor, index));
  }
  double sumAt(const std::vector<int64_t> &index) const {
    const Tensor &weight = program.weight;
    const int64_t groups = program.x.dims[1] / weight.dims[1], perGroup = weight.dims[0] / groups;
    const std::vector<int64_t> window(weight.dims.begin() + 1, weight.dims.end()); // with channels
    std::vector<int64_t> at(window.size());
    double sum = 0;
    do {
      std::vector<int64_t> from{index[0], index[1] / perGroup * weight.dims[1] + at[0]}, of{index[1], at[0]};
      bool isInside = true;
      for (size_t i = 0; i + 1 < at.size(); ++i) {
        from.push_back(index[i + 2] * program.strides[i] - program.padding[i] + at[i + 1] * program.dilations[i]);
        of.push_back(at[i + 1]);
        isInside &= from.back() >= 0 && from.back() < program.x.dims[i + 2];
      }
      if (isInside)
        sum += read(program.x, from) * read(weight, of);
    } while (advance(at, window));
    return sum;
  }
  void run() const {
    if (workspaceBytes)
      std::memset(workspace, 0xff, static_cast<size_t>(workspaceBytes)); // nothing else is there meanwhile
    const Tensor &result = program.result();
    std::vector<int64_t> index(result.dims.size());
    do {
      double value = sumAt(index);
      if (isFixed) {
        std::byte rounded[8];
        store(numberOf(result.type), rounded, 0, value);
        value = load(numberOf(result.type), rounded, 0);
      }
      for (const Pointwise &each : program.pointwise)
        value = each.mode == Multiply ? value * read(*each.other, index)
                : each.mode == Add    ? value + read(*each.other, index)
                : value > 0           ? value
                : std::isnan(value)   ? value
                                      : 0;
      store(numberOf(result.type), pointers.at(result.id), placeIn(result, index), value);
    } while (advance(index, result.dims));
  }
};

} // namespace mortise::cuda::stand_in
