/* SPDX-License-Identifier: MIT */
/* A live line of progress on a terminal, one line every 30 s elsewhere. The library computes the text; the caller gives
 * the stream (NULL: silent). Thread-safe through the caller's lock. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

double vt_now(void); /* seconds, monotonic */
/* Writes a duration as "40 s", "12 min" or "2.6 h"; returns buf. */
const char *vt_duration(double seconds, char *buf, size_t size);

/* Receives finished text (no newline); live: overwrite the previous one. */
typedef void (*vt_progress_fn)(void *ctx, const char *text, bool live);

typedef struct vt_progress {
    vt_progress_fn show; /* NULL: silent */
    void *ctx;
    bool live; /* refresh ten times a second instead of every 30 s */
    char stage[64];
    const char *unit;          /* what is counted; NULL: images */
    size_t done, total, start; /* items; items done before this run's clock started */
    double left; /* seconds until the whole run is done, set by the caller; 0: only this stage's are known */
    double began, shown;
} vt_progress;

/* Sets stage, total and done, sets `left` to 0 and starts the clock. */
void vt_progress_begin(vt_progress *p, const char *stage, size_t done, size_t total);
/* Sets p->done, and shows it at most ten times a second (live) or every 30 s; note: "robust 41", or NULL. */
void vt_progress_step(vt_progress *p, size_t done, const char *note);
/* Shows the stage's last line, if live or if it took 30 s; note as in vt_progress_step. */
void vt_progress_end(vt_progress *p, const char *note);

/* Fails with VT_INTERRUPTED once the flag is set (NULL: never): "interrupted; WHAT keeps nothing half done". */
vt_status vt_check_interrupt(const volatile sig_atomic_t *interrupt, const char *what, vt_err *e);
