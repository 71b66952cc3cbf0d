/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * How tests drive the strict plugin: an extension of its table (MortisePlugin::extension), so that the library exports
 * nothing but mortise_plugin.
 */
#ifndef STRICT_CONTROL_H
#define STRICT_CONTROL_H

#include <mortise/plugin.h>

#define STRICT_CONTROL_KIND 0x8053u

typedef struct StrictControl {
  MortiseExtension head; /* kind STRICT_CONTROL_KIND */

  /* Replaces all settings and forgets what was counted and found. `settings` are words of the form key=value:
   *   seed=N       of the delays and of `split` (0)
   *   delay_us=N   each piece of work is held back for a random time between half of this and all of it (0)
   *   skew=N       work of half the streams, by seed, is held back N times as long (1)
   *   split=N      1: each device takes every node; otherwise a random one of N parts, another for each device (1)
   *   peer=0|1     whether the devices of kind "strict" copy from each other (1)
   *   clock=0|1    whether kernels clock their steps (1)
   *   late=0|1     1: event_query says of each event that it has not happened yet, so that what the host knows does not
   *                depend on how long work takes (0)
   *   layouts=0|1  1: kernels want and give values in layouts and memory spaces that `seed` chooses (0)
   *   memory=N     bytes that each device has (1 GiB)
   *   slow=FROM->TO=NS:BYTES_PER_SECOND   copies from one memory to another, "host" or a device ("strict:1"), take so
   *                long; may be given several times
   *   cannot=OP    no kernel that has this op ("mortise.tanh") can be compiled, though `propose` takes it
   *   fail=SLOT:N:CODE   the Nth call of the slot, from 1, returns this MortiseCode;
   *                "work" counts work in streams, and the stream fails there
   *   drop=SLOT:N  the Nth call of this slot does nothing: event_wait, event_record,
   *                event_synchronize, event_query or stream_wait
   *   hide=SLOT:N  that call does its work, and the checker is not told: as drop, but
   *                without a race that damages memory
   * Returns NULL, or what is wrong, in a string that lives until the next call. No work may be in flight.
   */
  const char *(*configure)(const char *settings);

  /* {"violations": [text], "live": {kind: count}, "calls": {slot: count}, "copied": {"to_device", "to_host", "between",
   * "within"}, "beside", "news"} in JSON, since `configure`. "news": whether a call that was hidden, or an answer that
   * was wrong, concerned work of which the waiting side did not know. "beside": pieces of work that were queued beside
   * work on another stream, because nothing orders them behind it. Lives until the next call. */
  const char *(*report)(void);

  /* Tells the checker that the host reads this memory now, or writes to it. */
  void (*host_uses)(const void *memory, size_t bytes, int32_t writes);

  /* Nanoseconds that this process has spent in the slots which a queued call uses. */
  uint64_t (*busy_ns)(void);
} StrictControl;

#endif
