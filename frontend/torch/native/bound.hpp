// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tensor that was bound as a constant. Each call asks all of a program's constants whether they are still what was
// bound, so that the answer must not take a Python call, or a DLPack export, for each.
#pragma once

#include "python.hpp"

#include <cstdint>

namespace mortise::torch_door {

class BoundTensor {
public:
  BoundTensor() = default;
  // `address`: of its contents when they were bound, in memory that is kept while this is. `version`: of those
  // contents, -1 for a tensor without versions (made in torch.inference_mode). Holds one reference to the tensor. May
  // set a Python error.
  BoundTensor(PyObject *tensor, void *address, int64_t version);
  BoundTensor(BoundTensor &&other) noexcept { *this = std::move(other); }
  BoundTensor &operator=(BoundTensor &&other) noexcept;
  ~BoundTensor();

  // Whether `tensor` is the one that was bound, or another on the same memory, unchanged since. May set a Python error,
  // and is false then.
  bool isSame(PyObject *tensor) const;

  // Finds PyTorch's functions that read a tensor's address and version, and tries them on `probe`, a tensor of its own.
  // Where they are missing, or answer otherwise than Python does, tensors are read through DLPack and Python. False
  // with a Python error if even that fails. `makeHandle`: torch._C._aoti.unsafe_alloc_void_ptr_from_tensor.
  static bool setup(PyObject *makeHandle, PyObject *probe);
  static bool readsDirectly();

private:
  PyObject *object = nullptr;
  void *handle = nullptr; // an AtenTensorHandle, which holds the reference in place of `object`
  void *address = nullptr;
  int64_t version = -1;
};

// The version counter, or -1 for a tensor without one.
int64_t readVersion(PyObject *tensor);

// Reads a torch.Tensor through DLPack. False with a Python error for what is none, or exports no memory.
bool readTensor(PyObject *object, dlpack::Tensor &tensor);

// Of tensors without elements, an address that is not NULL, because programs expect one.
void *address(const dlpack::Tensor &tensor);

} // namespace mortise::torch_door
