// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C++ classes of all ops. Heavy: a file that needs one family includes Dialect.h and that family's .h.inc.
#pragma once

#include <mortise/ir/Dialect.h>

#define GET_OP_CLASSES
#include <mortise/ir/Attention.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Collective.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Contraction.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/ControlFlow.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Elementwise.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Indexing.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Normalisation.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Quantisation.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Random.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Reduction.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Shape.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Window.h.inc>
