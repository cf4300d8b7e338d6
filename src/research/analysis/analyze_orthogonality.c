/* SPDX-License-Identifier: MIT */
/* What the orthogonality constraints L_LA and L_LF would still have to do: |W^T W - I|_F^2 of every matrix of every
 * block, with the part that a wide matrix can never lose kept apart. */
#include <math.h>
#include <stdlib.h>
#include "research/analysis/analyze.h"
#include "research/analysis/lines.h"
#include "research/analysis/orthogonality.h"
#include "base/mem.h"
#include "parallel/threads.h"

typedef struct job {
    const vt_model *m;
    vt_gap (*gaps)[VT_GAP_COUNT]; /* [blocks] */
} job;

/* Work item of vt_for_each: sets the gaps of block i; VT_E_MEMORY. */
static vt_status measure_block(void *ctx, int thread, size_t i, vt_err *e) {
    job *j = ctx;
    (void)thread;
    return vt_gaps_of_block(j->gaps[i], j->m, (int)i, e);
}

/* Prints each block's gaps, their sums, and the floors of the last block (Swin's blocks differ in width). */
static void print_table(const job *j, int blocks, FILE *out) {
    vt_columns t;
    fprintf(out, "      |W^T W - I|_F^2 less its floor (that of the last block)\n");
    vt_columns_titles(&t, "block\tW_Q\tW_K\tW_V\tW_O\tFC1\tFC2\tstack\twide");
    for (int b = 0; b <= blocks; b++) {
        vt_columns_cell(&t, b < blocks ? "%d" : "sum", b);
        for (int k = 0; k < VT_GAP_COUNT; k++) {
            double sum = 0;
            for (int i = 0; i < blocks; i++) sum += j->gaps[i][k].gap;
            vt_analyze_cell(&t, b < blocks ? j->gaps[b][k].gap : sum);
        }
    }
    vt_columns_cell(&t, "floor"); /* blocks of one width have the same; Swin's grow: the last one's */
    for (int k = 0; k < VT_GAP_COUNT; k++) vt_analyze_cell(&t, j->gaps[blocks - 1][k].floor);
    vt_columns_end(&t, out, VT_LOOK_PAGE);
}

/* Prints a checkpoint's table, adds the curves of stack, FC1 and FC2 over blocks, and stores its JSON. */
static vt_status report_subject(const job *j, const vt_analyze *a, int subject, vt_lines *f, FILE *out, json_t *json,
                                vt_err *e) {
    int blocks = vt_model_blocks(j->m);
    json_t *list = json_array();
    double *stack = vt_lines_add(f, a, subject, "W_Q, W_K, W_V, W_O stacked"),
           *fc1 = vt_lines_add(f, a, subject, "FC1"), *fc2 = vt_lines_add(f, a, subject, "FC2");
    vt_analyze_title(out, a, subject);
    print_table(j, blocks, out);
    for (int b = 0; b < blocks; b++) {
        json_t *o = json_pack("{s:i}", "block", b);
        for (int k = 0; k < VT_GAP_COUNT; k++) {
            const vt_gap *g = &j->gaps[b][k];
            json_object_set_new(o, vt_gap_name(k),
                                json_pack("{s:o,s:o,s:o}", "loss", vt_json_real(g->loss), "floor",
                                          vt_json_real(g->floor), "gap", vt_json_real(g->gap)));
        }
        json_array_append_new(list, o);
        stack[b] = j->gaps[b][VT_GAP_STACK].gap;
        fc1[b] = j->gaps[b][VT_WEIGHT_FC1].gap, fc2[b] = j->gaps[b][VT_WEIGHT_FC2].gap;
    }
    return vt_analyze_put(json, subject, json_pack("{s:o}", "blocks", list), e);
}

static vt_status run(const vt_analyze *a, const void *params_, FILE *out, json_t *json, vt_err *e) {
    (void)params_;
    vt_lines f;
    for (int i = 0; i < a->n; i++)
        if (!vt_model_blocks(a->subjects[i].model))
            return vt_fail(e, VT_E_SHAPE, "%s: a %s model has no attention to look at", a->subjects[i].model->path,
                           a->subjects[i].model->config.arch);
    VT_TRY(vt_lines_open(&f, vt_lines_deepest(a), "Distance from orthogonal, less its floor", "squared Frobenius norm",
                         true, e));
    vt_status s = VT_OK;
    for (int i = 0; i < a->n && s == VT_OK; i++) {
        job j = {.m = a->subjects[i].model};
        size_t blocks = (size_t)vt_model_blocks(j.m);
        j.gaps = calloc(blocks, sizeof *j.gaps);
        s = j.gaps ? vt_for_each(blocks, a->threads, measure_block, &j, e)
                   : vt_fail(e, VT_E_MEMORY, "no memory for blocks");
        if (s == VT_OK) s = report_subject(&j, a, i, &f, out, json, e);
        free(j.gaps);
    }
    if (s == VT_OK) s = vt_lines_draw(&f, a, "orthogonality", e);
    vt_lines_free(&f);
    return s;
}

const vt_analysis_def vt_analysis_def_orthogonality = {
    .name = "orthogonality",
    .summary = "how far the matrices of each block are from orthogonal, floors of wide ones apart",
    .source = "Zhang et al. 2021 (On Orthogonality Constraints for Transformers), L_LA and L_LF",
    .run = run,
};
