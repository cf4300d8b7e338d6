/* SPDX-License-Identifier: MIT */
#include "checkpoint/hub.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
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

/* Reads a JSON object; VT_OK with *out NULL: there is no such file. VT_E_FORMAT: it holds no object. */
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

vt_status vt_hub_open(vt_hub *h, const char *weights, const char *args, vt_err *e) {
    memset(h, 0, sizeof *h);
    const char *slash = strrchr(weights, '/');
    int folder = slash ? (int)(slash - weights) + 1 : 0;
    snprintf(h->args_from, sizeof h->args_from, "timm's training arguments in %.42s", weights + folder);
    if (args) VT_TRY(vt_hub_parse(&h->args, args, strlen(args), h->args_from, e));
    if (folder > (int)sizeof h->config_path - 32) return VT_OK; /* no room for its name: not looked for */
    snprintf(h->config_path, sizeof h->config_path, "%.*sconfig.json", folder, weights);
    snprintf(h->pre_path, sizeof h->pre_path, "%.*spreprocessor_config.json", folder, weights);
    vt_status s = read_file(&h->config, h->config_path, e);
    if (s == VT_OK) s = read_file(&h->pre, h->pre_path, e);
    if (s != VT_OK) vt_hub_close(h);
    return s;
}

void vt_hub_close(vt_hub *h) {
    json_decref(h->config);
    json_decref(h->pre);
    json_decref(h->args);
    h->config = h->pre = h->args = NULL;
}

/* Returns the value of a key in one of timm's groups, else at the top; NULL: none, or null. */
static const json_t *find_json_value(const json_t *of, const char *key) {
    static const char *const groups[] = {"model_args", "model_kwargs", "pretrained_cfg", "default_cfg",
                                         "vision_config"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const json_t *v = json_object_get(json_object_get(of, groups[i]), key);
        if (v && !json_is_null(v)) return v;
    }
    const json_t *v = json_object_get(of, key);
    return v && !json_is_null(v) ? v : NULL;
}

const json_t *vt_hub_get(const vt_hub *h, const char *key, const char **from) {
    const json_t *v = find_json_value(h->config, key);
    *from = v ? "config.json" : h->args_from;
    return v ? v : find_json_value(h->args, key);
}

const char *vt_hub_number(const vt_hub *h, const char *const *keys, char *buf, const char **from) {
    for (; *keys; keys++) {
        const json_t *v = vt_hub_get(h, *keys, from);
        if (!json_is_number(v)) continue;
        snprintf(buf, 32, "%.17g", json_number_value(v));
        return buf;
    }
    return NULL;
}

const json_t *vt_hub_args(const vt_hub *h, const char *key) { return find_json_value(h->args, key); }

bool vt_hub_architecture(const vt_hub *h, char *out, size_t size, const char **from) {
    const char *name = json_string_value(json_object_get(h->config, "architecture"));
    *from = name ? "architecture in config.json" : h->args_from;
    if (!name) name = json_string_value(json_object_get(h->args, "model"));
    if (!name) return false;
    snprintf(out, size, "%.*s", (int)strcspn(name, "."), name);
    return true;
}

const char *vt_hub_word(const json_t *v, char *buf, size_t size) {
    if (json_is_string(v)) return json_string_value(v);
    if (json_is_boolean(v)) return json_is_true(v) ? "1" : "0";
    if (!json_is_integer(v)) return NULL;
    snprintf(buf, size, "%lld", (long long)json_integer_value(v));
    return buf;
}

/* ---- pixels ---- */

bool vt_hub_triple(const json_t *v, double out[3]) {
    if (!json_is_array(v) || json_array_size(v) != 3) return false;
    for (size_t k = 0; k < 3; k++) {
        if (!json_is_number(json_array_get(v, k))) return false;
        out[k] = json_number_value(json_array_get(v, k));
    }
    return true;
}

/* Returns a truth value of preprocessor_config.json, or `absent` if it is not there. */
static bool is_on(const vt_hub *h, const char *key, bool absent) {
    const json_t *v = json_object_get(h->pre, key);
    return json_is_boolean(v) ? json_is_true(v) : absent;
}

bool vt_hub_pixels(const vt_hub *h, bool std, double out[3], const char **from) {
    const char *key = std ? "std" : "mean";
    *from = "config.json";
    if (vt_hub_triple(find_json_value(h->config, key), out)) return true;
    *from = h->args_from;
    if (!h->pre) return vt_hub_triple(find_json_value(h->args, key), out);
    *from = "preprocessor_config.json";
    if (!is_on(h, "do_normalize", true))
        for (int k = 0; k < 3; k++) out[k] = std;
    else if (!vt_hub_triple(json_object_get(h->pre, std ? "image_std" : "image_mean"), out))
        return false;
    /* Bytes are multiplied by rescale_factor f, usually 1/255, pixels here are bytes / 255: (255 f x - mean) / std */
    const json_t *f = json_object_get(h->pre, "rescale_factor");
    double factor = 255 * (!is_on(h, "do_rescale", true) ? 1 : json_is_number(f) ? json_number_value(f) : 1.0 / 255);
    if (fabs(factor - 1) < 1e-9) return true; /* as it is written */
    for (int k = 0; k < 3; k++) out[k] /= factor;
    return true;
}

/* Reads a side in pixels, 1 to 65535, into *out; false: no such number (a number out of range is in *out then). */
static bool side_of(const json_t *v, double *out) {
    if (!json_is_number(v)) return false;
    *out = json_number_value(v);
    return *out >= 1 && *out <= 65535 && *out == floor(*out);
}

/* Reads the side of a square: a number, or {"height": n, "width": n}; false: neither, or no square. */
static bool square_of(const json_t *v, double *out) {
    double w;
    if (!json_is_object(v)) return side_of(v, out);
    return side_of(json_object_get(v, "height"), out) && side_of(json_object_get(v, "width"), &w) && w == *out;
}

static const char *const filters[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"}; /* Pillow's */

/* Writes the transform of Hugging Face's processor: ViT's, DeiT's and Swin's take `size` as a square; shortest_edge
 * keeps the aspect. false: nothing, or nothing of that form. */
static bool transform_hf(const vt_hub *h, char *out, size_t size) {
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

/* Writes timm's transform: floor(size / crop_pct) of the shorter side, or of both, then the centre. Its defaults:
 * timm/data/config.py. false: no side, or a filter, crop or share that is not of that form. */
static bool transform_timm(const vt_hub *h, char *out, size_t size) {
    const char *from, *wish = json_string_value(vt_hub_get(h, "interpolation", &from));
    const char *mode = json_string_value(vt_hub_get(h, "crop_mode", &from));
    const json_t *pct = vt_hub_get(h, "crop_pct", &from);
    double part = json_is_number(pct) ? json_number_value(pct) : 0.875;
    int side = vt_hub_image(h, &from), filter = 0;
    bool squash = mode && !strcmp(mode, "squash");
    if (!wish) wish = "bicubic";
    while (filter < 6 && strcmp(filters[filter], wish)) filter++;
    if (!side || filter == 6 || (mode && !squash && strcmp(mode, "center")) || !(part > 0.01 && part <= 1))
        return false;
    snprintf(out, size, "%s:%.0f,%s,crop:%d", squash ? "squash" : "short", floor(side / part), wish, side);
    return true;
}

/* timm's arguments leave the crop to the model's defaults, which are not in the file, unless they say it. */
bool vt_hub_transform(const vt_hub *h, char *out, size_t size, const char **from) {
    *from = h->pre ? "preprocessor_config.json" : "config.json";
    if (h->pre) return transform_hf(h, out, size);
    if (json_is_array(find_json_value(h->config, "input_size"))) return transform_timm(h, out, size);
    *from = h->args_from;
    return json_is_number(find_json_value(h->args, "crop_pct")) && transform_timm(h, out, size);
}

/* Finds the side of square images by img_size, image_size or input_size of an object; false: none says it. */
static bool side_in(const json_t *of, double *side) {
    const json_t *input = find_json_value(of, "input_size"); /* [3, height, width] */
    double width;
    return square_of(find_json_value(of, "img_size"), side) || square_of(find_json_value(of, "image_size"), side) ||
           (side_of(json_array_get(input, 1), side) && side_of(json_array_get(input, 2), &width) && *side == width);
}

int vt_hub_image(const vt_hub *h, const char **from) {
    double side;
    *from = "config.json";
    if (side_in(h->config, &side)) return (int)side;
    *from = h->args_from;
    return side_in(h->args, &side) ? (int)side : 0;
}

/* ---- the names of the outputs ---- */

/* Returns the name of output k in a list, or in an object whose keys are numbers. */
static const char *find_label(const json_t *names, int k) {
    char key[16];
    snprintf(key, sizeof key, "%d", k);
    return json_string_value(json_is_array(names) ? json_array_get(names, (size_t)k) : json_object_get(names, key));
}

/* Writes a name as one line, control characters as blanks, with `end` after it. */
static void write_name(FILE *f, const char *name, char end) {
    for (; *name; name++) fputc((unsigned char)*name < ' ' ? ' ' : *name, f);
    fputc(end, f);
}

vt_status vt_hub_labels(const vt_hub *h, int classes, const char *own, char **out, vt_err *e) {
    const json_t *names = json_object_get(h->config, "id2label"),
                 *more = find_json_value(h->config, "label_descriptions");
    vt_text_stream w;
    int lines = 0;
    if (!names) names = find_json_value(h->config, "label_names");
    *out = NULL;
    for (const char *c = own; c && *c; c++) lines += *c == '\n';
    if (own && lines != classes) return VT_OK; /* of another head */
    for (int k = 0; !own && k < classes; k++) {
        const char *name = find_label(names, k);
        if (!name || !*name || !strncmp(name, "LABEL_", 6)) return VT_OK;
    }
    FILE *f = vt_text_stream_open(&w);
    if (f && own) fputs(own, f);
    for (int k = 0; f && !own && k < classes; k++) {
        const char *name = find_label(names, k), *word = json_string_value(json_object_get(more, name));
        write_name(f, name, word ? '\t' : '\n');
        if (word) write_name(f, word, '\n');
    }
    *out = vt_text_stream_close(&w);
    return *out ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the names of %d classes", classes);
}

/* ---- does it describe these weights? ---- */

/* Fails with VT_E_SHAPE for a key whose value v is another than `is`, which the tensors say. */
static vt_status fail_contradiction(const char *who, const char *key, const json_t *v, int is, const char *weights,
                                    vt_err *e) {
    return vt_fail(e, VT_E_SHAPE, "%s: %s is %lld, but the tensors of %s say %d", who, key,
                   (long long)json_integer_value(v), weights, is);
}

vt_status vt_hub_check(const vt_hub *h, const vt_config *c, const char *weights, vt_err *e) {
    const struct {
        const char *key, *arg; /* in config.json, in timm's arguments */
        int is;
        bool vit_alone; /* means something else elsewhere */
    } rows[] = {{"num_classes", "num_classes", c->classes, false}, {"num_labels", "num_classes", c->classes, false},
                {"hidden_size", "embed_dim", c->dim, true},        {"num_hidden_layers", "depth", c->depth, true},
                {"intermediate_size", NULL, c->hidden, true},      {"patch_size", "patch_size", c->patch, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *v = json_object_get(h->config, rows[i].key);
        const json_t *a = rows[i].arg ? find_json_value(h->args, rows[i].arg) : NULL;
        if (!i && !v)
            v = find_json_value(h->config, rows[i].key); /* pretrained_cfg may be of the model before fine-tuning */
        if (rows[i].vit_alone && strcmp(c->arch, "vit")) continue;
        const bool one = i < 2 && c->classes == 2 && json_integer_value(v) == 1; /* checkpoint/head */
        if (json_is_integer(v) && json_integer_value(v) != rows[i].is && !one)
            return fail_contradiction(h->config_path, rows[i].key, v, rows[i].is, weights, e);
        if (json_is_integer(a) && json_integer_value(a) != rows[i].is)
            return fail_contradiction(h->args_from, rows[i].arg, a, rows[i].is, weights, e);
    }
    const json_t *labels = json_object_get(h->config, "id2label");
    if (json_object_size(labels) && json_object_size(labels) != (size_t)c->classes)
        return vt_fail(e, VT_E_SHAPE, "%s: id2label names %zu classes, but the head in %s has %d", h->config_path,
                       json_object_size(labels), weights, c->classes);
    char name[80];
    const char *from;
    if (!vt_hub_architecture(h, name, sizeof name, &from)) return VT_OK;
    const vt_preset *p = vt_preset_find(name);
    if (p && strcmp(p->arch, c->arch))
        return vt_fail(e, VT_E_SHAPE, "%s: says %s, which is a %s, but the tensors of %s are of a %s",
                       from == h->args_from ? from : h->config_path, name, p->arch, weights, c->arch);
    return VT_OK;
}
