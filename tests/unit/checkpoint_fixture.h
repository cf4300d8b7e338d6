/* SPDX-License-Identifier: MIT */
/* A checkpoint in memory that a test spoils before it is written and opened. */
#ifndef CHECKPOINT_BENCH_H
#define CHECKPOINT_BENCH_H

#include "base/real.h"
#include "scratch.h"
#include "toy.h"

#include <unistd.h>
#include "tensors/tensors.h"

static inline void put(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

enum { MAX_TENSORS = 56 };

/* The tensors of a toy model, to be spoilt before they are written. */
typedef struct file {
    vt_model *m;
    vt_tensor t[MAX_TENSORS];
    int n;
    bool no_heads, no_mean;
    const char *extra_key, *extra_value; /* of the metadata */
    const char *config_json;
    vt_overrides o;
} file;

static inline vt_tensor *find(file *f, const char *name) {
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->t[i].name, name)) return &f->t[i];
    fail_msg("the toy has no tensor %s", name);
    return NULL;
}

static inline float *values(file *f, const char *name) { return f->m->w + vt_model_param(f->m, name)->offset; }

/* vt_model_inspect comes to the same verdict in the same words, and keeps no weights. */
static inline void same_by_inspection(const vt_model *m, vt_status want, const vt_err *e, const vt_overrides *o) {
    vt_model *look;
    vt_err again = {0};
    vt_status got = vt_model_inspect(&look, at("m.safetensors"), o, &again);
    assert_int_equal(got, want);
    assert_string_equal(again.text, e->text);
    assert_int_equal(look != NULL, m != NULL);
    if (!m) return;
    assert_true(!look->w && !look->wt);
    assert_memory_equal(look->source, m->source, sizeof m->source);
    assert_string_equal(look->sha256, m->sha256);
    assert_int_equal(vt_model_param_count(look), vt_model_param_count(m));
    vt_model_close(look);
}

static inline vt_status write_and_open(file *f, vt_model **out, vt_err *e) {
    const char *meta[12];
    int n = 0;
    if (!f->no_heads) meta[n++] = "num_heads", meta[n++] = "3";
    if (!f->no_mean) meta[n++] = "mean", meta[n++] = "0.5", meta[n++] = "std", meta[n++] = "0.25,0.5,0.75";
    if (f->extra_key) meta[n++] = f->extra_key, meta[n++] = f->extra_value;
    vt_err we = {0};
    if (vt_tensors_write(at("m.safetensors"), f->t, f->n, meta, n / 2, &we) != VT_OK) fail_msg("%s", we.text);
    unlink(at("config.json"));
    if (f->config_json) put(at("config.json"), f->config_json);
    vt_status st = vt_model_open(out, at("m.safetensors"), &f->o, e);
    same_by_inspection(*out, st, e, &f->o);
    return st;
}

static inline void begin_with(file *f, vt_model *m) {
    *f = (file){.m = m};
    for (int i = 0; i < f->m->params.count; i++) {
        const vt_param *p = &f->m->params.items[i];
        f->t[f->n] = (vt_tensor){.name = p->name,
                                 .dtype = VT_F32,
                                 .ndim = p->ndim,
                                 .numel = p->numel,
                                 .data = f->m->w + p->offset};
        memcpy(f->t[f->n++].shape, p->shape, sizeof p->shape);
    }
}

static inline void begin(file *f, bool dist) { begin_with(f, toy(VT_POOL_TOKEN, dist, true)); }

/* The spoilt file is refused with this status and these words; nothing is returned. */
static inline void refused(file *f, vt_status want, const char *a, const char *b) {
    vt_model *m;
    vt_err e = {0};
    vt_status got = write_and_open(f, &m, &e);
    assert_null(m);
    if (!strstr(e.text, tmp) && got != VT_E_UNKNOWN) fail_msg("'%s' does not name the file", e.text);
    t_says(got, want, &e, a, b);
    vt_model_close(f->m);
}

static inline void drop(file *f, const char *name) {
    *find(f, name) = f->t[f->n - 1];
    f->n--;
}

#endif
