/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The embedding API: build a graph, compile it for the installed devices, run it.
 *
 * Every call returns NULL on success or a status that the caller reads and destroys. No call throws, and bad
 * arguments give MORTISE_INVALID_ARGUMENT with a message, never a crash. Sessions and programs may be used from any
 * thread; a builder from one thread at a time. Handles are destroyed with their own function, NULL allowed.
 */
#ifndef MORTISE_MORTISE_H
#define MORTISE_MORTISE_H

#include <mortise/plugin.h> /* dtypes, types, attributes, options, status */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MortiseSession MortiseSession; /* configuration, plugins, compiler */
typedef struct MortiseBuilder MortiseBuilder;
typedef struct MortiseProgram MortiseProgram;

typedef struct MortiseTensor { /* a caller's buffer */
  size_t struct_size;
  void *data;
  int32_t dtype; /* MortiseDType */
  int32_t rank;
  const int64_t *dims;
  const int64_t *strides; /* in elements; NULL is dense row-major */
} MortiseTensor;

#define MORTISE_NO_VALUE UINT32_MAX /* an optional operand left out */

MORTISE_EXPORT int32_t mortise_status_code(const MortiseStatus *status);
MORTISE_EXPORT const char *mortise_status_message(const MortiseStatus *status);
MORTISE_EXPORT void mortise_status_destroy(MortiseStatus *status);
MORTISE_EXPORT void mortise_string_destroy(char *string);

/* `options`: call options, the strongest configuration (runtime/config.hpp lists the keys). Plugins are loaded here;
 * those that fail are listed in mortise_session_devices, not errors. */
MORTISE_EXPORT MortiseStatus *mortise_session_create(const MortiseOption *options, size_t option_count,
                                                     MortiseSession **session);
MORTISE_EXPORT void mortise_session_destroy(MortiseSession *session);
/* JSON: {"plugins": [...], "devices": [...], "rejected": [{"path", "code", "reason"}], "config":
 * [{"key","value","source"}]}. Free with mortise_string_destroy. */
MORTISE_EXPORT MortiseStatus *mortise_session_describe(MortiseSession *session, char **json);

MORTISE_EXPORT MortiseStatus *mortise_builder_create(MortiseSession *session, const char *name,
                                                     MortiseBuilder **builder);
MORTISE_EXPORT void mortise_builder_destroy(MortiseBuilder *builder);
/* A symbol that extents may name by `number` (0, 1, ...). All symbols come before the first use of one. `max` is
 * INT64_MAX when unbounded; every value is a multiple of `divisor`. Each needs an input with an extent that is just the
 * symbol: a call's values come from there. */
MORTISE_EXPORT MortiseStatus *mortise_builder_symbol(MortiseBuilder *builder, const char *name, int64_t min,
                                                     int64_t max, int64_t divisor, uint32_t *number);
/* What is checked of the symbols' values before they are first used. `relation`: MortiseRelation. `reason`, for
 * messages, may be NULL. */
MORTISE_EXPORT MortiseStatus *mortise_builder_guard(MortiseBuilder *builder, const MortiseExpr *expr, int32_t relation,
                                                    const char *reason);
/* `flags`: 0 or one of MortiseValueFlag. MORTISE_VALUE_DONATED gives the input's memory up: after a run, also one that
 * fails, its contents are unspecified, and in a checked run it must overlap no other input. Extents that are
 * MORTISE_DYNAMIC have programs in `dim_exprs`. */
MORTISE_EXPORT MortiseStatus *mortise_builder_input(MortiseBuilder *builder, const char *name, const MortiseType *type,
                                                    uint32_t flags, uint32_t *value);
/* Appends an op; result types are inferred. `results` has room for `result_capacity` values. `location` may be NULL. */
MORTISE_EXPORT MortiseStatus *mortise_builder_op(MortiseBuilder *builder, const char *op, const uint32_t *operands,
                                                 size_t operand_count, const MortiseAttribute *const *attributes,
                                                 size_t attribute_count, const char *location, uint32_t *results,
                                                 size_t result_capacity, size_t *result_count);
/* `type` belongs to the builder. */
MORTISE_EXPORT MortiseStatus *mortise_builder_type(MortiseBuilder *builder, uint32_t value, const MortiseType **type);
/* `alias_input`: number of the input whose memory the output is written to, or -1. */
MORTISE_EXPORT MortiseStatus *mortise_builder_output(MortiseBuilder *builder, uint32_t value, int64_t alias_input);
/* The graph so far in MLIR text. */
MORTISE_EXPORT MortiseStatus *mortise_builder_text(MortiseBuilder *builder, char **text);

/* Compiles. The builder is empty afterwards, also on failure. `options` override the session's for this program. */
MORTISE_EXPORT MortiseStatus *mortise_compile(MortiseSession *session, MortiseBuilder *builder,
                                              const MortiseOption *options, size_t option_count,
                                              MortiseProgram **program);
MORTISE_EXPORT void mortise_program_destroy(MortiseProgram *program);
/* Packs constant inputs; one entry per input, ignored where not constant. The memory stays valid and unchanged until
 * the next bind or destroy. Required before the first run when there are constants. */
MORTISE_EXPORT MortiseStatus *mortise_program_bind(MortiseProgram *program, const MortiseTensor *const *inputs,
                                                   size_t count);
/* Checked run. Entries for constants may be NULL. Non-dense inputs are copied first. */
MORTISE_EXPORT MortiseStatus *mortise_program_run(MortiseProgram *program, const MortiseTensor *const *inputs,
                                                  size_t input_count, const MortiseTensor *const *outputs,
                                                  size_t output_count);
/* Unchecked run: dense pointers of the right sizes, one per input and output. `symbols`: the values of the symbols in
 * the order of their making, NULL when there are none; values not met before are checked against ranges and guards.
 * Allocates nothing, but for values that it has not run lately. */
MORTISE_EXPORT MortiseStatus *mortise_program_run_pointers(MortiseProgram *program, const void *const *inputs,
                                                           void *const *outputs, const int64_t *symbols);
/* The symbols' values for these inputs, whose data may be NULL, after the checks of mortise_program_run. `values` has
 * room for `capacity`; `count` may be NULL. */
MORTISE_EXPORT MortiseStatus *mortise_program_symbols(MortiseProgram *program, const MortiseTensor *const *inputs,
                                                      size_t input_count, int64_t *values, size_t capacity,
                                                      size_t *count);
/* The extents of an output for the symbols' values. `dims` has room for `capacity`. */
MORTISE_EXPORT MortiseStatus *mortise_program_output_shape(MortiseProgram *program, const int64_t *symbols,
                                                           size_t symbol_count, size_t output, int64_t *dims,
                                                           size_t capacity, size_t *rank);
/* A checked run with per-step clocks; times show in the report. */
MORTISE_EXPORT MortiseStatus *mortise_program_profile(MortiseProgram *program, const MortiseTensor *const *inputs,
                                                      size_t input_count, const MortiseTensor *const *outputs,
                                                      size_t output_count);
/* JSON: {"name", "nodes": N, "compile_s": {"passes","place","kernels","bind"}, "arena_bytes", "packed_bytes",
 *  "placement":
 * [{"device","plugin","lowering","nodes":[..],"ops":{"mortise.add":3},"predicted_ns","kernels","specialised","steps":[{"name","lowering","ns","bytes","flops"}]}],
 *  ("kernels": compiled so far, 0 where an equal region's serves; "specialised": null, or why a kernel is compiled for
 *  each set of symbol values), "symbols": [{"name","min","max","divisor","input","dimension"}], "guards":
 *  [{"expects","reason"}], "values": {"ready","limit","met","dropped","instances","kernels_specialised"},
 *  "refusals": [{"node","op","device","plugin","reason","detail"}] (node is null for a composite that was decomposed
 * since), "inputs": [{"name","type","constant","state","donated"}], "outputs": [{"type","alias"}]}. */
MORTISE_EXPORT MortiseStatus *mortise_program_report(MortiseProgram *program, char **json);

#ifdef __cplusplus
}
#endif
#endif
