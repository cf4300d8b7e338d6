/* SPDX-License-Identifier: MIT */
/* The run on disk: ledger.jsonl, a header line and one line for each image and stage, appended with one write(2) each,
 * and adv.bin, the adversarial images it points at (float32, appended first). Both are fsynced every second and at the
 * end of a stage, so that a killed run loses at most the images in flight. A finished run is rewritten in canonical
 * order, so that its bytes depend on nothing but the header and the images.
 *
 * Every line ends in a checksum of the header and of what it says, its place in adv.bin (which the hash finds) apart.
 * It is of one line, not of those before it, because lines change their order. */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"
#include "eval/header.h"

#define VT_RECORD_STATUS_LIST(X)                                                                                       \
    X(CORRECT, "correct")                                                                                              \
    X(WRONG, "wrong")                                                                                                  \
    X(ROBUST, "robust")                                                                                                \
    X(BROKEN, "broken")                                                                                                \
    X(INVALID, "invalid") X(NOT_FINITE, "not-finite") X(CERTIFIED, "certified") X(UNDECIDED, "undecided")

typedef enum vt_record_status {
#define VT_RECORD_ENUM(id, text) VT_RECORD_##id,
    VT_RECORD_STATUS_LIST(VT_RECORD_ENUM)
#undef VT_RECORD_ENUM
        VT_RECORD_STATUS_COUNT
} vt_record_status;
/* Returns "correct", "wrong", ... */
const char *vt_record_status_name(vt_record_status s);
/* Does a line of this status take its image out of the entry: broken, or not finite? */
static inline bool vt_record_ends(int status) { return status == VT_RECORD_BROKEN || status == VT_RECORD_NOT_FINITE; }

/* not-finite: the attack met a point (stored) whose logits are not; it ended there, and the image is neither robust nor
 * broken. Of a clean line: the image's own are not, which no attack takes. One line. Entry VT_ENTRY_CLEAN is the clean
 * prediction, entry k the k-th --attack; stage counts within it. VT_ENTRY_CERTIFY: certified or undecided
 * (eval/certifier.h); one norm is the proven radius, the others and margins are NaN, forwards what it cost. */
typedef struct vt_record {
    int32_t image, entry, stage;
    int32_t label, pred, pred64; /* pred64 -1: not computed (clean lines) */
    int status;                  /* vt_record_status */
    bool borderline;
    double margin, margin64, linf, l2, l1;
    int32_t target; /* the class to reach, in runs with --targets; else -1, and not in the line */
    double l0;      /* values that differ, in l0 runs; in others 0, and not in the line */
    int64_t gradients, forwards;
    int64_t vanished; /* of the gradients: the margin's, where cross-entropy had none left; written where not 0 */
    int64_t adv;      /* byte offset in adv.bin, -1: none */
    uint64_t sha;     /* first 64 bits of SHA-256: of the stored x' (attacks), of the clean image (VT_ENTRY_CLEAN) */
} vt_record;

typedef struct vt_ledger {
    char *dir;
    vt_header *header; /* NULL: no line of it was complete */
    size_t pixels;
    vt_record *records; /* in the order read or appended */
    size_t count;
    int fd, adv_fd;
    int64_t length, adv_length; /* bytes that are good */
    double synced;
    int64_t repeated; /* gradients of this evaluation that cycles spared (vt_oracle.repeated) */
    uint64_t bound;   /* first 64 bits of the header's SHA-256: part of every checksum */
    int altered;      /* the first line that was read and is not as it was written; 0: none */
    /* Called for each line that is appended, with x' if it is kept, one at a time; may be NULL. */
    void (*on_line)(void *ctx, const vt_record *r, const float *x_adv);
    void *on_line_ctx;
    pthread_mutex_t lock;
} vt_ledger;

/* Starts a run in dir (made if needed), whose header it shares. VT_E_IO when dir already holds one. */
vt_status vt_ledger_create(vt_ledger **out, const char *dir, vt_header *header, size_t pixels, vt_err *e);
/* Opens a run to continue it: a last line cut in half is dropped, the header must equal `header` (the keys that differ
 * are named; "blas" may differ with allow_mixed). VT_E_UNKNOWN without e when dir holds no ledger. */
vt_status vt_ledger_resume(vt_ledger **out, const char *dir, vt_header *header, size_t pixels, bool allow_mixed,
                           vt_err *e);
/* A ledger without files, for an evaluation that leaves nothing behind; header NULL: none yet (vt_ledger_parse). */
vt_status vt_ledger_memory(vt_ledger **out, vt_header *header, size_t pixels, vt_err *e);
/* Opens a run to read it. VT_E_FORMAT: it is no ledger, or a line is not as it was written. */
vt_status vt_ledger_open(vt_ledger **out, const char *dir, vt_err *e);
/* Opens a run to read it and leaves lines that are not as they were written to vt_ledger_check, for a caller who lists
 * all that was changed. */
vt_status vt_ledger_open_altered(vt_ledger **out, const char *dir, vt_err *e);
/* Parses the text of a ledger: header (NULL if there is no complete line) and complete lines; *good = bytes of them. */
vt_status vt_ledger_parse(vt_ledger *l, const char *text, size_t n, size_t *good, const char *path, vt_err *e);
void vt_ledger_close(vt_ledger *l); /* accepts NULL; syncs */
/* VT_E_FORMAT, with its number, when a line was read that is not as it was written. */
vt_status vt_ledger_check(const vt_ledger *l, vt_err *e);

/* Has dir a ledger.jsonl? */
bool vt_ledger_exists(const char *dir);

/* Appends a line, and first x_adv [pixels] when it is not NULL (record->adv and sha are filled). Thread-safe. */
vt_status vt_ledger_append(vt_ledger *l, vt_record *r, const float *x_adv, vt_err *e);
/* Writes both files to disk (fsync); on a read-only file system nothing. */
vt_status vt_ledger_sync(vt_ledger *l, vt_err *e);
/* Reads the stored x' of a record and checks its hash. */
vt_status vt_ledger_read_adv(const vt_ledger *l, const vt_record *r, float *x, vt_err *e);
/* Rewrites both files in canonical order (entry, stage, image). */
vt_status vt_ledger_finish(vt_ledger *l, vt_err *e);
/* Does this line show that its image is not robust: wrong as it is, or broken by a point of the ball (not by what a
 * paper's evaluator took for one)? */
bool vt_record_fails(const vt_ledger *l, const vt_record *r);
/* For qsort of records, in a finished ledger's order: entry, stage, image. */
int vt_record_by_place(const void *a, const void *b);
/* For qsort of pointers to records: image, entry, stage. */
int vt_record_by_image(const void *a, const void *b);

/* Is the record's point, if it has one, in what there is of adv.bin? */
bool vt_ledger_has_point(const vt_ledger *l, const vt_record *r);

/* The first 64 bits of SHA-256. */
uint64_t vt_sha_prefix(const void *data, size_t bytes);

/* ---- one line (ledger_line.c): a record as text, and back ---- */

enum { VT_LINE_ROOM = 760 };
/* The line as it stands in the file, with its checksum; returns its length. */
int vt_line_text(char buf[VT_LINE_ROOM], const vt_ledger *l, const vt_record *r);
bool vt_line_parse(vt_record *r, const json_t *o); /* false: it is no such line */
/* Has it the checksum of what it says? */
bool vt_line_is_as_written(const vt_ledger *l, const json_t *o, const vt_record *r);
