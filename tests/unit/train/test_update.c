/* SPDX-License-Identifier: MIT */
/* train/update: norm, clipping, groups, attention's own optimiser, averaged weights, and weights that are not finite,
 * on a tiny model, against plain loops over single weights. */
#include "recipe_fixture.h"

#include "train/update.h"

static vt_model *tiny(void) {
    vt_config c = {.arch = "vit",
                   .attn = "dot",
                   .image = 8,
                   .patch = 4,
                   .dim = 8,
                   .depth = 2,
                   .heads = 2,
                   .hidden = 12,
                   .classes = 3,
                   .qkv_bias = true,
                   .ln_eps = 1e-6,
                   .attn_scale = 0.5,
                   .std = {1, 1, 1}};
    vt_model *m;
    vt_err e = {0};
    if (vt_model_new(&m, &c, &e) != VT_OK) fail_msg("%s", e.text);
    vt_model_init(m, 3);
    return m;
}

static float *gradient(const vt_model *m, uint64_t seed) {
    float *g = calloc(m->params.total, sizeof *g);
    assert_non_null(g);
    vt_rng r = {.seed = seed, .purpose = 9};
    for (int i = 0; i < m->params.count; i++) { /* padding stays zero, as after a backward pass */
        r.image = (uint32_t)i;
        vt_rng_normals(&r, g + m->params.items[i].offset, m->params.items[i].numel);
    }
    return g;
}

static void open_update(vt_update *u, vt_model *m, const vt_recipe *r, int threads) {
    vt_err e = {0};
    if (vt_update_open(u, m, r, threads, &e) != VT_OK) fail_msg("%s", e.text);
}

#define SGD "optimiser: sgd\nlr: 0.1\nsgd: {momentum: 0}\naugment: {mix_prob: 0}\n"

/* norm: the plain sum in double; sums of 1e3 squares differ by their order, by 1e3 2^-53 at most */
static void test_norm(void **state) {
    (void)state;
    vt_model *m = tiny();
    vt_recipe *r = of(SGD, true);
    vt_update u;
    open_update(&u, m, r, 2);
    float *g = gradient(m, 1);
    double sum = 0;
    for (size_t i = 0; i < m->params.total; i++) sum += (double)g[i] * (double)g[i];
    t_le(fabs(vt_update_norm(&u, g) - sqrt(sum)), 1e-12 * sqrt(sum), "norm");
    g[m->params.items[3].offset] = NAN;
    assert_true(isnan(vt_update_norm(&u, g)));
    free(g);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m);
}

/* w - lr factor g - lr wd w with the weight decay of the first pattern that fits, and the clipping factor on g alone;
 * two roundings of a float each */
static void test_groups_and_clip(void **state) {
    (void)state;
    vt_model *m = tiny();
    vt_recipe *r = of(SGD "weight_decay: 0.5\ngroups: {'*.bias': 0, 'blocks.1.*': 0.25, pos_embed: 0.125}\n", true);
    vt_update u;
    vt_err e = {0};
    assert_int_equal(vt_model_prepare(m, &e), VT_OK);
    open_update(&u, m, r, 1);
    float *g = gradient(m, 2), *w = malloc(m->params.total * sizeof *w);
    memcpy(w, m->w, m->params.total * sizeof *w);
    float *given = malloc(m->params.total * sizeof *given);
    memcpy(given, g, m->params.total * sizeof *given);
    assert_true(vt_update_step(&u, g, 0.5, 0.1, 1));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        size_t n = strlen(p->name);
        double wd = n > 5 && !strcmp(p->name + n - 5, ".bias") ? 0
                    : !strncmp(p->name, "blocks.1.", 9)        ? 0.25
                    : !strcmp(p->name, "pos_embed")            ? 0.125
                                                               : 0.5;
        for (size_t k = p->offset; k < p->offset + p->numel; k++) {
            double want = (double)w[k] - 0.1 * (0.5 * (double)given[k] + wd * (double)w[k]);
            t_le(fabs((double)m->w[k] - want), 4 * 0x1p-24 * (fabs(want) + 0.1 * fabs((double)given[k])), "%s",
                 p->name);
        }
    }
    /* products read the transposed copies: they follow */
    float *wt = malloc(m->params.t_total * sizeof *wt);
    memcpy(wt, m->wt, m->params.t_total * sizeof *wt);
    vt_model_refresh(m);
    assert_memory_equal(wt, m->wt, m->params.t_total * sizeof *wt);
    free(wt), free(g), free(w), free(given);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m);
}

/* W_Q, W_K, W_V (qkv.weight) and W_O (proj.weight) have their own optimiser and rate; biases and the rest have not. */
static void test_attention_optimiser(void **state) {
    (void)state;
    vt_model *m = tiny();
    vt_recipe *r = of(SGD "weight_decay: 0\nattention_optimiser: adamw\nattention_lr_scale: 0.5\n", true);
    vt_update u;
    open_update(&u, m, r, 1);
    float *g = gradient(m, 3), *w = malloc(m->params.total * sizeof *w);
    memcpy(w, m->w, m->params.total * sizeof *w);
    assert_true(vt_update_step(&u, g, 1, 0.1, 1));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        bool own = strstr(p->name, "attn.qkv.weight") || strstr(p->name, "attn.proj.weight");
        for (size_t k = p->offset; k < p->offset + p->numel; k++) { /* AdamW's first step is lr sign(g) */
            double moved = (double)w[k] - (double)m->w[k],
                   want = own ? copysign(0.05, (double)g[k]) : 0.1 * (double)g[k];
            t_le(fabs(moved - want), 1e-5 * (0.1 + fabs(want)), "%s", p->name);
        }
        assert_int_equal(u.rules[i].def->slots, own ? 2 : 1);
    }
    free(g), free(w);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m);
}

/* ema: a <- d a + (1 - d) w after every step, starting at the first weights; swapping twice is no swap. */
static void test_ema(void **state) {
    (void)state;
    vt_model *m = tiny();
    vt_recipe *r = of(SGD "ema: 0.75\n", true);
    vt_update u;
    open_update(&u, m, r, 2);
    size_t n = m->params.total;
    double *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++) want[i] = (double)m->w[i];
    for (int t = 1; t <= 3; t++) {
        float *g = gradient(m, 10 + (uint64_t)t);
        assert_true(vt_update_step(&u, g, 1, 0.1, t));
        for (size_t i = 0; i < n; i++) want[i] = 0.75 * want[i] + 0.25 * (double)m->w[i];
        free(g);
    }
    float *now = malloc(n * sizeof *now);
    memcpy(now, m->w, n * sizeof *now);
    vt_update_swap_ema(&u);
    for (size_t i = 0; i < n; i++) /* three steps, two roundings each, of numbers up to one */
        t_le(fabs((double)m->w[i] - want[i]), 6 * 0x1p-24, "average %zu", i);
    vt_update_swap_ema(&u);
    assert_memory_equal(now, m->w, n * sizeof *now);
    free(now), free(want);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m);
}

/* A step that leaves float's range is taken back: weights, transposed copies and averages are those before. */
static void test_taken_back(void **state) {
    (void)state;
    vt_model *m = tiny();
    vt_recipe *r = of(SGD "ema: 0.5\n", true);
    vt_update u;
    open_update(&u, m, r, 2);
    size_t n = m->params.total;
    float *g = gradient(m, 4), *w = malloc(n * sizeof *w), *ema = malloc(n * sizeof *ema);
    memcpy(w, m->w, n * sizeof *w);
    memcpy(ema, u.ema, n * sizeof *ema);
    g[m->params.items[m->params.count - 1].offset] = 3e38f; /* finite, and 10 times it is not */
    assert_false(vt_update_step(&u, g, 1, 10, 1));
    assert_memory_equal(w, m->w, n * sizeof *w);
    assert_memory_equal(ema, u.ema, n * sizeof *ema);
    free(g), free(w), free(ema);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m);
}

/* So is the optimiser's state, whichever it is: bit for bit, after a step that was taken and one that was not; the next
 * step is then what it would have been without the bad one. */
static void test_state_taken_back(void **state) {
    (void)state;
    static const char *const cases[] = {
        "optimiser: sgd\nlr: 0.1\nsgd: {momentum: 0.9}\naugment: {mix_prob: 0}\nema: 0.5\n",
        "optimiser: adamw\nlr: 0.1\naugment: {mix_prob: 0}\n",
        "optimiser: md\nlr: 0.1\nmd: {p: 1.5}\naugment: {mix_prob: 0}\n",
        "optimiser: adamw\nlr: 0.1\nattention_optimiser: md\naugment: {mix_prob: 0}\n",
    };
    /* the last weight of all, so that every other piece has moved; and one of the first */
    for (size_t i = 0; i < 2 * T_COUNT(cases); i++) {
        vt_model *m = tiny();
        vt_recipe *r = of(cases[i / 2], true);
        vt_update u;
        open_update(&u, m, r, 2);
        size_t n = m->params.total, bytes = n * sizeof(float);
        float *g = gradient(m, 4), *w = malloc(bytes), *next = malloc(bytes);
        char *slots = malloc(u.state_bytes), *slots_next = malloc(u.state_bytes);
        assert_true(w && next && slots && slots_next);
        assert_true(vt_update_step(&u, g, 1, 0.1, 1));
        memcpy(w, m->w, bytes), memcpy(slots, u.state, u.state_bytes);
        for (int bad = 1; bad >= 0; bad--) {
            float *h = gradient(m, 5);
            int at = i % 2 ? 0 : m->params.count - 1;
            if (bad) {
                h[m->params.items[at].offset] = INFINITY;
                assert_false(vt_update_step(&u, h, 1, 0.1, 2));
                assert_memory_equal(w, m->w, bytes);
                assert_memory_equal(slots, u.state, u.state_bytes);
            } else {
                assert_true(vt_update_step(&u, h, 1, 0.1, 2));
                memcpy(next, m->w, bytes), memcpy(slots_next, u.state, u.state_bytes);
            }
            free(h);
        }
        assert_true(memcmp(slots, slots_next, u.state_bytes) != 0); /* or the comparison above says nothing */
        vt_update_close(&u);
        /* without the bad step */
        vt_model *fresh = tiny();
        open_update(&u, fresh, r, 1);
        free(g), g = gradient(fresh, 4);
        assert_true(vt_update_step(&u, g, 1, 0.1, 1));
        free(g), g = gradient(fresh, 5);
        assert_true(vt_update_step(&u, g, 1, 0.1, 2));
        assert_memory_equal(next, fresh->w, bytes);
        assert_memory_equal(slots_next, u.state, u.state_bytes);
        vt_update_close(&u);
        free(g), free(w), free(next), free(slots), free(slots_next);
        vt_recipe_free(r);
        vt_model_close(m), vt_model_close(fresh);
    }
}

/* AdamW's second moment overflows (the gradient squared) though every new weight is finite: that is no step either. */
static void test_slot_overflows(void **state) {
    (void)state;
    vt_model *m = tiny();
    vt_recipe *r = of("optimiser: adamw\nlr: 0.1\naugment: {mix_prob: 0}\n", true);
    vt_update u;
    open_update(&u, m, r, 1);
    float *g = gradient(m, 4);
    size_t bytes = m->params.total * sizeof(float);
    char *slots = malloc(u.state_bytes), *w = malloc(bytes);
    memcpy(slots, u.state, u.state_bytes), memcpy(w, m->w, bytes);
    g[m->params.items[2].offset] = 1e30f;
    assert_false(vt_update_step(&u, g, 1, 0.1, 1));
    assert_memory_equal(slots, u.state, u.state_bytes);
    assert_memory_equal(w, m->w, bytes);
    free(g), free(slots), free(w);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m);
}

/* Buffers: no place in the norm, no step, no state, no decay, no average; and a step that is undone leaves them, even
 * when they were loaded after the update was opened. */
static void test_buffers(void **state) {
    (void)state;
    vt_model *m = tiny(), *bn;
    vt_config c = m->config;
    vt_err e = {0};
    c.norm = VT_NORM_BATCH;
    assert_int_equal(vt_model_new(&bn, &c, &e), VT_OK);
    vt_model_init(bn, 3);
    vt_recipe *r = of("optimiser: adamw\nlr: 0.1\nweight_decay: 0.5\nema: 0.5\naugment: {mix_prob: 0}\n", true);
    vt_update u;
    open_update(&u, bn, r, 2);
    float *g = gradient(bn, 3), *w = malloc(bn->params.total * sizeof *w);
    for (int i = 0; i < bn->params.count; i++) {
        const vt_param *p = &bn->params.items[i];
        for (size_t k = 0; p->buffer && k < p->numel; k++)
            g[p->offset + k] = NAN, bn->w[p->offset + k] = u.ema[p->offset + k] = 0.25f * (float)(k + 1);
    }
    memcpy(w, bn->w, bn->params.total * sizeof *w);
    assert_true(isfinite(vt_update_norm(&u, g)));
    for (int step = 1; step <= 2; step++) { /* the second is undone */
        if (step == 2) g[bn->params.items[2].offset] = NAN;
        assert_true(vt_update_step(&u, g, 0.5, 0.1, step) == (step == 1));
        for (int i = 0; i < bn->params.count; i++) {
            const vt_param *p = &bn->params.items[i];
            size_t bytes = p->numel * sizeof *w;
            bool still = !memcmp(bn->w + p->offset, w + p->offset, bytes);
            assert_true(still == p->buffer);
            if (p->buffer) assert_memory_equal(u.ema + p->offset, w + p->offset, bytes);
        }
    }
    free(g), free(w);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m), vt_model_close(bn);
}

/* A slow average: 1 - 0.9999 is formed in double (in float it is 1.00017e-4, off by 1.7e-4 of itself). The averages
 * start at zero here, so that what they gain is not lost in their own rounding. */
static void test_slow_ema(void **state) {
    (void)state;
    vt_model *m = tiny();
    vt_recipe *r = of(SGD "ema: 0.9999\n", true);
    vt_update u;
    open_update(&u, m, r, 1);
    size_t n = m->params.total;
    memset(u.ema, 0, n * sizeof *u.ema);
    float *g = gradient(m, 6);
    assert_true(vt_update_step(&u, g, 1, 0.1, 1));
    for (size_t i = 0; i < n; i++) { /* the rate, and the product, are rounded once each */
        double want = 1e-4 * (double)m->w[i];
        t_le(fabs((double)u.ema[i] - want), 3 * 0x1p-24 * fabs(want), "average %zu", i);
    }
    free(g);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m);
}

/* attention_lr_scale acts on W_Q, W_K, W_V and W_O also when their optimiser is everyone's. */
static void test_attention_rate(void **state) {
    (void)state;
    vt_model *m = tiny();
    vt_recipe *r = of(SGD "weight_decay: 0\nattention_optimiser: same\nattention_lr_scale: 0.25\n", true);
    vt_update u;
    open_update(&u, m, r, 1);
    float *g = gradient(m, 3), *w = malloc(m->params.total * sizeof *w);
    memcpy(w, m->w, m->params.total * sizeof *w);
    assert_true(vt_update_step(&u, g, 1, 0.5, 1));
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        bool own = strstr(p->name, "attn.qkv.weight") || strstr(p->name, "attn.proj.weight");
        for (size_t k = p->offset; k < p->offset + p->numel; k++) {
            double want = (double)w[k] - (own ? 0.125 : 0.5) * (double)g[k];
            t_le(fabs((double)m->w[k] - want), 2 * 0x1p-24 * (fabs(want) + fabs((double)g[k])), "%s", p->name);
        }
    }
    free(g), free(w);
    vt_update_close(&u);
    vt_recipe_free(r);
    vt_model_close(m);
}

/* Mirror descent with p < 2 does not move what is zero: the tensors are counted. Biases start at zero (two blocks have
 * five each that do: qkv, proj, fc1, fc2 and the two norms' make six), so do the last norm's and the head's. */
static void test_stuck(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int stuck;
    } cases[] = {
        {"optimiser: md\naugment: {mix_prob: 0}\n", 2 * 6 + 2},
        {"optimiser: md\nmd: {p: 3}\naugment: {mix_prob: 0}\n", 0},
        {SGD "attention_optimiser: md\n", 0}, /* matrices alone */
        {SGD, 0},
    };
    for (size_t i = 0; i < T_COUNT(cases); i++) {
        vt_model *m = tiny();
        vt_recipe *r = of(cases[i].text, true);
        vt_update u;
        const char *first = NULL;
        open_update(&u, m, r, 1);
        assert_int_equal(vt_update_stuck(&u, &first), cases[i].stuck);
        if (cases[i].stuck) assert_string_equal(first, "blocks.0.norm1.bias");
        vt_update_close(&u);
        vt_recipe_free(r);
        vt_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_groups_and_clip),
        cmocka_unit_test(test_attention_optimiser),
        cmocka_unit_test(test_ema),
        cmocka_unit_test(test_taken_back),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_state_taken_back),
        cmocka_unit_test(test_slot_overflows),
        cmocka_unit_test(test_slow_ema),
        cmocka_unit_test(test_attention_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
