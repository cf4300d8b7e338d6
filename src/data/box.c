/* SPDX-License-Identifier: MIT */
#include "data/box.h"

#include "base/hash.h"

vt_status vt_box_open(vt_box *b, const char *path, vt_err *e) {
    *b = (vt_box){.path = path};
    if (vt_is_folder(path))
        return vt_fail(e, VT_E_USAGE, "%s: is a folder, must be a file with the tensors lo and hi", path);
    VT_TRY(vt_adv_file_open(&b->lo, path, "lo", e));
    VT_TRY(vt_adv_file_open(&b->hi, path, "hi", e));
    vt_sha_hex(b->lo.map.bytes, b->lo.map.n, b->sha256);
    if (b->lo.n == b->hi.n && vt_shape_same(b->lo.shape, b->hi.shape)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: lo is [%lld,%d,%d,%d], but hi is [%lld,%d,%d,%d]: must be of one shape", path,
                   (long long)b->lo.n, VT_CHW_OF(b->lo.shape), (long long)b->hi.n, VT_CHW_OF(b->hi.shape));
}

void vt_box_close(vt_box *b) {
    vt_adv_file_close(&b->lo), vt_adv_file_close(&b->hi);
    *b = (vt_box){0};
}

/* Reads [C,H,W], which was taken for C images of one channel, as one image of C channels. */
static void join_channels(vt_adv_file *f, int channels) {
    if (f->shape.channels != 1 || f->n != channels) return;
    f->x.stride[1] = f->x.stride[0], f->x.shape[0] = f->n = 1, f->x.shape[1] = f->shape.channels = channels;
}

vt_status vt_box_fit(vt_box *b, vt_shape want, const double mean[3], const double std[3], vt_err *e) {
    join_channels(&b->lo, want.channels), join_channels(&b->hi, want.channels);
    VT_TRY(vt_adv_file_fit(&b->lo, b->path, want, mean, std, e));
    VT_TRY(vt_adv_file_fit(&b->hi, b->path, want, mean, std, e));
    if (!b->lo.index || b->lo.n_index == b->lo.n) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: has %lld boxes, but the numbers of %lld images", b->path, (long long)b->lo.n,
                   (long long)b->lo.n_index);
}

vt_status vt_box_read(const vt_box *b, int64_t image, float *lo, float *hi, vt_err *e) {
    const int64_t n = b->lo.n;
    int64_t row = n > 1 ? image : 0;
    if (b->lo.index)
        for (row = 0; row < n && b->lo.index[row] != image;) row++;
    if (row >= n)
        return vt_fail(e, VT_E_USAGE, "%s: has %lld boxes, and none for image %lld", b->path, (long long)n,
                       (long long)image);
    vt_adv_file_read(&b->lo, row, lo), vt_adv_file_read(&b->hi, row, hi);
    return VT_OK;
}

vt_status vt_box_check(const vt_box *b, int64_t image, const float *x, float *lo, float *hi, vt_err *e) {
    const vt_shape s = b->lo.shape;
    const size_t plane = vt_shape_plane(s), width = (size_t)s.width;
    VT_TRY(vt_box_read(b, image, lo, hi, e));
    for (size_t i = 0; i < vt_shape_values(s); i++) {
        const double low = (double)lo[i], high = (double)hi[i], at = (double)x[i];
        char where[80];
        if (low >= 0 && low <= high && high <= 1 && low <= at && at <= high) continue;
        snprintf(where, sizeof where, "of image %lld at [%zu,%zu,%zu]", (long long)image, i / plane, i % plane / width,
                 i % width);
        if (!(low >= 0 && low <= 1))
            return vt_fail(e, VT_E_USAGE, "%s: lo %s is %.9g, must lie in [0,1]", b->path, where, low);
        if (!(high >= 0 && high <= 1))
            return vt_fail(e, VT_E_USAGE, "%s: hi %s is %.9g, must lie in [0,1]", b->path, where, high);
        if (low > high)
            return vt_fail(e, VT_E_USAGE, "%s: lo %s is %.9g, must be at most hi, %.9g", b->path, where, low, high);
        return vt_fail(e, VT_E_USAGE, "%s: the value %s is %.9g, must lie in the box of images, %.9g to %.9g", b->path,
                       where, at, low, high);
    }
    return VT_OK;
}
