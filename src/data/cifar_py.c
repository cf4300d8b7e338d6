/* SPDX-License-Identifier: MIT */
/* What NumPy's arrays and CIFAR's dictionary look like in a pickle: ndarray.__reduce__ in NumPy, and the description of
 * the Python version on CIFAR's page (docs/images.md). Python 2 wrote the official files; Python 3 writes the same
 * again with bytes for its texts. */
#include <stdlib.h>
#include <string.h>
#include "tensors/pickle.h"
#include "data/records.h"

/* ---- numpy.core.multiarray._reconstruct(...) with the state (version, shape, dtype, Fortran order, bytes) ---- */

static bool read_shape(vt_npy *a, const vt_node *shape) {
    if (!shape || shape->kind != VT_NODE_TUPLE || shape->u.list.n < 1 || shape->u.list.n > 2) return false;
    a->ndim = (int)shape->u.list.n;
    for (int i = 0; i < a->ndim; i++)
        if (!vt_node_int(vt_node_item(shape, (uint32_t)i), &a->shape[i]) || a->shape[i] < 0) return false;
    return true;
}

static bool read_array(vt_npy *a, const vt_node *n) {
    size_t bytes;
    const vt_node *state = n && n->kind == VT_NODE_OPAQUE ? vt_node_item(n, 1) : NULL, *data = vt_node_item(state, 4);
    const vt_node *fortran = vt_node_item(state, 3);
    *a = (vt_npy){.ndim = 0};
    if (!data || (data->kind != VT_NODE_TEXT && data->kind != VT_NODE_BYTES)) return false;
    if (!read_shape(a, vt_node_item(state, 1)) || !vt_node_dtype(vt_node_item(state, 2), &a->dtype, &a->swap))
        return false;
    if (!vt_shape_bytes(a->shape, a->ndim, a->dtype, &a->numel, &bytes) || bytes != data->u.text.n) return false;
    vt_npy_set_strides(a, fortran->kind == VT_NODE_BOOL && fortran->u.i);
    a->data = (const uint8_t *)data->u.text.s;
    return true;
}

/* ---- the dictionary ---- */

static uint8_t as_byte(int64_t label) { return label >= 0 && label < 255 ? (uint8_t)label : 255; }

/* A list of whole numbers, or an array, one for each image: into labels[at], labels[at + step], ... */
static vt_status read_labels(vt_cifar_py *b, const vt_node *n, const char *key, size_t at, size_t step, vt_err *e) {
    vt_npy a;
    bool array = read_array(&a, n) && a.ndim == 1 && !vt_npy_is_real(&a), list = n && n->kind == VT_NODE_LIST;
    int64_t count = array ? a.shape[0] : list ? (int64_t)n->u.list.n : -1, v;
    if (count != b->count)
        return vt_fail(e, VT_E_FORMAT, "%s: has %lld images, and '%s' is no list of as many numbers", b->st->path,
                       (long long)b->count, key);
    for (int64_t i = 0; i < count; i++) {
        if (array)
            v = vt_npy_whole(&a, (size_t)i);
        else if (!vt_node_int(n->u.list.v[i], &v))
            return vt_fail(e, VT_E_FORMAT, "%s: the label of image %lld in '%s' is %s, not a whole number", b->st->path,
                           (long long)i, key, vt_node_name(n->u.list.v[i]));
        b->labels[at + (size_t)i * step] = as_byte(v);
    }
    return VT_OK;
}

static vt_status read_dict(vt_cifar_py *b, const vt_node *root, vt_err *e) {
    const char *path = b->st->path;
    const vt_node *data = vt_node_get(root, "data");
    if (!data)
        return vt_fail(e, VT_E_FORMAT, "%s: is a Python pickle, but no batch of CIFAR: it holds no 'data'", path);
    char shape[200] = "no array";
    bool array = read_array(&b->pixels, data);
    if (array) vt_shape_text(shape, sizeof shape, b->pixels.shape, b->pixels.ndim);
    if (!array || b->pixels.dtype != VT_U8 || b->pixels.ndim != 2 || b->pixels.shape[1] != VT_CIFAR_PIXELS)
        return vt_fail(e, VT_E_FORMAT, "%s: its 'data' is %s, must be a NumPy array [N,%d] of uint8, all in the file",
                       path, shape, VT_CIFAR_PIXELS);
    b->count = b->pixels.shape[0];
    bool hundred = vt_node_get(root, "fine_labels") != NULL;
    size_t each = hundred ? 2 : 1;
    b->record = hundred ? VT_CIFAR100 : VT_CIFAR10;
    b->labels = calloc((size_t)b->count + 1, each); /* the file holds 3072 bytes for each */
    if (!b->labels) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its labels", path);
    if (!b->count) return vt_fail(e, VT_E_FORMAT, "%s: holds no images", path);
    if (!hundred) return read_labels(b, vt_node_get(root, "labels"), "labels", 0, 1, e);
    VT_TRY(read_labels(b, vt_node_get(root, "coarse_labels"), "coarse_labels", 0, 2, e));
    return read_labels(b, vt_node_get(root, "fine_labels"), "fine_labels", 1, 2, e);
}

vt_status vt_cifar_py_open(vt_cifar_py *b, const uint8_t *bytes, size_t n, const char *path, vt_err *e) {
    vt_node *root;
    size_t at = 0;
    vt_err mine = {0};
    *b = (vt_cifar_py){0};
    if (!e) e = &mine;
    VT_TRY(vt_tensors_begin(&b->st, path, bytes, n, e));
    VT_TRY(vt_pickle_read(&root, b->st, b->st->bytes, b->st->size, &at, "", NULL, e));
    return read_dict(b, root, e);
}

void vt_cifar_py_close(vt_cifar_py *b) {
    vt_tensors_close(b->st);
    free(b->labels);
}

void vt_cifar_py_read(const vt_cifar_py *b, int64_t i, uint8_t *record) {
    size_t head = (size_t)b->record - VT_CIFAR_PIXELS, first = (size_t)i * b->pixels.stride[0];
    memcpy(record, b->labels + (size_t)i * head, head);
    for (size_t k = 0; k < VT_CIFAR_PIXELS; k++) record[head + k] = b->pixels.data[first + k * b->pixels.stride[1]];
}
