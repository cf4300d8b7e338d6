/* SPDX-License-Identifier: MIT */
/* What targets that open checkpoints share: small networks of every architecture, and one that is put to work. */
#ifndef FUZZ_NETWORK_H
#define FUZZ_NETWORK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "models/forms.h"
#include "models/model.h"
#include "models/net/session.h"

enum { NETWORKS = 7 };

/* Network k of NETWORKS as a file with random weights. */
static inline void network_save(int k, const char *file) {
    static const struct {
        const char *arch, *attn, *forms;
        int image, patch, depth;
    } all[NETWORKS] = {{"vit", "dot", "", 8, 4, 2},
                       {"vit", "dot", "registers=2 qk_norm=1 factor=layer_scale", 8, 4, 1},
                       {"vit", "l2", "norm=batch final_norm=batch act=relu", 8, 4, 1},
                       {"vit", "scsa", "no_cls=1 pool=avg norm_pre=1", 8, 4, 1},
                       {"convit", "dot", "local_blocks=1", 8, 4, 2},
                       {"swin", "dot",
                        "pool=avg norm_first=1 no_cls=1 stages=2 stage_depth=1,1 stage_heads=2,4 window=2", 16, 2, 2},
                       {"xcit", "dot", "class_blocks=1", 24, 8, 1}};
    vt_config c =
        {.dim = 8, .heads = 2, .hidden = 12, .classes = 3, .qkv_bias = true, .ln_eps = 1e-6, .attn_scale = 0.5};
    vt_model *m;
    vt_err e = {0};
    snprintf(c.arch, sizeof c.arch, "%s", all[k].arch);
    snprintf(c.attn, sizeof c.attn, "%s", all[k].attn);
    c.image = all[k].image, c.patch = all[k].patch, c.depth = all[k].depth;
    for (int i = 0; i < 3; i++) c.std[i] = 1;
    if (vt_form_parse(&c, all[k].forms, "fuzz", &e) != VT_OK || vt_model_new(&m, &c, &e) != VT_OK ||
        vt_model_init(m, 1) != VT_OK || vt_model_save(m, file, &e) != VT_OK) {
        fprintf(stderr, "network %d: %s\n", k, e.text);
        abort();
    }
    vt_model_close(m);
}

static inline bool network_is_small(const vt_model *m) {
    const vt_config *c = &m->config;
    return m->params.total < 1 << 20 && c->image <= 64 && vt_config_input(c) <= 64 && vt_model_tokens(m) <= 1100 &&
           vt_session_bytes_f32(m, 2, VT_GRAD_PARAMS) < (size_t)64 << 20;
}

/* Logits and both gradients of two images. */
static inline void network_work(const vt_model *m) {
    vt_session_f32 *s;
    vt_err e = {0};
    if (vt_session_open_f32(&s, m, 2, VT_GRAD_PARAMS, &e) != VT_OK) abort();
    size_t n = 2 * vt_config_input_pixels(&m->config), k = 2 * (size_t)m->config.classes;
    float *x = calloc(n, sizeof *x), *dx = calloc(n, sizeof *dx), *dl = calloc(k, sizeof *dl),
          *g = calloc(m->params.total + 1, sizeof *g);
    if (!x || !dx || !dl || !g) abort();
    for (size_t i = 0; i < n; i++) x[i] = (float)(i % 7) / 7;
    dl[0] = 1;
    vt_session_forward_f32(s, x, 2, true);
    vt_session_backward_f32(s, dl, dx, g);
    free(x), free(dx), free(dl), free(g);
    vt_session_close_f32(s);
}

/* The file is refused with a sentence, with and without weights alike, or works. */
static inline void network_try(const char *file) {
    vt_model *m;
    vt_overrides o = {0};
    vt_err e = {0};
    if (vt_model_inspect(&m, file, &o, &e) != VT_OK) {
        if (m || e.code == VT_OK || !e.text[0]) abort();
        return;
    }
    bool small = network_is_small(m);
    vt_model_close(m);
    if (!small) return; /* larger ones only make fuzzing slow */
    if (vt_model_open(&m, file, &o, &e) != VT_OK || vt_model_prepare(m, &e) != VT_OK) abort();
    network_work(m);
    vt_model_close(m);
}

#endif
