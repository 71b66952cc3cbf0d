// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tensor that was bound as a constant. Each call asks all of a program's constants whether they are still what was
// bound, so that the answer must not take a Python call, or a DLPack export, for each.
#pragma once

#include "python.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace mortise::torch_door {

class BoundTensor {
public:
  // `address`: of its contents when they were bound, in memory that is kept while this is. `version`: of those
  // contents, -1 for a tensor without versions (made in torch.inference_mode). Holds one reference to the tensor. May
  // set a Python error.
  BoundTensor(PyObject *tensor, void *address, int64_t version);

  // Whether `tensor` is the one that was bound, or another on the same memory, unchanged since. May set a Python error,
  // and is false then.
  bool isSame(PyObject *tensor) const;

  // Finds PyTorch's functions that read a tensor's address, layout and version, and tries them on `probe`, a tensor
  // that nobody else has. Where they are missing, or answer otherwise than Python does, tensors are read through DLPack
  // and Python. False with a Python error if even that fails. `makeHandle`:
  // torch._C._aoti.unsafe_alloc_void_ptr_from_tensor.
  static bool setup(PyObject *makeHandle, PyObject *probe);
  static bool readsDirectly();

private:
  struct DeleteHandle {
    void operator()(void *handle) const;
  };
  using Handle = std::unique_ptr<void, DeleteHandle>; // an AtenTensorHandle, which holds a reference to the tensor
  static Handle makeHandle(PyObject *tensor);
  static bool agreesWithPython(PyObject *probe);

  // A word in the middle of the contents, in host memory: writes through `tensor.data` change no version. Those that
  // write all elements are found; others need torch_mortise.refresh. More words would be more cache misses in each
  // call.
  void takeLayoutAndWord(PyObject *tensor);
  bool hasWord() const;

  const char *wordAt = nullptr; // NULL: none
  uint64_t word = 0;
  PyObject *object;
  Handle handle; // or NULL, and `reference` holds the tensor
  Ref reference;
  void *address;
  int64_t version;
  std::vector<int64_t>
      layout; // sizes, then strides: Dynamo of PyTorch 2.11 does not see `weight.data = weight.data.t()`
};

// The version counter, or -1 for a tensor without one.
int64_t readVersion(PyObject *tensor);

// Reads a torch.Tensor through DLPack. False with a Python error for what is none, or exports no memory.
bool readTensor(PyObject *object, dlpack::Tensor &tensor);

// Of tensors without elements, an address that is not NULL, because programs expect one.
void *address(const dlpack::Tensor &tensor);

} // namespace mortise::torch_door
