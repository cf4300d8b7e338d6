/* SPDX-License-Identifier: MIT */
/* The library with each of its allocations refused once (scarce.h): an attack of every kind on one image, models opened
 * and written, training's and evaluation's parts. A refusal is VT_E_MEMORY and a sentence, nothing is lost, and the
 * same call does in the same process when there is memory again. What the commands reach is in test_scarce_commands.c.
 */
#include "scarce.h"

#include "attacks/attacker.h"
#include "inference/classifier.h"
#include "inference/wrap.h"
#include "toy.h"

static vt_model *model;
static double *pixels;

/* ---- attacks ---- */

static const vt_norm norms[] = {VT_LINF, VT_L2, VT_L1, VT_L0};

/* Two steps or four queries of it, under the first threat that it knows. */
static vt_status parse(vt_attack *a, const vt_attack_def *def, vt_task *t, vt_patch *patch, vt_err *e) {
    char spec[64];
    snprintf(spec, sizeof spec, "%s", def->name);
    for (const vt_opt *o = def->opts; o && o->key; o++)
        if (!strcmp(o->key, "steps") || !strcmp(o->key, "queries"))
            snprintf(spec, sizeof spec, "%s:%s=%d", def->name, o->key, *o->key == 's' ? 2 : 4);
    for (size_t i = 0; i < T_COUNT(norms); i++) {
        if (!(def->norms & 1u << norms[i])) continue;
        t->norm = norms[i], t->eps = norms[i] == VT_LINF ? 0.1 : 1;
        return vt_attack_parse(a, spec, norms[i], e);
    }
    static const float picture[3 * 4 * 4];
    *patch = (vt_patch){.size = 4, .count = 1, .grid = 1};
    t->patch = patch, t->picture = picture, t->eps = 1;
    return vt_attack_parse(a, spec, VT_NORM_PATCH, e);
}

static vt_status attack(const void *ctx, vt_err *e) {
    const vt_attack_def *def = ctx;
    vt_classifier c = {0}, twin = {0};
    vt_oracle o = {0};
    vt_attacker at = {0};
    vt_attack a = {0};
    vt_patch patch = {0};
    float x[3 * 12 * 12];
    size_t n = toy_pixels(model);
    for (size_t i = 0; i < n; i++) x[i] = (float)pixels[i];
    vt_task t = {.clean = x, .label = 1, .classes = model->config.classes, .mode = VT_ORACLE_EXHAUSTIVE};
    vt_status s = parse(&a, def, &t, &patch, e);
    vt_task dims = vt_attacker_dims(vt_config_shape(&model->config), t.classes, t.patch);
    if (s == VT_OK) s = vt_classifier_open(&c, model, e);
    if (s == VT_OK) s = vt_classifier_open_f32(&twin, model, e);
    if (s == VT_OK) s = vt_oracle_open(&o, &c, e);
    o.surrogate = &twin;
    if (s == VT_OK) s = vt_attacker_open(&at, dims.shape, vt_attacker_work(&a, &dims), e);
    if (s == VT_OK) s = vt_attacker_run(&at, &o, &a.stages[0], &t);
    vt_attacker_close(&at);
    vt_oracle_close(&o);
    vt_classifier_close(&twin), vt_classifier_close(&c);
    vt_attack_free(&a);
    return s;
}

/* ---- the rest ---- */

static vt_status wrapped(const void *ctx, vt_err *e) {
    vt_wrap w = {0};
    vt_classifier c = {0};
    vt_status s = vt_wrap_parse(&w, ctx, e);
    if (s == VT_OK) s = vt_classifier_open(&c, model, e);
    if (s == VT_OK) s = vt_wrap_classifier(&w, &c, vt_config_shape(&model->config), false, e);
    vt_classifier_close(&c);
    vt_wrap_free(&w);
    return s;
}

static vt_status made(const void *ctx, vt_err *e) {
    vt_model *m = NULL;
    vt_status s = vt_model_new(&m, ctx, e);
    if (s == VT_OK) s = vt_model_init(m, 1) == VT_OK ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for weights");
    if (s == VT_OK) s = vt_model_prepare(m, e);
    vt_model_close(m);
    return s;
}

static void refused_everywhere(const char *name, scarce_call call, const void *ctx) {
    const scarce_told *t = scarce_told_at;
    int end = scarce_try(call, ctx, true, NULL, 0, true, true);
    if (end || t->status != VT_OK) fail_msg("%s: end %d, status %d: %s", name, end, t->status, t->why.text);
    if (t->lost) scarce_show(&t->lost_at), print_error("%s loses memory", name), fail();
    uint32_t n = t->n, tried = 0;
    assert_true(n > 0);
    for (uint32_t i = 0; i < n; i++) {
        const scarce_site *s = &t->sites[i];
        if (scarce_known(s)) continue;
        tried++;
        for (uint32_t at = s->first;; at = s->last) { /* the first time that it is asked for, and the last */
            end = scarce_try(call, ctx, false, s, at, true, true);
            bool one = t->why.text[0] && !strchr(t->why.text, '\n');
            if (end || !t->refused || t->lost || t->status != VT_E_MEMORY || t->why.code != VT_E_MEMORY || !one) {
                scarce_show(s);
                fail_msg("%s: allocation %u of %u sites: end %d, refused %u, lost %u, status %d: %s", name, at, n, end,
                         t->refused, t->lost, t->status, t->why.text);
            }
            if (at == s->last) break;
        }
    }
    print_message("%-16s %u sites, %u of them refused\n", name, n, tried);
}

static void every_attack(void **state) {
    int n;
    (void)state;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    for (int i = 0; i < n; i++)
        if (defs[i]->run && defs[i]->norms != VT_CAN_ROTATION) /* which asks the batcher's grid: test_rotation */
            refused_everywhere(defs[i]->name, attack, defs[i]);
}

static void every_wrap(void **state) {
    int n;
    (void)state;
    const vt_wrap_def *const *defs = vt_wrap_defs(&n);
    for (int i = 0; i < n; i++) refused_everywhere(defs[i]->name, wrapped, defs[i]->name);
}

static void every_architecture(void **state) {
    (void)state;
    vt_config dist = toy_config("dot", VT_POOL_TOKEN, true, true);
    refused_everywhere("vit", made, &model->config);
    refused_everywhere("deit", made, &dist);
}

static int open_toy(void **state) {
    (void)state;
    model = toy(VT_POOL_TOKEN, false, true), pixels = toy_images(model, 1, 3);
    scarce_begin();
    return 0;
}

static int close_toy(void **state) {
    (void)state;
    free(pixels);
    vt_model_close(model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_attack), cmocka_unit_test(every_wrap),
                                       cmocka_unit_test(every_architecture)};
    return cmocka_run_group_tests(tests, open_toy, close_toy);
}
