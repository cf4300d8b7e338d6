/* SPDX-License-Identifier: MIT */
#include "linalg/products.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "linalg/kernels.h"

const char *vt_precision_name(vt_precision p) {
    static const char *const names[] = {"float32", "bf16", "bf16-emulated"};
    return names[p];
}

/* ---- rounding ---- */

/* Returns the bits of a float rounded to bfloat16. The lower half decides: above a half unit, or at it beside an odd
 * upper half, one is carried (which makes the largest floats infinite, as it should). A NaN keeps its upper half and
 * stays one. */
static inline uint32_t round_to_bf16(uint32_t u) {
    uint32_t carried = u + 0x7fff + ((u >> 16) & 1);
    return (u & 0x7fffffff) > 0x7f800000 ? (u | 0x400000) & 0xffff0000 : carried & 0xffff0000;
}

void vt_bf16_round(float *restrict to, const float *restrict x, int rows, int cols, int ld) {
    for (int i = 0; i < rows; i++, x += ld, to += cols)
        for (int j = 0; j < cols; j++) {
            uint32_t u;
            memcpy(&u, x + j, sizeof u);
            u = round_to_bf16(u);
            memcpy(to + j, &u, sizeof u);
        }
}

void vt_bf16_convert(uint16_t *restrict to, const float *restrict x, int rows, int cols, int ld) {
    for (int i = 0; i < rows; i++, x += ld, to += cols)
        for (int j = 0; j < cols; j++) {
            uint32_t u;
            memcpy(&u, x + j, sizeof u);
            to[j] = (uint16_t)(round_to_bf16(u) >> 16);
        }
}

const char *vt_bf16_hardware(void) { return vt_onednn_bf16(); }

/* ---- matrices in the order of the products ---- */

typedef struct item {
    vt_packed_from from;
    void *bytes;
} item;

struct vt_packed {
    int rows, count;
    char *block;
    item items[]; /* [count], by address */
};

/* Compares two items by the address of their matrix, then by whether it is transposed. */
static int by_address(const void *a_, const void *b_) {
    const item *a = a_, *b = b_;
    uintptr_t p = (uintptr_t)a->from.b, q = (uintptr_t)b->from.b;
    return p != q ? (p > q) - (p < q) : (int)a->from.transposed - (int)b->from.transposed;
}

static size_t round_up_to_64(size_t n) { return (n + 63) / 64 * 64; }

size_t vt_packed_bytes(const vt_packed_from *list, int count, int rows) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += round_up_to_64(vt_onednn_packed_bytes(rows, list[i].k, list[i].n));
    return sum;
}

/* Packs all matrices into the block, and sets their bytes (NULL: oneDNN has no packed order); false: oneDNN failed. */
static bool pack_matrices(vt_packed *p) {
    char *to = p->block;
    bool good = true;
    for (int i = 0; i < p->count; i++) {
        const vt_packed_from *f = &p->items[i].from;
        size_t bytes = vt_onednn_packed_bytes(p->rows, f->k, f->n);
        if (bytes) good = vt_onednn_pack(to, p->rows, f->k, f->n, f->b, f->ld, f->transposed) && good;
        p->items[i].bytes = bytes ? to : NULL;
        to += round_up_to_64(bytes);
    }
    return good;
}

vt_status vt_packed_make(vt_packed **out, const vt_packed_from *list, int count, int rows, vt_err *e) {
    vt_packed *p = calloc(1, sizeof *p + (size_t)count * sizeof p->items[0]);
    size_t bytes = vt_packed_bytes(list, count, rows);
    *out = NULL;
    if (!p || !(p->block = vt_alloc(bytes + 64))) {
        free(p);
        return vt_fail(e, VT_E_MEMORY, "no memory for the weights in bfloat16 (%zu bytes)", bytes);
    }
    p->rows = rows, p->count = count;
    for (int i = 0; i < count; i++) p->items[i].from = list[i];
    qsort(p->items, (size_t)count, sizeof p->items[0], by_address);
    if (pack_matrices(p)) {
        *out = p;
        return VT_OK;
    }
    vt_packed_free(p);
    return vt_fail(e, VT_E_MEMORY, "oneDNN could not bring the weights into bfloat16");
}

void vt_packed_free(vt_packed *p) {
    if (p) free(p->block);
    free(p);
}

/* Returns the packed copy of a matrix of the same address, shape and stride; NULL: there is none (p may be NULL). */
static const item *find_packed_matrix(const vt_packed *p, const vt_packed_from *want) {
    const item key = {.from = *want};
    const item *i = p ? bsearch(&key, p->items, (size_t)p->count, sizeof *i, by_address) : NULL;
    return i && i->bytes && i->from.k == want->k && i->from.n == want->n && i->from.ld == want->ld ? i : NULL;
}

/* ---- products ---- */

/* Products from this many multiply-adds on, and all with matrices that were packed, go to oneDNN; smaller ones to
 * linalg/small if it has kernels for them, else to OpenBLAS with rounded inputs. */
#define ONEDNN_FROM 1000000.0

/* Stores x [rows, cols] (row stride ld) as bfloat16 in the room of `to`, by the fastest way there is. */
static void convert_to_bf16(float *to, const float *x, int rows, int cols, int ld) {
    if (!vt_small_round_bf16((uint16_t *)to, x, rows, cols, ld)) vt_bf16_convert((uint16_t *)to, x, rows, cols, ld);
}

/* Computes p of both inputs rounded, by what multiplies bfloat16; overwrites by->a and by->b. false: neither the
 * processor nor oneDNN does a product of this size; nothing was written to c. */
static bool multiply_native_bf16(const vt_products *by, const vt_product *p, const float *a, const float *b, float *c) {
    const vt_packed_from want = {.b = b, .k = p->k, .n = p->n, .ld = p->ldb, .transposed = p->tb};
    const item *ready = find_packed_matrix(by->packed, &want);
    if (!ready && vt_small_product_bf16(p, a, b, c, by->a, by->b)) return true;
    if (!ready && (double)p->m * p->n * p->k < ONEDNN_FROM) return false;
    vt_product q = *p;
    q.bf16 = true, q.lda = p->ta ? p->m : p->k, q.ldb = p->tb ? p->k : p->n, q.order = ready ? by->packed->rows : 0;
    if (!vt_onednn_product(&q, NULL, NULL, NULL)) return false;
    convert_to_bf16(by->a, a, p->ta ? p->k : p->m, q.lda, p->lda);
    if (!ready) convert_to_bf16(by->b, b, p->tb ? p->n : p->k, q.ldb, p->ldb);
    return vt_onednn_product(&q, by->a, ready ? ready->bytes : by->b, c);
}

void vt_product_f32(const vt_products *by, bool ta, bool tb, int m, int n, int k, float alpha, const float *a, int lda,
                    const float *b, int ldb, float beta, float *c, int ldc) {
    if (!by) {
        vt_gemm_f32(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    const vt_product p =
        {.ta = ta, .tb = tb, .add = beta == 1, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc};
    bool plain = alpha == 1 && (beta == 0 || beta == 1);
    if (by->native && plain && multiply_native_bf16(by, &p, a, b, c)) return;
    vt_bf16_round(by->a, a, ta ? k : m, ta ? m : k, lda);
    vt_bf16_round(by->b, b, tb ? n : k, tb ? k : n, ldb);
    vt_gemm_f32(ta, tb, m, n, k, alpha, by->a, ta ? m : k, by->b, tb ? k : n, beta, c, ldc);
}
