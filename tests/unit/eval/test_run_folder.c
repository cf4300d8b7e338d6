/* SPDX-License-Identifier: MIT */
/* A run that a program made with the library alone is opened again by the library: the subject's fields in run.json,
 * from another working directory, with choices on top; other weights, other data and other readings are refused. */
#include "scratch.h"
#include "t.h"
#include "ask.h"
#include "run_header.h"

#include <unistd.h>
#include "base/files.h"
#include "linalg/gemm.h"
#include "eval/evaluate.h"
#include "eval/prepare.h"
#include "eval/run_folder.h"
#include "eval/transfers.h"

enum { FIRST = 40, SIDE = 32, PIXELS = 3 * SIDE * SIDE };

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Model and data of the repository, evaluated into OUT; run.json holds the subject and where it was made, nothing else.
 */
static void make(const char *out, const vt_choices *c, const char *weights) {
    int32_t images[FIRST];
    for (int i = 0; i < FIRST; i++) images[i] = i;
    vt_subject s = {0};
    vt_attack a;
    vt_ledger *l;
    vt_err e = {0};
    char cwd[2048], path[2100], *text;
    vt_status st = vt_prepare_data(c, &s.data, &e);
    if (st == VT_OK) st = vt_subject_open(&s, c, weights, 0, &e);
    if (st == VT_OK) st = vt_subject_fit(&s, c, 0, &e);
    if (st != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(vt_attack_parse(&a, "fgsm", VT_LINF, &e), VT_OK);
    vt_eval_options v = {.subject = &s, .images = images, .n_images = FIRST, .eps = 4.0 / 255, .eps_text = "4/255"};
    v.threads = 2, v.attacks = &a, v.n_attacks = 1;
    vt_header *header = t_header_of(&v);
    if (vt_eval_check(&v, &e) != VT_OK || vt_ledger_create(&l, out, header, PIXELS, &e) != VT_OK ||
        vt_eval_run(&v, l, &e) != VT_OK || vt_ledger_finish(l, &e) != VT_OK)
        fail_msg("%s", e.text);
    vt_ledger_close(l);
    vt_header_free(header);
    assert_non_null(getcwd(cwd, sizeof cwd));
    json_t *run = json_pack("{s:o,s:s}", "subject", vt_subject_json(weights, c), "directory", cwd);
    assert_non_null(text = json_dumps(run, 0));
    snprintf(path, sizeof path, "%s/run.json", out);
    write_text(path, text);
    free(text);
    json_decref(run);
    vt_attack_free(&a);
    vt_subject_close(&s);
}

static vt_status again(vt_run_folder *r, const char *dir, const vt_choices *more, vt_err *e) {
    *r = (vt_run_folder){0}, *e = (vt_err){0};
    return vt_run_folder_open(r, dir, more, e);
}

static void opened(void **state) {
    (void)state;
    vt_choices c = {0}, none = {0}, more = {0};
    vt_run_folder r;
    vt_err e;
    char dir[2048], cwd[2048];
    vt_choose(&c, "eps", "4/255"), vt_choose(&c, "data", "datasets/shapes10"), vt_choose(&c, "seed", "3");
    vt_choose(&c, "wrap", "logit-scale:factor=2");
    make(at("run"), &c, "weights/shapes10-plain");
    assert_true(snprintf(dir, sizeof dir, "%s", at("run")) < (int)sizeof dir && getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir("/"), 0); /* paths are where the run was made */
    if (again(&r, dir, &none, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(r.choices.n, 2); /* the data, as typed and as found; eps, seed and wrap describe no subject */
    assert_true(r.ledger->count == 2 * FIRST || r.ledger->count > FIRST);
    assert_string_equal(r.subject.wrap.id, "logit-scale:factor=2"); /* the ledger says it */
    vt_run_folder_close(&r);
    vt_choose(&more, "split", "train"); /* other images */
    assert_true(again(&r, dir, &more, &e) != VT_OK);
    assert_non_null(strstr(e.text, "are not the data of"));
    vt_run_folder_close(&r);
    char other[2100];
    snprintf(other, sizeof other, "%s/weights/shapes10-vit", cwd);
    more = (vt_choices){0};
    vt_choose(&more, "weights", other);
    assert_int_equal(again(&r, dir, &more, &e), VT_E_FORMAT);
    assert_non_null(strstr(e.text, "is not the checkpoint of"));
    vt_run_folder_close(&r);
    more = (vt_choices){0};
    vt_choose(&more, "mean", "0.1,0.2,0.3"); /* read otherwise */
    assert_int_equal(again(&r, dir, &more, &e), VT_E_USAGE);
    assert_non_null(strstr(e.text, "describes the model otherwise"));
    vt_run_folder_close(&r);
    assert_int_equal(chdir(cwd), 0);
}

/* A stranger's run.json: what is no text is no choice, and what is missing is said. */
static void damaged(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"subject\": 7}",
        "{\"subject\": {\"weights\": 3, \"choices\": [[\"data\", \"datasets/shapes10\"]]}}",
        "{\"subject\": {\"weights\": \"weights/shapes10-plain\", \"choices\": {\"data\": 1}}}",
        "{\"subject\": {\"weights\": \"weights/shapes10-plain\", \"choices\": [3, [], [1, 2], [\"data\", 5], "
        "[\"data\"]]}}",
        "[1, 2]",
        "no JSON",
    };
    vt_choices none = {0};
    vt_run_folder r;
    vt_err e;
    for (size_t i = 0; i < T_COUNT(texts); i++) {
        write_text(at("run/run.json"), texts[i]);
        assert_int_equal(again(&r, at("run"), &none, &e), VT_E_FORMAT);
        assert_non_null(strstr(e.text, "give --weights and --data, run.json does not name them"));
        vt_run_folder_close(&r);
    }
    assert_int_equal(unlink(at("run/run.json")), 0);
    assert_int_equal(again(&r, at("run"), &none, &e), VT_E_USAGE);
    assert_non_null(strstr(e.text, "run.json does not exist"));
    vt_run_folder_close(&r);
}

/* Counts the points of run a that break the model of run b by the float logits alone, of those it has right. */
static void count_by_hand(const vt_run_folder *a, const vt_run_folder *b, int64_t count[3]) {
    static float x[PIXELS], y[PIXELS], z[10];
    vt_classifier c;
    vt_err e = {0};
    int label;
    assert_int_equal(vt_subject_classifier(&c, &b->subject, NULL, &e), VT_OK);
    memset(count, 0, 3 * sizeof *count);
    for (size_t i = 0; i < a->ledger->count; i++) {
        const vt_record *r = &a->ledger->records[i];
        if (!r->entry || r->status != VT_RECORD_BROKEN) continue;
        assert_int_equal(vt_subject_image(&a->subject, r->image, x, &label, &e), VT_OK);
        assert_int_equal(vt_ledger_read_adv(a->ledger, r, y, &e), VT_OK);
        ask_logits(&c, x, z, false);
        bool right = vt_argmax_f32(z, 10) == label;
        ask_logits(&c, y, z, false);
        count[0]++, count[1] += right, count[2] += right && vt_argmax_f32(z, 10) != label;
    }
    vt_classifier_close(&c);
}

/* What transfers between the runs of three models. */
static void transfers(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c"}, *const weights[] = {"weights/shapes10-plain",
                                                                            "weights/shapes10-specformer",
                                                                            "weights/shapes10-vit"};
    vt_transfers t = {.threads = 2};
    vt_err e = {0};
    int64_t all = 0, carried = 0;
    for (int i = 0; i < 3; i++) {
        vt_choices c = {0};
        vt_choose(&c, "data", "datasets/shapes10");
        make(at("%s", names[i]), &c, weights[i]);
        if (vt_transfers_add(&t, at("%s", names[i]), &e) != VT_OK) fail_msg("%s", e.text);
    }
    if (vt_transfers_judge(&t, &e) != VT_OK) fail_msg("%s", e.text);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            int64_t by_hand[3];
            count_by_hand(&t.run[i], &t.run[k], by_hand);
            assert_true(t.points[i] == by_hand[0] && t.right[i][k] == by_hand[1] && t.broken[i][k] == by_hand[2]);
            if (i == k) assert_true(t.points[i] > 0 && t.right[i][i] == t.points[i] && t.broken[i][i] == t.points[i]);
            if (i != k) all += t.right[i][k] < t.points[i], carried += t.broken[i][k];
        }
    assert_true(all > 0 && carried > 0); /* some images are wrong elsewhere, some points carry over */
    vt_choices other = {0};
    vt_choose(&other, "data", "datasets/shapes10"), vt_choose(&other, "split", "train");
    make(at("d"), &other, weights[0]);
    assert_int_equal(vt_transfers_add(&t, at("d"), &e), VT_E_USAGE);
    assert_non_null(strstr(e.text, "are over other data"));
    vt_transfers_close(&t);
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {cmocka_unit_test(opened), cmocka_unit_test(damaged),
                                       cmocka_unit_test(transfers)};
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
