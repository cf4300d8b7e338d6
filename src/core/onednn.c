/* SPDX-License-Identifier: MIT */
#include "core/onednn.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 64 /* shapes a thread keeps; a network has about twenty */

typedef struct slot {
    vt_product shape;
    dnnl_primitive_t primitive; /* NULL: oneDNN refused this shape */
    dnnl_memory_t a, b, c;
} slot;

/* One thread's engine, stream and primitives: none of them may be used by two threads at once. This is a memory of
 * compiled code, not state: it changes no result. */
typedef struct cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    slot slots[SLOTS];
    int used;
} cache;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void cache_free(void *p) {
    cache *c = p;
    for (int i = 0; i < c->used; i++) {
        slot *s = &c->slots[i];
        if (s->primitive) dnnl_primitive_destroy(s->primitive);
        if (s->a) dnnl_memory_destroy(s->a);
        if (s->b) dnnl_memory_destroy(s->b);
        if (s->c) dnnl_memory_destroy(s->c);
    }
    if (c->stream) dnnl_stream_destroy(c->stream);
    if (c->engine) dnnl_engine_destroy(c->engine);
    free(c);
}

static void make_key(void) { pthread_key_create(&key, cache_free); }

static cache *cache_here(void) {
    pthread_once(&once, make_key);
    cache *c = pthread_getspecific(key);
    if (c) return c;
    c = calloc(1, sizeof *c);
    if (!c) return NULL;
    if (dnnl_engine_create(&c->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags) != dnnl_success ||
        pthread_setspecific(key, c) != 0) {
        cache_free(c);
        return NULL;
    }
    return c;
}

/* What the library's versions 2 and 3 say otherwise: a matrix (a struct of the caller's, then an object), a sum with
 * what is there, and a product of three matrices. */
#if DNNL_VERSION_MAJOR < 3

typedef const dnnl_memory_desc_t *description;
#define SEEN(d) (&(d))

static dnnl_status_t describe(dnnl_memory_desc_t *d, const dnnl_dims_t dims, const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(d, 2, dims, dnnl_f32, strides);
}
static void forget(dnnl_memory_desc_t d) { (void)d; }
static dnnl_status_t append_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1); }
static dnnl_status_t matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, description a, description b,
                            description out, dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t desc;
    dnnl_status_t s = dnnl_matmul_desc_init(&desc, a, b, NULL, out);
    return s == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL) : s;
}

#else

typedef dnnl_memory_desc_t description;
#define SEEN(d) (d)

static dnnl_status_t describe(dnnl_memory_desc_t *d, const dnnl_dims_t dims, const dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(d, 2, dims, dnnl_f32, strides);
}
static void forget(dnnl_memory_desc_t d) {
    if (d) dnnl_memory_desc_destroy(d);
}
static dnnl_status_t append_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_f32); }
static dnnl_status_t matmul(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, description a, description b,
                            description out, dnnl_primitive_attr_t attr) {
    return dnnl_matmul_primitive_desc_create(pd, engine, a, b, NULL, out, attr);
}

#endif

/* rows x cols, stored with row stride ld, or transposed; and memory of that form, without data yet. */
static bool matrix(dnnl_memory_desc_t *d, dnnl_memory_t *m, dnnl_engine_t engine, int rows, int cols, int ld,
                   bool transposed) {
    dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return describe(d, dims, strides) == dnnl_success &&
           dnnl_memory_create(m, SEEN(*d), engine, DNNL_MEMORY_NONE) == dnnl_success;
}

/* A row times a matrix, or a matrix times a column, whose numbers do not lie side by side: oneDNN 3.7.2 takes them as
 * if they did (A where m is 1, C where n is 1), and the product is wrong. OpenBLAS does these. */
static bool scattered_vector(const vt_product *p) {
    return (p->m == 1 && p->ta && p->lda > 1) || (p->n == 1 && p->ldc > 1);
}

/* Where oneDNN has no kernels of a processor it multiplies by plain loops, which are slower than OpenBLAS. */
static bool plain_loops(dnnl_primitive_desc_t pd) {
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return !strncmp(name, "ref", 3);
}

static void build(cache *c, slot *s) {
    const vt_product *p = &s->shape;
    dnnl_memory_desc_t a = {0}, b = {0}, out = {0};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    bool ok = !scattered_vector(p) && matrix(&a, &s->a, c->engine, p->m, p->k, p->lda, p->ta) &&
              matrix(&b, &s->b, c->engine, p->k, p->n, p->ldb, p->tb) &&
              matrix(&out, &s->c, c->engine, p->m, p->n, p->ldc, false) &&
              dnnl_primitive_attr_create(&attr) == dnnl_success && dnnl_post_ops_create(&ops) == dnnl_success &&
              (!p->add || append_sum(ops) == dnnl_success) &&
              dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success &&
              matmul(&pd, c->engine, SEEN(a), SEEN(b), SEEN(out), attr) == dnnl_success && !plain_loops(pd);
    if (ok && dnnl_primitive_create(&s->primitive, pd) != dnnl_success) s->primitive = NULL;
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (ops) dnnl_post_ops_destroy(ops);
    if (attr) dnnl_primitive_attr_destroy(attr);
    forget(a), forget(b), forget(out);
}

static slot *find(cache *c, const vt_product *p) {
    for (int i = 0; i < c->used; i++) {
        const vt_product *q = &c->slots[i].shape;
        if (q->m == p->m && q->n == p->n && q->k == p->k && q->lda == p->lda && q->ldb == p->ldb && q->ldc == p->ldc &&
            q->ta == p->ta && q->tb == p->tb && q->add == p->add)
            return &c->slots[i];
    }
    if (c->used == SLOTS) return NULL;
    slot *s = &c->slots[c->used++];
    s->shape = *p;
    build(c, s);
    return s;
}

static bool product(const vt_product *p, const float *a, const float *b, float *c) {
    cache *here = cache_here();
    slot *s = here ? find(here, p) : NULL;
    if (!s || !s->primitive) return false;
    /* the library takes non-const handles, but reads only */
    dnnl_memory_set_data_handle(s->a, (void *)(size_t)a);
    dnnl_memory_set_data_handle(s->b, (void *)(size_t)b);
    dnnl_memory_set_data_handle(s->c, c);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->a}, {DNNL_ARG_WEIGHTS, s->b}, {DNNL_ARG_DST, s->c}};
    return dnnl_primitive_execute(s->primitive, here->stream, 3, args) == dnnl_success;
}

/* A product stays on the thread that asks for it (rule 8: parallel over images); the caller's OpenMP setting is kept.
 */
bool vt_onednn_product(const vt_product *p, const float *a, const float *b, float *c) {
    int threads = omp_get_max_threads();
    if (threads == 1) return product(p, a, b, c);
    omp_set_num_threads(1);
    bool done = product(p, a, b, c);
    omp_set_num_threads(threads);
    return done;
}

/* The widest registers of what the processor has: finer names differ between versions, but each is a set of bits. On
 * other machines than x86 the bits mean something else that no header tells. */
static const char *registers(unsigned has) {
#if defined(__x86_64__)
    static const struct {
        unsigned bits;
        const char *name;
    } sets[] = {{dnnl_cpu_isa_avx512_core, "avx512"},
                {dnnl_cpu_isa_avx2, "avx2"},
                {dnnl_cpu_isa_avx, "avx"},
                {dnnl_cpu_isa_sse41, "sse41"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((has & sets[i].bits) == sets[i].bits) return sets[i].name;
#else
    (void)has;
#endif
    return "baseline";
}

void vt_onednn_version(char *text, size_t size) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d %s", v->major, v->minor, v->patch, registers(dnnl_get_effective_cpu_isa()));
}
