/* SPDX-License-Identifier: MIT */
#include "data/adv_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/files.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/image.h"
#include "tensors/tensors.h"
#include "tensors/zip.h"

/* ---- arrays by name, whatever holds them ---- */

/* Returns how many arrays the file may hold. */
static int64_t count_arrays(const vt_adv_file *f) {
    return f->st ? vt_tensors_count(f->st) : f->zip ? vt_zip_count(f->zip) : 1;
}

/* Writes the name of array i without ".npy"; false: it is no array. */
static bool array_name(const vt_adv_file *f, int64_t i, char out[128]) {
    const char *name = f->st ? vt_tensors_at(f->st, (int)i)->name : f->zip ? vt_zip_name(f->zip, i) : "";
    size_t n = strlen(name) - (f->zip && vt_ends_in(name, ".npy") ? strlen(".npy") : 0);
    if (n >= 128 || (f->zip && !name[n])) return false;
    snprintf(out, 128, "%.*s", (int)n, name);
    return true;
}

/* Reads array i of the file, in place. */
static vt_status read_nth_array(const vt_adv_file *f, int64_t i, const char *path, vt_npy *out, vt_err *e) {
    const uint8_t *bytes = f->map.bytes;
    size_t n = f->map.n;
    if (!f->st) {
        if (f->zip) VT_TRY(vt_zip_entry(f->zip, i, &bytes, &n, e));
        return vt_npy_parse(out, bytes, n, path, e);
    }
    const vt_tensor *t = vt_tensors_at(f->st, (int)i);
    *out = (vt_npy){.dtype = t->dtype, .ndim = t->ndim, .numel = t->numel, .data = t->data};
    memcpy(out->shape, t->shape, sizeof out->shape);
    vt_npy_set_strides(out, false);
    return VT_OK;
}

/* Returns the index of the array of that name; -1: there is none. */
static int64_t find_array(const vt_adv_file *f, const char *want) {
    char name[128];
    for (int64_t i = 0; i < count_arrays(f); i++)
        if (array_name(f, i, name) && !strcmp(name, want)) return i;
    return -1;
}

/* Drops the axis of one restart or attack: [1,N,C,H,W] and [N,1,C,H,W] become [N,C,H,W]; other arrays stay. */
static void drop_unit_axis(vt_npy *a) {
    int at = a->ndim == 5 && a->shape[0] == 1 ? 0 : 1;
    if (a->ndim != 5 || a->shape[at] != 1) return;
    for (int k = at; k < 4; k++) a->shape[k] = a->shape[k + 1], a->stride[k] = a->stride[k + 1];
    a->ndim = 4;
}

/* Returns the index of the only array of four sides; -1: none, -2: several. */
static int64_t find_only_images(const vt_adv_file *f, const char *path) {
    int64_t at = -1;
    char name[128];
    for (int64_t i = 0; i < count_arrays(f); i++) {
        vt_npy a;
        vt_err ignored = {0};
        if (!array_name(f, i, name) || read_nth_array(f, i, path, &a, &ignored) != VT_OK) continue;
        drop_unit_axis(&a);
        if (a.ndim != 4) continue;
        if (at >= 0) return -2;
        at = i;
    }
    return at;
}

/* Returns how to save images if torch.save wrote no array, or one of a list of them; else "". */
static const char *suggest_saving(const vt_adv_file *f) {
    if (!f->st || strncmp(vt_tensors_format(f->st), "PyTorch", 7) != 0) return "";
    if (!count_arrays(f)) return "; NumPy's arrays in such a file are not read: numpy.save writes them";
    return vt_tensors_at(f->st, 0)->ndim == 3 ? "; torch.stack makes one tensor of a list" : "";
}

/* Fails with VT_E_USAGE: there is no tensor `want`, with `why` and the names of those that there are. */
static vt_status refuse_missing_array(const vt_adv_file *f, const char *path, const char *want, const char *why,
                                      vt_err *e) {
    char name[128], list[300] = "";
    for (int64_t i = 0; i < count_arrays(f) && strlen(list) < 250; i++)
        if (array_name(f, i, name)) vt_text_item(list, sizeof list, ", ", "%.60s", name);
    return vt_fail(e, VT_E_USAGE, "%s has no tensor %s%s (it has: %s%s)", path, want, why, *list ? list : "none",
                   suggest_saving(f));
}

vt_status vt_adv_file_array(const vt_adv_file *p, const char *path, const char *name, vt_npy *out, vt_err *e) {
    int64_t at = find_array(p, name);
    return at < 0 ? refuse_missing_array(p, path, name, "", e) : read_nth_array(p, at, path, out, e);
}

/* Sets p->name and p->x to the array of images: `tensor`, else by the usual names, else the only one of four sides.
 * VT_E_USAGE: none. */
static vt_status choose_array(vt_adv_file *p, const char *path, const char *tensor, vt_err *e) {
    static const char *const usual[] = {"x_adv", "adv_complete", "adv_inputs", "adv_images"};
    int64_t at = tensor ? find_array(p, tensor) : -1;
    for (size_t k = 0; !tensor && at < 0 && k < sizeof usual / sizeof *usual; k++) at = find_array(p, usual[k]);
    if (at < 0 && !tensor) at = find_only_images(p, path);
    if (at >= 0) return array_name(p, at, p->name) ? read_nth_array(p, at, path, &p->x, e) : VT_E_FORMAT;
    return refuse_missing_array(p, path, tensor ? tensor : "x_adv",
                                tensor     ? ""
                                : at == -2 ? ", and several that could be images: say which with " VT_OPTION "tensor"
                                           : ", nor one of four sides [N,C,H,W]",
                                e);
}

/* ---- checks ---- */

/* Returns what sentences call the array of images. */
static const char *array_called(const vt_adv_file *p) { return *p->name ? p->name : "the array"; }

/* VT_E_USAGE unless p->x is [N,C,H,W] of floats or bytes, which [N,H,W] and arrays with a unit axis become; sets p->n,
 * p->shape and p->dtype. */
static vt_status check_image_shape(vt_adv_file *p, const char *path, vt_err *e) {
    vt_npy *x = &p->x;
    char shape[200];
    vt_shape_text(shape, sizeof shape, x->shape, x->ndim);
    vt_npy_grey(x), drop_unit_axis(x);
    if (x->ndim != 4) return vt_fail(e, VT_E_USAGE, "%s: %s is %s, must be [N,C,H,W]", path, array_called(p), shape);
    bool sides = x->shape[0] >= 1 && x->shape[0] <= INT32_MAX;
    for (int k = 1; k < 4; k++) sides = sides && x->shape[k] >= 1 && x->shape[k] <= VT_IMAGE_MAX_SIDE;
    if (!sides) return vt_fail(e, VT_E_USAGE, "%s: its images are %s: N and sides must be at least 1", path, shape);
    if (x->dtype != VT_U8 && !vt_npy_is_real(x))
        return vt_fail(e, VT_E_USAGE, "%s: its images are %s, must be F16, F32 or F64 in [0,1], or U8", path,
                       vt_dtype_name(x->dtype));
    p->n = x->shape[0], p->dtype = x->dtype;
    p->shape = (vt_shape){(int)x->shape[1], (int)x->shape[2], (int)x->shape[3]};
    return VT_OK;
}

/* Sets p->index [p->n_index] to the file's image numbers, if it has any; VT_E_USAGE: they are no whole numbers [N]. */
static vt_status read_image_numbers(vt_adv_file *p, const char *path, vt_err *e) {
    static const char *const names[] = {"adv_index", "indices", "index"};
    const char *dot = strrchr(p->name, '.');
    char name[160];
    int64_t at = -1;
    vt_npy a;
    for (size_t k = 0; k < sizeof names / sizeof *names && at < 0; k++) {
        snprintf(name, sizeof name, "%.*s%s", dot ? (int)(dot - p->name) + 1 : 0, p->name, names[k]);
        at = find_array(p, name);
    }
    if (at < 0) return VT_OK;
    VT_TRY(read_nth_array(p, at, path, &a, e));
    if (a.ndim != 1 || vt_npy_is_real(&a) || a.dtype == VT_BF16 || a.dtype == VT_BOOL || a.dtype == VT_F8_E4M3 ||
        a.dtype == VT_F8_E5M2)
        return vt_fail(e, VT_E_USAGE, "%s: %s is %s %s, must be whole numbers [N]", path, name, vt_dtype_name(a.dtype),
                       vt_shape_text((char[200]){0}, 200, a.shape, a.ndim));
    p->index = calloc(a.numel + 1, sizeof *p->index);
    if (!p->index) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its image numbers", path);
    p->n_index = (int64_t)a.numel;
    for (int64_t i = 0; i < p->n_index; i++) p->index[i] = vt_npy_whole(&a, (size_t)i * a.stride[0]);
    return VT_OK;
}

/* Sets p->low and p->high to the least and largest finite value; without any, to INFINITY and -INFINITY. */
static void measure_value_range(vt_adv_file *p) {
    const vt_npy *x = &p->x;
    p->low = INFINITY, p->high = -INFINITY;
    for (size_t i = 0; i < x->numel; i++) { /* every order of the items is a walk over all of them */
        double v = x->dtype == VT_U8 ? x->data[i] / 255.0 : vt_npy_real(x, i);
        if (!isfinite(v)) continue;
        p->low = fmin(p->low, v), p->high = fmax(p->high, v);
    }
}

/* ---- a folder of pictures ---- */

/* A file and the last number in its name; -1: it has none. */
typedef struct picture {
    char *name;
    int64_t number;
    bool alone; /* the number is all of the name */
} picture;

/* For qsort: compares two pictures by name, byte by byte; 10.png comes before 9.png. */
static int compare_picture_names(const void *a, const void *b) {
    return strcmp(((const picture *)a)->name, ((const picture *)b)->name);
}

/* Compares two pictures by number, then by name. */
static int compare_picture_numbers(const void *pa, const void *pb) {
    const picture *a = pa, *b = pb;
    return a->number != b->number ? (a->number < b->number ? -1 : 1) : compare_picture_names(a, b);
}

/* Sets the picture's number and whether it is all of its name. */
static void parse_last_number(picture *p) {
    size_t end = strlen(p->name) - strlen(".png");
    while (end && !isdigit((unsigned char)p->name[end - 1])) end--;
    size_t from = end;
    while (from && isdigit((unsigned char)p->name[from - 1])) from--;
    p->alone = !from && end == strlen(p->name) - strlen(".png");
    p->number = end > from && end - from < 10 ? strtoll(p->name + from, NULL, 10) : -1;
}

/* For scandir: takes names that end in .png and are not hidden. */
static int is_png_name(const struct dirent *d) {
    size_t n = strlen(d->d_name);
    return n > 4 && *d->d_name != '.' && !strcasecmp(d->d_name + n - 4, ".png");
}

/* Sorts all [n] by their numbers, if each has one of its own, else by names. Numbers that are all of the names and do
 * not run from 1 are the images': sets p->index [p->n_index] to them. */
static vt_status sort_pictures(vt_adv_file *p, const char *path, picture *all, int n, vt_err *e) {
    bool numbers = true, alone = true;
    qsort(all, (size_t)n, sizeof *all, compare_picture_numbers);
    for (int i = 0; i < n; i++) {
        numbers = numbers && all[i].number >= 0 && (!i || all[i].number != all[i - 1].number);
        alone = alone && all[i].alone;
    }
    if (!numbers) qsort(all, (size_t)n, sizeof *all, compare_picture_names);
    if (!numbers || !alone || (all[0].number == 1 && all[n - 1].number == n)) return VT_OK;
    p->index = calloc((size_t)n, sizeof *p->index);
    if (!p->index) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its image numbers", path);
    for (p->n_index = 0; p->n_index < n; p->n_index++) p->index[p->n_index] = all[p->n_index].number;
    return VT_OK;
}

/* Reads all pictures into p->pixels, and sets p->shape and p->x; VT_E_USAGE unless they have one size. */
static vt_status read_pictures(vt_adv_file *p, const char *path, const picture *all, int n, vt_err *e) {
    vt_npy *x = &p->x;
    for (int i = 0; i < n; i++) {
        vt_image im = {0};
        char file[VT_PATH_MAX];
        VT_TRY(vt_path_in(file, path, all[i].name, e));
        VT_TRY(vt_image_read(file, &im, e));
        size_t size = vt_shape_values(im.shape), total = size * (size_t)n;
        vt_status s = i ? VT_OK : vt_memory_check(path, total, e);
        if (!i) p->shape = im.shape;
        if (!i && s == VT_OK && !(p->pixels = malloc(total))) s = vt_fail(e, VT_E_MEMORY, "%s: no memory for it", path);
        if (s == VT_OK && !vt_shape_same(im.shape, p->shape))
            s = vt_fail(e, VT_E_USAGE, "%s: is %d x %d pixels, the first picture is %d x %d", file, im.shape.width,
                        im.shape.height, p->shape.width, p->shape.height);
        if (s == VT_OK) memcpy(p->pixels + (size_t)i * size, im.rgb, size);
        vt_image_free(&im);
        VT_TRY(s);
    }
    *x = (vt_npy){.dtype = VT_U8, .ndim = 4, .numel = (size_t)n * vt_shape_values(p->shape), .data = p->pixels};
    x->shape[0] = n, x->shape[1] = p->shape.channels, x->shape[2] = p->shape.height, x->shape[3] = p->shape.width;
    vt_npy_set_strides(x, false);
    return VT_OK;
}

/* Reads a folder of PNG files (sort_pictures, read_pictures); VT_E_USAGE: it has none, VT_E_IO: it cannot be listed. */
static vt_status open_picture_folder(vt_adv_file *p, const char *path, vt_err *e) {
    struct dirent **names = NULL;
    int n = scandir(path, &names, is_png_name, NULL);
    if (n < 0)
        return vt_fail(e, errno == ENOMEM ? VT_E_MEMORY : VT_E_IO, "%s: cannot be listed: %s", path, strerror(errno));
    picture *all = calloc((size_t)n + 1, sizeof *all);
    for (int i = 0; all && i < n; i++) all[i].name = names[i]->d_name, parse_last_number(&all[i]);
    vt_status s = all ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for its file names", path);
    if (s == VT_OK && !n) s = vt_fail(e, VT_E_USAGE, "%s: holds no .png file of 8-bit images", path);
    if (s == VT_OK) s = sort_pictures(p, path, all, n, e);
    if (s == VT_OK) s = read_pictures(p, path, all, n, e);
    for (int i = 0; i < n; i++) free(names[i]);
    free(names), free(all);
    return s;
}

/* Returns whether the archive is torch.save's. */
static bool is_torch_archive(const vt_zip *z) {
    for (int64_t i = 0; i < vt_zip_count(z); i++) {
        if (vt_ends_in(vt_zip_name(z, i), "/data.pkl")) return true;
    }
    return false;
}

/* Opens a file of arrays by its kind into p->map, zip or st, and chooses the one of images (choose_array). */
static vt_status open_array_file(vt_adv_file *p, const char *path, const char *tensor, vt_err *e) {
    VT_TRY(vt_mapped_open(&p->map, path, e));
    bool zip = p->map.n >= 2 && !memcmp(p->map.bytes, "PK", 2);
    if (zip) VT_TRY(vt_zip_open(&p->zip, p->map.bytes, p->map.n, path, e));
    if (zip && is_torch_archive(p->zip)) {
        vt_zip_close(p->zip);
        p->zip = NULL;
    }
    if (!p->zip && (p->map.n < 6 || memcmp(p->map.bytes, "\x93NUMPY", 6))) VT_TRY(vt_tensors_open(&p->st, path, e));
    return choose_array(p, path, tensor, e);
}

vt_status vt_adv_file_open(vt_adv_file *p, const char *path, const char *tensor, vt_err *e) {
    *p = (vt_adv_file){0};
    bool folder = vt_is_folder(path);
    VT_TRY(folder ? open_picture_folder(p, path, e) : open_array_file(p, path, tensor, e));
    VT_TRY(check_image_shape(p, path, e));
    if (!folder) VT_TRY(read_image_numbers(p, path, e));
    measure_value_range(p);
    return VT_OK;
}
void vt_adv_file_close(vt_adv_file *p) {
    vt_zip_close(p->zip);
    vt_tensors_close(p->st);
    vt_mapped_close(&p->map);
    free(p->pixels), free(p->index);
    *p = (vt_adv_file){0};
}

/* Returns whether all values lie in [low, high]. */
static bool is_within_range(const vt_adv_file *p, double low, double high) { return p->low >= low && p->high <= high; }

/* Returns the likely range of the values and how to undo it; each range has a margin for the perturbation. */
static const char *describe_value_range(const vt_adv_file *p, const double mean[3], const double std[3]) {
    double low = INFINITY, high = -INFINITY;
    for (int c = 0; c < 3; c++) low = fmin(low, -mean[c] / std[c]), high = fmax(high, (1 - mean[c]) / std[c]);
    if (is_within_range(p, -16, 271) && p->high > 8) return "grey levels 0 to 255: divide by 255";
    if (is_within_range(p, low - 0.2, high + 0.2))
        return "normalised by the model's mean and std: multiply by std and add mean";
    if (is_within_range(p, -1.1, 1.1)) return "scaled to [-1,1]: x/2 + 1/2";
    if (is_within_range(p, -4, 4)) return "normalised by some mean and std: undo that";
    return "no range that is known";
}

/* Fails with VT_E_USAGE: the images have another shape than the model's input; says so if they look like [N,H,W,C]. */
static vt_status refuse_shape(const vt_adv_file *p, const char *path, vt_shape want, vt_err *e) {
    vt_shape is = p->shape, turned = {is.width, is.channels, is.height};
    if (is.channels == want.channels)
        return vt_fail(e, VT_E_USAGE, "%s: its images are %d x %d pixels, the model's input is %d x %d", path, is.width,
                       is.height, want.width, want.height);
    return vt_fail(e, VT_E_USAGE, "%s: %s is [%lld,%d,%d,%d], must be [N,%d,%d,%d]%s", path, array_called(p),
                   (long long)p->n, VT_CHW_OF(is), VT_CHW_OF(want),
                   turned.channels == want.channels ? ": it looks like [N,H,W,C], transpose it by (0,3,1,2)" : "");
}

vt_status vt_adv_file_fit(const vt_adv_file *p, const char *path, vt_shape want, const double mean[3],
                          const double std[3], vt_err *e) {
    if (!vt_shape_same(p->shape, want)) return refuse_shape(p, path, want, e);
    /* what is out by less is judged point by point */
    if (p->low < -0.5 || p->high > 1.5)
        return vt_fail(e, VT_E_USAGE, "%s: its values run from %.4g to %.4g, must lie in [0,1]; it looks like %s", path,
                       p->low, p->high, describe_value_range(p, mean, std));
    return VT_OK;
}

void vt_adv_file_read(const vt_adv_file *p, int64_t i, float *x) {
    const vt_npy *a = &p->x;
    for (size_t c = 0; c < (size_t)p->shape.channels; c++)
        for (size_t row = 0; row < (size_t)p->shape.height; row++)
            for (size_t col = 0; col < (size_t)p->shape.width; col++) {
                size_t at = (size_t)i * a->stride[0] + c * a->stride[1] + row * a->stride[2] + col * a->stride[3];
                *x++ = a->dtype == VT_U8 ? (float)a->data[at] / 255 : (float)vt_npy_real(a, at);
            }
}
