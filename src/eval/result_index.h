/* SPDX-License-Identifier: MIT */
/* Which image has which line of a ledger, and which images a stage takes: rules that the evaluation follows and that
 * reports read again, so that both agree on what is still to be done. A pure function of header and lines. */
#pragma once

#include "attacks/attack.h"
#include "eval/ledger.h"

typedef struct vt_result_index_entry {
    vt_scoring scoring;
    double radius; /* of a curve's confirmation, else INFINITY */
    int n_stages;
    int column;                     /* of its first stage */
    double share[VT_ATTACK_STAGES]; /* of the survivors that a stage takes; 1: all */
} vt_result_index_entry;

typedef struct vt_result_index {
    const int32_t *images; /* [n] ascending; borrowed, or `own` */
    int32_t *own;
    size_t n;
    vt_result_index_entry *entries; /* [n_entries], entry k of the ledger at k - 1 */
    int n_entries, columns;         /* column 0: clean; the last: certificates, if the run has them */
    bool certify, first;            /* it does; certified images are not attacked */
    uint8_t *cells;                 /* [columns, n] status, VT_RESULT_NONE: no line yet */
    int32_t *targets; /* [n] of the clean lines so far, else -1; NULL: the run has none (vt_record.target) */
    double *norms;    /* [n_entries, n] of broken points, else INFINITY; curves alone, else NULL */
    uint64_t seed;
    vt_norm norm;
    int classes; /* of the model; 0: unknown */
} vt_result_index;
enum { VT_RESULT_NONE = 0xFF };

/* Makes an index without lines of n images (ascending, borrowed) for a header's entries; closed after a failure. */
vt_status vt_result_index_open(vt_result_index *b, const vt_header *header, const int32_t *images, size_t n, vt_err *e);
/* Accepts a zeroed one. */
void vt_result_index_close(vt_result_index *b);
/* Enters the ledger's lines from number `from` on: statuses, targets, a curve's norms. VT_E_USAGE: an image that is not
 * in the index; VT_E_FORMAT: an entry that the header lacks, two lines for one place, a target that no run has (no
 * class, the label, or another than the clean line's). Lines before a refused one stay. */
vt_status vt_result_index_note(vt_result_index *b, const vt_ledger *l, size_t from, vt_err *e);
/* Enters n lines of another rank's ledger, with the refusals of vt_result_index_note; dir: for sentences. */
vt_status vt_result_index_note_lines(vt_result_index *b, const char *dir, const vt_record *lines, size_t n, vt_err *e);

/* The index of all lines of a ledger. Close also after a failure. */
vt_status vt_result_index_read(vt_result_index *b, const vt_ledger *l, vt_err *e);

/* Returns the status of image place i under a stage (entry 0: clean), or VT_RESULT_NONE. */
uint8_t vt_result_index_cell(const vt_result_index *b, int entry, int stage, size_t i);
/* Does the stage take image i, as far as lines of earlier entries and stages tell? Entry 0: the clean prediction,
 * VT_ENTRY_CERTIFY: the certificate. */
bool vt_result_index_takes(const vt_result_index *b, int entry, int stage, size_t i);
/* Did a stage of the entry break it? */
bool vt_result_index_broke(const vt_result_index *b, int entry, size_t i);
/* Is image i right, and broken by no entry of this scoring? */
bool vt_result_index_stands(const vt_result_index *b, vt_scoring scoring, size_t i);

/* Is image i certified? */
bool vt_result_index_certified(const vt_result_index *b, size_t i);

/* Is image i right when clean (0), certified (VT_ENTRY_CERTIFY) or unbroken by the entry's lines so far? */
bool vt_result_index_right(const vt_result_index *b, int entry, size_t i);
/* Has every stage of the entry that takes image i a line of it? */
bool vt_result_index_done(const vt_result_index *b, int entry, size_t i);
/* Images without a line that the stage takes. */
int64_t vt_result_index_pending(const vt_result_index *b, int entry, int stage);
/* Refuses a run that has no images or work left; *total: its images. */
vt_status vt_result_index_finished(const vt_ledger *l, int64_t *total, vt_err *e);
/* The distinct images of a ledger, ascending, into images [l->count]; returns how many. */
size_t vt_result_index_images(const vt_ledger *l, int32_t *images);

/* A line's perturbation in the norm; 0 where a point's logits were not finite, which leaves the image robust nowhere.
 */
double vt_record_norm(const vt_record *r, vt_norm norm);

/* Is an image in the random share? Each image by itself, by seed and number: of any set of images those that are in
 * are, given how many they are, a uniform sample without replacement; a shard or a longer run changes none. */
bool vt_in_share(uint64_t seed, int32_t image, double share);

/* Where an image stands among n of ascending numbers; SIZE_MAX: nowhere. */
size_t vt_image_place(const int32_t *images, size_t n, int32_t image);
