/* What a run found, as numbers for reports: a pure function of its ledger. */
#ifndef VT_EVAL_SUMMARY_H
#define VT_EVAL_SUMMARY_H

#include "eval/ledger.h"

typedef struct vt_stage_summary {
    const char *name, *id;                       /* from the header */
    int64_t robust, broken, borderline, invalid; /* robust: left after this stage */
    int64_t gradients, forwards;
    int64_t pending; /* images whose line is not there yet */
} vt_stage_summary;

typedef struct vt_entry_summary {
    const char *name, *id;
    int64_t robust, broken, borderline, invalid, gradients, forwards, pending;
    double median_linf, median_l2, median_l1; /* of the broken images' perturbations; NaN: none */
    vt_stage_summary *stages;
    int n_stages;
} vt_entry_summary;

typedef struct vt_summary {
    const json_t *header;
    char images[400]; /* "0:100,150:200" */
    int64_t total, correct, worst_robust, pending;
    vt_entry_summary *entries;
    int n_entries;
} vt_summary;

/* images: number of images the run wants (0: those of the ledger). */
vt_status vt_summary_make(vt_summary *s, const vt_ledger *l, int64_t images, vt_err *e);
void vt_summary_free(vt_summary *s);

/* Report formats: a file report_*.c each. */
typedef struct vt_report_def {
    const char *name, *file, *summary; /* "md", "table.md" (NULL: the terminal), one sentence */
    void (*write)(FILE *f, const vt_summary *s);
} vt_report_def;
const vt_report_def *const *vt_report_defs(int *n);
/* Every report that has a file, into dir; the terminal one to `terminal` (NULL: not). */
vt_status vt_reports_write(const vt_summary *s, const char *dir, FILE *terminal, vt_err *e);

/* Rows that all tables share: label, count and total of row i (0: clean; then each entry followed by its stages when
 * it has several; then the worst case when there are several entries). false past the end. */
typedef struct vt_row {
    char label[48];
    int64_t count, total, borderline, gradients, forwards;
    double percent, low, high;
    int level;       /* 0: clean, entry or worst case; 1: stage */
    bool has_attack; /* borderline and costs are meaningful */
} vt_row;
bool vt_summary_row(const vt_summary *s, int i, vt_row *r);

/* Header values as text: "linf 8/255", weights hash and so on. */
const char *vt_header_text(const json_t *header, const char *key);
/* What was allowed: "linf eps 8/255", "patch 16 x 16, count 1, anywhere". */
const char *vt_header_threat(const json_t *header, char *buf, size_t size);
/* Sentence i that every report has to say of data and model (preprocessing, classes, resolution of the attack); NULL
 * past the end. */
const char *vt_header_note(const json_t *header, size_t i);

#endif
