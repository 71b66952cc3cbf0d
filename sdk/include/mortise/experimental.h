/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * What the ABI does not promise: extensions of a plugin's table (MortisePlugin::extension) that may change or go with
 * any version. The host of this version calls none of them. They are written down so that vendors can say what their
 * hardware needs otherwise.
 */
#ifndef MORTISE_EXPERIMENTAL_H
#define MORTISE_EXPERIMENTAL_H

#include <mortise/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MORTISE_EXPERIMENTAL_CAPTURE 0x4001u
#define MORTISE_EXPERIMENTAL_COLLECTIVES 0x4002u

/* ---- Capture of the work of several regions, to be replayed as one ---------------------------- */

typedef struct MortiseRecording MortiseRecording; /* work of one stream and of those that wait for it; immutable */

typedef struct MortiseCaptureArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  MortiseStream *stream;
  MortiseRecording *recording; /* out of end, in of replay and destroy */
} MortiseCaptureArgs;

typedef struct MortiseCapture {
  MortiseExtension head; /* kind MORTISE_EXPERIMENTAL_CAPTURE */
  /* From `begin` to `end` the work queued on the stream, and on streams that come behind it by an event, is recorded
   * and does not happen. A slot that cannot be recorded returns MORTISE_UNSUPPORTED; `end` then returns the first such
   * status. */
  MortiseStatus *(*begin)(MortiseCaptureArgs *args);
  MortiseStatus *(*end)(MortiseCaptureArgs *args);
  /* Queues all of it on the stream, with the addresses and symbol values that it was recorded with. */
  MortiseStatus *(*replay)(MortiseCaptureArgs *args);
  MortiseStatus *(*destroy)(MortiseCaptureArgs *args); /* no replay is in flight */
} MortiseCapture;

/* ---- Collectives between devices of several processes ------------------------------------------ */

typedef struct MortiseGroup MortiseGroup; /* one member's end of a group */

typedef struct MortiseGroupArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseDevice *device;
  uint32_t rank, size; /* of the group; ranks are below `size` */
  const void *id;      /* equal bytes for all members, from group_id of one of them */
  uint64_t id_bytes;
  MortiseGroup *group; /* out of group_create, in of group_destroy */
  void *sink;          /* group_id: hand back to `write`, which copies the bytes */
  void (*write)(void *sink, const void *bytes, uint64_t count);
} MortiseGroupArgs;

typedef enum MortiseReduction {
  MORTISE_REDUCTION_SUM = 1,
  MORTISE_REDUCTION_PRODUCT = 2,
  MORTISE_REDUCTION_MIN = 3,
  MORTISE_REDUCTION_MAX = 4,
  MORTISE_REDUCTION_FORCE_INT32 = 0x7fffffff
} MortiseReduction;

typedef struct MortiseCollectiveArgs {
  size_t struct_size;
  const MortiseExtension *extension;
  MortiseGroup *group;
  MortiseStream *stream;
  MortiseAddress source, target; /* in the home of the device; equal, or apart */
  uint64_t count;    /* elements that this member gives: of the whole for all_reduce, of its part otherwise */
  int32_t dtype;     /* MortiseDType */
  int32_t reduction; /* MortiseReduction; all_reduce and reduce_scatter */
  uint32_t root;     /* broadcast */
  uint32_t reserved;
} MortiseCollectiveArgs;

typedef struct MortiseCollectives {
  MortiseExtension head; /* kind MORTISE_EXPERIMENTAL_COLLECTIVES */
  MortiseStatus *(*group_id)(MortiseGroupArgs *args);
  MortiseStatus *(*group_create)(MortiseGroupArgs *args); /* returns when all members have called it */
  MortiseStatus *(*group_destroy)(MortiseGroupArgs *args);
  /* Work in the stream like any other. All members of a group queue the same collectives in the same order. */
  MortiseStatus *(*all_reduce)(MortiseCollectiveArgs *args);
  MortiseStatus *(*all_gather)(MortiseCollectiveArgs *args);
  MortiseStatus *(*reduce_scatter)(MortiseCollectiveArgs *args);
  MortiseStatus *(*all_to_all)(MortiseCollectiveArgs *args);
  MortiseStatus *(*broadcast)(MortiseCollectiveArgs *args);
} MortiseCollectives;

#ifdef __cplusplus
}
#endif
#endif
