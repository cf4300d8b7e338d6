/* SPDX-License-Identifier: MIT */
/* Adversarial images of any tool: the tensor [N,C,H,W] of a safetensors file, of what torch.save wrote (AutoAttack's
 * adv_complete, torchattacks' adv_inputs), of a NumPy array or an archive of them, and the image numbers that may stand
 * beside it; or a folder of PNGs, in the order of the numbers in their names. Values are floats in [0,1] or bytes;
 * nothing is rounded or clipped. [1,N,C,H,W] and [N,1,C,H,W] are [N,C,H,W]. */
#pragma once

#include "base/files.h"
#include "base/shape.h"
#include "tensors/npy.h"

typedef struct vt_adv_file {
    int64_t n;
    vt_shape shape; /* of one */
    char name[128]; /* of the tensor; "" in a plain .npy */
    vt_dtype dtype;
    double low, high; /* smallest and largest finite value; of bytes, after the division by 255 */
    int64_t *index;   /* [n_index] image numbers of the file, NULL: none */
    int64_t n_index;
    /* what holds the images: */
    vt_npy x;
    vt_mapped map;         /* a NumPy file */
    struct vt_zip *zip;    /* an archive of them */
    struct vt_tensors *st; /* safetensors, PyTorch */
    uint8_t *pixels;       /* a folder's pictures */
} vt_adv_file;

/* Opens a file of adversarial points. tensor: its name; NULL: x_adv, adv_complete, adv_inputs, adv_images, else the
 * only array of four sides. Image numbers are adv_index, indices or index, with the tensor's own prefix ("pgd.x_adv":
 * "pgd.index"); of a folder whose names are numbers alone these, unless they run from 1. */
vt_status vt_adv_file_open(vt_adv_file *p, const char *path, const char *tensor, vt_err *e);
void vt_adv_file_close(vt_adv_file *p); /* also after a failed open; accepts a zeroed one */

/* Sets *out to another array of the same file, in place. VT_E_USAGE: it has none of that name. */
vt_status vt_adv_file_array(const vt_adv_file *p, const char *path, const char *name, vt_npy *out, vt_err *e);

/* VT_E_USAGE for points that a model of this input cannot have: other sides, or values below -0.5 or above 1.5, with a
 * word on which range it looks like. mean, std: the model's. */
vt_status vt_adv_file_fit(const vt_adv_file *p, const char *path, vt_shape want, const double mean[3],
                          const double std[3], vt_err *e);
/* Writes point i to x as float32 [C,H,W]; a byte is divided by 255. */
void vt_adv_file_read(const vt_adv_file *p, int64_t i, float *x);
