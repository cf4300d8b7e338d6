/* SPDX-License-Identifier: MIT */
/* What is tried, and how a user would ask for it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "eval/doctor/doctor.h"
#include "models/arch.h"
#include "checkpoint/provenance.h"
#include "models/vit.h"

/* ---- mean and std in use ---- */

typedef struct known {
    const char *name;
    double mean[3], std[3];
    const char *data; /* whose they are: a data source (vt_dataset_def.name) */
    int classes;      /* of it; 0: any number */
} known;

static const known norms[] = {
    {"no normalisation", {0, 0, 0}, {1, 1, 1}, NULL, 0},
    {"0.5 / 0.5 (timm's ViT)", {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, NULL, 0},
    {"ImageNet", {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, "folder", 0},
    {"CIFAR-10, std .2470", {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}, "cifar", 10},
    {"CIFAR-10, std .2471", {0.4914, 0.4822, 0.4465}, {0.2471, 0.2435, 0.2616}, "cifar", 10},
    {"CIFAR-10, std .2023", {0.4914, 0.4822, 0.4465}, {0.2023, 0.1994, 0.2010}, "cifar", 10},
    {"CIFAR-100, std .2675", {0.5071, 0.4867, 0.4408}, {0.2675, 0.2565, 0.2761}, "cifar", 100},
    {"CLIP", {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, NULL, 0},
    {"raw pixels 0 to 255", {0, 0, 0}, {1 / 255.0, 1 / 255.0, 1 / 255.0}, NULL, 0},
};

/* Returns whether three numbers are equal to a relative 1e-6. */
static bool same_triple(const double *a, const double *b) {
    for (int k = 0; k < 3; k++)
        if (!(fabs(a[k] - b[k]) <= 1e-6 * fabs(b[k]))) return false;
    return true;
}

/* Returns whether both configurations have the same mean and std (same_triple). */
static bool same_norm(const vt_config *a, const vt_config *b) {
    return same_triple(a->mean, b->mean) && same_triple(a->std, b->std);
}

bool vt_doctor_own_norm(const vt_dataset *data, const vt_setting *s) {
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        const known *n = &norms[i];
        if (n->data && !strcmp(n->data, data->def->name) && (!n->classes || n->classes == data->classes) &&
            same_triple(s->config.mean, n->mean) && same_triple(s->config.std, n->std))
            return true;
    }
    return false;
}

/* Returns whether both transforms are written the same. */
static bool same_transform(const vt_transform *a, const vt_transform *b) {
    char x[64], y[64];
    vt_transform_text(a, x, sizeof x), vt_transform_text(b, y, sizeof y);
    return !strcmp(x, y);
}

/* ---- the list ---- */

typedef struct list {
    const vt_model *model;
    const vt_setting *present;
    unsigned aspects;
    bool remote; /* pixels alone */
    vt_trial *out;
    int n, most;
    bool failed; /* no memory to tell whether a setting fits */
} list;

/* Adds a trial that so far is the present setting, to be changed. Returns its setting; NULL: the aspect is not wanted,
 * or no room. */
static vt_setting *add_trial(list *l, vt_aspect aspect, const char *what) {
    if (l->n == l->most || !(l->aspects & 1u << aspect)) return NULL;
    vt_trial *t = &l->out[l->n++];
    *t = (vt_trial){.aspect = aspect, .setting = *l->present};
    snprintf(t->what, sizeof t->what, "%s", what);
    return &t->setting;
}

/* Adds a trial of mean and std, both times `factor`, unless they are the present ones or not sound. */
static void add_norm(list *l, vt_aspect aspect, const char *what, const double mean[3], const double std[3],
                     double factor) {
    vt_config c = l->present->config;
    for (int k = 0; k < 3; k++) c.mean[k] = mean[k] * factor, c.std[k] = std[k] * factor;
    bool sound = l->remote || vt_config_check(&c, NULL, NULL) == VT_OK;
    if (same_norm(&c, &l->present->config) || !sound) return;
    vt_setting *s = add_trial(l, aspect, what);
    if (s) s->config = c;
}

/* Adds the trials of means and stds in use, and of pixels 0 to 255. */
static void add_norms(list *l) {
    const vt_config *c = &l->present->config;
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        add_norm(l, VT_ASPECT_NORM, norms[i].name, norms[i].mean, norms[i].std, 1);
    if (l->remote) return; /* it has none that is known here */
    add_norm(l, VT_ASPECT_RANGE, "mean and std, on pixels 0 to 255", c->mean, c->std, 1 / 255.0);
    add_norm(l, VT_ASPECT_RANGE, "mean and std are of pixels 0 to 255", c->mean, c->std, 255);
}

/* Adds a trial of preprocessing t on bytes, unless it is the present one. */
static void add_bytes(list *l, vt_transform t) {
    char text[64], what[64];
    vt_transform_text(&t, text, sizeof text);
    snprintf(what, sizeof what, "%.63s", text);
    if (!l->present->config.native && same_transform(&t, &l->present->transform)) return;
    vt_setting *s = add_trial(l, VT_ASPECT_RESIZE, what);
    if (s) s->transform = t, s->config.native = 0;
}

/* Adds a trial in which the network resizes images of that side itself. */
static void add_inside(list *l, vt_native_filter filter, int side, const char *what) {
    const vt_config *c = &l->present->config;
    if (c->native && c->native_filter == filter) return;
    vt_setting *s = add_trial(l, VT_ASPECT_RESIZE, what);
    if (s) s->config.native = side, s->config.native_filter = filter, s->transform = (vt_transform){0};
}

/* Adds trials of resizing images of width x height, if images and network differ in size or something is done to them
 * already; none for a network whose input is no square. */
static void add_resizes(list *l, int width, int height) {
    const vt_config *c = &l->present->config;
    int n = c->foreign.channels ? vt_shape_side(c->foreign) : c->image;
    bool fits = width == n && height == n;
    if (!n) return; /* a resize makes squares */
    if (fits && vt_transform_is_none(&l->present->transform)) return;
    if (fits) add_bytes(l, (vt_transform){0});
    for (int f = 0; f < 2; f++) {
        vt_filter filter = f ? VT_FILTER_BICUBIC : VT_FILTER_BILINEAR;
        add_bytes(l, (vt_transform){VT_FIT_SQUASH, n, filter, 0});
        if (width == height && width < n) continue; /* a picture that is enlarged has no border to spare */
        add_bytes(l, vt_transform_timm(n, 0.875, filter, false));
        add_bytes(l, vt_transform_timm(n, 0.9, filter, false));
        add_bytes(l, (vt_transform){VT_FIT_SHORT, n, filter, n});
    }
    if (width != height || fits || l->remote) return;
    add_inside(l, VT_NATIVE_BILINEAR, width, "resized inside, bilinear");
    add_inside(l, VT_NATIVE_BICUBIC, width, "resized inside, bicubic");
    add_inside(l, VT_NATIVE_NEAREST, width, "resized inside, nearest");
}

/* Adds a trial of the scale of Q K^T, unless it is the present one. */
static void add_scale(list *l, const char *what, double scale) {
    if (fabs(scale / l->present->config.attn_scale - 1) <= 1e-6) return;
    vt_setting *s = add_trial(l, VT_ASPECT_SCALE, what);
    if (s) s->config.attn_scale = scale;
}

/* ---- the network: what no tensor tells ---- */

/* Returns a parameter's name, norm for fc_norm, which is the last norm if it comes after a mean. */
static const char *plain_name(const vt_param *p) { return p->name + 3 * !strncmp(p->name, "fc_norm.", 8); }

/* Returns whether the weights can be read by configuration c: it is sound, and has the same tensors. Sets of->failed if
 * there is no memory to tell. */
static bool is_readable_config(list *of, const vt_config *c) {
    const vt_model *m = of->model;
    vt_param_list l = {0};
    if (vt_config_check(c, NULL, NULL) != VT_OK) return false;
    vt_arch_find(c->arch)->params(&l, c);
    of->failed = of->failed || l.failed;
    bool same = !l.failed && l.count == m->params.count;
    for (int i = 0; same && i < l.count; i++) {
        const vt_param *a = &l.items[i], *b = &m->params.items[i];
        same = !strcmp(plain_name(a), plain_name(b)) && a->offset == b->offset && a->numel == b->numel;
    }
    vt_param_list_free(&l);
    return same;
}

/* Adds a trial of another configuration, if the weights can be read by it. */
static void add_config(list *l, vt_aspect aspect, const vt_config *to, const char *what) {
    vt_setting *s = is_readable_config(l, to) ? add_trial(l, aspect, what) : NULL;
    if (s) s->config = *to;
}

/* Returns whether tensors prove this field, so that it is not doubted. */
static bool told_by_tensors(const vt_model *m, vt_field f) { return !strcmp(m->source[f], "tensors"); }

/* Returns c with another number of heads; a scale of head width ^ -0.5 follows it. */
static vt_config with_heads(const vt_config *c, int heads) {
    vt_config to = *c;
    bool by_width = fabs(c->attn_scale / (1 / sqrt((double)vt_config_attn_dim(c) / c->heads)) - 1) <= 1e-6;
    to.heads = heads;
    if (by_width) to.attn_scale = 1 / sqrt((double)vt_config_attn_dim(c) / heads);
    return to;
}

/* Adds a trial of heads, norm order and activation, named by what differs from the present setting. */
static void add_shape(list *l, const vt_config *c) {
    const vt_config *now = &l->present->config;
    char what[64] = "";
    size_t n = 0;
    if (c->heads != now->heads)
        n += (size_t)snprintf(what, sizeof what, ", %d head%s", c->heads, c->heads > 1 ? "s" : "");
    if (c->post_norm != now->post_norm)
        n += (size_t)snprintf(what + n, sizeof what - n, ", %s-norm", c->post_norm ? "post" : "pre");
    if (c->act != now->act) snprintf(what + n, sizeof what - n, ", %s", c->act == VT_ACT_RELU ? "ReLU" : "GELU");
    if (*what) add_config(l, VT_ASPECT_NETWORK, c, what + 2);
}

/* Returns the activation that is tried with the heads: GELU for ReLU, else ReLU. */
static vt_act other_activation(const vt_config *c) { return c->act == VT_ACT_RELU ? VT_ACT_GELU : VT_ACT_RELU; }

/* Adds trials of number of heads, order of the norms and activation, each with each: a model whose three values are all
 * wrong is at chance until all three are right. */
static void add_shapes(list *l) {
    const vt_config *c = &l->present->config;
    int heads[VT_HEADS_MOST + 1],
        n = told_by_tensors(l->model, VT_FIELD_HEADS) ? 0 : vt_heads_likely(vt_config_attn_dim(c), heads);
    heads[n++] = c->heads;
    for (int i = 0; i < n; i++) {
        if (i < n - 1 && heads[i] == c->heads) continue;
        for (int k = 0; k < 4; k++) {
            vt_config to = with_heads(c, heads[i]);
            if (k & 1) to.post_norm = !c->post_norm;
            if (k & 2) to.act = other_activation(c);
            add_shape(l, &to);
        }
    }
}

/* Adds a trial of the other order of a Linear patch embedding's columns. */
static void add_patches(list *l) {
    vt_patch_order order = l->present->config.patch_order;
    bool chw = order == VT_PATCH_CHW;
    vt_setting *s =
        order == VT_PATCH_CONV
            ? NULL
            : add_trial(l, VT_ASPECT_PATCH, chw ? "patch columns hwc (p1 p2 c)" : "patch columns chw (nn.Unfold)");
    if (s) s->config.patch_order = chw ? VT_PATCH_HWC : VT_PATCH_CHW;
}

/* Adds trials of what the head reads. With another mean the final norm stands where its name says: norm before it,
 * fc_norm after it (timm). */
static void add_pools(list *l) {
    static const char *const names[] = {"head reads the class token",        "head reads the mean of the patches",
                                        "head reads the mean of all tokens", "head reads class token and mean",
                                        "head reads mean and class token",   "head reads several class tokens"};
    const vt_config *c = &l->present->config;
    bool before = vt_model_param(l->model, "norm.weight") != NULL;
    const int mean = c->pool != VT_POOL_TOKENS, layers = c->head_layers > 1 ? c->head_layers : 1;
    for (int p = VT_POOL_TOKEN; p <= VT_POOL_TOKENS; p++) {
        vt_config to = *c;
        to.pool = (vt_pool)p, to.norm_first = p != VT_POOL_TOKEN && before;
        if (vt_readout_wide(c)) to.head_layers = layers + mean - (p != VT_POOL_TOKENS); /* as many rows as now */
        if (p == (int)c->pool || (p == VT_POOL_ALL && !vt_config_prefix(c))) continue;
        add_config(l, VT_ASPECT_POOL, &to, names[p]);
        if (c->pool != VT_POOL_TOKEN || (p != VT_POOL_AVG && p != VT_POOL_ALL)) continue;
        char what[64];
        to.norm_first = !to.norm_first; /* of one token both names say the same */
        snprintf(what, sizeof what, "%s, norm %s it", names[p], to.norm_first ? "before" : "behind");
        add_config(l, VT_ASPECT_POOL, &to, what);
    }
    if (c->pool != VT_POOL_AVG && c->pool != VT_POOL_ALL) return;
    vt_config to = *c;
    to.norm_first = !c->norm_first;
    add_config(l, VT_ASPECT_POOL, &to, to.norm_first ? "norm before the mean" : "norm behind the mean");
}

/* Adds a trial of a form (KEY=VALUE) that says how the checkpoint is read, if field f is assumed. */
static void add_file_form(list *l, vt_field f, const char *form, const char *what) {
    vt_config to = l->present->config;
    if (l->model->certainty[f] == VT_ASSUMED && vt_form_parse(&to, form, "", NULL) == VT_OK)
        add_config(l, VT_ASPECT_FILE, &to, what);
}

/* Adds trials of other forms of the checkpoint, where assumed: rows of qkv by head or dimension, class token behind the
 * patches, embedding times the root of the width. */
static void add_file_forms(list *l) {
    char form[60];
    const vt_config *c = &l->present->config;
    if (c->qkv_rows != VT_QKV_HEADS && c->heads > 1)
        add_file_form(l, VT_FIELD_QKV_ROWS, "qkv_rows=heads", "rows of qkv: q, k, v of a head");
    if (c->qkv_rows != VT_QKV_DIMS)
        add_file_form(l, VT_FIELD_QKV_ROWS, "qkv_rows=dims", "rows of qkv: q, k, v of a dimension");
    if (!c->class_last) add_file_form(l, VT_FIELD_CLASS_LAST, "class_last=1", "class token behind the patches");
    snprintf(form, sizeof form, "embed_scale=%.9g", sqrt((double)c->dim));
    if (!(c->embed_scale > 1)) add_file_form(l, VT_FIELD_EMBED_SCALE, form, "embedding times the root of the width");
}

/* Adds trials of GELU's other forms on top of GELU: with ReLU each would look like an answer. */
static void add_acts(list *l) {
    const vt_config *c = &l->present->config;
    if (c->act == VT_ACT_RELU) return;
    const vt_form *f = vt_form_find("act");
    int n = 1;
    for (const char *p = f->opt.choices; *p; p++) n += *p == '|';
    for (int a = 0; a < n; a++) {
        vt_config to = *c;
        char word[32], what[64];
        to.act = (vt_act)a;
        vt_form_text(&to, f, word, sizeof word);
        snprintf(what, sizeof what, "activation %s", word);
        vt_setting *s = to.act != c->act && to.act != other_activation(c) ? add_trial(l, VT_ASPECT_ACT, what) : NULL;
        if (s) s->config = to;
    }
}

/* Adds trials of LayerNorm eps, attention scale, activation, forms of the checkpoint and distilled heads. */
static void add_network(list *l) {
    static const double eps[] = {1e-5, 1e-6, 1e-12};
    static const char *const heads[] = {"mean of both heads", "class head alone", "distillation head alone"};
    const vt_config *c = &l->present->config;
    vt_setting *s;
    char what[64];
    for (size_t i = 0; i < sizeof eps / sizeof *eps; i++) {
        snprintf(what, sizeof what, "LayerNorm eps %g", eps[i]);
        if (fabs(c->ln_eps / eps[i] - 1) > 1e-6 && (s = add_trial(l, VT_ASPECT_EPS, what))) s->config.ln_eps = eps[i];
    }
    add_scale(l, "attention scale: head width ^ -0.5", 1 / sqrt((double)vt_config_attn_dim(c) / c->heads));
    add_scale(l, "attention scale: width ^ -0.5", 1 / sqrt((double)c->dim));
    add_acts(l);
    add_file_forms(l);
    for (int h = VT_DIST_MEAN; c->dist_token && h <= VT_DIST_DIST; h++)
        if (c->dist_head != (vt_dist_head)h && (s = add_trial(l, VT_ASPECT_DIST, heads[h])))
            s->config.dist_head = (vt_dist_head)h;
}

int vt_doctor_list(const vt_doctor *d, const vt_setting *present, int width, int height, vt_trial *out, int most) {
    list l = {.model = d->model,
              .present = present,
              .remote = vt_doctor_pixels_alone(d),
              .aspects = d->aspects | 1u << VT_ASPECT_NONE,
              .out = out,
              .most = most};
    add_trial(&l, VT_ASPECT_NONE, "as it is");
    add_norms(&l);
    vt_setting *s = d->model->config.network ? NULL
                                             : add_trial(&l, VT_ASPECT_CHANNELS,
                                                         present->config.bgr ? "red, green, blue" : "blue, green, red");
    if (s) s->config.bgr = !present->config.bgr;
    add_resizes(&l, width, height);
    if (l.remote) return l.n;
    add_network(&l);
    add_shapes(&l);
    add_pools(&l);
    add_patches(&l);
    return l.failed ? -1 : l.n;
}

/* ---- options ---- */

/* Options that are put together: a text of `size` bytes. */
typedef struct options {
    char *text;
    size_t size;
} options;

#define ADD_OPTION(o, ...) vt_text_item((o)->text, (o)->size, " ", VT_OPTION __VA_ARGS__)

void vt_setting_words(char *buf, size_t size, const vt_setting *to, const vt_setting *from) {
    const vt_config *a = &to->config, *b = &from->config;
    char how[64];
    buf[0] = 0;
    if (!same_norm(a, b))
        vt_text_item(buf, size, "", "(x - mean) / std with mean %.6g,%.6g,%.6g and std %.6g,%.6g,%.6g", a->mean[0],
                     a->mean[1], a->mean[2], a->std[0], a->std[1], a->std[2]);
    if (a->bgr != b->bgr) vt_text_item(buf, size, " of ", "its planes in the order blue, green, red");
    vt_transform_text(&to->transform, how, sizeof how);
    if (!same_transform(&to->transform, &from->transform))
        vt_text_item(buf, size, " after ", VT_OPTION "preprocess %s", how);
}

/* Returns whether the scale is head width ^ -0.5. */
static bool by_head_width(const vt_config *c) {
    return c->attn_scale == 1 / sqrt((double)vt_config_attn_dim(c) / c->heads);
}

/* Adds --attn-scale for c's scale. */
static void add_scale_option(options *o, const vt_config *c) {
    bool dim = c->attn_scale == 1 / sqrt((double)c->dim);
    if (by_head_width(c) || dim)
        ADD_OPTION(o, "attn-scale %s", by_head_width(c) ? "head" : "dim");
    else
        ADD_OPTION(o, "attn-scale %.9g", c->attn_scale);
}

/* Adds the option that sets field f to c's value; forms: collects the values of one option for all forms, NULL: an
 * option each. */
static void add_value_option(options *o, options *forms, const vt_config *c, vt_field f) {
    const double *v = f == VT_FIELD_MEAN ? c->mean : c->std;
    const char *key = vt_field_key(f);
    const vt_form *form = vt_form_find(key);
    char word[VT_FORM_VALUE];
    if (f == VT_FIELD_HEADS) ADD_OPTION(o, "heads %d", c->heads);
    if (f == VT_FIELD_IMAGE) ADD_OPTION(o, "image-size %d", c->image);
    if (f == VT_FIELD_LN_EPS) ADD_OPTION(o, "ln-eps %g", c->ln_eps);
    if (f == VT_FIELD_ATTN) ADD_OPTION(o, "attn %s", c->attn);
    if (f == VT_FIELD_SCALE) add_scale_option(o, c);
    if (f == VT_FIELD_MEAN || f == VT_FIELD_STD) {
        ADD_OPTION(o, "%s %.9g", key, v[0]);
        if (!(v[0] == v[1] && v[1] == v[2])) vt_text_item(o->text, o->size, "", ",%.9g,%.9g", v[1], v[2]);
    }
    if (!form) return;
    vt_form_text(c, form, word, sizeof word);
    if (forms)
        vt_text_item(forms->text, forms->size, " ", "%s=%s", key, word);
    else
        ADD_OPTION(o, "form %s=%s", key, word);
}

/* Returns whether an option is needed to get a's value of field f where b's is read. pool: an option sets the pool. */
static bool is_changed(const vt_config *a, const vt_config *b, vt_field f, bool pool) {
    const vt_form *form = vt_form_find(vt_field_key(f));
    char now[VT_FORM_VALUE], was[VT_FORM_VALUE];
    switch (f) {
    case VT_FIELD_MEAN:
    case VT_FIELD_STD:
        return !same_norm(a, b);
    case VT_FIELD_HEADS:
        return a->heads != b->heads;
    case VT_FIELD_LN_EPS: /* of the other norm order another eps is usual */
        return a->ln_eps != b->ln_eps || a->post_norm != b->post_norm;
    case VT_FIELD_SCALE: /* one by the width of the heads follows them */
        return by_head_width(a) ? !by_head_width(b) : by_head_width(b) || a->attn_scale != b->attn_scale;
    case VT_FIELD_NORM_FIRST: /* of one token it says nothing */
        if (a->pool == b->pool) return a->norm_first != b->norm_first;
        return b->pool == VT_POOL_TOKEN && (a->pool == VT_POOL_AVG || a->pool == VT_POOL_ALL) &&
               (pool || !a->norm_first);
    default:
        vt_form_text(a, form, now, sizeof now), vt_form_text(b, form, was, sizeof was);
        return strcmp(now, was) != 0;
    }
}

void vt_setting_options(char *buf, size_t size, const vt_setting *to, const vt_setting *from, const vt_model *m,
                        vt_certainty least) {
    static const vt_field tried[] = {VT_FIELD_NATIVE_FILTER, VT_FIELD_MEAN,     VT_FIELD_STD,
                                     VT_FIELD_BGR,           VT_FIELD_HEADS,    VT_FIELD_POST_NORM,
                                     VT_FIELD_LN_EPS,        VT_FIELD_SCALE,    VT_FIELD_ACT,
                                     VT_FIELD_DIST_HEAD,     VT_FIELD_POOL,     VT_FIELD_NORM_FIRST,
                                     VT_FIELD_PATCH_ORDER,   VT_FIELD_QKV_ROWS, VT_FIELD_CLASS_LAST,
                                     VT_FIELD_EMBED_SCALE};
    const vt_config *a = &to->config, *b = &from->config;
    options o = {buf, size}, forms = {(char[400]){""}, 400};
    const bool together = m && least == VT_ASSUMED;
    char how[64];
    buf[0] = 0;
    if (a->native != b->native) ADD_OPTION(&o, "attack-at %s", a->native ? "native" : "model");
    vt_transform_text(&to->transform, how, sizeof how);
    if (!same_transform(&to->transform, &from->transform)) ADD_OPTION(&o, "preprocess %s", how);
    for (int f = 0; m && f < VT_FIELD_COUNT; f++)
        if (m->certainty[f] >= least) add_value_option(&o, together ? &forms : NULL, a, (vt_field)f);
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        const vt_field f = tried[i];
        const bool said = m && m->certainty[f] >= least, pool = m && m->certainty[VT_FIELD_POOL] >= least;
        if (!said && is_changed(a, b, f, pool)) add_value_option(&o, NULL, a, f);
    }
    if (*forms.text) ADD_OPTION(&o, "form '%s'", forms.text);
}
