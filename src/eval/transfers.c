/* SPDX-License-Identifier: MIT */
#include "eval/transfers.h"

#include <stdlib.h>
#include <string.h>
#include "parallel/threads.h"

/* What a model makes of a point. */
enum { NOT_RIGHT, STANDS, BROKEN }; /* NOT_RIGHT: the clean image is misclassified already */

typedef struct job {
    vt_transfers *t;
    vt_verifier *judges;     /* [threads][t->n] */
    int from;                /* the run whose points are judged now */
    size_t *items, n;        /* [n] its records that hold a broken point */
    unsigned char *outcomes; /* [n][t->n] */
} job;

/* Refuses the newest run if its points say nothing of the first one's model. */
static vt_status check_same_images(const vt_transfers *t, vt_err *e) {
    const vt_run_folder *a = &t->run[0], *b = &t->run[t->n - 1];
    const char *first = a->ledger->dir, *other = b->ledger->dir;
    vt_shape x = vt_subject_shape(&a->subject), y = vt_subject_shape(&b->subject);
    int classes = vt_subject_classes(&a->subject), others = vt_subject_classes(&b->subject);
    if (vt_subject_is_remote(&b->subject))
        return vt_fail(e, VT_E_USAGE, "%s: its model is in another process, which is not started again", other);
    if (!vt_header_agree(a->ledger->header, b->ledger->header, "data"))
        return vt_fail(e, VT_E_USAGE, "%s and %s are over other data, or took them otherwise", first, other);
    if (x.channels == y.channels && x.height == y.height && x.width == y.width && classes == others) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "the model of %s takes images of %d x %d x %d and has %d classes, that of %s %d x %d x %d and %d",
                   first, x.channels, x.height, x.width, classes, other, y.channels, y.height, y.width, others);
}

vt_status vt_transfers_add(vt_transfers *t, const char *dir, vt_err *e) {
    const vt_choices none = {0};
    if (t->n == VT_TRANSFERS_MOST) return vt_fail(e, VT_E_USAGE, "at most %d runs", VT_TRANSFERS_MOST);
    VT_TRY(vt_run_folder_open(&t->run[t->n++], dir, &none, e));
    return check_same_images(t, e);
}

void vt_transfers_close(vt_transfers *t) {
    for (int i = 0; i < t->n; i++) vt_run_folder_close(&t->run[i]);
    memset(t, 0, sizeof *t);
}

/* Asks judge j about x [pixels], the image of record r or its point. Sets *wrong: taken for another class than the
 * label; *finite: all its logits are. */
static vt_status ask_model(bool *wrong, bool *finite, vt_verifier *j, const job *k, const vt_record *r,
                           const float *clean, const float *x, vt_err *e) {
    vt_verdict v;
    vt_rng key = vt_verdict_key(k->t->run[k->from].ledger->header->seed, r->image, x == clean ? 0 : r->entry,
                                x == clean ? 0 : r->stage);
    vt_classifier_begin(&j->model, &key);
    VT_TRY(vt_verify(&v, &j->model, clean, x, r->label, VT_LINF, 1, j->z, j->z64, e));
    *wrong = v.broken, *finite = v.finite;
    return VT_OK;
}

/* Judges a point of the run k->from by every model, on a thread. */
static vt_status judge_point(void *ctx, int thread, size_t item, vt_err *e) {
    job *k = ctx;
    int n = k->t->n, label;
    vt_verifier *judges = &k->judges[thread * n], *own = &judges[k->from];
    const vt_run_folder *run = &k->t->run[k->from];
    const vt_record *r = &run->ledger->records[k->items[item]];
    VT_TRY(vt_subject_image(&run->subject, r->image, own->x, &label, e));
    VT_TRY(vt_ledger_read_adv(run->ledger, r, own->x_adv, e));
    for (int i = 0; i < n; i++) {
        bool wrong, finite, broken = false;
        VT_TRY(ask_model(&wrong, &finite, &judges[i], k, r, own->x, own->x, e));
        bool right = finite && !wrong;
        if (right) VT_TRY(ask_model(&broken, &finite, &judges[i], k, r, own->x, own->x_adv, e));
        k->outcomes[item * (size_t)n + (size_t)i] = !right ? NOT_RIGHT : broken ? BROKEN : STANDS;
    }
    return VT_OK;
}

/* Adds a judged point to the counts. */
static void count_point(void *ctx, int thread, size_t item) {
    job *k = ctx;
    vt_transfers *t = k->t;
    (void)thread;
    for (int i = 0; i < t->n; i++) {
        int is = k->outcomes[item * (size_t)t->n + (size_t)i];
        t->right[k->from][i] += is != NOT_RIGHT, t->broken[k->from][i] += is == BROKEN;
    }
    vt_progress_step(&t->progress, item + 1, "");
}

/* Judges the broken points of run k->from by all models. */
static vt_status judge_run(job *k, vt_err *e) {
    vt_transfers *t = k->t;
    const vt_ledger *l = t->run[k->from].ledger;
    k->n = 0;
    k->items = calloc(l->count + 1, sizeof *k->items), k->outcomes = calloc(l->count + 1, (size_t)t->n);
    if (!k->items || !k->outcomes) return vt_fail(e, VT_E_MEMORY, "%s: no memory to list its points", l->dir);
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].entry && l->records[i].status == VT_RECORD_BROKEN && l->records[i].adv >= 0)
            k->items[k->n++] = i;
    t->points[k->from] = (int64_t)k->n;
    vt_progress_begin(&t->progress, "transfer", 0, k->n);
    vt_status s = vt_for_each_in_order(k->n, t->threads, judge_point, count_point, k, e);
    vt_progress_end(&t->progress, "done");
    return s;
}

vt_status vt_transfers_judge(vt_transfers *t, vt_err *e) {
    job k = {.t = t, .judges = calloc((size_t)t->threads * (size_t)t->n, sizeof *k.judges)};
    vt_status s = k.judges ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory to judge the points of %d runs", t->n);
    for (int i = 0; s == VT_OK && i < t->threads * t->n; i++)
        s = vt_verifier_open(&k.judges[i], &t->run[i % t->n].subject, e);
    for (k.from = 0; s == VT_OK && k.from < t->n; k.from++) {
        s = judge_run(&k, e);
        free(k.items), free(k.outcomes);
    }
    for (int i = 0; k.judges && i < t->threads * t->n; i++) vt_verifier_close(&k.judges[i]);
    free(k.judges);
    return s;
}
