/* SPDX-License-Identifier: MIT */
/* What a run found, as numbers for reports: a pure function of its ledger. */
#pragma once

#include "attacks/ball.h"
#include "base/columns.h"
#include "eval/header.h"
#include "eval/ledger.h"

/* What an entry, or one of its stages, found; in images but for the costs. */
typedef struct vt_counts {
    char label[72];                              /* vt_attack_label, vt_stage_label */
    int64_t tried;                               /* with a line */
    int64_t robust, broken, borderline, invalid; /* robust: left at the end */
    int64_t not_finite;                          /* neither robust nor broken */
    int64_t gradients, forwards;
    int64_t vanished; /* on which cross-entropy's gradient vanished somewhere */
    int64_t pending;  /* whose line is not there yet */
    bool open;        /* there are such, here or before: `robust` is at most what is left */
} vt_counts;

/* Stages that were run on a random sample of an entry's survivors: what they could still have broken among the rest. */
typedef struct vt_sample_summary {
    double share;
    int64_t survivors, sampled, broken; /* of the stages before; in the sample; of those */
    int64_t further;                    /* exact one-sided 95 % upper bound on further breaks, in images */
    double points;                      /* the same in points of accuracy */
} vt_sample_summary;
/* Below this many points of accuracy a profile may call itself equivalent to AutoAttack. */
#define VT_EQUIVALENT_POINTS 0.3

typedef struct vt_entry_summary {
    const vt_header_attack *of;
    vt_sample_summary sample;     /* share 1: every stage was run on all survivors, nothing is open */
    double cost;                  /* forward-equivalents: forwards + gradients times the header's gradient_cost */
    double median[VT_NORM_COUNT]; /* of the broken images' perturbations; NaN: none */
    vt_counts all, *stages;       /* [of->n_stages] */
} vt_entry_summary;

typedef struct vt_row {
    char label[96];
    int64_t count, total, borderline, gradients, forwards;
    double percent, low, high;
    int level;       /* 0: clean, entry or worst case; 1: stage */
    bool has_attack; /* borderline and costs are meaningful */
    bool verdict;    /* what the run says in the end: the worst case, or its one entry */
    bool open;       /* of an interrupted run: at most `count`, images are still to be tried */
    bool reached;    /* something of it has been done; else its numbers say nothing */
    bool proof;      /* of certificates: images that it does not count are not broken */
} vt_row;

typedef struct vt_summary {
    const vt_header *header;
    char images[400]; /* "0:100,150:200" */
    int64_t total, correct, worst_robust, pending;
    int64_t not_finite; /* clean images without finite logits: of total, neither right nor wrong */
    int64_t missing;    /* of pending: images without a clean prediction */
    int64_t unsure;     /* clean images whose class changes when a model in another process is asked again */
    struct {
        int64_t survivors, sampled, broken, further; /* vt_left_out; survivors 0: nothing can be said */
        char text[400];                              /* what a run that is not finished left out; "" */
    } left;
    char unsure_text[400];   /* the sentence that names them; "" */
    int64_t worst_eight_bit; /* images that no 8-bit entry broke; -1: there is none */
    double gradient_cost;    /* forwards that a gradient costs, by its products; 0: not in the header */
    /* Of the images that are right, in runs with certificates: certified + undecided + broken = correct. */
    struct {
        int64_t certified, undecided, broken; /* broken by an attack in the ball; the others are not */
        int64_t contradictions;               /* of broken: certified */
        int64_t pending;                      /* without a line */
        int64_t saved;                        /* image-entries that were not attacked, since the image is certified */
        char text[300];                       /* says so; "" */
    } certify;
    vt_entry_summary *entries;
    int n_entries;
    /* Rows of all tables [n_rows]: clean; each entry, followed by its stages if it has several; the worst case if there
     * are several entries. */
    vt_row *rows;
    int n_rows;
    vt_look look; /* of the terminal's table; set by who prints it */
} vt_summary;

/* Summarises a ledger, which must outlive the summary; images: number of images the run wants (0: those of the ledger).
 * Freed after a failure. */
vt_status vt_summary_make(vt_summary *s, const vt_ledger *l, int64_t images, vt_err *e);
/* Accepts a zeroed one. */
void vt_summary_free(vt_summary *s);
/* Returns sentence i = 0, 1, ... that every report has to say: of the header, then of the clean images; NULL past the
 * last. */
const char *vt_summary_note(const vt_summary *s, size_t i);

/* Of results.json; a key that is gone or means something else raises it, one more does not. docs/results.schema.json */
#define VT_RESULTS_VERSION 1

/* Report formats: a file report_*.c each. */
typedef struct vt_report_def {
    const char *name, *file, *summary; /* "md", "table.md" (NULL: the terminal), one sentence */
    void (*write)(FILE *f, const vt_summary *s);
    json_t *(*document)(const vt_summary *s); /* in place of write; NULL: no memory */
} vt_report_def;
const vt_report_def *const *vt_report_defs(int *n);
const vt_report_def *vt_report_find(const char *name); /* NULL: unknown */
/* Writes one report of a run to f, as text or, if the format has a document, as JSON. VT_E_MEMORY: the document could
 * not be made; errors of f are the caller's to check. */
vt_status vt_report_write(const vt_report_def *def, FILE *f, const vt_summary *s, vt_err *e);
/* Writes every report that has a file into dir (NULL: none) and the terminal one to `terminal` (NULL: not). */
vt_status vt_reports_write(const vt_summary *s, const char *dir, FILE *terminal, vt_err *e);

/* What a profile's samples leave open, in a sentence; false: the entry is no profile and has no sample. */
bool vt_entry_open_text(const vt_summary *s, const vt_entry_summary *en, char *text, size_t size);
/* What else must be said of an entry beside its numbers, sentence k = 0, 1, ...; false past the last. */
bool vt_entry_remark(const vt_entry_summary *en, int k, char *text, size_t size);
/* Writes sentence k on `vanished` images without a gradient of cross-entropy and `not_finite` images without finite
 * logits of `name`; false past the last. */
bool vt_remark(const char *name, int64_t vanished, int64_t not_finite, int k, char *text, size_t size);
/* Returns "AutoAttack-equivalent" if samples leave at most VT_EQUIVALENT_POINTS open, else "quick estimate". */
const char *vt_entry_claim(const vt_entry_summary *en);

/* VT_E_RANGE names the first image that is certified and that an attack broke: one of the two is wrong. */
vt_status vt_expect_no_contradiction(const vt_ledger *l, vt_err *e);
/* A claim: on images whose robustness has been proven no attack may succeed. VT_OK when every image is right and
 * unbroken; else the sentence names the first image that is not, the attack and the distance of its point, and the
 * numbers of the others. */
vt_status vt_expect_robust(const vt_ledger *l, vt_err *e);
