/* SPDX-License-Identifier: MIT */
#include "models/checkpoint/hub.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/files.h"
#include "core/json.h"
#include "models/model.h"

#define MAX_BYTES ((size_t)16 << 20) /* id2label of ImageNet-21k takes 1 MB */

/* ---- reading ---- */

vt_status vt_hub_parse(json_t **out, const char *bytes, size_t n, const char *path, vt_err *e) {
    json_error_t why;
    *out = vt_json(bytes, n, &why);
    if (!*out) return vt_fail(e, vt_json_why(&why), "%s: line %d: %s", path, why.line, why.text);
    if (json_is_object(*out)) return VT_OK;
    json_decref(*out);
    *out = NULL;
    return vt_fail(e, VT_E_FORMAT, "%s: is not a JSON object", path);
}

static vt_status read_file(json_t **out, const char *path, vt_err *e) {
    char *bytes;
    size_t n;
    *out = NULL;
    if (access(path, F_OK) != 0) return VT_OK;
    VT_TRY(vt_file_read(path, MAX_BYTES, &bytes, &n, e));
    vt_status s = vt_hub_parse(out, bytes, n, path, e);
    free(bytes);
    return s;
}

vt_status vt_hub_open(vt_hub *h, const char *weights, vt_err *e) {
    memset(h, 0, sizeof *h);
    const char *slash = strrchr(weights, '/');
    int folder = slash ? (int)(slash - weights) + 1 : 0;
    if (folder > (int)sizeof h->config_path - 32) return VT_OK; /* no room for its name: not looked for */
    snprintf(h->config_path, sizeof h->config_path, "%.*sconfig.json", folder, weights);
    snprintf(h->pre_path, sizeof h->pre_path, "%.*spreprocessor_config.json", folder, weights);
    VT_TRY(read_file(&h->config, h->config_path, e));
    vt_status s = read_file(&h->pre, h->pre_path, e);
    if (s != VT_OK) vt_hub_close(h);
    return s;
}

void vt_hub_close(vt_hub *h) {
    json_decref(h->config);
    json_decref(h->pre);
    h->config = h->pre = NULL;
}

const json_t *vt_hub_get(const vt_hub *h, const char *key) {
    static const char *const groups[] = {"model_args", "pretrained_cfg", "default_cfg"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const json_t *v = json_object_get(json_object_get(h->config, groups[i]), key);
        if (v && !json_is_null(v)) return v;
    }
    const json_t *v = json_object_get(h->config, key);
    return v && !json_is_null(v) ? v : NULL;
}

bool vt_hub_architecture(const vt_hub *h, char *out, size_t size) {
    const char *name = json_string_value(json_object_get(h->config, "architecture"));
    if (!name) return false;
    snprintf(out, size, "%.*s", (int)strcspn(name, "."), name);
    return true;
}

bool vt_hub_quick_gelu(const vt_hub *h) {
    char name[80];
    return vt_hub_architecture(h, name, sizeof name) && strstr(name, "quickgelu");
}

/* ---- pixels ---- */

static bool triple(const json_t *v, double out[3]) {
    if (!json_is_array(v) || json_array_size(v) != 3) return false;
    for (size_t k = 0; k < 3; k++) {
        if (!json_is_number(json_array_get(v, k))) return false;
        out[k] = json_number_value(json_array_get(v, k));
    }
    return true;
}

/* Is this word of preprocessor_config.json false, or absent and false by default? */
static bool is_on(const vt_hub *h, const char *key, bool absent) {
    const json_t *v = json_object_get(h->pre, key);
    return json_is_boolean(v) ? json_is_true(v) : absent;
}

bool vt_hub_pixels(const vt_hub *h, bool std, double out[3], const char **from) {
    *from = "config.json";
    if (triple(vt_hub_get(h, std ? "std" : "mean"), out)) return true;
    if (!h->pre) return false;
    *from = "preprocessor_config.json";
    if (!is_on(h, "do_normalize", true))
        for (int k = 0; k < 3; k++) out[k] = std;
    else if (!triple(json_object_get(h->pre, std ? "image_std" : "image_mean"), out))
        return false;
    /* Bytes are multiplied by rescale_factor f, usually 1/255, pixels here are bytes / 255: (255 f x - mean) / std */
    const json_t *f = json_object_get(h->pre, "rescale_factor");
    double factor = 255 * (!is_on(h, "do_rescale", true) ? 1 : json_is_number(f) ? json_number_value(f) : 1.0 / 255);
    if (fabs(factor - 1) < 1e-9) return true; /* as it is written */
    for (int k = 0; k < 3; k++) out[k] /= factor;
    return true;
}

static bool side_of(const json_t *v, double *out) {
    if (!json_is_number(v)) return false;
    *out = json_number_value(v);
    return *out >= 1 && *out <= 65535 && *out == floor(*out);
}

/* A number, or {"height": n, "width": n}. */
static bool square_of(const json_t *v, double *out) {
    double w;
    if (!json_is_object(v)) return side_of(v, out);
    return side_of(json_object_get(v, "height"), out) && side_of(json_object_get(v, "width"), &w) && w == *out;
}

/* Hugging Face: ViT's, DeiT's and Swin's processors take `size` as a square; shortest_edge keeps the aspect. */
static bool transform_hf(const vt_hub *h, char *out, size_t size) {
    static const char *const filters[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"}; /* Pillow's */
    const json_t *s = json_object_get(h->pre, "size"), *r = json_object_get(h->pre, "resample");
    double side = 0, crop = 0;
    long long filter = json_is_integer(r) ? (long long)json_integer_value(r) : 2;
    bool edge = side_of(json_object_get(s, "shortest_edge"), &side), fit = is_on(h, "do_resize", s != NULL);
    if (fit && ((!edge && !square_of(s, &side)) || filter < 0 || filter > 5)) return false;
    bool cut = is_on(h, "do_center_crop", false);
    if (cut && !square_of(json_object_get(h->pre, "crop_size"), &crop)) return false;
    int n = fit ? snprintf(out, size, "%s:%.0f,%s", edge ? "short" : "squash", side, filters[filter]) : 0;
    if (cut) n += snprintf(out + n, size - (size_t)n, "%scrop:%.0f", n ? "," : "", crop);
    return n > 0;
}

/* timm: floor(size / crop_pct) of the shorter side, or of both, then the centre. Its defaults: data/config.py. */
static bool transform_timm(const vt_hub *h, char *out, size_t size) {
    static const char *const filters[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"};
    const char *wish = json_string_value(vt_hub_get(h, "interpolation"));
    const char *mode = json_string_value(vt_hub_get(h, "crop_mode"));
    const json_t *pct = vt_hub_get(h, "crop_pct");
    double part = json_is_number(pct) ? json_number_value(pct) : 0.875;
    int side = vt_hub_image(h), filter = 0;
    bool squash = mode && !strcmp(mode, "squash");
    if (!wish) wish = "bicubic";
    while (filter < 6 && strcmp(filters[filter], wish)) filter++;
    if (!side || filter == 6 || (mode && !squash && strcmp(mode, "center")) || !(part > 0.01 && part <= 1))
        return false;
    snprintf(out, size, "%s:%.0f,%s,crop:%d", squash ? "squash" : "short", floor(side / part), wish, side);
    return true;
}

bool vt_hub_transform(const vt_hub *h, char *out, size_t size, const char **from) {
    *from = h->pre ? "preprocessor_config.json" : "config.json";
    if (h->pre) return transform_hf(h, out, size);
    return json_is_array(vt_hub_get(h, "input_size")) && transform_timm(h, out, size);
}

int vt_hub_image(const vt_hub *h) {
    const json_t *input = vt_hub_get(h, "input_size"); /* [3, height, width] */
    double side, width;
    if (square_of(vt_hub_get(h, "img_size"), &side) || square_of(vt_hub_get(h, "image_size"), &side)) return (int)side;
    if (side_of(json_array_get(input, 1), &side) && side_of(json_array_get(input, 2), &width) && side == width)
        return (int)side;
    return 0;
}

/* ---- does it describe these weights? ---- */

vt_status vt_hub_check(const vt_hub *h, const vt_config *c, const char *weights, vt_err *e) {
    const struct {
        const char *key;
        int is;
        bool vit_alone; /* means something else elsewhere */
    } rows[] = {{"num_classes", c->classes, false},     {"num_labels", c->classes, false},
                {"hidden_size", c->dim, true},          {"num_hidden_layers", c->depth, true},
                {"intermediate_size", c->hidden, true}, {"patch_size", c->patch, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *v = json_object_get(h->config, rows[i].key);
        if (!i && !v) v = vt_hub_get(h, rows[i].key); /* timm's pretrained_cfg may be of the model before fine-tuning */
        if (!json_is_integer(v) || (rows[i].vit_alone && strcmp(c->arch, "vit"))) continue;
        if (json_integer_value(v) != rows[i].is)
            return vt_fail(e, VT_E_SHAPE, "%s: %s is %lld, but the tensors of %s say %d", h->config_path, rows[i].key,
                           (long long)json_integer_value(v), weights, rows[i].is);
    }
    const json_t *labels = json_object_get(h->config, "id2label");
    if (json_object_size(labels) && json_object_size(labels) != (size_t)c->classes)
        return vt_fail(e, VT_E_SHAPE, "%s: id2label names %zu classes, but the head in %s has %d", h->config_path,
                       json_object_size(labels), weights, c->classes);
    char name[80];
    if (!vt_hub_architecture(h, name, sizeof name)) return VT_OK;
    const vt_preset *p = vt_preset_find(name);
    if (p && strcmp(p->arch, c->arch))
        return vt_fail(e, VT_E_SHAPE, "%s: says %s, which is a %s, but the tensors of %s are of a %s", h->config_path,
                       name, p->arch, weights, c->arch);
    return VT_OK;
}
