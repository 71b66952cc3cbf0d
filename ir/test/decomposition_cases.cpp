// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The test cases of each composite. A composite without a case fails the test.
#include "decompositions.hpp"

namespace mortise::test {
namespace {

using Elements = std::vector<std::string>;
const Elements wide{"f64", "f32"}, floats{"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2"},
    numbers{"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8", "i4", "ui8"},
    every{"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i64", "i32", "i16", "i8", "i4", "ui8", "i1"};

std::string attention(const char *causal, const char *mask) {
  return std::string("attention %q, %k, %v") + mask + " {{scale = 0.5 : f64, causal = " + causal + "}}";
}
std::string attentionForward(const char *causal, const char *mask) {
  return std::string("attention_forward %q, %k, %v") + mask + " {{scale = 0.5 : f64, causal = " + causal + "}}";
}
std::string attentionGradient(const char *causal, const char *mask) {
  return std::string("attention_gradient %q, %k, %v, %result, %sums, %gradient") + mask +
         " {{scale = 0.5 : f64, causal = " + causal + "}}";
}
std::string convolution(const char *activation, const char *groups, const char *operands) {
  return std::string("fused_convolution %x, %w") + operands +
         " {{strides = array<i64: 2, 1>, low = array<i64: 1, 0>, high = array<i64: 1, 1>, dilations = array<i64: 1, "
         "2>, groups = " +
         groups + " : i64, activation = \"" + activation + "\"}}";
}
std::string entropy(const char *reduction, const char *smoothing) {
  return std::string("cross_entropy %logits, %targets {{ignore_index = -100 : i64, label_smoothing = ") + smoothing +
         " : f64, reduction = \"" + reduction + "\"}}";
}

} // namespace

const std::vector<Case> &cases() {
  static const std::vector<Case> list = {
      {"relu", "x: {b, s}", "relu %x", "{b, s}", numbers, true},
      {"silu", "x: {b, 4*s}", "silu %x", "{b, 4*s}", floats},
      {"swiglu", "gate: {b, 4*s}, up: {b, 4*s}", "swiglu %gate, %up", "{b, 4*s}", floats},
      {"gelu", "x: {b, 4*s}", "gelu %x {{approximate = \"none\"}}", "{b, 4*s}", floats},
      {"gelu", "x: {b, 4*s}", "gelu %x {{approximate = \"tanh\"}}", "{b, 4*s}", floats},
      {"softmax", "x: {b, s, 3}", "softmax %x {{axis = 1 : i64}}", "{b, s, 3}", floats},
      {"softmax", "holes: {b, s}", "softmax %holes {{axis = 1 : i64}}", "{b, s}", floats},
      {"log_softmax", "x: {b, s}", "log_softmax %x {{axis = 0 : i64}}", "{b, s}", floats},
      {"layer_norm", "x: {b, s, 6}, scale: {s, 6}, bias: {s, 6}",
       "layer_norm %x scale %scale bias %bias {{axis = 1 : i64, epsilon = 1.0e-5 : f64}}", "{b, s, 6}"},
      {"layer_norm", "x: {b, 8}, bias: {8}", "layer_norm %x bias %bias {{axis = 1 : i64, epsilon = 1.0e-5 : f64}}",
       "{b, 8}", floats},
      {"layer_norm", "x: {b, 7}", "layer_norm %x {{axis = 0 : i64, epsilon = 0.0 : f64}}", "{b, 7}"},
      {"rms_norm", "x: {b, s}, scale: {s}", "rms_norm %x, %scale {{axis = 1 : i64, epsilon = 1.0e-6 : f64}}", "{b, s}"},
      {"rms_norm", "x: {b, 8}", "rms_norm %x {{axis = 1 : i64, epsilon = 1.0e-6 : f64}}", "{b, 8}", floats},
      {"group_norm", "x: {b, 6, s}, scale: {6}, bias: {6}",
       "group_norm %x scale %scale bias %bias {{groups = 2 : i64, epsilon = 1.0e-5 : f64}}", "{b, 6, s}"},
      {"group_norm", "x: {b, 4, s, 3}", "group_norm %x {{groups = 4 : i64, epsilon = 1.0e-5 : f64}}", "{b, 4, s, 3}",
       floats},
      {"batch_norm", "x: {b, 6, s}, scale: {6}, bias: {6}, mean: {6}, positive: {6}",
       "batch_norm %x scale %scale bias %bias mean %mean variance %positive {{epsilon = 1.0e-5 : f64}}", "{b, 6, s}"},
      {"batch_norm", "x: {b, 6}, mean: {6}, positive: {6}",
       "batch_norm %x mean %mean variance %positive {{epsilon = 1.0e-5 : f64}}", "{b, 6}", floats},
      {"cross_entropy", "logits: {b, s, 7}, targets: {b, s:i64}", entropy("none", "0.0"), "{b, s}", floats},
      {"cross_entropy",
       "logits: {b, s, 7}, targets: {b, s:i32}",
       entropy("mean", "0.0"),
       "{}",
       {"f64", "f32", "f16", "bf16"}},
      {"cross_entropy", "logits: {b, 7}, targets: {b:i64}", entropy("sum", "0.125"), "{}"},
      {"cross_entropy", "logits: {7}, targets: {:i64}", entropy("mean", "0.1"), "{}", wide},
      {"mean", "x: {b, s, 3}", "mean %x {{axes = array<i64: 0, 2>}}", "{s}", floats},
      {"mean", "x: {b, 600}", "mean %x {{axes = array<i64: 1>}}", "{b}"},
      {"embedding", "table: {7, 4}, i: {b, s:i64}", "embedding %table, %i", "{b, s, 4}", every, true},
      {"linear", "x: {b, s, 8}, w: {5, 8}, bias: {5}", "linear %x, %w, %bias {{weight_transposed = false}}",
       "{b, s, 5}", floats},
      {"linear", "x: {b, 8}, w: {8, 5}", "linear %x, %w {{weight_transposed = true}}", "{b, 5}", floats},
      {"linear", "x: {s}, w: {s, 5}, bias: {5}", "linear %x, %w, %bias {{weight_transposed = true}}", "{5}"},
      {"attention", "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}", attention("false", ""), "{b, 4, 5, 3}"},
      {"attention", "q: {b, 2, s, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}", attention("true", ""), "{b, 2, s, 3}", floats},
      {"attention", "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, seen: {b, 1, 5, s:i1}",
       attention("false", ", %seen"), "{b, 4, 5, 3}"},
      {"attention", "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, seen: {1, 1, 1, s:i1}",
       attention("true", ", %seen"), "{b, 4, 5, 3}"},
      {"attention", "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, holes: {b, 1, 5, s}",
       attention("false", ", %holes"), "{b, 4, 5, 3}"},
      {"attention", "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, holes: {1, 4, 1, s}",
       attention("true", ", %holes"), "{b, 4, 5, 3}"},
      {"attention_forward", "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}", attentionForward("false", ""),
       "{b, 4, 5, 3}, {b, 4, 5:wide}", floats},
      {"attention_forward", "q: {b, 2, s, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}", attentionForward("true", ""),
       "{b, 2, s, 3}, {b, 2, s:wide}"},
      {"attention_forward", "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, seen: {b, 1, 5, s:i1}",
       attentionForward("true", ", %seen"), "{b, 4, 5, 3}, {b, 4, 5:wide}"},
      {"attention_forward", "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, holes: {1, 4, 1, s}",
       attentionForward("false", ", %holes"), "{b, 4, 5, 3}, {b, 4, 5:wide}"},
      {"attention_gradient",
       "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, result: {b, 4, 5, 3}, sums: {b, 4, 5:wide}, gradient: {b, "
       "4, "
       "5, 3}",
       attentionGradient("false", ""), "{b, 4, 5, 4}, {b, 2, s, 4}, {b, 2, s, 3}", floats},
      {"attention_gradient",
       "q: {b, 2, s, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, result: {b, 2, s, 3}, sums: {b, 2, s:wide}, gradient: {b, "
       "2, "
       "s, 3}",
       attentionGradient("true", ""), "{b, 2, s, 4}, {b, 2, s, 4}, {b, 2, s, 3}"},
      {"attention_gradient",
       "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, result: {b, 4, 5, 3}, sums: {b, 4, 5:wide}, gradient: {b, "
       "4, "
       "5, 3}, seen: {b, 1, 5, s:i1}",
       attentionGradient("true", ", %seen"), "{b, 4, 5, 4}, {b, 2, s, 4}, {b, 2, s, 3}"},
      {"attention_gradient",
       "q: {b, 4, 5, 4}, k: {b, 2, s, 4}, v: {b, 2, s, 3}, result: {b, 4, 5, 3}, sums: {b, 4, 5:wide}, gradient: {b, "
       "4, "
       "5, 3}, holes: {1, 4, 1, s}",
       attentionGradient("false", ", %holes"), "{b, 4, 5, 4}, {b, 2, s, 4}, {b, 2, s, 3}"},
      {"ragged_attention",
       "q: {2*b, 4, 4}, k: {5, 2, 4}, v: {5, 2, 3}, q_offsets: {s:i64}, k_offsets: {s:i64}",
       "ragged_attention %q, %k, %v, %q_offsets, %k_offsets {{scale = 0.5 : f64, causal = false}}",
       "{2*b, 4, 3}",
       floats,
       false,
       {{3, 4}, {1, 1}, {0, 3}}},
      {"ragged_attention",
       "q: {2*b, 2, 4}, k: {2*b, 2, 4}, v: {2*b, 2, 3}, q_offsets: {s:i64}, k_offsets: {s:i64}",
       "ragged_attention %q, %k, %v, %q_offsets, %k_offsets {{scale = 0.5 : f64, causal = true}}",
       "{2*b, 2, 3}",
       floats,
       false,
       {{3, 4}, {1, 1}, {0, 3}}},
      {"rope", "x: {b, 2, s, 6}, cos: {1, 1, s, 6}, sin: {1, 1, s, 6}", "rope %x, %cos, %sin {{interleaved = false}}",
       "{b, 2, s, 6}", floats},
      {"rope", "x: {b, s, 8}, cos: {b, s, 8}, sin: {b, 1, 8}", "rope %x, %cos, %sin {{interleaved = true}}",
       "{b, s, 8}", floats},
      {"fused_convolution", "x: {b, 4, 6, 5}, w: {6, 2, 3, 2}, scale: {6}, bias: {6}",
       convolution("relu", "2", " scale %scale bias %bias"), "{b, 6, 3, 4}"},
      {"fused_convolution", "x: {b, 2, 6, 5}, w: {3, 2, 3, 2}, bias: {3}", convolution("silu", "1", " bias %bias"),
       "{b, 3, 3, 4}"},
      {"fused_convolution", "x: {b, 2, 6, 5}, w: {3, 2, 3, 2}, scale: {3}", convolution("gelu", "1", " scale %scale"),
       "{b, 3, 3, 4}", floats},
      {"fused_convolution", "x: {b, 2, 6, 5}, w: {3, 2, 3, 2}", convolution("gelu_tanh", "1", ""), "{b, 3, 3, 4}"},
      {"fused_convolution", "x: {b, 2, 6, 5}, w: {3, 2, 3, 2}", convolution("none", "1", ""), "{b, 3, 3, 4}"},
      {"quantize", "x: {b, 6, s}, positive: {b, 2, 1}, z: {b, 2, 1:i8}",
       "quantize %x, %positive, %z {{dtype = \"i8\"}}", "{b, 6, s:i8}", floats, true},
      {"quantize", "x: {b, s}, positive: {1, 1:f32}, z: {1, 1:i32}", "quantize %x, %positive, %z {{dtype = \"ui8\"}}",
       "{b, s:ui8}", floats, true},
      {"quantize", "x: {b, 6}, positive: {b, 3}", "quantize %x, %positive {{dtype = \"i4\"}}", "{b, 6:i4}", floats,
       true},
      {"quantize", "x: {b, s}, positive: {b, 1}", "quantize %x, %positive {{dtype = \"f8E4M3FN\"}}", "{b, s:f8E4M3FN}",
       floats, true},
      {"quantize", "x: {b, s}, scale: {b, 1}", "quantize %x, %scale {{dtype = \"f8E5M2\"}}", "{b, s:f8E5M2}", floats,
       true},
      {"dequantize", "q: {b, 6:i8}, scale: {b, 3}, z: {b, 3:i32}", "dequantize %q, %scale, %z {{dtype = \"f32\"}}",
       "{b, 6:f32}", floats, true},
      {"dequantize", "q: {b, 6:i4}, scale: {b, 1}, z: {b, 1:i4}", "dequantize %q, %scale, %z {{dtype = \"bf16\"}}",
       "{b, 6:bf16}", floats, true},
      {"dequantize", "q: {b, s:f8E4M3FN}, scale: {1, s}", "dequantize %q, %scale {{dtype = \"f16\"}}", "{b, s:f16}",
       floats, true},
      {"dynamic_quantize", "x: {b, 3, s}", "dynamic_quantize %x {{dtype = \"i8\"}}", "{b, 3, s:i8}, {b, 3, 1:wide}",
       floats, true},
      {"dynamic_quantize", "x: {b, 8}", "dynamic_quantize %x {{dtype = \"f8E5M2\"}}", "{b, 8:f8E5M2}, {b, 1:wide}",
       floats, true},
      {"quantized_linear", "x: {b, s, 8}, w: {5, 8:i8}, scale: {5}, z: {5:i8}, bias: {5}",
       "quantized_linear %x, %w scale %scale zero_point %z bias %bias {{weight_transposed = false}}", "{b, s, 5}",
       floats},
      {"quantized_linear", "x: {b, 8}, w: {6, 8:i4}, scale: {6, 2}, z: {6, 2:i32}",
       "quantized_linear %x, %w scale %scale zero_point %z {{weight_transposed = false}}", "{b, 6}", floats},
      {"quantized_linear", "x: {b, 8}, w: {8, 5:f8E4M3FN}, scale: {:f32}, bias: {5}",
       "quantized_linear %x, %w scale %scale bias %bias {{weight_transposed = true}}", "{b, 5}", floats},
      {"quantized_linear", "x: {8}, w: {8, 5:ui8}, scale: {4, 5}",
       "quantized_linear %x, %w scale %scale {{weight_transposed = true}}", "{5}", floats},
      {"top_k", "x: {b, 6}", "top_k %x {{k = 3 : i64, axis = 1 : i64, largest = true, sorted = true}}",
       "{b, 3}, {b, 3:i64}", every, true},
      {"top_k", "x: {5, b}", "top_k %x {{k = 2 : i64, axis = 0 : i64, largest = false, sorted = true}}",
       "{2, b}, {2, b:i64}", every, true},
      {"uniform",
       "key: {:i64}, offset: {:i64}",
       "uniform %key, %offset {{shape = [[b, s]], dtype = \"f32\"}}",
       "{b, s:f32}",
       {"f32"},
       true},
      {"uniform",
       "key: {:i64}, offset: {:i64}",
       "uniform %key, %offset {{shape = [[b, s]], dtype = \"f64\"}}",
       "{b, s:f64}",
       {"f32"},
       true},
      {"uniform",
       "key: {:i64}, offset: {:i64}",
       "uniform %key, %offset {{shape = [[b, s]], dtype = \"bf16\"}}",
       "{b, s:bf16}",
       {"f32"},
       true},
      {"normal",
       "key: {:i64}, offset: {:i64}",
       "normal %key, %offset {{shape = [[b, s]], dtype = \"f32\"}}",
       "{b, s:f32}",
       {"f32"}},
      {"normal",
       "key: {:i64}, offset: {:i64}",
       "normal %key, %offset {{shape = [[b, s]], dtype = \"f64\"}}",
       "{b, s:f64}",
       {"f32"}},
      {"normal",
       "key: {:i64}, offset: {:i64}",
       "normal %key, %offset {{shape = [[b, s]], dtype = \"f16\"}}",
       "{b, s:f16}",
       {"f32"}},
      {"bernoulli", "p: {b, s}, key: {:i64}, offset: {:i64}", "bernoulli %p, %key, %offset", "{b, s:i1}", floats, true},
      {"dropout", "x: {b, s}, key: {:i64}, offset: {:i64}", "dropout %x, %key, %offset {{p = 0.25 : f64}}",
       "{b, s}, {b, s:i1}", floats},
      {"random_permutation",
       "key: {:i64}, offset: {:i64}",
       "random_permutation %key, %offset {{shape = [[s]]}}",
       "{s:i64}",
       {"f32"},
       true},
  };
  return list;
}

} // namespace mortise::test
