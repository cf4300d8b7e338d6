/* SPDX-License-Identifier: MIT */
/* Runs and trainings of the library's callers: what they are told and what is written, that they go on, and that
 * nothing of the process they run in is other than before. */
#include <fcntl.h>
#include <limits.h>
#include <omp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include "api_fixture.h"

extern char **environ;
extern int openblas_get_num_threads(void);

/* ---- runs ---- */

typedef struct heard {
    int lines, clean, said;
} heard;

static void hear(void *ctx, int entry, const vitrine_verdict *v) {
    heard *h = ctx;
    h->lines++, h->clean += entry == 0;
    assert_true(v->image >= 0 && v->image < 12 && v->label >= 0);
}

static void hear_text(void *ctx, const char *text) {
    ((heard *)ctx)->said++;
    assert_true(strlen(text) > 0);
}

static void test_a_run_is_told_written_and_read(void **state) {
    (void)state;
    char out[300];
    snprintf(out, sizeof out, "out=%s", at("run"));
    const char *options[] = {"weights=weights/shapes10-vit",
                             "data=datasets/shapes10",
                             "images=0:12",
                             "eps=4/255",
                             "attack=pgd:steps=3",
                             out,
                             "resume",
                             NULL};
    heard h = {0};
    vitrine_listener listener = {sizeof listener, hear, hear_text, &h, NULL};
    vitrine_err e;
    vitrine_run *r, *again;
    vitrine_verdict v[N], w[N];
    char *text;
    vitrine_status s = vitrine_evaluate(&r, options, &listener, &e);
    if (s != VITRINE_OK) fail_msg("%s", e.text);
    assert_int_equal(h.clean, N);
    assert_true(h.lines > N && h.said > 0);
    assert_int_equal(vitrine_run_verdicts(r, 1, v, &e), VITRINE_OK);
    vitrine_run_close(r);
    assert_int_equal(vitrine_read(&again, at("run"), &e), VITRINE_OK);
    assert_string_equal(vitrine_run_entry(again, 1), "pgd");
    assert_null(vitrine_run_entry(again, 2));
    assert_int_equal(vitrine_run_verdicts(again, 1, w, &e), VITRINE_OK);
    for (int i = 0; i < N; i++) {
        same_verdict(&v[i], &w[i]);
        if (w[i].outcome != VITRINE_BROKEN) {
            refused(vitrine_run_adversarial(again, 1, i, x_adv, &e), VITRINE_E_RANGE, &e, "has stored no point");
            continue;
        }
        vitrine_verdict back;
        assert_int_equal(vitrine_run_adversarial(again, 1, i, x_adv, &e), VITRINE_OK);
        vitrine_attack_plan terms = VITRINE_JUDGE("linf", 4.0 / 255);
        assert_int_equal(vitrine_judge(model, &terms, 1, x + i * PIXELS, x_adv, &labels[i], &back, &e), VITRINE_OK);
        assert_int_equal(back.outcome, VITRINE_BROKEN);
    }
    assert_int_equal(vitrine_run_json(again, &text, &e), VITRINE_OK);
    assert_non_null(strstr(text, "\"version\""));
    vitrine_free(text);
    vitrine_run_close(again);
    /* nothing is left to be done: the second call computes nothing, and says the same */
    h = (heard){0};
    assert_int_equal(vitrine_evaluate(&r, options, &listener, &e), VITRINE_OK);
    assert_int_equal(h.lines, 0);
    vitrine_run_close(r);
    refused(vitrine_read(&r, at("nothing"), &e), VITRINE_E_IO, &e, "holds no run");
}

static volatile sig_atomic_t stop;
static void stop_soon(void *ctx, int entry, const vitrine_verdict *v) {
    int *left = ctx;
    (void)entry, (void)v;
    if (--*left == 0) stop = 1;
}

static void test_an_interrupted_run_goes_on(void **state) {
    (void)state;
    char out[300];
    snprintf(out, sizeof out, "out=%s", at("stopped"));
    const char *options[] = {"weights=weights/shapes10-vit",
                             "data=datasets/shapes10",
                             "images=0:12",
                             "eps=4/255",
                             "attack=pgd:steps=3",
                             "threads=1",
                             out,
                             "resume",
                             NULL};
    int left = 14;
    vitrine_listener listener = {sizeof listener, stop_soon, NULL, &left, &stop};
    vitrine_err e;
    vitrine_run *r;
    vitrine_verdict v[N];
    refused(vitrine_evaluate(&r, options, &listener, &e), VITRINE_INTERRUPTED, &e, "14 ledger lines are kept");
    assert_null(r);
    assert_int_equal(vitrine_read(&r, at("stopped"), &e), VITRINE_OK);
    assert_int_equal(vitrine_run_verdicts(r, 1, v, &e), VITRINE_OK);
    int open = 0;
    for (int i = 0; i < N; i++) open += v[i].outcome == -1;
    assert_true(open > 0);
    vitrine_run_close(r);
    stop = 0;
    assert_int_equal(vitrine_evaluate(&r, options, NULL, &e), VITRINE_OK);
    assert_int_equal(vitrine_run_verdicts(r, 1, v, &e), VITRINE_OK);
    for (int i = 0; i < N; i++) assert_true(v[i].outcome >= 0);
    vitrine_run_close(r);
}

static void test_training(void **state) {
    (void)state;
    char out[300];
    snprintf(out, sizeof out, "out=%s", at("trained"));
    const char *options[] = {"recipe=recipes/shapes10_plain.yaml",
                             "data=datasets/shapes10",
                             out,
                             "max-steps=2",
                             "set=batch=20",
                             "set=micro_batch=10",
                             NULL};
    vitrine_err e;
    assert_int_equal(vitrine_train(options, NULL, &e), VITRINE_OK); /* as many steps as were asked for */
    assert_int_equal(access(at("trained/state.safetensors"), R_OK), 0);
    options[4] = "set=bach=20";
    refused(vitrine_train(options, NULL, &e), VITRINE_E_UNKNOWN, &e, "bach");
    options[0] = "recipe=nowhere.yaml";
    refused(vitrine_train(options, NULL, &e), VITRINE_E_IO, &e, "nowhere.yaml");
}

/* ---- what must not be ---- */

/* As they should end: an attack, an evaluation with its files, a model in another process that dies, a training. */
static bool one_of_each(void) {
    char run[300], trained[300];
    snprintf(run, sizeof run, "out=%s", at("changes")), snprintf(trained, sizeof trained, "out=%s", at("nothing_else"));
    const char *eval[] = {"weights=weights/shapes10-vit",
                          "data=datasets/shapes10",
                          "images=0:2",
                          "attack=pgd:steps=2",
                          "eps=4/255",
                          "threads=2",
                          run,
                          NULL};
    const char *train[] = {"recipe=recipes/shapes10_plain.yaml",
                           "data=datasets/shapes10",
                           "max-steps=1",
                           "set=batch=8",
                           "set=micro_batch=4",
                           trained,
                           NULL};
    vitrine_attack_plan plan = VITRINE_ATTACK("autoattack", "linf", 4.0 / 255);
    vitrine_err e;
    vitrine_verdict v[N];
    vitrine_model *m;
    vitrine_run *r;
    bool good = vitrine_attack(model, &plan, 2, x + PIXELS, labels + 1, x_adv, v, &e) == VITRINE_OK;
    good = good && vitrine_evaluate(&r, eval, NULL, &e) == VITRINE_OK;
    if (good) vitrine_run_close(r);
    good = good && vitrine_connect(&m, "kill $$", 5, &e) == VITRINE_E_MODEL;
    return good && vitrine_train(train, NULL, &e) == VITRINE_OK;
}

/* Signal handlers, environment, mask for new files and OpenBLAS's and OpenMP's threads stay as they were; nothing is
 * printed. */
static void test_nothing_of_the_process_changes(void **state) {
    (void)state;
    struct sigaction before[NSIG], after;
    int blas = openblas_get_num_threads(), n = 0, k = 0;
    char *copy[4096];
    int omp = omp_get_max_threads(), out = dup(1), err = dup(2);
    mode_t mask = umask(0);
    umask(mask);
    fflush(NULL);
    int said = open(at("said"), O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(said >= 0 && dup2(said, 1) == 1 && dup2(said, 2) == 2);
    for (int s = 1; s < NSIG; s++) sigaction(s, NULL, &before[s]);
    for (; environ[n] && n < 4096; n++) copy[n] = strdup(environ[n]);
    bool good = one_of_each(); /* looked at when a failure can be printed again */
    fflush(NULL);
    assert_true(dup2(out, 1) == 1 && dup2(err, 2) == 2);
    close(out), close(err);
    assert_true(good);
    assert_int_equal(lseek(said, 0, SEEK_END), 0);
    close(said);
    assert_int_equal(umask(mask), mask);
    assert_int_equal(omp_get_max_threads(), omp);
    for (int s = 1; s < NSIG; s++) {
        if (sigaction(s, NULL, &after)) continue;
        if (after.sa_handler != before[s].sa_handler) fail_msg("signal %d has another handler", s);
    }
    for (; environ[k]; k++) assert_string_equal(environ[k], copy[k]);
    assert_int_equal(k, n);
    while (n) free(copy[--n]);
    assert_int_equal(openblas_get_num_threads(), blas);
    setenv("OPENBLAS_NUM_THREADS", "1", 1), setenv("OMP_WAIT_POLICY", "passive", 1),
        setenv("OPENBLAS_CORETYPE", "x", 1);
    assert_null(vitrine_environment(0));
    unsetenv("OPENBLAS_NUM_THREADS");
    assert_string_equal(vitrine_environment(0), "OPENBLAS_NUM_THREADS=1");
    assert_null(vitrine_environment(1));
    assert_null(vitrine_environment(-1));
    assert_null(vitrine_environment(INT_MIN));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_is_told_written_and_read),
        cmocka_unit_test(test_an_interrupted_run_goes_on),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_nothing_of_the_process_changes),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
