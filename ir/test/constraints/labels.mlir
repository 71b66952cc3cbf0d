// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every constraint has one label, in its op's description, in the verifier and in a test that breaks it.
// RUN: python3 %S/../labels.py
