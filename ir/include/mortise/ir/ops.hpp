// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C++ classes of all ops. Slow to compile: a file that needs one family includes dialect.hpp and that family's
// .h.inc instead.
#pragma once

#include <mortise/ir/dialect.hpp>

#define GET_OP_CLASSES
#include <mortise/ir/attention.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/collective.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/contraction.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/control_flow.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/elementwise.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/indexing.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/normalisation.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/quantisation.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/random.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/reduction.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/shape.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/vendor.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/window.h.inc>
