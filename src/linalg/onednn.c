/* SPDX-License-Identifier: MIT */
/* Products by oneDNN 2 and 3. */
#include "linalg/kernels.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 128 /* shapes a thread keeps; a network has about twenty */

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
    struct {
        slot slots[SLOTS];
        int used, oldest;
    } of[2]; /* products of floats, of bfloat16: neither takes the other's places */
} cache;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Frees what a slot holds and empties it. */
static void empty_slot(slot *s) {
    if (s->primitive) dnnl_primitive_destroy(s->primitive);
    if (s->a) dnnl_memory_destroy(s->a);
    if (s->b) dnnl_memory_destroy(s->b);
    if (s->c) dnnl_memory_destroy(s->c);
    *s = (slot){0};
}

/* Frees a thread's cache of primitives, when the thread ends. */
static void cache_free(void *p) {
    cache *c = p;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < c->of[k].used; i++) empty_slot(&c->of[k].slots[i]);
    if (c->stream) dnnl_stream_destroy(c->stream);
    if (c->engine) dnnl_engine_destroy(c->engine);
    free(c);
}

static void make_key(void) { pthread_key_create(&key, cache_free); }

/* Returns this thread's cache, made at its first call; NULL: no memory. */
static cache *thread_cache(void) {
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

/* What the library's versions 2 and 3 name otherwise: a matrix (a struct of the caller's, then an object), one whose
 * order is left to the library, a sum with what is there, and a product of three matrices. */
#if DNNL_VERSION_MAJOR < 3

typedef const dnnl_memory_desc_t *description;
#define SEEN(d) (&(d))
#define describe_strided dnnl_memory_desc_init_by_strides
#define describe_by_tag dnnl_memory_desc_init_by_tag
#define copy_description(d, from) (*(d) = *(from), dnnl_success)
#define free_description(d) ((void)(d))
#define append_sum(ops) dnnl_post_ops_append_sum(ops, 1)

static dnnl_status_t create_matmul_descriptor(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, description a,
                                              description b, description out, dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t desc;
    dnnl_status_t s = dnnl_matmul_desc_init(&desc, a, b, NULL, out);
    return s == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL) : s;
}

#else

typedef const_dnnl_memory_desc_t description;
#define SEEN(d) (d)
#define describe_strided dnnl_memory_desc_create_with_strides
#define describe_by_tag dnnl_memory_desc_create_with_tag
#define copy_description dnnl_memory_desc_clone
#define free_description(d) ((void)((d) && dnnl_memory_desc_destroy(d)))
#define append_sum(ops) dnnl_post_ops_append_sum(ops, 1, 0, dnnl_f32)
#define create_matmul_descriptor(pd, engine, a, b, out, attr)                                                          \
    dnnl_matmul_primitive_desc_create(pd, engine, a, b, NULL, out, attr)

#endif

/* Returns the data type of a product's inputs. */
static dnnl_data_type_t type_of(const vt_product *p) { return p->bf16 ? dnnl_bf16 : dnnl_f32; }

/* Sets *d to a matrix of rows x cols, stored with row stride ld, or transposed; false: no memory. */
static bool describe_matrix(dnnl_memory_desc_t *d, dnnl_data_type_t type, int rows, int cols, int ld, bool transposed) {
    dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return describe_strided(d, 2, dims, type, strides) == dnnl_success;
}

/* Sets *d to the order that oneDNN chooses for B [k, n] in products of `rows` rows; false: it has none. */
static bool describe_packed_matrix(dnnl_memory_desc_t *d, dnnl_engine_t engine, dnnl_data_type_t type, int rows, int k,
                                   int n) {
    dnnl_memory_desc_t a = {0}, b = {0}, out = {0};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_dims_t dims = {k, n};
    bool ok = describe_matrix(&a, type, rows, k, k, false) &&
              describe_by_tag(&b, 2, dims, type, dnnl_format_tag_any) == dnnl_success &&
              describe_matrix(&out, dnnl_f32, rows, n, n, false) &&
              create_matmul_descriptor(&pd, engine, SEEN(a), SEEN(b), SEEN(out), NULL) == dnnl_success &&
              copy_description(d, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0)) == dnnl_success;
    if (pd) dnnl_primitive_desc_destroy(pd);
    free_description(a), free_description(b), free_description(out);
    return ok;
}

static bool create_memory(dnnl_memory_t *m, dnnl_engine_t engine, description d) {
    return dnnl_memory_create(m, d, engine, DNNL_MEMORY_NONE) == dnnl_success;
}

/* Describes the three matrices of the slot's product, and makes s->a, b and c, without data yet; false: oneDNN failed,
 * and some may be made. */
static bool prepare_matrices(dnnl_memory_desc_t *a, dnnl_memory_desc_t *b, dnnl_memory_desc_t *out,
                             dnnl_engine_t engine, slot *s) {
    const vt_product *p = &s->shape;
    bool good = describe_matrix(a, type_of(p), p->m, p->k, p->lda, p->ta) &&
                describe_matrix(out, dnnl_f32, p->m, p->n, p->ldc, false);
    good = good && (p->order ? describe_packed_matrix(b, engine, type_of(p), p->order, p->k, p->n)
                             : describe_matrix(b, type_of(p), p->k, p->n, p->ldb, p->tb));
    return good && create_memory(&s->a, engine, SEEN(*a)) && create_memory(&s->b, engine, SEEN(*b)) &&
           create_memory(&s->c, engine, SEEN(*out));
}

/* Returns whether a product is of a row times a matrix, or a matrix times a column, whose numbers do not lie side by
 * side: oneDNN 3.7.2 takes them as if they did (A where m is 1, C where n is 1). OpenBLAS does these. */
static bool is_scattered_vector(const vt_product *p) {
    return (p->m == 1 && p->ta && p->lda > 1) || (p->n == 1 && p->ldc > 1);
}

/* Returns whether oneDNN has no kernels for the processor but plain loops, which are slower than OpenBLAS. */
static bool is_reference_loop(dnnl_primitive_desc_t pd) {
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return !strncmp(name, "ref", 3);
}

/* Sets s->primitive to that of the slot's shape, and s->a, b, c; it stays NULL if oneDNN is not to do that. */
static void build_primitive(cache *c, slot *s) {
    const vt_product *p = &s->shape;
    dnnl_memory_desc_t a = {0}, b = {0}, out = {0};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    bool ok = !is_scattered_vector(p) && prepare_matrices(&a, &b, &out, c->engine, s) &&
              dnnl_primitive_attr_create(&attr) == dnnl_success && dnnl_post_ops_create(&ops) == dnnl_success &&
              (!p->add || append_sum(ops) == dnnl_success) &&
              dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success &&
              create_matmul_descriptor(&pd, c->engine, SEEN(a), SEEN(b), SEEN(out), attr) == dnnl_success &&
              !is_reference_loop(pd);
    if (ok && dnnl_primitive_create(&s->primitive, pd) != dnnl_success) s->primitive = NULL;
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (ops) dnnl_post_ops_destroy(ops);
    if (attr) dnnl_primitive_attr_destroy(attr);
    free_description(a), free_description(b), free_description(out);
}

/* Returns the slot of a shape, built (build_primitive) unless it is there. Beyond SLOTS shapes the oldest makes room,
 * so that which library multiplies a shape never depends on what was multiplied before. */
static slot *find_or_build_slot(cache *c, const vt_product *p) {
    int *used = &c->of[p->bf16].used;
    for (int i = 0; i < *used; i++) {
        const vt_product *q = &c->of[p->bf16].slots[i].shape;
        if (q->m == p->m && q->n == p->n && q->k == p->k && q->lda == p->lda && q->ldb == p->ldb && q->ldc == p->ldc &&
            q->ta == p->ta && q->tb == p->tb && q->add == p->add && q->bf16 == p->bf16 && q->order == p->order)
            return &c->of[p->bf16].slots[i];
    }
    slot *s;
    if (*used < SLOTS) {
        s = &c->of[p->bf16].slots[(*used)++];
    } else {
        int *oldest = &c->of[p->bf16].oldest;
        s = &c->of[p->bf16].slots[*oldest];
        *oldest = (*oldest + 1) % SLOTS;
        empty_slot(s);
    }
    s->shape = *p;
    build_primitive(c, s);
    return s;
}

/* Computes vt_onednn_product's product, on as many threads as OpenMP has; false: oneDNN cannot. c NULL: only looks. */
static bool execute_product(const vt_product *p, const void *a, const void *b, float *c) {
    cache *here = thread_cache();
    slot *s = here ? find_or_build_slot(here, p) : NULL;
    if (!s || !s->primitive) return false; /* oneDNN refuses the shape, which the slot remembers */
    if (!c) return true;
    /* the library takes non-const handles, but reads only */
    dnnl_memory_set_data_handle(s->a, (void *)(size_t)a);
    dnnl_memory_set_data_handle(s->b, (void *)(size_t)b);
    dnnl_memory_set_data_handle(s->c, c);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->a}, {DNNL_ARG_WEIGHTS, s->b}, {DNNL_ARG_DST, s->c}};
    return dnnl_primitive_execute(s->primitive, here->stream, 3, args) == dnnl_success;
}

/* Keeps a product on the calling thread (the house is parallel over images), and then the caller's OpenMP setting. */
bool vt_onednn_product(const vt_product *p, const void *a, const void *b, float *c) {
    int threads = omp_get_max_threads();
    if (threads == 1) return execute_product(p, a, b, c);
    omp_set_num_threads(1);
    bool done = execute_product(p, a, b, c);
    omp_set_num_threads(threads);
    return done;
}

/* ---- packing ---- */

size_t vt_onednn_packed_bytes(int rows, int k, int n) {
    cache *here = vt_onednn_bf16() ? thread_cache() : NULL;
    dnnl_memory_desc_t d = {0};
    size_t bytes = here && describe_packed_matrix(&d, here->engine, dnnl_bf16, rows, k, n)
                       ? dnnl_memory_desc_get_size(SEEN(d))
                       : 0;
    free_description(d);
    return bytes;
}

/* Copies a matrix of description a into one of description b; false: oneDNN failed. */
static bool reorder_matrix(cache *here, dnnl_memory_t from, dnnl_memory_t to, description a, description b) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    bool ok = dnnl_reorder_primitive_desc_create(&pd, a, here->engine, b, here->engine, NULL) == dnnl_success &&
              dnnl_primitive_create(&primitive, pd) == dnnl_success &&
              dnnl_primitive_execute(primitive, here->stream, 2, args) == dnnl_success;
    if (primitive) dnnl_primitive_destroy(primitive);
    if (pd) dnnl_primitive_desc_destroy(pd);
    return ok;
}

bool vt_onednn_pack(void *to, int rows, int k, int n, const float *b, int ldb, bool transposed) {
    cache *here = thread_cache();
    dnnl_memory_desc_t plain = {0}, best = {0};
    dnnl_memory_t from = NULL, into = NULL;
    bool ok = here && describe_matrix(&plain, dnnl_f32, k, n, ldb, transposed) &&
              describe_packed_matrix(&best, here->engine, dnnl_bf16, rows, k, n) &&
              create_memory(&from, here->engine, SEEN(plain)) && create_memory(&into, here->engine, SEEN(best));
    if (ok) dnnl_memory_set_data_handle(from, (void *)(size_t)b), dnnl_memory_set_data_handle(into, to);
    ok = ok && reorder_matrix(here, from, into, SEEN(plain), SEEN(best));
    if (from) dnnl_memory_destroy(from);
    if (into) dnnl_memory_destroy(into);
    free_description(plain), free_description(best);
    return ok;
}

/* Returns the name of the widest registers among the instruction sets `has`: finer names differ between versions, but
 * each is a set of bits. "baseline": none of them, or not x86, whose bits alone a header defines. */
static const char *widest_registers(unsigned has) {
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
    snprintf(text, size, "oneDNN %d.%d.%d %s", v->major, v->minor, v->patch,
             widest_registers(dnnl_get_effective_cpu_isa()));
}

const char *vt_onednn_bf16(void) {
#if defined(__x86_64__)
    unsigned has = dnnl_get_effective_cpu_isa();
    if ((has & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx) return "AMX";
    if ((has & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16) return "AVX512-BF16";
#endif
    return NULL;
}
