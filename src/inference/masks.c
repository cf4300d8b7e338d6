/* SPDX-License-Identifier: MIT */
#include "inference/masks.h"

/* Places the masks of one axis of n pixels (their section 3.3): mask m = p + stride - 1, one each `stride` pixels, the
 * last at the border. A patch at a begins at most stride - 1 pixels after a mask, and so ends inside it. */
static void place_masks(vt_mask_set *s, int axis, int n, int masks) {
    int free = n - s->patch + 1, stride = (free + masks - 1) / masks, side = s->patch + stride - 1, k = 0;
    for (int at = 0; at < n - side; at += stride) s->at[axis][k++] = at;
    s->at[axis][k++] = n - side;
    s->n[axis] = k, s->side[axis] = side;
}

vt_status vt_mask_set_make(vt_mask_set *s, int patch, int masks, vt_shape shape, vt_err *e) {
    *s = (vt_mask_set){.shape = shape, .patch = patch};
    if (patch >= shape.height || patch >= shape.width)
        return vt_fail(e, VT_E_USAGE,
                       "wrap patchcleanser: patch is %d pixels, must be smaller than the images of %d x %d", patch,
                       shape.height, shape.width);
    place_masks(s, 0, shape.height, masks);
    place_masks(s, 1, shape.width, masks);
    return VT_OK;
}

void vt_mask_apply(float *y, const vt_mask_set *s, int i, const float fill[3]) {
    const int top = s->at[0][i / s->n[1]], left = s->at[1][i % s->n[1]];
    for (int c = 0; c < s->shape.channels; c++)
        for (int row = top; row < top + s->side[0]; row++) {
            float *to = y + (size_t)c * vt_shape_plane(s->shape) + (size_t)row * (size_t)s->shape.width + (size_t)left;
            for (int k = 0; k < s->side[1]; k++) to[k] = c < 3 ? fill[c] : 0;
        }
}

/* Returns the most frequent number in pred [n], the largest of several. */
static int majority_of(const int *pred, int n) {
    int best = 0, most = 0;
    for (int i = 0; i < n; i++) {
        int same = 0;
        for (int k = 0; k < n; k++) same += pred[k] == pred[i];
        if (same > most || (same == most && pred[i] > best)) best = pred[i], most = same;
    }
    return best;
}

vt_status vt_double_masking(int *class, int *pred, int masks, vt_two_masks_fn under, void *ctx, vt_err *e) {
    for (int i = 0; i < masks; i++) VT_TRY(under(ctx, i, i, &pred[i], e));
    const int majority = majority_of(pred, masks);
    *class = majority;
    for (int i = 0; i < masks; i++) {
        int k = 0, second = pred[i];
        if (pred[i] == majority) continue;
        for (; k < masks && second == pred[i]; k++)
            if (k != i) VT_TRY(under(ctx, i < k ? i : k, i < k ? k : i, &second, e));
        if (second != pred[i]) continue;
        *class = pred[i];
        break;
    }
    return VT_OK;
}

vt_status vt_masks_agree(bool *agree, int masks, int label, vt_two_masks_fn under, void *ctx, vt_err *e) {
    *agree = true;
    for (int apart = 0; apart < masks; apart++)
        for (int i = 0; i + apart < masks; i++) {
            int class;
            VT_TRY(under(ctx, i, i + apart, &class, e));
            *agree = class == label;
            if (!*agree) return VT_OK;
        }
    return VT_OK;
}
