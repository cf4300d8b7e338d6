/* SPDX-License-Identifier: MIT */
/* The guard rails of training: losses and weights that are not finite, steps left out, which checkpoints are kept. */
#include "training_fixture.h"

#include "tensors/tensors.h"
#include "models/net/session.h"

static void number_is(const char *dir, const char *key, double want) {
    char path[300];
    vt_tensors *st;
    vt_err e = {0};
    snprintf(path, sizeof path, "%s/state.safetensors", dir);
    assert_int_equal(vt_tensors_open(&st, path, &e), VT_OK);
    assert_non_null(vt_tensors_meta(st, key));
    double got = strtod(vt_tensors_meta(st, key), NULL);
    if (got != want) fail_msg("%s of %s is %g, not %g", key, dir, got, want);
    vt_tensors_close(st);
}

/* The weights of a run's checkpoints give finite logits. */
static void check_usable(const char *run) {
    static const char *const names[] = {"model", "state"};
    enum { PIXELS = 3 * 32 * 32 };
    static float x[PIXELS];
    vt_err e = {0};
    vt_model *m;
    vt_tensors *st;
    char path[300];
    for (int i = 0; i < PIXELS; i++) x[i] = (float)(i % 7) / 7;
    snprintf(path, sizeof path, "%s/%s.safetensors", in(run), names[0]);
    if (vt_model_open(&m, path, NULL, &e) != VT_OK) fail_msg("%s", e.text); /* NaN and Inf are refused at the door */
    snprintf(path, sizeof path, "%s/%s.safetensors", in(run), names[1]);
    if (vt_tensors_open(&st, path, &e) != VT_OK) fail_msg("%s", e.text);
    for (size_t f = 0; f < T_COUNT(names); f++) {
        if (f == 1) /* the weights of the state are those that --resume goes on with */
            for (int i = 0; i < m->params.count; i++) {
                const vt_param *p = &m->params.items[i];
                char name[200];
                snprintf(name, sizeof name, "weight.%s", p->name);
                const vt_tensor *t = vt_tensors_find(st, name);
                assert_non_null(t);
                assert_int_equal(vt_tensor_f32(st, t, m->w + p->offset, p->numel, &e), VT_OK);
            }
        vt_model_refresh(m);
        vt_session_f32 *s;
        assert_int_equal(vt_session_open_f32(&s, m, 1, VT_GRAD_INPUT, &e), VT_OK);
        const float *z = vt_session_forward_f32(s, x, 1, false);
        for (int k = 0; k < m->config.classes; k++)
            if (!isfinite(z[k])) fail_msg("%s/%s.safetensors: logit %d is %g", run, names[f], k, (double)z[k]);
        vt_session_close_f32(s);
    }
    vt_tensors_close(st);
    vt_model_close(m);
}

/* Weight decay that multiplies the weights by -10^4 a step leaves float's range: steps are left out with halved rates,
 * named by their images, then the run ends with a sentence; the checkpoint on disk is whole and finite. */
static void test_guard_rails(void **state) {
    (void)state;
    static spoken heard;
    vt_err e = {0};
    const char *wild =
        "epochs: 40\nbatch: 16\nmicro_batch: 4\noptimiser: sgd\nclip: 0\nlr: 1000\nweight_decay: 10\n"
        "augment: {mix_prob: 0}\nschedule: {kind: constant}\nmodel: {patch: 8, dim: 16, depth: 2, heads: 2, "
        "hidden: 24, mean: 0.5, std: 0.25}\nprobe: {images: 0}\nsgd: {momentum: 0}\n";
    options o = {.heard = &heard};
    t_says(train(wild, NULL, in("wild"), o, &e), VT_E_NUMERIC, &e, "4th time", "last good checkpoint");
    assert_non_null(strstr(heard.text, "images "));
    assert_int_equal(lines(in("wild"), "\"not finite\""), 4);
    check_usable("wild");
    /* a checkpoint after every step: none that the next forward pass finds unusable */
    heard.text[0] = 0;
    t_says(train(wild, "batch=40", in("wilder"), o, &e), VT_E_NUMERIC, &e, "4th time", "last good checkpoint");
    check_usable("wilder");
    /* the last step is left out, or leaves weights that no forward pass can use: no success; else the last step is kept
     */
    int ended = 0;
    for (int steps = 1; steps <= 8; steps++) {
        char text[800], run[20];
        snprintf(text, sizeof text, "epochs: %d\nbatch: 40\n%s", steps, strstr(wild, "micro_batch"));
        snprintf(run, sizeof run, "short%d", steps);
        vt_status s = train(text, "lr=10", in(run), o, &e);
        if (s != VT_OK) t_says(s, VT_E_NUMERIC, &e, "not finite", "last good checkpoint");
        check_usable(run);
        if (s == VT_OK) number_is(in(run), "step", steps), ended++;
    }
    assert_true(ended > 0 && ended < 8);
}

/* The first steps leave float's range (mirror descent raises lr times a gradient to the 20th power), the rate's drop
 * ends that: the run goes on, with half the rate for each step left out, and finishes; also when it is interrupted. */
#define STUMBLES                                                                                                       \
    "epochs: 3\nbatch: 16\nmicro_batch: 4\noptimiser: sgd\nsgd: {momentum: 0.9}\nlr: 1000\nweight_decay: 0\n"          \
    "attention_optimiser: md\nmd: {p: 1.05}\nattention_lr_scale: 1e4\naugment: {mix_prob: 0}\nclip: 0\n"               \
    "model: {patch: 8, dim: 16, depth: 2, heads: 2, hidden: 24, mean: 0.5, std: 0.25}\nprobe: {images: 0}\n"

static void test_goes_on(void **state) {
    (void)state;
    /* of six steps, those before the share of the drop; and the rate of the fourth: 1000 1e-6 / 2^faults */
    static const char *const drops[] = {"{kind: step, factor: 1e-6, drops: '0.1'}",
                                        "{kind: step, factor: 1e-6, drops: '0.3'}"};
    for (int faults = 1; faults <= 2; faults++) {
        static spoken heard;
        char text[800], rate[60], whole[20], part[20];
        snprintf(text, sizeof text, "%sschedule: %s\n", STUMBLES, drops[faults - 1]);
        snprintf(rate, sizeof rate, "\"lr\":%s", faults == 1 ? "0.0005" : "0.00025");
        snprintf(whole, sizeof whole, "stumble%d", faults), snprintf(part, sizeof part, "caught%d", faults);
        heard.text[0] = 0;
        check_train(text, in(whole), (options){.heard = &heard});
        assert_non_null(strstr(heard.text, "halved"));
        assert_int_equal(lines(in(whole), "\"not finite\""), faults);
        assert_int_equal(lines(in(whole), "\"epoch_end\""), 3);
        if (lines(in(whole), rate) < 6 - faults) fail_msg("no steps with %s", rate);
        number_is(in(whole), "faults", faults), number_is(in(whole), "lr_scale", faults == 1 ? 0.5 : 0.25);
        number_is(in(whole), "taken", 6 - faults), number_is(in(whole), "step", 6);
        for (int stop = 1; stop < 6; stop++) { /* right after a step left out, too */
            vt_err e = {0};
            options o = {.max_steps = stop};
            char line[200];
            snprintf(line, sizeof line, "rm -rf %s", in(part));
            assert_int_equal(system(line), 0);
            assert_int_equal(train(text, NULL, in(part), o, &e), VT_INTERRUPTED);
            number_is(in(part), "step", stop <= faults ? 0 : stop); /* none after a step that was left out */
            check_train(text, in(part), (options){.resume = true});
            same_run(in(whole), in(part));
            assert_int_equal(lines(in(part), "\"not finite\""), faults);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_rails),
        cmocka_unit_test(test_goes_on),
    };
    return cmocka_run_group_tests_name("guard rails", tests, setup, remove_tmp);
}
