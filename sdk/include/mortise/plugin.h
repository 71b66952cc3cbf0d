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
 *    of pointers, so that an element can grow too. The exceptions are MortiseExpr, MortiseExprStep,
 *    MortiseInPlace, MortiseForm and MortiseOption, which are frozen.
 *  - `extension` is the head of a chain of optional structs, NULL when there is none. A reader skips
 *    structs of an unknown `kind`.
 *  - A slot marked (optional) may be NULL; its comment says what the host then does. The others must
 *    be there, or the plugin is refused.
 *  - Ownership. What a pointer argument points to belongs to the caller and lives for the length of
 *    the call, unless the comment says otherwise. Strings are UTF-8, NUL terminated.
 *  - Threads. Slots are called from any thread. Two calls run at the same time unless they name
 *    the same stream. A kernel and its bound constants are immutable after creation.
 *  - Memory. The host owns all memory, workspaces included, except what a plugin keeps for packed
 *    constants, which it reports. Addresses handed to a kernel are aligned to their space's `alignment`,
 *    but those of a caller's own inputs, unless they are donated, and outputs only to the element size.
 *  - Order. Work queued on one stream happens in the order of the calls. Nothing else is ordered but by an
 *    event or a wait of the host. What a slot reads through pointers it reads before it returns; what work
 *    in a stream reads through addresses stays valid until the work has happened.
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
#define MORTISE_ABI_REVISION 3
#define MORTISE_ABI_OLDEST 3 /* revisions 1 and 2 were never released */
#define MORTISE_PLUGIN_MAGIC UINT64_C(0x314553495452304d) /* "M0RTISE1", little endian */

/* Hashes of every size, offset and enumerator of each revision; sdk/abi/ computes them and CI compares. */
#define MORTISE_ABI_LAYOUT_HASH_3 UINT64_C(0x5867bfbb714fceac)
/* From MORTISE_ABI_OLDEST to MORTISE_ABI_REVISION: what MortisePlugin::layout_hashes points to. */
#define MORTISE_ABI_LAYOUT_HASHES {MORTISE_ABI_LAYOUT_HASH_3}

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
  uint32_t kind;                       /* below 0x4000 of this header, which has none yet; then of experimental.h; from 0x8000 up a vendor's own */
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
  const int64_t *strides;       /* `rank` strides in elements, each >= 0 or MORTISE_DYNAMIC; NULL means dense row-major */
  const MortiseExpr *stride_exprs; /* NULL when every stride is a number, else `rank` programs */
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
  /* I64_ARRAY of extents or positions: NULL when all are numbers, else `count` programs over the graph's symbols; i64s
   * holds MORTISE_DYNAMIC where a program is not a number. */
  const MortiseExpr *exprs;
} MortiseAttribute;

typedef struct MortiseNode MortiseNode;
typedef struct MortiseGraph MortiseGraph;

typedef enum MortiseValueFlag {
  MORTISE_VALUE_CONSTANT = 1, /* a graph input bound once (a weight); see constants_bind */
  MORTISE_VALUE_STATE = 2,    /* a graph input that is updated in place; see MortiseGraph::aliases */
  MORTISE_VALUE_DONATED = 4,  /* a graph input whose contents nobody needs afterwards: a region may write anything there once it has read it. No output lies there. May be ignored */
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
  /* The graphs that a control flow op runs. They have the same symbols in the same order and share nothing else with this
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
  const MortiseGuard *const *guards;
  size_t guard_count;
};

typedef struct MortiseOption { /* frozen */
  const char *key;
  const char *value;
} MortiseOption;

/* ---- What the host offers ------------------------------------------------------------------- */

/* Runs tasks [begin, end) of the range on the calling thread of the pool. */
typedef void (*MortiseTask)(void *context, int64_t begin, int64_t end);

struct MortiseMemoryArgs;

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

  /* Memory in the home of a device of the plugin, for what it needs beside workspaces: from the allocator that the application has
   * set for the device (the caching allocator of a framework), otherwise from memory_allocate of the plugin whose memory it is.
   * Arguments as there, `space` 0; only device_free takes it back, and after a status it is still the plugin's. The user's limit of
   * memory does not count it. MORTISE_UNSUPPORTED: a stream that the allocator does not know; call without one. */
  MortiseStatus *(*device_allocate)(struct MortiseMemoryArgs *args);
  MortiseStatus *(*device_free)(struct MortiseMemoryArgs *args);
} MortiseHost;

/* ---- What a plugin offers ------------------------------------------------------------------- */

typedef struct MortiseDevice MortiseDevice;       /* the plugin's; lives until the process ends */
typedef struct MortiseStream MortiseStream;
typedef struct MortiseEvent MortiseEvent;
typedef struct MortiseKernel MortiseKernel;       /* one compiled region; immutable */
typedef struct MortiseConstants MortiseConstants; /* a kernel's constants, packed; immutable */
typedef struct MortiseInstance MortiseInstance;   /* a kernel made ready for one set of symbol values; immutable */

typedef struct MortiseFrame MortiseFrame;         /* what one call in flight of a kernel writes; see frame_create */

/* A place in memory. 0 is none. In a space that the host reaches it is a pointer; elsewhere only the plugin knows
 * what it is, and the host only adds offsets to it and compares. */
typedef uint64_t MortiseAddress;

typedef enum MortiseSpaceKind {
  MORTISE_SPACE_HOST = 1,    /* ordinary memory of the process */
  MORTISE_SPACE_DEVICE = 2,  /* the host does not reach it */
  MORTISE_SPACE_PINNED = 3,  /* memory of the host that the plugin allocates, and copies without a stop in between */
  MORTISE_SPACE_UNIFIED = 4, /* allocated by the plugin; host and device reach it at one address */
  MORTISE_SPACE_KIND_FORCE_INT32 = 0x7fffffff
} MortiseSpaceKind;

typedef struct MortiseSpace {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *name;   /* for reports: "HBM" */
  int32_t kind;       /* MortiseSpaceKind */
  uint32_t alignment; /* bytes that the host aligns buffers to; a power of two */
  uint64_t bytes;     /* 0 when unknown */
} MortiseSpace;

typedef struct MortiseDeviceInfo {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  const char *kind;          /* what a user selects: "cpu", "reference", ... */
  const char *name;          /* the hardware's own name */
  uint32_t ordinal;          /* among devices of this kind; of two plugins that offer one, the first found has it (see same_as) */
  uint32_t automatic;        /* 0: used only when asked for by name. The manifest's `automatic` lists the kinds that have 1 */
  uint32_t threads;          /* independent hardware threads or compute units */
  uint32_t space_count;      /* at least 1 */
  /* The memories that kernels can reach. The first is the home of the device: inputs, outputs and workspaces lie there. A device
   * whose home is of kind HOST computes in the process's own memory, and nothing is copied. */
  const MortiseSpace *const *spaces;
  double peak_flops;         /* f32 operations per second; 0 when unknown */
  double bandwidth;          /* bytes per second between the device and its home; 0 when unknown */
  double launch_ns;          /* from one kernel to the next in a stream, without work; 0 when unknown */
  double copy_bandwidth;     /* bytes per second between the home and the host's memory; 0 when unknown */
  double copy_ns;            /* time of a copy of one byte between them; 0 when unknown */
  const char *features;      /* comma separated, for reports: "avx512f,avx512_bf16" */
  /* NULL, or "kind:ordinal" of a device of another plugin: this device is the same hardware and uses that one's memory. Where both
   * plugins have stream_import and stream_export it also uses that one's streams. */
  const char *same_as;
  uint8_t uuid[16];          /* zeros when there is none */
  int32_t dlpack_type;       /* DLDeviceType of tensors in the home; 0 when DLPack has none. The manifest's `dlpack` lists it */
  int32_t dlpack_id;
  /* What a saved kernel depends on beside the plugin's own build: chip, instruction sets, driver. NULL: kernels are not kept on disk. */
  const char *fingerprint;
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
  size_t device_count;                     /* out: 0 is a valid answer; MORTISE_NOT_FOUND, too, whose message tells those who ask for a device why there is none */
} MortiseDevicesArgs;

typedef enum MortiseMode {
  MORTISE_MODE_DEFAULT = 0,
  MORTISE_MODE_REDUCE_OVERHEAD = 1, /* calls as cheap as they can be: graph replay, at the price of memory */
  MORTISE_MODE_MAX_AUTOTUNE = 2,    /* fast kernels, at the price of compile time */
  MORTISE_MODE_MAX_AUTOTUNE_NO_REPLAY = 3,
  MORTISE_MODE_FORCE_INT32 = 0x7fffffff
} MortiseMode;

/* How exact products and convolutions of f32 are. */
typedef enum MortisePrecision {
  MORTISE_PRECISION_HIGHEST = 0, /* f32 throughout */
  MORTISE_PRECISION_HIGH = 1,    /* operands may be rounded to 10 bits of mantissa (TF32) or to two bf16 numbers */
  MORTISE_PRECISION_MEDIUM = 2,  /* operands may be rounded to bf16 */
  MORTISE_PRECISION_FORCE_INT32 = 0x7fffffff
} MortisePrecision;

/* What the user asked of this compilation, whatever the plugin. */
typedef struct MortiseCompileOptions {
  size_t struct_size;
  const MortiseExtension *extension;
  int32_t mode;           /* MortiseMode; advice */
  int32_t precision;      /* MortisePrecision; the least exact form allowed */
  uint32_t deterministic; /* 1: equal inputs give equal bits in every run; refuse (MORTISE_REASON_OPTION) what cannot */
  uint32_t reserved;
} MortiseCompileOptions;

/* Values by their position in MortiseGraph::values. */
typedef struct MortiseInPlace { /* frozen */
  uint32_t input, output;
} MortiseInPlace;

#define MORTISE_PLAIN_LAYOUT 0 /* dense row-major, or the strides of the value's type */

/* How a value lies in memory that a region reads or writes. */
typedef struct MortiseForm { /* frozen */
  uint32_t value;  /* by its position in MortiseGraph::values */
  uint32_t layout; /* MORTISE_PLAIN_LAYOUT, or any other number that the slot `layout` of the plugin knows */
  uint32_t space;  /* where the value lies: an index into MortiseDeviceInfo::spaces, of a kind other than HOST unless it is 0 */
  uint32_t reserved;
} MortiseForm;

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
  /* Pairs for which the region can write `output`, which it produces, into the memory of `input`, which it reads from
   * outside. Both have the same number of bytes for all values of the symbols. The kernel gets one pointer for both values or two,
   * as the host decides. The host may use several pairs together, but each value only once. Constants, states and aliased values are
   * not in any pair. */
  const MortiseInPlace *in_place;
  size_t in_place_count;
  /* The form in which the region wants a value that it reads from outside, or gives one that it produces and others use; without one
   * the value is plain and in the home. Each value has one form at most. The host converts and copies in between, at a cost that it
   * adds, and passes on what the next region of the plugin wants in the same form. Constants (constants_bind packs them), states, aliased
   * values and those of `in_place` have none. */
  const MortiseForm *forms;
  size_t form_count;
} MortiseCandidate;

/* A composite (attention, layer_norm, ...) that no plugin takes is replaced by its parts, and every plugin is asked again for the graph. */
typedef struct MortiseProposeArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  const MortiseGraph *graph;
  const MortiseOption *options; /* the plugin's own, for this compilation */
  size_t option_count;
  const MortiseCompileOptions *compile_options;
  void *sink; /* hand back to the two functions below, which copy what they are given */
  void (*add)(void *sink, const MortiseCandidate *candidate);
  void (*refuse)(void *sink, uint32_t node, int32_t reason, const char *detail);
  /* 0, or the forms in which all of the graph's inputs and outputs lie: only a candidate of all nodes in these forms is asked for. So the host
   * asks for a conversion between layouts: the graph is one mortise.convert to the type that the value has already. */
  const MortiseForm *forms;
  size_t form_count;
} MortiseProposeArgs;

typedef struct MortiseCompileArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  const MortiseGraph *region;   /* lives until the kernel is destroyed */
  const char *lowering;         /* of the candidate chosen */
  const MortiseOption *options;
  size_t option_count;
  const MortiseCompileOptions *compile_options;
  MortiseKernel *kernel;        /* out */
  const void *saved;            /* kernel_load: what kernel_save wrote; NULL in kernel_compile */
  uint64_t saved_bytes;
  const MortiseForm *forms;     /* those of the candidate, by values of `region` */
  size_t form_count;
} MortiseCompileArgs;

typedef struct MortiseLayoutArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  const MortiseGraph *graph; /* whose symbols the type's extents use */
  const MortiseType *type;   /* of the value */
  uint32_t layout;           /* not MORTISE_PLAIN_LAYOUT */
  uint32_t reserved;
  MortiseExpr bytes;         /* out: memory that the value takes; lives until the process ends, or the next call on this thread */
  const char *name;          /* out: for reports, "blocked 8x16"; lives as long as `bytes` */
} MortiseLayoutArgs;

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

#define MORTISE_HOST_SPACE UINT32_MAX /* ordinary memory, which need not be among the device's spaces */

typedef struct MortiseKernelInfo {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;           /* in */
  MortiseExpr workspace;           /* out: bytes that `enqueue` needs; count 0 means none */
  const MortiseStep *const *steps; /* out: lives as long as the kernel */
  size_t step_count;               /* out */
  uint64_t code_bytes;             /* out: machine code held by the kernel; 0 when unknown */
  /* out: for each region input, the space (an index into MortiseDeviceInfo::spaces, or MORTISE_HOST_SPACE) in which constants_bind
   * wants it, where it is constant; NULL: all in the home. Lives as long as the kernel. The host uploads a constant that several
   * kernels want in one space once. */
  const uint32_t *constant_spaces;
} MortiseKernelInfo;

/* Prepares a kernel and its bound constants for one set of symbol values: everything that depends on the numbers, such as
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

typedef struct MortiseKernelSaveArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  void *sink; /* hand back to `write`, which copies the bytes and may be called several times */
  void (*write)(void *sink, const void *bytes, uint64_t count);
} MortiseKernelSaveArgs;

/* Packs the constant inputs of a region into the form its kernel reads. The memory behind `inputs` stays
 * valid and unchanged until the constants are destroyed, so that a plugin may read it in place. */
typedef struct MortiseConstantsBindArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  const MortiseAddress *inputs; /* one per region input, in the space that MortiseKernelInfo names; 0 for those that are not constant */
  MortiseConstants *constants;  /* out; NULL is valid when there is nothing to keep */
  uint64_t packed_bytes;        /* out: memory that the plugin holds for them */
  uint64_t workspace_bytes;     /* out: what `enqueue` needs with these constants; 0: what MortiseKernelInfo says */
} MortiseConstantsBindArgs;

typedef struct MortiseConstantsArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  MortiseConstants *constants;
} MortiseConstantsArgs;

/* What one call in flight of a kernel writes: a graph to replay, a command buffer, descriptors. A frame is used by one call at a time,
 * always with the same kernel, constants and instance, and destroyed when its last call has happened. */
typedef struct MortiseFrameArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  MortiseConstants *constants;
  MortiseInstance *instance;
  MortiseFrame *frame; /* out of frame_create, in of frame_destroy */
} MortiseFrameArgs;

/* The steady state allocates nothing: the host keeps one of these per call in flight and changes the
 * addresses. An aliased output has its input's address, and an output of MortiseCandidate::in_place may have it;
 * otherwise no two buffers overlap. The address of a buffer without elements means nothing. */
typedef struct MortiseEnqueueArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseKernel *kernel;
  MortiseConstants *constants;
  MortiseStream *stream;         /* NULL on a device without streams: the call returns when done */
  /* The lists may be gone when the call returns; the memory stays until the work has happened. Tensors of the caller, inputs and
   * outputs, are aligned to their elements; all else, workspaces and donated inputs too, as MortiseSpace::alignment of the home says. */
  const MortiseAddress *inputs;  /* one per region input; 0 for constants */
  const MortiseAddress *outputs; /* one per region output */
  MortiseAddress workspace;      /* as many bytes as MortiseKernelInfo::workspace says */
  const int64_t *symbols;        /* values of the region's symbols */
  /* NULL, or one slot per step: add the nanoseconds it took. In a stream the plugin has written them when the work has happened. */
  uint64_t *step_ns;
  MortiseInstance *instance;     /* the instance for these symbol values; NULL when the plugin makes none */
  MortiseFrame *frame;           /* NULL when the plugin makes none */
  /* NULL without a frame. Bits, the first in the least significant place: of the inputs, then the outputs, then the workspace. A set bit
   * means the address that the frame's last run had. */
  const uint64_t *unchanged;
} MortiseEnqueueArgs;

typedef struct MortiseStreamArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  MortiseStream *stream; /* in, or out for stream_create and stream_import */
  uint64_t native;       /* in for stream_import, out for stream_export: the driver's own handle, such as a CUstream */
} MortiseStreamArgs;

typedef struct MortiseEventArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device; /* that the event was created for */
  MortiseEvent *event;   /* in, or out for event_create */
  MortiseStream *stream; /* event_record, event_wait: of any device of the plugin */
  MortiseEvent *since;   /* event_elapsed: an earlier event of the device */
  uint64_t elapsed_ns;   /* event_elapsed: out */
  uint32_t happened;     /* event_query: out; 1 when all work before the last event_record has happened, or none was recorded */
  uint32_t reserved;
} MortiseEventArgs;

typedef struct MortiseMemoryArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  MortiseStream *stream;  /* NULL, or what orders the memory's life; see the slots */
  uint32_t space;         /* an index into MortiseDeviceInfo::spaces, of a kind other than HOST */
  uint32_t reserved;
  uint64_t bytes;         /* at least 1 */
  MortiseAddress address; /* out of memory_allocate, in of memory_free */
} MortiseMemoryArgs;

typedef struct MortiseHostMemoryArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  void *memory;   /* ordinary memory of the process */
  uint64_t bytes; /* at least 1; the same in host_unregister */
} MortiseHostMemoryArgs;

typedef struct MortiseCopyArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;        /* that copies: one of the two below */
  MortiseStream *stream;        /* of `device`; NULL on a device without streams: the call returns when done */
  MortiseDevice *target_device; /* NULL: the host's memory */
  MortiseDevice *source_device; /* NULL: the host's memory */
  /* In any space of the device. In memory of the host: as aligned as the elements, not more. Both ranges stay as they are until an event that the host records
   * behind the copy has happened; without a stream, until the call returns. */
  MortiseAddress target;
  MortiseAddress source;
  uint64_t bytes; /* at least 1; the two ranges do not overlap */
} MortiseCopyArgs;

typedef struct MortisePeerArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  MortiseDevice *other; /* another device of the plugin */
  uint32_t reaches;     /* out: 1 when `copy` on `device` may have the other end in the home of `other` */
  uint32_t reserved;
  double bandwidth;     /* out: bytes per second; 0 when unknown */
  double copy_ns;       /* out: time of a copy of one byte; 0 when unknown */
} MortisePeerArgs;

/* ---- Ops of a vendor's own ------------------------------------------------------------------ */

typedef struct MortiseAttributeDeclaration {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *name;
  int32_t kind; /* MortiseAttributeKind */
  int32_t reserved;
  /* Its value where a graph leaves it out: of the same name and kind, which is not TENSOR, and without programs. NULL: a graph gives it. */
  const MortiseAttribute *fallback;
} MortiseAttributeDeclaration;

/* An op that the language does not have. It is pure: its results depend on its operands and attributes alone, so that the host merges equal
 * nodes and drops those whose results nobody reads. It has no decomposition: where no device takes it, the graph is an error. It
 * never changes its meaning; what is added later is an attribute with a fallback, and anything else is an op of another name. */
typedef struct MortiseOpDeclaration {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *name;    /* "acme.swizzle": the vendor's word and the op's, of a-z, 0-9 and '_' from a letter on; no op of "mortise" */
  const char *summary; /* one line, for people */
  uint32_t operands_min, operands_max; /* none is left out; UINT32_MAX: any number */
  const MortiseAttributeDeclaration *const *attributes; /* sorted by name */
  size_t attribute_count;
} MortiseOpDeclaration;

/* The types of a declared op's results. Extents are numbers or programs over `symbols`, in operands as in results. The answer depends
 * on the arguments alone. */
typedef struct MortiseInferArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  const char *op; /* declared; the number of operands and the attributes are as declared, too */
  const MortiseType *const *operands;
  size_t operand_count;
  const MortiseAttribute *const *attributes; /* sorted by name, all that the op has */
  size_t attribute_count;
  const MortiseSymbol *const *symbols;
  size_t symbol_count;
  void *sink; /* hand back to `add`, which copies what it is given */
  void (*add)(void *sink, const MortiseType *type); /* once for each result, in order: at least 1, at most 16; dense row-major */
} MortiseInferArgs;

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

  /* Called once, before any other slot. Neither starts up a device: that waits until one is first used. */
  MortiseStatus *(*initialize)(MortiseInitializeArgs *args);
  MortiseStatus *(*devices)(MortiseDevicesArgs *args);

  /* Proposes the parts of `graph` that the plugin would run, and refuses the other nodes with reasons. Compiles nothing. Called
   * for a whole graph, and also for parts of it, down to single nodes: where several devices compete, or a rule of the user's closes
   * nodes to the device. */
  MortiseStatus *(*propose)(MortiseProposeArgs *args);

  /* Compiles the nodes of a candidate that was chosen; MORTISE_UNSUPPORTED withdraws the candidate, and the host places its nodes again.
   * kernel_info describes the kernel, and kernel_destroy ends it: nothing that was made of it is left, and no work is in flight. */
  MortiseStatus *(*kernel_compile)(MortiseCompileArgs *args);
  MortiseStatus *(*kernel_info)(MortiseKernelInfo *args);
  MortiseStatus *(*kernel_destroy)(MortiseKernelArgs *args);

  /* Packs weights for a kernel, once for many calls. Several sets may be bound at the same time. MORTISE_UNSUPPORTED: as in kernel_compile. */
  MortiseStatus *(*constants_bind)(MortiseConstantsBindArgs *args);
  MortiseStatus *(*constants_destroy)(MortiseConstantsArgs *args);

  /* Runs a kernel, or queues it on `stream`. */
  MortiseStatus *(*enqueue)(MortiseEnqueueArgs *args);

  /* (optional, all or none) Without them the plugin's devices are synchronous.
   * stream_wait returns when all work queued has happened, with the first error since the last reset, which it does not clear;
   * stream_status returns that error, or success, and waits for nothing; stream_reset clears it. After an error nothing further happens on a stream until it is reset. No work is in flight on a stream that
   * is destroyed. */
  MortiseStatus *(*stream_create)(MortiseStreamArgs *args);
  MortiseStatus *(*stream_destroy)(MortiseStreamArgs *args);
  MortiseStatus *(*stream_wait)(MortiseStreamArgs *args);
  MortiseStatus *(*stream_status)(MortiseStreamArgs *args);
  MortiseStatus *(*stream_reset)(MortiseStreamArgs *args);
  /* event_record marks the work queued on `stream` so far, in place of an earlier mark. event_wait holds back what is queued on `stream`
   * later until the mark has happened, also when it lies in a stream of another device of the plugin. event_synchronize returns when the
   * mark has happened, with the error of its stream if there is one; event_query waits for nothing, and returns that error once the mark
   * has happened: where nothing else asks, it is how the host learns that a call has failed. Each of them does nothing for an event
   * without a mark. A mark in a stream that has failed counts as happened, so that nothing waits for ever; a stream that waits for it
   * fails with the same error.
   * event_elapsed: the nanoseconds from `since` to `event`, which have both happened, or a status or 0 where the plugin cannot tell.
   * Profiled runs ask for it where a kernel clocks no step. */
  MortiseStatus *(*event_create)(MortiseEventArgs *args);
  MortiseStatus *(*event_destroy)(MortiseEventArgs *args);
  MortiseStatus *(*event_record)(MortiseEventArgs *args);
  MortiseStatus *(*event_wait)(MortiseEventArgs *args);
  MortiseStatus *(*event_query)(MortiseEventArgs *args);
  MortiseStatus *(*event_synchronize)(MortiseEventArgs *args);
  MortiseStatus *(*event_elapsed)(MortiseEventArgs *args);

  /* (optional, all or none) Required of a plugin with a device whose home is not of kind HOST.
   * With a stream, memory_allocate gives memory for work queued on it from then on, and memory_free takes it back after the work queued
   * before; other streams are ordered against both by events. Without a stream the memory is usable at once, and freed memory is not in
   * use any more. `copy` is work like any other. */
  MortiseStatus *(*memory_allocate)(MortiseMemoryArgs *args);
  MortiseStatus *(*memory_free)(MortiseMemoryArgs *args);
  MortiseStatus *(*copy)(MortiseCopyArgs *args);

  /* (optional) Whether devices of the plugin copy between their homes. Without it they do not, and values pass through the host. */
  MortiseStatus *(*peer)(MortisePeerArgs *args);

  /* (optional, both or none) A stream around a native handle, which stays the caller's and outlives it; and the handle of a stream. */
  MortiseStatus *(*stream_import)(MortiseStreamArgs *args);
  MortiseStatus *(*stream_export)(MortiseStreamArgs *args);

  /* (optional, both or none) Called only for kernels of regions with symbols. Without them a kernel learns the symbols'
   * values in each `enqueue`, not earlier. MORTISE_UNSUPPORTED from instance_create: as in kernel_compile, for all values. */
  MortiseStatus *(*instance_create)(MortiseInstanceArgs *args);
  MortiseStatus *(*instance_destroy)(MortiseInstanceArgs *args);

  /* (optional, both or none) Without them `enqueue` gets no frame. */
  MortiseStatus *(*frame_create)(MortiseFrameArgs *args);
  MortiseStatus *(*frame_destroy)(MortiseFrameArgs *args);

  /* (optional, both or none) kernel_save writes what kernel_load needs to make the kernel again without compiling, in a later process.
   * The host keeps the bytes on disk and passes them back for an equal region, lowering and options, on a device of equal fingerprint,
   * to the same build of the plugin. It finds damage, but not intent: who may write to the cache may change them. Where kernel_load
   * fails, MORTISE_CORRUPT for bytes that it cannot use, the host drops them and calls kernel_compile. */
  MortiseStatus *(*kernel_save)(MortiseKernelSaveArgs *args);
  MortiseStatus *(*kernel_load)(MortiseCompileArgs *args);

  /* (optional, both or none) host_register makes ordinary memory ready for copies of the device without a stop in between (it locks the
   * pages, for instance), and host_unregister ends that. Both are called while nothing uses the memory. What cannot be registered is
   * copied all the same. */
  MortiseStatus *(*host_register)(MortiseHostMemoryArgs *args);
  MortiseStatus *(*host_unregister)(MortiseHostMemoryArgs *args);

  /* (optional) What a value takes in a layout of the plugin's own, or MORTISE_UNSUPPORTED. Without it candidates name no layouts. */
  MortiseStatus *(*layout)(MortiseLayoutArgs *args);

  /* (optional, both or none) Ops of the vendor's own, which the manifest's `ops` lists too. They live until the process ends. Several
   * plugins may declare an op, all alike. A plugin is asked in `propose` for no vendor's op that it does not declare, and may refuse those
   * that it does. `infer` answers with a status where an op is not defined for such operands or attributes; the message says what it
   * expected. Called after `initialize`, from any thread. */
  const MortiseOpDeclaration *const *ops;
  size_t op_count;
  MortiseStatus *(*infer)(MortiseInferArgs *args);
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
MORTISE_CHECK(sizeof(MortiseType) == 56 && sizeof(MortiseAttribute) == 104);
MORTISE_CHECK(sizeof(MortiseValue) == 56 && sizeof(MortiseNode) == 104 && sizeof(MortiseGraph) == 144);
MORTISE_CHECK(sizeof(MortiseEnqueueArgs) == 104 && sizeof(MortisePlugin) == 384);

#ifdef __cplusplus
}
#endif
#endif
