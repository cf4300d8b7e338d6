/* SPDX-License-Identifier: MIT */
#include "tensors/npy.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/json.h"
#include "tensors/tensors.h"
#include "tensors/zip.h"

static const struct {
    const char *code;
    vt_dtype dtype;
} codes[] = {{"f8", VT_F64}, {"f4", VT_F32}, {"f2", VT_F16}, {"i8", VT_I64}, {"i4", VT_I32}, {"i2", VT_I16},
             {"i1", VT_I8},  {"u8", VT_U64}, {"u4", VT_U32}, {"u2", VT_U16}, {"u1", VT_U8},  {"b1", VT_BOOL}};
#define CODES (sizeof codes / sizeof *codes)

bool vt_npy_dtype(vt_dtype *out, const char *code, size_t n) {
    size_t i = 0;
    while (i < CODES && (n != strlen(codes[i].code) || memcmp(code, codes[i].code, n))) i++;
    if (i < CODES) *out = codes[i].dtype;
    return i < CODES;
}

void vt_npy_set_strides(vt_npy *a, bool fortran) {
    size_t step = 1;
    for (int i = 0; i < a->ndim; i++) {
        int k = fortran ? i : a->ndim - 1 - i;
        a->stride[k] = step;
        step *= (size_t)a->shape[k];
    }
}

/* ---- the header: a Python dictionary with the keys descr, fortran_order, shape ---- */

/* Rewrites Python's text as JSON, in place: quotes, words and brackets get JSON's names, the comma before a bracket
 * goes, and so do parentheses without a comma, which make no tuple: (5) is 5. */
static void python_to_json(char *text, size_t n) {
    size_t open = 0, last = 0; /* last: the last character that is no space */
    bool quoted = false, comma = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '\'' || c == '"') quoted = !quoted, text[i] = '"';
        if (quoted || isspace((unsigned char)c)) continue;
        if (c == 'T' || c == 'F') text[i] = (char)tolower(c);
        if (c == 'L') text[i] = ' '; /* a whole number of Python 2 */
        if (c == '(') open = i, comma = false;
        comma = comma || c == ',';
        if ((c == ')' || c == '}') && text[last] == ',') text[last] = ' ';
        bool tuple = c == ')' && (comma || last == open);
        if (c == ')') text[open] = tuple ? '[' : ' ', text[i] = tuple ? ']' : ' ';
        last = i;
    }
}

/* Reads a header's shape, a list of sides, into a->ndim and a->shape; VT_E_FORMAT: none, or more than
 * VT_ST_MAX_DIMS. */
static vt_status read_shape(vt_npy *a, const json_t *shape, const char *path, vt_err *e) {
    bool ok = json_is_array(shape);
    if (json_array_size(shape) > VT_ST_MAX_DIMS)
        return vt_fail(e, VT_E_FORMAT, "%s: its array has more than %d dimensions", path, VT_ST_MAX_DIMS);
    for (a->ndim = 0; ok && a->ndim < (int)json_array_size(shape); a->ndim++) {
        const json_t *side = json_array_get(shape, (size_t)a->ndim);
        a->shape[a->ndim] = json_integer_value(side);
        ok = json_is_integer(side) && a->shape[a->ndim] >= 0;
    }
    return ok ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: its header has no shape such as (3, 4) or (5,)", path);
}

/* Reads a header's type, "<f4", into a->dtype and a->swap; VT_E_FORMAT: records, Python objects, or a type not read. */
static vt_status read_descr(vt_npy *a, const json_t *descr, const char *path, vt_err *e) {
    const char *text = json_string_value(descr);
    if (json_is_array(descr))
        return vt_fail(e, VT_E_FORMAT, "%s: holds records of several fields, not an array of numbers", path);
    if (!text) return vt_fail(e, VT_E_FORMAT, "%s: its header has no type such as '<f4'", path);
    if (strchr(text, 'O'))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: holds Python objects (a pickle, which would be run to be read), not numbers", path);
    const char *code = *text && strchr("<>|=", *text) ? text + 1 : text;
    if (!vt_npy_dtype(&a->dtype, code, strlen(code)))
        return vt_fail(e, VT_E_FORMAT, "%s: its type is '%.20s'; read are f2, f4, f8, i1 to i8, u1 to u8 and b1", path,
                       text);
    a->swap = *text == '>' && vt_dtype_size(a->dtype) > 1;
    return VT_OK;
}

/* Parses the n bytes of a header into a->dtype, swap, ndim, shape and *fortran (0 or 1); VT_E_FORMAT: not NumPy's. */
static vt_status read_header(vt_npy *a, int *fortran, const uint8_t *bytes, size_t n, const char *path, vt_err *e) {
    json_error_t why = {0};
    json_t *descr, *shape;
    char *text = malloc(n + 1);
    if (!text) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its header", path);
    memcpy(text, bytes, n);
    python_to_json(text, n);
    json_t *root = vt_json(text, n, &why);
    free(text);
    vt_status s = root ? VT_OK : vt_json_why(&why);
    const size_t before = vt_json_refused();
    if (s == VT_E_MEMORY) return vt_fail(e, s, "%s: no memory for its header", path);
    if (s == VT_OK &&
        json_unpack(root, "{s:o, s:b, s:o!}", "descr", &descr, "fortran_order", fortran, "shape", &shape) != 0)
        s = vt_json_refused() != before ? VT_E_MEMORY : VT_E_FORMAT;
    if (s != VT_OK)
        vt_fail(e, s, s == VT_E_MEMORY ? "%s: no memory for its header" : "%s: its header is not one that NumPy writes",
                path);
    if (s == VT_OK) s = read_descr(a, descr, path, e);
    if (s == VT_OK) s = read_shape(a, shape, path, e);
    json_decref(root);
    return s;
}

vt_status vt_npy_parse(vt_npy *out, const uint8_t *bytes, size_t n, const char *path, vt_err *e) {
    vt_npy a = {.ndim = 0};
    size_t len, at, size;
    int fortran = 0;
    if (n < 12 || memcmp(bytes, "\x93NUMPY", 6))
        return vt_fail(e, VT_E_FORMAT, "%s: is not a NumPy array (.npy)", path);
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7])
        return vt_fail(e, VT_E_FORMAT, "%s: is npy version %d.%d, read are 1.0, 2.0 and 3.0", path, bytes[6], bytes[7]);
    at = bytes[6] == 1 ? 10 : 12;
    len = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (at == 12) len |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (len > n - at)
        return vt_fail(e, VT_E_FORMAT, "%s: claims a header of %zu bytes, but only %zu bytes follow", path, len,
                       n - at);
    VT_TRY(read_header(&a, &fortran, bytes + at, len, path, e));
    if (!vt_shape_bytes(a.shape, a.ndim, a.dtype, &a.numel, &size) || size != n - at - len)
        return vt_fail(e, VT_E_FORMAT, "%s: %s %s does not take the %zu bytes that follow its header", path,
                       vt_shape_text((char[200]){0}, 200, a.shape, a.ndim), vt_dtype_name(a.dtype), n - at - len);
    vt_npy_set_strides(&a, fortran);
    a.data = bytes + at + len;
    *out = a;
    return VT_OK;
}

bool vt_npy_is_real(const vt_npy *a) { return a->dtype == VT_F64 || a->dtype == VT_F32 || a->dtype == VT_F16; }

/* Returns the bits of one item, in the machine's byte order. */
static uint64_t bits_at(const vt_npy *a, size_t at) {
    size_t size = vt_dtype_size(a->dtype);
    uint64_t v = 0;
    memcpy(&v, a->data + at * size, size);
    return a->swap ? __builtin_bswap64(v) >> (64 - 8 * size) : v;
}

double vt_npy_real(const vt_npy *a, size_t at) {
    if (!vt_npy_is_real(a)) return (double)vt_npy_whole(a, at);
    uint64_t bits = bits_at(a, at);
    vt_tensor t = {.name = "", .dtype = a->dtype, .numel = 1, .data = &bits};
    double v = 0;
    vt_tensor_f64(NULL, &t, &v, 1, NULL);
    return v;
}

int64_t vt_npy_whole(const vt_npy *a, size_t at) {
    uint64_t bits = bits_at(a, at);
    vt_tensor t = {.name = "", .dtype = a->dtype == VT_U64 ? VT_I64 : a->dtype, .numel = 1, .data = &bits};
    int64_t v = 0; /* U64 from 2^63 on: negative, which no label is */
    vt_tensor_i64(NULL, &t, &v, 1, NULL);
    return v;
}

void vt_npy_grey(vt_npy *a) {
    if (a->ndim != 3) return;
    for (int k = 3; k > 1; k--) a->shape[k] = a->shape[k - 1], a->stride[k] = a->stride[k - 1];
    a->shape[1] = 1, a->stride[1] = 0, a->ndim = 4;
}

/* ---- writing ---- */

/* Writes a header of version 1.0, padded so that the data begin at a multiple of 64; *n: its length. VT_E_FORMAT: NumPy
 * has no such dtype. */
static vt_status header_text(char out[512], size_t *n, const char *path, const vt_tensor *t, vt_err *e) {
    const char *code = NULL;
    char shape[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < CODES; i++)
        if (codes[i].dtype == t->dtype) code = codes[i].code;
    if (!code)
        return vt_fail(e, VT_E_FORMAT, "%s: %s is %s, which NumPy has no name for", path, t->name,
                       vt_dtype_name(t->dtype));
    for (int i = 0; i < t->ndim; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%lld%s", i ? ", " : "", (long long)t->shape[i],
                               t->ndim == 1 ? "," : "");
    int len = snprintf(out + 10, 500, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }",
                       code[1] == '1' ? '|' : '<', code, shape);
    size_t whole = ((size_t)len + 11 + 63) / 64 * 64;
    memset(out + 10 + len, ' ', whole - 10 - (size_t)len);
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (char)((whole - 10) & 255), out[9] = (char)((whole - 10) >> 8), out[whole - 1] = '\n';
    *n = whole;
    return VT_OK;
}

vt_status vt_npy_write(const char *path, const vt_tensor *t, vt_err *e) {
    char head[512];
    size_t n;
    VT_TRY(header_text(head, &n, path, t, e));
    vt_span parts[2] = {{head, n}, {t->data, vt_tensor_bytes(t)}};
    return vt_file_replace(path, parts, 2, e);
}

vt_status vt_npz_write(const char *path, const vt_tensor *t, int n, vt_err *e) {
    vt_zip_part *parts = calloc((size_t)n + 1, sizeof *parts);
    vt_status s = parts ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
    for (int i = 0; i < n && s == VT_OK; i++) {
        snprintf(parts[i].name, sizeof parts[i].name, "%.280s.npy", t[i].name);
        parts[i].data = t[i].data, parts[i].bytes = vt_tensor_bytes(&t[i]);
        s = header_text(parts[i].head, &parts[i].n_head, path, &t[i], e);
    }
    if (s == VT_OK) s = vt_zip_write(path, parts, n, e);
    free(parts);
    return s;
}
