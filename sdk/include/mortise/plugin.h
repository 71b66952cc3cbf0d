/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The Mortise plugin ABI.
 *
 * A plugin is one shared library that exports one function, `mortise_plugin`, which returns a
 * table (MortisePlugin). Through it the host finds devices, asks which parts of a graph the plugin
 * can run and at what cost, has those parts compiled, and runs them.
 *
 * Rules that hold everywhere, said once:
 *
 *  - Call shape. Every slot is `MortiseStatus *slot(Args *)`. NULL is success. A non-NULL status is
 *    owned by the caller, who reads it and destroys it. No exception, longjmp or signal crosses.
 *  - Growth. Every struct starts with `struct_size`, its size in the writer's header; a reader
 *    never reads past it. Tables and structs grow only at their end. Arrays of structs are arrays
 *    of pointers, so that an element can grow too. The exceptions are MortiseExpr, MortiseExprStep and
 *    MortiseOption, which are frozen.
 *  - `extension` is the head of a chain of optional structs, NULL when there is none. A reader skips
 *    structs of an unknown `kind`.
 *  - A slot marked (optional) may be NULL; its comment says what the host then does. The others must
 *    be there, or the plugin is refused.
 *  - Ownership. What a pointer argument points to belongs to the caller and lives for the length of
 *    the call, unless the comment says otherwise. Strings are UTF-8, NUL terminated.
 *  - Threads. Slots are called from any thread. Two calls run at the same time unless they name
 *    the same stream. A kernel and its bound constants are immutable after creation.
 *  - Memory. The host owns all memory, workspaces included, except what a plugin keeps for packed
 *    constants, which it reports. Pointers handed to a kernel are aligned to the device's `alignment`,
 *    but those of a caller's own inputs and outputs only to the element size.
 *  - Booleans (dtype I1) occupy one byte, 0 or 1. I4 is packed two to a byte, low half first.
 */
#ifndef MORTISE_PLUGIN_H
#define MORTISE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions ------------------------------------------------------------------------------- */

/* A revision adds at the end of structs and tables. The host supports a window of revisions and loads
 * a plugin whose range [abi_oldest, abi_newest] meets it. */
#define MORTISE_ABI_REVISION 2
#define MORTISE_PLUGIN_MAGIC UINT64_C(0x314553495452304d) /* "M0RTISE1", little endian */

/* Hashes of every size, offset and enumerator of each revision; sdk/abi/ computes them and CI compares. */
#define MORTISE_ABI_LAYOUT_HASH_1 UINT64_C(0xdcba382f495cd56b)
#define MORTISE_ABI_LAYOUT_HASH_2 UINT64_C(0xea638089e755cc24)
/* From the oldest revision to the newest: what MortisePlugin::layout_hashes points to with abi_oldest 1. */
#define MORTISE_ABI_LAYOUT_HASHES {MORTISE_ABI_LAYOUT_HASH_1, MORTISE_ABI_LAYOUT_HASH_2}

/* The newest operation set this header knows. Ops and attributes carry the set that introduced them. */
#define MORTISE_OPSET 3

#if defined(_WIN32)
#define MORTISE_EXPORT __declspec(dllexport)
#else
#define MORTISE_EXPORT __attribute__((visibility("default")))
#endif

typedef struct MortiseExtension {
  size_t struct_size;
  const struct MortiseExtension *next; /* NULL ends the chain */
  uint32_t kind;                       /* one of MortiseExtensionKind, or a vendor's own from 0x8000 up */
  uint32_t reserved;
} MortiseExtension;

/* ---- Status --------------------------------------------------------------------------------- */

typedef struct MortiseStatus MortiseStatus; /* made and read through MortiseHost */

typedef enum MortiseCode {
  MORTISE_OK = 0,
  MORTISE_INVALID_ARGUMENT = 1,   /* the caller passed something that can never work */
  MORTISE_UNSUPPORTED = 2,        /* well formed, but not something this plugin or build does */
  MORTISE_NEEDS_STATIC = 3,       /* would work once every symbol has a value */
  MORTISE_OUT_OF_MEMORY = 4,
  MORTISE_NOT_FOUND = 5,          /* a file, device, option or entry is missing */
  MORTISE_VERSION_MISMATCH = 6,   /* ABI, opset or format outside the supported window */
  MORTISE_CANCELLED = 7,
  MORTISE_DEVICE_LOST = 8,        /* the stream is poisoned; nothing further succeeds on it */
  MORTISE_CORRUPT = 9,            /* bytes that do not verify */
  MORTISE_INTERNAL = 10,          /* a fault in the plugin or the host */
  MORTISE_CODE_FORCE_INT32 = 0x7fffffff
} MortiseCode;

/* Why a plugin does not take a node. All plugins use this table; `detail` strings give the particulars. */
typedef enum MortiseReason {
  MORTISE_REASON_OP = 1,            /* no lowering for this op, whatever its attributes, types and neighbours */
  MORTISE_REASON_DTYPE = 2,
  MORTISE_REASON_RANK = 3,
  MORTISE_REASON_ATTRIBUTE = 4,     /* the op, but not with this attribute value */
  MORTISE_REASON_LAYOUT = 5,
  MORTISE_REASON_NEEDS_STATIC = 6,
  MORTISE_REASON_SIZE = 7,          /* too large or too small for the lowering */
  MORTISE_REASON_OPSET = 8,
  MORTISE_REASON_MEMORY = 9,
  MORTISE_REASON_OPTION = 10,       /* switched off by an option */
  MORTISE_REASON_HARDWARE = 11,     /* this device lacks an instruction or unit */
  MORTISE_REASON_ERROR = 12,        /* the plugin failed while considering the node */
  MORTISE_REASON_COST = 13,         /* possible, but another candidate is cheaper */
  MORTISE_REASON_FORCE_INT32 = 0x7fffffff
} MortiseReason;

typedef enum MortiseSeverity {
  MORTISE_DEBUG = 0,
  MORTISE_INFO = 1,
  MORTISE_WARNING = 2,
  MORTISE_ERROR = 3,
  MORTISE_SEVERITY_FORCE_INT32 = 0x7fffffff
} MortiseSeverity;

/* ---- Types and graphs ----------------------------------------------------------------------- */

typedef enum MortiseDType {
  MORTISE_F64 = 1,
  MORTISE_F32 = 2,
  MORTISE_F16 = 3,
  MORTISE_BF16 = 4,
  MORTISE_F8E4M3FN = 5,
  MORTISE_F8E5M2 = 6,
  MORTISE_I64 = 7,
  MORTISE_I32 = 8,
  MORTISE_I16 = 9,
  MORTISE_I8 = 10,
  MORTISE_I4 = 11,
  MORTISE_UI8 = 12,
  MORTISE_I1 = 13,
  MORTISE_UI16 = 14,
  MORTISE_DTYPE_FORCE_INT32 = 0x7fffffff
} MortiseDType;

/* A small postfix program over int64 symbols: steps push or combine; one value remains.
 * Extents, workspace sizes and grid sizes cross the ABI in this form. Overflow is an error. */
typedef enum MortiseExprOp {
  MORTISE_EXPR_CONST = 1,    /* push `value` */
  MORTISE_EXPR_SYMBOL = 2,   /* push the symbol numbered `value` */
  MORTISE_EXPR_ADD = 3,
  MORTISE_EXPR_SUB = 4,
  MORTISE_EXPR_MUL = 5,
  MORTISE_EXPR_FLOORDIV = 6, /* rounds towards minus infinity; a divisor of 0 is an error */
  MORTISE_EXPR_MOD = 7,      /* sign of the divisor */
  MORTISE_EXPR_MIN = 8,
  MORTISE_EXPR_MAX = 9,
  MORTISE_EXPR_FORCE_INT32 = 0x7fffffff
} MortiseExprOp;

typedef struct MortiseExprStep { /* frozen */
  int32_t op;                    /* MortiseExprOp */
  int32_t reserved;
  int64_t value;
} MortiseExprStep;

typedef struct MortiseExpr { /* frozen */
  const MortiseExprStep *steps;
  size_t count;
} MortiseExpr;

#define MORTISE_DYNAMIC INT64_MIN /* in `dims`: see `dim_exprs` */

typedef struct MortiseType {
  size_t struct_size;
  const MortiseExtension *extension;
  int32_t dtype;                /* MortiseDType */
  int32_t rank;                 /* 0 is a scalar */
  const int64_t *dims;          /* `rank` extents, each >= 0 or MORTISE_DYNAMIC; NULL only when rank is 0 */
  const MortiseExpr *dim_exprs; /* NULL when every extent is static, else `rank` programs */
  const int64_t *strides;       /* `rank` strides in elements; NULL means dense row-major */
} MortiseType;

typedef enum MortiseAttributeKind {
  MORTISE_ATTRIBUTE_BOOL = 1, /* i64, 0 or 1 */
  MORTISE_ATTRIBUTE_I64 = 2,
  MORTISE_ATTRIBUTE_F64 = 3,
  MORTISE_ATTRIBUTE_STRING = 4, /* also enumerations, by their name */
  MORTISE_ATTRIBUTE_I64_ARRAY = 5,
  MORTISE_ATTRIBUTE_F64_ARRAY = 6,
  MORTISE_ATTRIBUTE_TENSOR = 7, /* dense row-major; a small literal, never a weight */
  MORTISE_ATTRIBUTE_FORCE_INT32 = 0x7fffffff
} MortiseAttributeKind;

typedef struct MortiseAttribute {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *name;
  int32_t kind; /* MortiseAttributeKind; only the members it names are meaningful */
  int32_t reserved;
  int64_t i64;
  double f64;
  const char *string;
  const int64_t *i64s;
  const double *f64s;
  size_t count; /* of i64s or f64s; of bytes in tensor_data */
  const MortiseType *tensor_type;
  const void *tensor_data;
  /* Revision 2. I64_ARRAY of extents or positions: NULL when all are numbers, else `count` programs over the graph's symbols; i64s
   * holds MORTISE_DYNAMIC where a program is not a number. */
  const MortiseExpr *exprs;
} MortiseAttribute;

typedef struct MortiseNode MortiseNode;
typedef struct MortiseGraph MortiseGraph;

typedef enum MortiseValueFlag {
  MORTISE_VALUE_CONSTANT = 1, /* a graph input bound once (a weight); see constants_bind */
  MORTISE_VALUE_STATE = 2,    /* a graph input that is updated in place; see MortiseGraph::aliases */
  MORTISE_VALUE_DONATED = 4,  /* a graph input whose memory the caller gives up; the host decides which output reuses it: MortiseInPlace */
  MORTISE_VALUE_FORCE_INT32 = 0x7fffffff
} MortiseValueFlag;

typedef struct MortiseValue {
  size_t struct_size;
  const MortiseExtension *extension;
  const MortiseType *type;
  const MortiseNode *producer; /* NULL for a graph input */
  uint32_t index;              /* position in MortiseGraph::values */
  uint32_t result_index;       /* which result of `producer`, or which graph input */
  uint32_t flags;              /* MortiseValueFlag bits */
  uint32_t use_count;          /* uses as an operand, plus uses as a graph output */
  const char *name;            /* for people; may be "" */
} MortiseValue;

struct MortiseNode {
  size_t struct_size;
  const MortiseExtension *extension;
  uint32_t index; /* position in MortiseGraph::nodes */
  uint32_t since; /* the opset that introduced the op at these attributes */
  const char *op; /* "mortise.add", or a vendor's "acme.swizzle" */
  const MortiseValue *const *operands; /* NULL entries stand for optional operands left out */
  size_t operand_count;
  const MortiseValue *const *results;
  size_t result_count;
  const MortiseAttribute *const *attributes; /* sorted by name; every attribute of the op is present */
  size_t attribute_count;
  const char *location; /* where in the user's program, for messages; may be "" */
  /* Revision 2. The graphs that a control flow op runs. They have the same symbols in the same order and share nothing else with this
   * graph. The op's definition maps operands and results to their inputs and outputs. */
  const MortiseGraph *const *bodies;
  size_t body_count;
};

typedef struct MortiseSymbol {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *name;
  int64_t min, max; /* inclusive; max is INT64_MAX when unbounded */
  int64_t divisor;  /* every value is a multiple of it; >= 1 */
} MortiseSymbol;

typedef struct MortiseAlias {
  size_t struct_size;
  const MortiseExtension *extension;
  uint32_t input, output; /* this output is written into this input's memory */
} MortiseAlias;

typedef enum MortiseRelation {
  MORTISE_RELATION_ZERO = 1,     /* the expression is 0 */
  MORTISE_RELATION_AT_LEAST = 2, /* the expression is 0 or more */
  MORTISE_RELATION_FORCE_INT32 = 0x7fffffff
} MortiseRelation;

/* A condition on the symbols' values. The host checks it before each call, so plugins may rely on it. */
typedef struct MortiseGuard {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseExpr expr;
  int32_t relation; /* MortiseRelation */
  int32_t reserved;
  const char *reason; /* the origin of the condition, for messages; may be "" */
} MortiseGuard;

/* A read-only graph, or a region of one. Nodes are ordered so that operands come before their uses. */
struct MortiseGraph {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *name;
  uint32_t opset;
  uint32_t reserved;
  const MortiseNode *const *nodes;
  size_t node_count;
  const MortiseValue *const *values;
  size_t value_count;
  const MortiseValue *const *inputs;
  size_t input_count;
  const MortiseValue *const *outputs; /* a value may be listed more than once, or be an input */
  size_t output_count;
  const MortiseAlias *const *aliases;
  size_t alias_count;
  const MortiseSymbol *const *symbols;
  size_t symbol_count;
  const MortiseGuard *const *guards; /* revision 2 */
  size_t guard_count;
};

typedef struct MortiseOption { /* frozen */
  const char *key;
  const char *value;
} MortiseOption;

/* ---- What the host offers ------------------------------------------------------------------- */

/* Runs tasks [begin, end) of the range on the calling thread of the pool. */
typedef void (*MortiseTask)(void *context, int64_t begin, int64_t end);

/* Valid from `initialize` until the process ends. Every member may be called from any thread. */
typedef struct MortiseHost {
  size_t struct_size;
  const MortiseExtension *extension;
  uint32_t abi_revision; /* the revision negotiated for this plugin */
  uint32_t opset;        /* the newest opset the host writes */

  /* Makes a status. Never fails: when memory is short it returns a preallocated one. `message` says what
   * was expected, what was found and what to do, in lower case without a full stop. */
  MortiseStatus *(*status_create)(int32_t code, const char *message);
  int32_t (*status_code)(const MortiseStatus *status);         /* MORTISE_OK for NULL */
  const char *(*status_message)(const MortiseStatus *status);  /* lives as long as `status`; "" for NULL */
  void (*status_destroy)(MortiseStatus *status);               /* `status` may be NULL */

  /* Writes one line to the host's log. */
  void (*log)(int32_t severity, const char *message);

  /* Splits [0, count) into ranges of at least `grain` and runs them on the process's own pool; returns
   * when all are done. Nested calls run on the calling thread. `task` must not throw. */
  void (*parallel_for)(int64_t count, int64_t grain, MortiseTask task, void *context);
  int32_t (*thread_count)(void); /* threads that parallel_for uses at present */

  /* 1 when the compilation under way on this thread should stop; return MORTISE_CANCELLED then. */
  int32_t (*cancelled)(void);

  /* The graph in the portable format. The bytes live as long as `graph`. */
  MortiseStatus *(*graph_bytes)(const MortiseGraph *graph, const void **bytes, size_t *size);
} MortiseHost;

/* ---- What a plugin offers ------------------------------------------------------------------- */

typedef struct MortiseDevice MortiseDevice;       /* the plugin's; lives until the process ends */
typedef struct MortiseStream MortiseStream;
typedef struct MortiseEvent MortiseEvent;
typedef struct MortiseKernel MortiseKernel;       /* one compiled region; immutable */
typedef struct MortiseConstants MortiseConstants; /* a kernel's constants, packed; immutable */
typedef struct MortiseInstance MortiseInstance;   /* a kernel made ready for one set of symbol values; immutable */

typedef struct MortiseDeviceInfo {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  const char *kind;          /* what a user selects: "cpu", "reference", ... */
  const char *name;          /* the hardware's own name */
  uint32_t ordinal;          /* among devices of this kind */
  uint32_t host_memory;      /* 1: kernels read and write ordinary host memory */
  uint32_t threads;          /* independent hardware threads or compute units */
  uint32_t alignment;        /* bytes that the host aligns buffers to; a power of two */
  double peak_flops;         /* f32 operations per second; 0 when unknown */
  double bandwidth;          /* bytes per second to the device's main memory; 0 when unknown */
  uint64_t memory_bytes;     /* 0 when unknown */
  uint32_t automatic;        /* 0: used only when asked for by name */
  uint32_t reserved;
  const char *features;      /* comma separated, for reports: "avx512f,avx512_bf16" */
} MortiseDeviceInfo;

typedef struct MortiseInitializeArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  const MortiseHost *host;
  const char *plugin_path;        /* the library's absolute path */
  const MortiseOption *options;   /* the options that the manifest declares, with their values */
  size_t option_count;
} MortiseInitializeArgs;

typedef struct MortiseDevicesArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  const MortiseDeviceInfo *const *devices; /* out: the plugin's, lives until the process ends */
  size_t device_count;                     /* out: 0 is a valid answer */
} MortiseDevicesArgs;

/* Values by their position in MortiseGraph::values. */
typedef struct MortiseInPlace { /* frozen */
  uint32_t input, output;
} MortiseInPlace;

/* A set of nodes that the plugin would run as one region. The set is convex: no path leaves and
 * re-enters it. Candidates may overlap; the host chooses. */
typedef struct MortiseCandidate {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *lowering;     /* short, stable: "cpu.region" */
  const uint32_t *nodes;    /* indices into MortiseGraph::nodes, ascending */
  size_t node_count;
  double cost_ns;           /* time of one run, once compiled and warm */
  double bytes;             /* memory traffic of one run */
  double flops;             /* arithmetic of one run */
  /* Revision 2. Pairs for which the region can write `output`, which it produces, into the memory of `input`, which it reads from
   * outside. Both have the same number of bytes for all values of the symbols. The kernel gets one pointer for both values or two,
   * as the host decides. The host may use several pairs together, but each value only once. Constants, states and aliased values are
   * not in any pair. */
  const MortiseInPlace *in_place;
  size_t in_place_count;
} MortiseCandidate;

typedef struct MortiseProposeArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  const MortiseGraph *graph;
  const MortiseOption *options; /* call options for this compilation */
  size_t option_count;
  void *sink; /* hand back to the two functions below, which copy what they are given */
  void (*add)(void *sink, const MortiseCandidate *candidate);
  void (*refuse)(void *sink, uint32_t node, int32_t reason, const char *detail);
} MortiseProposeArgs;

typedef struct MortiseCompileArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  const MortiseGraph *region;   /* lives until the kernel is destroyed */
  const char *lowering;         /* of the candidate chosen */
  const MortiseOption *options;
  size_t option_count;
  MortiseKernel *kernel;        /* out */
} MortiseCompileArgs;

/* One step of a kernel, for `explain` and profiles: a library call or a generated loop. */
typedef struct MortiseStep {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *name;        /* "matmul 128x768x3072 + bias + gelu" */
  const char *lowering;    /* the class that times are summed over: "library.matmul", "generated.rows" */
  const uint32_t *nodes;   /* region nodes that it computes */
  size_t node_count;
  double bytes, flops;     /* of one run; 0 when unknown */
} MortiseStep;

typedef struct MortiseKernelInfo {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;           /* in */
  MortiseExpr workspace;           /* out: bytes that `enqueue` needs; count 0 means none */
  const MortiseStep *const *steps; /* out: lives as long as the kernel */
  size_t step_count;               /* out */
  uint64_t code_bytes;             /* out: machine code held by the kernel; 0 when unknown */
} MortiseKernelInfo;

/* Revision 2. Prepares a kernel and its bound constants for one set of symbol values: everything that depends on the numbers, such as
 * library handles and workspace offsets, but not machine code, which serves all values. The host keeps the instances of the sets
 * that it used last. `kernel` and `constants` outlive the instance. */
typedef struct MortiseInstanceArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  MortiseConstants *constants;
  const int64_t *symbols;          /* one per symbol of the region */
  MortiseInstance *instance;       /* out of instance_create, in of instance_destroy */
  uint64_t workspace_bytes;        /* out: what `enqueue` needs for these values; replaces MortiseKernelInfo::workspace */
  uint64_t packed_bytes;           /* out: memory that the plugin holds for constants packed only for these values */
  const MortiseStep *const *steps; /* out: lives as long as the instance; as many as in MortiseKernelInfo, or none */
  size_t step_count;               /* out */
} MortiseInstanceArgs;

typedef struct MortiseKernelArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
} MortiseKernelArgs;

/* Packs the constant inputs of a region into the form its kernel reads. The memory behind `inputs` stays
 * valid and unchanged until the constants are destroyed, so that a plugin may read it in place. */
typedef struct MortiseConstantsBindArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  const void *const *inputs;   /* one per region input; NULL for those that are not constant */
  MortiseConstants *constants; /* out; NULL is valid when there is nothing to keep */
  uint64_t packed_bytes;       /* out: memory that the plugin holds for them */
} MortiseConstantsBindArgs;

typedef struct MortiseConstantsArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  MortiseConstants *constants;
} MortiseConstantsArgs;

/* The steady state allocates nothing: the host keeps one of these per call in flight and changes the
 * pointers. An aliased output has its input's pointer, and an output of MortiseCandidate::in_place may have it;
 * otherwise no two buffers overlap. */
typedef struct MortiseEnqueueArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  MortiseConstants *constants;
  MortiseStream *stream;       /* NULL on a device without streams: the call returns when done */
  const void *const *inputs;   /* one per region input; NULL for constants */
  void *const *outputs;        /* one per region output */
  void *workspace;             /* as many bytes as MortiseKernelInfo::workspace says */
  const int64_t *symbols;      /* values of the region's symbols */
  uint64_t *step_ns;           /* NULL, or one slot per step: add the nanoseconds it took */
  MortiseInstance *instance;   /* revision 2: the instance for these symbol values; NULL when the plugin makes none */
} MortiseEnqueueArgs;

typedef struct MortiseStreamArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  MortiseStream *stream; /* in, or out for stream_create */
  MortiseEvent *event;   /* for the event slots */
} MortiseStreamArgs;

typedef struct MortiseMemoryArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  MortiseStream *stream;
  uint64_t bytes;
  void *memory;       /* allocated (out), freed, or copied to */
  const void *source; /* copied from */
} MortiseMemoryArgs;

typedef struct MortisePlugin {
  size_t struct_size;
  const MortiseExtension *extension;
  uint64_t magic;                /* MORTISE_PLUGIN_MAGIC */
  uint32_t abi_oldest;           /* revisions that the plugin speaks, inclusive */
  uint32_t abi_newest;
  const uint64_t *layout_hashes; /* one for each of those revisions, oldest first */
  const char *name;              /* "cpu"; equal to the manifest's */
  const char *vendor;
  const char *version;           /* of the plugin */
  uint32_t opset;                /* the newest that it knows; the host writes regions for it or refuses them */
  uint32_t reserved;

  /* Called once, before any other slot. */
  MortiseStatus *(*initialize)(MortiseInitializeArgs *args);
  MortiseStatus *(*devices)(MortiseDevicesArgs *args);

  /* Proposes the parts of `graph` that the plugin would run, and refuses the other nodes with reasons. Compiles nothing. */
  MortiseStatus *(*propose)(MortiseProposeArgs *args);

  MortiseStatus *(*kernel_compile)(MortiseCompileArgs *args);
  MortiseStatus *(*kernel_info)(MortiseKernelInfo *args);
  MortiseStatus *(*kernel_destroy)(MortiseKernelArgs *args);

  MortiseStatus *(*constants_bind)(MortiseConstantsBindArgs *args);
  MortiseStatus *(*constants_destroy)(MortiseConstantsArgs *args);

  /* Runs a kernel, or queues it on `stream`. */
  MortiseStatus *(*enqueue)(MortiseEnqueueArgs *args);

  /* (optional, all or none) Without them the device is synchronous. stream_wait returns the first
   * error since the last reset and clears nothing; stream_reset clears it. */
  MortiseStatus *(*stream_create)(MortiseStreamArgs *args);
  MortiseStatus *(*stream_destroy)(MortiseStreamArgs *args);
  MortiseStatus *(*stream_wait)(MortiseStreamArgs *args);
  MortiseStatus *(*stream_reset)(MortiseStreamArgs *args);
  MortiseStatus *(*event_create)(MortiseStreamArgs *args);
  MortiseStatus *(*event_destroy)(MortiseStreamArgs *args);
  MortiseStatus *(*event_record)(MortiseStreamArgs *args);
  MortiseStatus *(*event_wait)(MortiseStreamArgs *args); /* `stream` waits for `event` */

  /* (optional, all or none) Required of a device whose host_memory is 0. Copies are in stream order. */
  MortiseStatus *(*memory_allocate)(MortiseMemoryArgs *args);
  MortiseStatus *(*memory_free)(MortiseMemoryArgs *args);
  MortiseStatus *(*copy_to_device)(MortiseMemoryArgs *args);
  MortiseStatus *(*copy_to_host)(MortiseMemoryArgs *args);

  /* Revision 2 (optional, both or none). Called only for kernels of regions with symbols. Without them a kernel learns the symbols'
   * values in each `enqueue`, not earlier. */
  MortiseStatus *(*instance_create)(MortiseInstanceArgs *args);
  MortiseStatus *(*instance_destroy)(MortiseInstanceArgs *args);
} MortisePlugin;

/* The one export. Does nothing but return the table, which lives until the process ends. */
typedef const MortisePlugin *(*MortisePluginFn)(void);
MORTISE_EXPORT const MortisePlugin *mortise_plugin(void);
#define MORTISE_PLUGIN_SYMBOL "mortise_plugin"

/* ---- Checks --------------------------------------------------------------------------------- */

#ifdef __cplusplus
#define MORTISE_CHECK(condition) static_assert(condition, #condition)
#else
#define MORTISE_CHECK(condition) _Static_assert(condition, #condition)
#endif
MORTISE_CHECK(sizeof(void *) == 8 && sizeof(size_t) == 8);
MORTISE_CHECK(sizeof(MortiseCode) == 4 && sizeof(MortiseDType) == 4 && sizeof(MortiseExprOp) == 4);
MORTISE_CHECK(sizeof(MortiseExprStep) == 16 && sizeof(MortiseExpr) == 16 && sizeof(MortiseOption) == 16);
MORTISE_CHECK(sizeof(MortiseType) == 48 && sizeof(MortiseAttribute) == 104);
MORTISE_CHECK(sizeof(MortiseValue) == 56 && sizeof(MortiseNode) == 104 && sizeof(MortiseGraph) == 144);
MORTISE_CHECK(sizeof(MortiseEnqueueArgs) == 88 && sizeof(MortisePlugin) == 256);

#ifdef __cplusplus
}
#endif
#endif
