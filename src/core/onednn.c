#include "core/onednn.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if DNNL_VERSION_MAJOR == 2

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

/* rows x cols, stored with row stride ld, or transposed. */
static bool matrix(dnnl_memory_desc_t *d, int rows, int cols, int ld, bool transposed) {
    dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return dnnl_memory_desc_init_by_strides(d, 2, dims, dnnl_f32, strides) == dnnl_success;
}

static void build(cache *c, slot *s) {
    const vt_product *p = &s->shape;
    dnnl_memory_desc_t a, b, out;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    bool ok = matrix(&a, p->m, p->k, p->lda, p->ta) && matrix(&b, p->k, p->n, p->ldb, p->tb) &&
              matrix(&out, p->m, p->n, p->ldc, false) &&
              dnnl_matmul_desc_init(&desc, &a, &b, NULL, &out) == dnnl_success &&
              dnnl_primitive_attr_create(&attr) == dnnl_success && dnnl_post_ops_create(&ops) == dnnl_success &&
              (!p->add || dnnl_post_ops_append_sum(ops, 1) == dnnl_success) &&
              dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success &&
              dnnl_primitive_desc_create(&pd, &desc, attr, c->engine, NULL) == dnnl_success &&
              dnnl_memory_create(&s->a, &a, c->engine, DNNL_MEMORY_NONE) == dnnl_success &&
              dnnl_memory_create(&s->b, &b, c->engine, DNNL_MEMORY_NONE) == dnnl_success &&
              dnnl_memory_create(&s->c, &out, c->engine, DNNL_MEMORY_NONE) == dnnl_success;
    if (ok && dnnl_primitive_create(&s->primitive, pd) != dnnl_success) s->primitive = NULL;
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (ops) dnnl_post_ops_destroy(ops);
    if (attr) dnnl_primitive_attr_destroy(attr);
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

#else /* oneDNN 3 changed the interface: until this file speaks it, OpenBLAS does all products */

bool vt_onednn_product(const vt_product *p, const float *a, const float *b, float *c) {
    (void)p, (void)a, (void)b, (void)c;
    return false;
}

#endif

void vt_onednn_version(char *text, size_t size) {
#if DNNL_VERSION_MAJOR == 2
    const char *isa = "baseline";
    switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
        isa = "sse41";
        break;
    case dnnl_cpu_isa_avx:
        isa = "avx";
        break;
    case dnnl_cpu_isa_avx2:
        isa = "avx2";
        break;
    case dnnl_cpu_isa_avx512_core:
    case dnnl_cpu_isa_avx512_core_vnni:
    case dnnl_cpu_isa_avx512_core_bf16:
    case dnnl_cpu_isa_avx512_core_amx:
        isa = "avx512";
        break;
    default:
        break;
    }
#else
    const char *isa = "(not used)";
#endif
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d %s", v->major, v->minor, v->patch, isa);
}
