/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The embedding API: build a graph, compile it for the installed devices, run it. libmortise.so has all of it;
 * libmortise-runtime.so has no compiler, that is, neither builders nor mortise_compile, and runs programs that were
 * saved.
 *
 * Every call that can fail returns NULL on success, or else a status that the caller reads and destroys. No call
 * throws, and bad arguments give MORTISE_INVALID_ARGUMENT with a message, never a crash. Sessions and programs may be
 * used from any thread, a builder from one thread at a time. Each kind of handle has its own destroy function, which
 * accepts NULL.
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
typedef struct MortiseSessionDevice MortiseSessionDevice; /* an installed device */
typedef struct MortiseQueue MortiseQueue;                 /* a stream of a device, on which calls are queued */

typedef struct MortiseTensor { /* a caller's buffer */
  size_t struct_size;
  void *data;    /* in host memory, or an address in the memory of `device` */
  int32_t dtype; /* MortiseDType */
  int32_t rank;
  const int64_t *dims;
  const int64_t *strides;             /* in elements; NULL is dense row-major */
  const MortiseSessionDevice *device; /* NULL: host memory */
} MortiseTensor;

#define MORTISE_NO_VALUE UINT32_MAX /* an optional operand left out */

typedef struct MortiseRefusal { /* why one device does not take one node; strings are never NULL */
  size_t struct_size;
  uint32_t node;        /* its number in the graph that was placed, after the compiler's passes and decompositions */
  int32_t reason;       /* MortiseReason, or 0 when the plugin gave none */
  const char *op;       /* "mortise.add" */
  const char *location; /* as given to mortise_builder_op; "" without one */
  const char *device;   /* "cpu:0" */
  const char *plugin;   /* "cpu" */
  const char *detail;   /* in words; may be "" */
} MortiseRefusal;

MORTISE_EXPORT int32_t mortise_status_code(const MortiseStatus *status);
MORTISE_EXPORT const char *mortise_status_message(const MortiseStatus *status);
MORTISE_EXPORT void mortise_status_destroy(MortiseStatus *status);
MORTISE_EXPORT void mortise_string_destroy(char *string);

/* Reads the configuration and the manifests of plugins. A plugin is loaded when a device of it is asked for. `options`:
 * call options, which override all other configuration; runtime/README.md lists the keys, and an unknown key or value
 * is an error. A plugin that cannot be loaded is not an error: mortise_session_describe lists it under "rejected". */
MORTISE_EXPORT MortiseStatus *mortise_session_create(const MortiseOption *options, size_t option_count,
                                                     MortiseSession **session);
MORTISE_EXPORT void mortise_session_destroy(MortiseSession *session);
/* Loads every plugin. JSON: {"plugins": [{"name", "vendor", "version", "path", "ops": {"acme.swizzle": SUMMARY},
 * "no_device": why it has none here, or ""}], "devices": [...], "rejected": [{"path", "code", "reason"}], "config":
 * [{"key","value","source"}]}. Free with mortise_string_destroy. */
MORTISE_EXPORT MortiseStatus *mortise_session_describe(MortiseSession *session, char **json);

/* What an installed plugin declares of an op of a vendor ("acme.swizzle"). It lives until the process ends. Loads the
 * plugins whose manifests list the op. Error: MORTISE_UNSUPPORTED, no installed plugin declares it. */
MORTISE_EXPORT MortiseStatus *mortise_session_op(MortiseSession *session, const char *op,
                                                 const MortiseOpDeclaration **declaration);

MORTISE_EXPORT MortiseStatus *mortise_builder_create(MortiseSession *session, const char *name,
                                                     MortiseBuilder **builder);
MORTISE_EXPORT void mortise_builder_destroy(MortiseBuilder *builder);
/* Adds a symbol, which extents name by `number` (0, 1, ...). All symbols are added before the first extent names one.
 * Values are between `min` and `max` (INT64_MAX: unbounded) and are multiples of `divisor`. For each symbol an input
 * must have the symbol itself as an extent, from which calls take its value. */
MORTISE_EXPORT MortiseStatus *mortise_builder_symbol(MortiseBuilder *builder, const char *name, int64_t min,
                                                     int64_t max, int64_t divisor, uint32_t *number);
/* Adds a condition on the symbols' values. It is checked before a set of values is first used; a call whose values
 * break it fails. `relation`: MortiseRelation. `reason` is quoted in messages and may be NULL. */
MORTISE_EXPORT MortiseStatus *mortise_builder_guard(MortiseBuilder *builder, const MortiseExpr *expr, int32_t relation,
                                                    const char *reason);
/* Adds an input and gives its number in `value`. `flags`: 0 or one of MortiseValueFlag. With MORTISE_VALUE_DONATED the
 * caller gives up the contents of the input's memory: they are unspecified after a run, also after one that fails, and
 * in a checked run the memory must not overlap another input. For each extent that is MORTISE_DYNAMIC, `dim_exprs` has
 * a program. `type` is copied. */
MORTISE_EXPORT MortiseStatus *mortise_builder_input(MortiseBuilder *builder, const char *name, const MortiseType *type,
                                                    uint32_t flags, uint32_t *value);
/* Appends an op, the language's or a vendor's; the types of its results are inferred, a vendor's by its plugin.
 * `operands`: numbers of values, MORTISE_NO_VALUE for an optional operand that is left out. `results` has room for
 * `result_capacity` numbers; `result_count`, which may be NULL, receives the number of results, also when they do not
 * fit. `location` is quoted in messages and reports and may be NULL. Everything is copied. */
MORTISE_EXPORT MortiseStatus *mortise_builder_op(MortiseBuilder *builder, const char *op, const uint32_t *operands,
                                                 size_t operand_count, const MortiseAttribute *const *attributes,
                                                 size_t attribute_count, const char *location, uint32_t *results,
                                                 size_t result_capacity, size_t *result_count);
/* Appends `copies` more copies of a part of which the graph already has two consecutive ones. Values are numbered in
 * the order of their creation: the results of the first copy are [first, first + count), those of the second the next
 * `count`, and those of the new copies follow. `own`: own_count values per copy, first for the two existing copies and
 * then for each new one, that only this copy reads, such as its weights; they may be results of the copy before.
 * `locations`: location_count texts for the second copy and then for each new one. If the two existing copies differ in
 * anything else, `*repeated` is 0 and nothing is appended. */
MORTISE_EXPORT MortiseStatus *mortise_builder_repeat(MortiseBuilder *builder, uint32_t first, uint32_t count,
                                                     uint32_t copies, const uint32_t *own, size_t own_count,
                                                     const char *const *locations, size_t location_count,
                                                     int32_t *repeated);
/* The type of a value. It belongs to the builder and is valid until mortise_compile or the builder's destruction. */
MORTISE_EXPORT MortiseStatus *mortise_builder_type(MortiseBuilder *builder, uint32_t value, const MortiseType **type);
/* Makes a value an output; outputs are numbered in the order of these calls. `alias_input`: the number of the input
 * whose memory the output is written to, or -1. */
MORTISE_EXPORT MortiseStatus *mortise_builder_output(MortiseBuilder *builder, uint32_t value, int64_t alias_input);
/* The graph under construction as MLIR text. Free it with mortise_string_destroy. */
MORTISE_EXPORT MortiseStatus *mortise_builder_text(MortiseBuilder *builder, char **text);

/* Compiles the graph. The builder is empty afterwards, also on failure. `options` override the session's for this
 * program. Errors: MORTISE_UNSUPPORTED when no chosen device takes some of the nodes (mortise_builder_refusals lists
 * all of them), when `require` is not met, or when a plugin cannot compile a region. */
MORTISE_EXPORT MortiseStatus *mortise_compile(MortiseSession *session, MortiseBuilder *builder,
                                              const MortiseOption *options, size_t option_count,
                                              MortiseProgram **program);
MORTISE_EXPORT void mortise_program_destroy(MortiseProgram *program);
/* Packs the constant inputs. `inputs` has one entry for each input, ignored where the input is not constant. The caller
 * keeps the memory of constants valid and unchanged until the next bind or the program's destruction. Required before
 * the first run when there are constants. Calls in flight finish with the constants bound before. After an error the
 * constants bound before stay bound.
 *
 * A plugin may refuse a part of the graph that it offered: with MORTISE_UNSUPPORTED when constants are bound or a call
 * needs a kernel for its shapes, or because it crashes in a process of its own. Then the graph is placed again without
 * this offer, within the bind or the call, and what mortise_program_report says changes. Errors: MORTISE_UNSUPPORTED
 * when no chosen device takes some of the nodes then ("uncovered" in the report), or when the program was loaded from a
 * file, which has no graph; nothing of the call has happened. MORTISE_DEVICE_LOST when a plugin crashed after memory
 * that the call reads (state, a donated input, an aliased output) was written; the next call does without that kernel.
 */
MORTISE_EXPORT MortiseStatus *mortise_program_bind(MortiseProgram *program, const MortiseTensor *const *inputs,
                                                   size_t count);
/* Runs the program after checking dtypes, shapes and pointers. `inputs`: one entry for each input, which may be NULL
 * for constants; `outputs`: one for each output, dense, which may be NULL where the output aliases an input. Inputs
 * that are not dense are copied first. Returns when the outputs are written. */
MORTISE_EXPORT MortiseStatus *mortise_program_run(MortiseProgram *program, const MortiseTensor *const *inputs,
                                                  size_t input_count, const MortiseTensor *const *outputs,
                                                  size_t output_count);
/* Runs the program without checking the buffers: one pointer for each input and output, to dense memory of the right
 * size, aligned to its elements; a donated input in host memory is aligned to 64 bytes. `symbols`: the symbols' values
 * in the order in which the builder added them, NULL when there are none; values that are new to the program are
 * checked against ranges and guards. A run with recently used values allocates no memory. */
MORTISE_EXPORT MortiseStatus *mortise_program_run_pointers(MortiseProgram *program, const void *const *inputs,
                                                           void *const *outputs, const int64_t *symbols);
/* The symbols' values that these inputs give, after the checks of mortise_program_run. The inputs' data may be NULL.
 * `values` has room for `capacity` of them; `count`, which may be NULL, receives their number, also when there is no
 * room. */
MORTISE_EXPORT MortiseStatus *mortise_program_symbols(MortiseProgram *program, const MortiseTensor *const *inputs,
                                                      size_t input_count, int64_t *values, size_t capacity,
                                                      size_t *count);
/* The extents of an output for these values of the symbols. `dims` has room for `capacity` of them; `rank` receives
 * their number, also when there is no room. */
MORTISE_EXPORT MortiseStatus *mortise_program_output_shape(MortiseProgram *program, const int64_t *symbols,
                                                           size_t symbol_count, size_t output, int64_t *dims,
                                                           size_t capacity, size_t *rank);
/* Does the same as mortise_program_run and measures the time of each step for the report. */
MORTISE_EXPORT MortiseStatus *mortise_program_profile(MortiseProgram *program, const MortiseTensor *const *inputs,
                                                      size_t input_count, const MortiseTensor *const *outputs,
                                                      size_t output_count);
/* JSON: {"name", "nodes": N, "compile_s": {"passes","place","kernels","bind"}, "arena_bytes", "process_arena_bytes",
 *  "packed_bytes", "placement":
 * [{"device","plugin","lowering","nodes":[..],"ops":{"mortise.add":3},"predicted_ns","kernels","kernel_cache","specialised","steps":[{"name","lowering","ns","bytes","flops"}]}],
 *  ("predicted_ns": measured where mode and devices ask for it; "kernels": the number compiled or loaded so far, 0 if
 * an equal region's kernels are used; "kernel_cache": "hit" if the kernel was on disk, "saved" if in the program's
 * file, otherwise why it was compiled, null if "specialised"; "specialised": null, or why a kernel is compiled for each
 * set of symbol values), "symbols":
 * [{"name","min","max","divisor","input","dimension"}], "guards":
 *  [{"expects","reason"}], "values": {"ready","limit","met","dropped","instances","kernels_specialised"},
 *  "copies":
 * [{"from","to","bytes","predicted_ns","latency_ns","latency_source","bytes_per_second","bandwidth_source","over_host"}]
 *  (from one memory to another, "host" or a device; "bytes": with typical values of the symbols; a source: "set",
 *  "measured", "stated" by the device, "guess", null where the copy costs nothing; "over_host": the price of two
 * copies, of which this is the first; with "tensors": all that a call copies in the process of an isolated plugin,
 * behind the others), "refusals": [{"node","op","device","plugin","reason","detail"}] (node is null
 * for a composite that has been decomposed), "declined":
 * [{"lowering","device","plugin","nodes","ops","predicted_ns","reason","detail"}] (candidates that were refused, or
 *  lost, which is the reason "cost"), "unlisted": [{"device","plugin","count"}] (how many more lost), "uncovered":
 *  [{"node","op","location","device","plugin","reason","detail"}] (as mortise_builder_refusals, of the last time that
 * the graph was placed again in vain), "inputs": [{"name","type","constant","state","donated"}], "outputs":
 * [{"type","alias"}]}. */
MORTISE_EXPORT MortiseStatus *mortise_program_report(MortiseProgram *program, char **json);

/* The refusals of the last mortise_compile of this builder: for every node that no chosen device takes, the answer of
 * each device, ordered by node, then by device. `count` is 0 if the compilation succeeded, failed for another reason,
 * or never ran. The list and its strings belong to the builder, until its next mortise_compile or its destruction. */
MORTISE_EXPORT MortiseStatus *mortise_builder_refusals(MortiseBuilder *builder, const MortiseRefusal *const **refusals,
                                                       size_t *count);
/* An installed device: `name` is a kind (its first ordinal) or kind:ordinal. It belongs to the session and is valid as
 * long as the session or anything made with it. */
MORTISE_EXPORT MortiseStatus *mortise_session_device(MortiseSession *session, const char *name,
                                                     const MortiseSessionDevice **device);
/* Memory of the device where its kernels find their tensors, which is host memory for a device that computes there.
 * mortise_memory_free accepts NULL; no work may use the memory any more. */
MORTISE_EXPORT MortiseStatus *mortise_memory_allocate(const MortiseSessionDevice *device, uint64_t bytes, void **data);
MORTISE_EXPORT MortiseStatus *mortise_memory_free(const MortiseSessionDevice *device, void *data);
/* Has the memory of a device come from the application, such as from the caching allocator of the framework around:
 * tensors, weights, arenas and what plugins ask for, of all sessions of the process and from now on. NULL: from the
 * plugin again. What was allocated before is freed where it came from. The struct is copied; `context` and the
 * functions live until all that they gave is freed and no call is under way. */
typedef struct MortiseDeviceAllocator {
  size_t struct_size;
  void *context; /* for the two functions, which are called from any thread, and call nothing of Mortise */
  /* An address in the device's home, aligned as its plugin says, or 0 when there is none. `native_stream`: the memory
   * is used by work that is queued there from then on; 0: it is usable at once. */
  uint64_t (*allocate)(void *context, uint64_t bytes, uint64_t native_stream);
  /* `native_stream`: work queued there before may still use the memory; 0: nothing does. */
  void (*free)(void *context, uint64_t address, uint64_t native_stream);
} MortiseDeviceAllocator;
/* Errors: MORTISE_UNSUPPORTED (the device computes in host memory), MORTISE_INVALID_ARGUMENT (a function is missing).
 */
MORTISE_EXPORT MortiseStatus *mortise_device_set_allocator(const MortiseSessionDevice *device,
                                                           const MortiseDeviceAllocator *allocator);
/* Makes host memory of the caller's ready for copies to and from a device without a stop in between, such as the
 * buffers of a server's requests. It is the caller's to unregister, with the same address, before it frees the memory.
 * No work may use the memory during either call. For a device that computes in host memory both do nothing. Errors:
 * MORTISE_UNSUPPORTED (the plugin does not register memory), MORTISE_INVALID_ARGUMENT (registered already, or not). */
MORTISE_EXPORT MortiseStatus *mortise_memory_register(const MortiseSessionDevice *device, void *data, uint64_t bytes);
MORTISE_EXPORT MortiseStatus *mortise_memory_unregister(const MortiseSessionDevice *device, void *data);
/* Copies between two dense tensors of equal dtype and extents, wherever they lie. Returns when the bytes are there.
 * Waits for no queue. */
MORTISE_EXPORT MortiseStatus *mortise_tensor_copy(const MortiseTensor *target, const MortiseTensor *source);

/* The device in whose memory the tensors of a device of DLPack lie (`type`: DLDeviceType); NULL for host memory.
 * Errors: MORTISE_UNSUPPORTED (no installed device has it, or several plugins claim it). */
MORTISE_EXPORT MortiseStatus *mortise_session_dlpack_device(MortiseSession *session, int32_t type, int32_t id,
                                                            const MortiseSessionDevice **device);

struct DLManagedTensorVersioned; /* of DLPack 1.x, <dlpack/dlpack.h> */
/* Describes a DLPack tensor without a copy: `tensor` borrows its memory, extents and strides, and is valid until
 * `managed` is deleted, which stays the caller's. `written`: whether the tensor will be written, which a read-only one
 * must not be. Work that its producer has queued is the caller's to wait for, or to order by the queue that both use.
 * Errors: MORTISE_VERSION_MISMATCH (another major version), MORTISE_UNSUPPORTED (a dtype, or a device that is not
 * installed). */
MORTISE_EXPORT MortiseStatus *mortise_tensor_from_dlpack(MortiseSession *session,
                                                         const struct DLManagedTensorVersioned *managed,
                                                         int32_t written, MortiseTensor *tensor);
/* Hands memory of mortise_memory_allocate over as a dense DLPack tensor: its deleter frees the memory, which
 * mortise_memory_free must not any more. On an error the memory stays the caller's. */
MORTISE_EXPORT MortiseStatus *mortise_memory_to_dlpack(const MortiseSessionDevice *device, void *data,
                                                       const MortiseType *type,
                                                       struct DLManagedTensorVersioned **managed);

/* A new stream of the device, or one that wraps a native stream (`native`: what the device's plugin documents, such as
 * a handle of its driver), which stays the caller's. Errors: MORTISE_UNSUPPORTED (the device has no streams, or imports
 * none).
 */
MORTISE_EXPORT MortiseStatus *mortise_queue_create(const MortiseSessionDevice *device, MortiseQueue **queue);
MORTISE_EXPORT MortiseStatus *mortise_queue_import(const MortiseSessionDevice *device, uint64_t native,
                                                   MortiseQueue **queue);
/* The native stream of a queue, as mortise_queue_import takes it. Valid as long as the queue; one that was imported
 * stays the caller's. Errors: MORTISE_UNSUPPORTED (the device has no native streams). */
MORTISE_EXPORT MortiseStatus *mortise_queue_export(MortiseQueue *queue, uint64_t *native);
/* Returns when what has been queued has happened, with the first error of it. */
MORTISE_EXPORT MortiseStatus *mortise_queue_wait(MortiseQueue *queue);
/* Nothing may be in flight on it: wait for it first. */
MORTISE_EXPORT void mortise_queue_destroy(MortiseQueue *queue);

/* Says that the tensors of an input or output will lie in the memory of `device`, an installed device of the builder's
 * session (NULL: the host's, as without this call). An output that aliases an input lies where the input does.
 * Constants may lie anywhere without it. */
MORTISE_EXPORT MortiseStatus *mortise_builder_input_device(MortiseBuilder *builder, size_t input,
                                                           const MortiseSessionDevice *device);
MORTISE_EXPORT MortiseStatus *mortise_builder_output_device(MortiseBuilder *builder, size_t output,
                                                            const MortiseSessionDevice *device);
/* Does the same as mortise_program_run on a caller's queue: comes behind what is queued there, and returns when its
 * work is queued and host memory may be used again. Memory of devices stays valid until the work has happened, as
 * mortise_queue_wait says; so does the order for work that is queued later. Errors of queued work come from there, too.
 * A program without tensors in the memory of the queue's device waits for the queue, and runs. */
MORTISE_EXPORT MortiseStatus *mortise_program_enqueue(MortiseProgram *program, MortiseQueue *queue,
                                                      const MortiseTensor *const *inputs, size_t input_count,
                                                      const MortiseTensor *const *outputs, size_t output_count);
/* The same for tensors on several devices, with a queue of each: no queue waits for more of the call than what works
 * on the tensors of its own device, and the host waits for none. Tensors on a device without a queue here are ordered
 * by one of the others. Errors: MORTISE_INVALID_ARGUMENT (no queue, or two of one device). */
MORTISE_EXPORT MortiseStatus *mortise_program_enqueue_across(MortiseProgram *program, MortiseQueue *const *queues,
                                                             size_t queue_count, const MortiseTensor *const *inputs,
                                                             size_t input_count, const MortiseTensor *const *outputs,
                                                             size_t output_count);
typedef struct MortiseSignature { /* what a program takes and gives; belongs to the program */
  size_t struct_size;
  size_t input_count, output_count;
  const char *const *input_names;
  const MortiseType *const *input_types; /* extents over symbols have programs in dim_exprs */
  const uint32_t *input_flags;           /* MortiseValueFlag */
  const MortiseType *const *output_types;
  const int64_t *output_aliases; /* the number of the input whose memory an output is written to, or -1 */
} MortiseSignature;
MORTISE_EXPORT MortiseStatus *mortise_program_signature(MortiseProgram *program, const MortiseSignature **signature);

/* Writes the compiled program to a file, which replaces another one of this name only when it is whole. Constants are
 * not in it: whoever loads it binds them. Kernels that their plugins can save are, unless the session's setting
 * saved_kernels is off; not those that are compiled for each set of symbol values. Errors: MORTISE_OUT_OF_MEMORY (the
 * disk is full), MORTISE_INVALID_ARGUMENT (the folder cannot be written to), MORTISE_UNSUPPORTED (2 GB or more). */
MORTISE_EXPORT MortiseStatus *mortise_program_save(MortiseProgram *program, const char *path);
/* Loads a program. Kernels in the file are used where plugin, build and device are those that made them; the others are
 * compiled by the plugins that the program was compiled for; nothing else of the compiler runs. A file of any origin is
 * checked, but kernels are machine code: set saved_kernels to off for a file from which you would load no plugin.
 * `options` override the session's for this program; those that decide how a graph is
 * compiled have no effect. Errors: MORTISE_NOT_FOUND (no such file), MORTISE_CORRUPT (a damaged file, or another one),
 * MORTISE_VERSION_MISMATCH, MORTISE_UNSUPPORTED or MORTISE_INVALID_ARGUMENT (a plugin or a device is not installed). */
MORTISE_EXPORT MortiseStatus *mortise_program_load(MortiseSession *session, const char *path,
                                                   const MortiseOption *options, size_t option_count,
                                                   MortiseProgram **program);
/* "op", "dtype", ... for a MortiseReason, "unknown" for every other number. The string is static. */
MORTISE_EXPORT const char *mortise_reason_name(int32_t reason);

#ifdef __cplusplus
}
#endif
#endif
