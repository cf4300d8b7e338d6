/* SPDX-License-Identifier: MIT */
#include "checkpoint/resolve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/opt.h"
#include "models/attn.h"
#include "checkpoint/args.h"
#include "checkpoint/sources.h"
#include "models/forms.h"
#include "models/vit.h"

static void record_assumption(const vt_sources *s, vt_field f, const char *from) {
    vt_sources_convention(s, f, s->whole ? s->whole : from);
}

/* The preset named by an option, or else the one whose shape is the file's. */
static vt_status find_preset(vt_sources *s, const vt_config *c, vt_err *e) {
    const char *named = s->o->preset;
    if (named) {
        VT_TRY(vt_preset_named(named, &s->preset, e));
        if (strcmp(s->preset->arch, c->arch))
            return vt_fail(e, VT_E_SHAPE, "%s: is a %s, but preset %s is a %s", vt_tensors_path(s->st), c->arch, named,
                           s->preset->arch);
        if (s->preset->dim != c->dim || s->preset->depth != c->depth)
            return vt_fail(e, VT_E_SHAPE, "%s: width %d and depth %d, but preset %s has %d and %d",
                           vt_tensors_path(s->st), c->dim, c->depth, named, s->preset->dim, s->preset->depth);
        snprintf(s->preset_why, sizeof s->preset_why, "preset %s", named);
        return VT_OK;
    }
    int n;
    const vt_preset *all = vt_presets(&n);
    for (int i = 0; i < n && !s->preset; i++)
        if (!strcmp(all[i].arch, c->arch) && all[i].dim == c->dim && all[i].depth == c->depth &&
            all[i].hidden == c->hidden && all[i].qkv_bias == c->qkv_bias) {
            s->preset = &all[i];
            snprintf(s->preset_why, sizeof s->preset_why, "shape of preset %s", all[i].name);
        }
    return VT_OK;
}

/* vitrine's own metadata, which leave out forms at their default. */
static bool own_metadata(const vt_sources *s, const vt_config *c) {
    const char *arch = vt_tensors_meta(s->st, "architecture");
    return arch && !strcmp(arch, c->arch) && vt_tensors_meta(s->st, "attn") && vt_tensors_meta(s->st, "attn_scale");
}

/* Who describes the network as a whole: a preset by name, vitrine's own metadata, timm's or transformers' config.json
 * (whose class has one norm order and, unless it says otherwise, one activation) where every key is understood. */
static const char *whole_of(const vt_sources *s, const vt_config *c) {
    static const char *const types[] = {"vit", "deit", "swin"};
    const char *from, *type = json_string_value(vt_hub_get(&s->hub, "model_type", &from));
    if (s->o->preset) return s->preset_why;
    if (own_metadata(s, c)) return VT_OWN_METADATA;
    if (*s->t->unread) return NULL;
    if (s->named) return s->named_from;
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i])) return "model_type in config.json";
    return NULL;
}

/* The heads of the architecture that is named: timm's, unless model_args or model_kwargs says otherwise. */
static bool named_heads(const vt_sources *s, double *out, const char **from) {
    if (s->named) *out = s->named->heads, *from = s->named_from;
    return s->named != NULL;
}

/* No tensor excludes another number: a map that nobody asked for, or a preset's shape, only says where to begin. */
static void guess_heads(vt_config *c, const vt_sources *s) {
    int likely[VT_HEADS_MOST], width = vt_config_attn_dim(c);
    double v;
    const char *from, *who = "a guess";
    vt_heads_likely(width, likely);
    c->heads = likely[0];
    if (s->preset && width % s->preset->heads == 0) c->heads = s->preset->heads, who = s->preset_why;
    if (vt_sources_scheme_number(s, "heads", &v, &from) && v <= width && width % (int)v == 0)
        c->heads = (int)v, who = from;
    vt_sources_mark(s, VT_FIELD_HEADS, who, VT_OPEN);
}

static vt_status resolve_heads(vt_config *c, const vt_sources *s, vt_err *e) {
    static const char *const keys[] = {"heads", "num_heads", "num_attention_heads", NULL};
    const int width = vt_config_attn_dim(c);
    double v;
    const char *from = VT_OPTION "heads";
    if (*s->t->source[VT_FIELD_HEADS]) { /* tensors tell (Swin's tables) */
        if (!s->o->heads || s->o->heads == c->heads) return VT_OK;
        return vt_fail(e, VT_E_USAGE, "%s: @heads %d contradicts the tensors, which say %d", vt_tensors_path(s->st),
                       s->o->heads, c->heads);
    }
    if (s->o->heads)
        v = s->o->heads;
    else if (vt_sources_number(s, keys, &v, &from) || named_heads(s, &v, &from))
        ;
    else if (s->o->preset)
        v = s->preset->heads, from = s->preset_why;
    else {
        guess_heads(c, s);
        return VT_OK;
    }
    if (!s->o->heads && (!(v >= 1 && v <= width) || v != floor(v)))
        return vt_fail(e, VT_E_RANGE, "%s: %s says %g heads, must be a whole number between 1 and %d",
                       vt_tensors_path(s->st), vt_option_argument(from), v, width);
    c->heads = (int)v;
    vt_sources_known(s, VT_FIELD_HEADS, from);
    if (c->heads > 0 && width % c->heads == 0) return VT_OK;
    if (c->attn_dim)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: attention is %d wide by the tensors (attn.qkv has 3 x %d rows, the model is %d wide), no "
                       "multiple of %d heads (%s)",
                       vt_tensors_path(s->st), width, width, c->dim, c->heads, vt_option_argument(from));
    return vt_fail(e, VT_E_SHAPE, "%s: width %d is not a multiple of %d heads (%s)", vt_tensors_path(s->st), c->dim,
                   c->heads, vt_option_argument(from));
}

/* timm's order and kind of norm; other forms, and timm's CLIP models, have PyTorch's own modules, with their eps. */
static bool plain_norm(const vt_config *c) { return c->norm == VT_NORM_LAYER && !c->post_norm && !c->norm_pre; }

/* The default where names tell the library: timm's modules, or else PyTorch's own. */
static void usual_ln_eps(vt_config *c, const vt_sources *s) {
    bool torch = !s->names->def || !plain_norm(c);
    const char *from = "default of the architecture";
    if (torch)
        c->ln_eps = 1e-5, from = "default of PyTorch's modules";
    else if (s->preset)
        c->ln_eps = s->preset->ln_eps, from = s->preset_why;
    else if (!(c->ln_eps > 0))
        c->ln_eps = 1e-6, from = "default of timm's ViT";
    record_assumption(s, VT_FIELD_LN_EPS, from);
}

static void resolve_ln_eps(vt_config *c, const vt_sources *s) {
    static const char *const keys[] = {"ln_eps", "layer_norm_eps", NULL};
    const char *from, *type = json_string_value(vt_hub_get(&s->hub, "model_type", &from));
    if (s->o->ln_eps > 0) {
        c->ln_eps = s->o->ln_eps;
        vt_sources_known(s, VT_FIELD_LN_EPS, VT_OPTION "ln-eps");
    } else if (vt_sources_number(s, keys, &c->ln_eps, &from)) {
        vt_sources_known(s, VT_FIELD_LN_EPS, from);
    } else if (type && !strcmp(type, "vit_msn")) { /* ViT's names, another default */
        c->ln_eps = 1e-6;
        vt_sources_known(s, VT_FIELD_LN_EPS, "model_type in config.json");
    } else if (vt_sources_scheme_number(s, "ln_eps", &c->ln_eps, &from)) {
        vt_sources_scheme_known(s, VT_FIELD_LN_EPS, "ln_eps");
    } else if (s->o->preset || s->named) {
        c->ln_eps = s->o->preset ? s->preset->ln_eps : s->named->ln_eps;
        vt_sources_known(s, VT_FIELD_LN_EPS, s->whole);
    } else {
        usual_ln_eps(c, s);
    }
}

/* The scale that multiplies Q K^T: head (head width ^ -0.5), dim (width ^ -0.5) or a number. */
static vt_status resolve_scale(vt_config *c, const vt_sources *s, vt_err *e) {
    const char *text = s->o->attn_scale, *from = VT_OPTION "attn-scale";
    char number[40];
    const json_t *v = NULL;
    if (!text) text = vt_sources_meta(s, "attn_scale", &from);
    if (!text && json_is_number(v = vt_hub_get(&s->hub, "qk_scale", &from))) {
        snprintf(number, sizeof number, "%.17g", json_number_value(v));
        text = number;
    }
    bool said = text != NULL;
    if (!said && !(text = vt_sources_scheme(s, "attn_scale", &from)))
        text = "head", from = s->whole ? s->whole : "default: head width ^ -0.5";
    if (!strcmp(text, "head"))
        c->attn_scale = 1 / sqrt((double)vt_config_attn_dim(c) / c->heads);
    else if (!strcmp(text, "dim"))
        c->attn_scale = 1 / sqrt((double)c->dim);
    else if (!vt_parse_real(text, &c->attn_scale) || !(c->attn_scale > 0))
        return vt_fail(e, VT_E_USAGE, "%s: attention scale is '%s' (%s), must be head, dim or a number above 0",
                       vt_tensors_path(s->st), text, vt_option_argument(from));
    if (said || vt_sources_proven(s, "attn_scale"))
        vt_sources_known(s, VT_FIELD_SCALE, from);
    else
        vt_sources_convention(s, VT_FIELD_SCALE, from);
    return VT_OK;
}

/* timm's mean is over the patches unless pool_include_prefix is true. */
static const char *mean_of(const vt_sources *s, const char *pool) {
    const char *from;
    const bool all = json_is_true(vt_hub_get(&s->hub, "pool_include_prefix", &from));
    return all && !strcmp(pool, "avg") ? "all" : pool;
}

/* The value that wins for a form, and where it stands; NULL: nowhere. */
static const char *form_value(const vt_sources *s, const vt_overrides *o, const vt_form *f, const vt_config *preset,
                              char buf[VT_FORM_VALUE], const char **from) {
    const char *text = vt_form_given(o, f->opt.key, buf);
    if (text) {
        *from = VT_OPTION "form";
        return text;
    }
    if ((text = vt_sources_meta(s, f->opt.key, from))) return text;
    const json_t *v = f->json ? vt_hub_get(&s->hub, f->json, from) : NULL;
    char name[80];
    if (!v && f->field == VT_FIELD_ACT) v = vt_hub_get(&s->hub, "hidden_act", from); /* transformers */
    if (v && (text = vt_hub_word(v, buf, VT_FORM_VALUE))) return f->field == VT_FIELD_POOL ? mean_of(s, text) : text;
    if (!v && f->field == VT_FIELD_ACT && vt_hub_architecture(&s->hub, name, sizeof name, from) &&
        (text = vt_hub_act(name)))
        return text;
    if (!preset || vt_sources_proven(s, f->opt.key)) return vt_sources_scheme(s, f->opt.key, from);
    if (vt_form_is_default(preset, f)) return NULL;
    vt_form_text(preset, f, buf, VT_FORM_VALUE);
    *from = s->preset_why;
    return buf;
}

/* One form, where somebody says it. */
static vt_status resolve_form(vt_config *c, const vt_sources *s, const vt_form *f, const vt_config *preset, vt_err *e) {
    const char *from;
    char buf[VT_FORM_VALUE], asked[VT_FORM_VALUE], who[600], is[64], wanted[64];
    const char *text = form_value(s, s->o, f, preset, buf, &from);
    if (!text) return VT_OK;
    /* which tokens are pooled, and before or after the norm, no tensor says */
    bool known =
        !strcmp(s->t->source[f->field], "tensors") && f->field != VT_FIELD_POOL && f->field != VT_FIELD_NORM_FIRST;
    bool supposes = from == s->names->map->who && !s->names->asked;
    vt_config wish = *c;
    snprintf(who, sizeof who, "%.500s (%s)", vt_tensors_path(s->st), vt_option_argument(from));
    VT_TRY(vt_form_set(&wish, f, text, who, e));
    vt_form_text(c, f, is, sizeof is), vt_form_text(&wish, f, wanted, sizeof wanted);
    bool insists =
        vt_form_given(s->o, f->opt.key, asked) || (s->names->asked && vt_rename_value(s->names->map, f->opt.key));
    if (known && insists && strcmp(is, wanted))
        return vt_fail(e, VT_E_USAGE, "%s: %s %s=%s contradicts the tensors, which say %s", vt_tensors_path(s->st),
                       vt_option_argument(from), f->opt.key, wanted, is);
    if (known && (!vt_provenance_suggested(f->field) || strcmp(is, wanted))) return VT_OK;
    *c = wish;
    if (supposes)
        vt_sources_scheme_known(s, f->field, f->opt.key);
    else
        vt_sources_known(s, f->field, from);
    return VT_OK;
}

/* Forms that tensors do not tell. A preset counts when it was named: that a shape is the same says nothing of them. */
static vt_status resolve_forms(vt_config *c, const vt_sources *s, vt_err *e) {
    vt_config preset, unused = {0};
    const vt_overrides *o = s->o;
    if (o->preset) vt_preset_config(s->preset, &preset);
    memcpy(unused.arch, c->arch, sizeof unused.arch);
    for (int i = 0; i < o->n_form; i++) VT_TRY(vt_form_parse(&unused, o->form[i], vt_argument("form"), e));
    int n;
    const vt_form *forms = vt_forms(&n);
    for (int i = 0; i < n; i++) VT_TRY(resolve_form(c, s, &forms[i], o->preset ? &preset : NULL, e));
    return VT_OK;
}

/* How the columns of a Linear patch embedding were read; a convolution has been marked as told by tensors. */
static vt_status resolve_patch_order(vt_config *c, const vt_sources *s, vt_err *e) {
    const char *read = s->names->map->patch_order;
    if (!vt_names_linear(s->names)) return VT_OK;
    if (!*s->t->source[VT_FIELD_PATCH_ORDER]) {
        if (!read) read = vt_rename_value(s->names->map, "patch_order");
        c->patch_order = read && !strcmp(read, "chw") ? VT_PATCH_CHW : VT_PATCH_HWC;
        vt_sources_mark(s, VT_FIELD_PATCH_ORDER, "a guess", VT_OPEN);
    }
    if (c->patch_order != VT_PATCH_CONV) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: its patch embedding is a Linear: patch_order is conv (%s), must be chw or hwc",
                   vt_tensors_path(s->st), s->t->source[VT_FIELD_PATCH_ORDER]);
}

static vt_status resolve_attn(vt_config *c, const vt_sources *s, vt_err *e) {
    const char *attn = s->o->attn, *from = VT_OPTION "attn";
    if (!attn) attn = vt_sources_meta(s, "attn", &from);
    if (!attn && s->o->preset) attn = s->preset->attn, from = s->preset_why;
    bool said = attn != NULL;
    if (!said && !(attn = vt_sources_scheme(s, "attn", &from))) attn = "dot", from = s->whole ? s->whole : "default";
    vt_attn_spec spec;
    vt_err why = {0};
    if (vt_attn_parse(&spec, attn, &why) != VT_OK)
        return vt_fail(e, why.code, "%s: %s (%s)", vt_tensors_path(s->st), why.text, vt_option_argument(from));
    snprintf(c->attn, sizeof c->attn, "%s", spec.text);
    if (said || vt_sources_proven(s, "attn"))
        vt_sources_known(s, VT_FIELD_ATTN, from);
    else
        vt_sources_convention(s, VT_FIELD_ATTN, from);
    return VT_OK;
}

/* Where positions and register tokens allow two grids: takes the other one, if that is the grid of images of this side.
 */
static bool try_other_grid(const vt_tensors *st, vt_config *c, int side) {
    const vt_tensor *pos = vt_tensors_find(st, "pos_embed");
    if (strcmp(c->arch, "vit") || !pos || pos->ndim != 3 || !c->registers || c->patch < 1 || side % c->patch)
        return false;
    const int64_t grid = side / c->patch;
    vt_config other = *c;
    for (int reg = 0; reg < 2; reg++) {
        other.no_embed_class = !reg, other.no_embed_reg = reg;
        if (grid * grid + vt_config_placed(&other) != pos->shape[1]) continue;
        *c = other, c->image = side;
        return true;
    }
    return false;
}

/* The stride below the patch at which such images have as many patches as there are positions; 0: there is none. */
static int overlapping_stride(const vt_config *c, int side) {
    if (strcmp(c->arch, "vit") || c->positions || c->conv_stem || c->patch < 2 || side <= c->patch) return 0;
    const int steps = c->image / c->patch - 1, stride = steps > 2 ? (side - c->patch) / steps : 0;
    return stride > 0 && stride < c->patch && stride * steps == side - c->patch ? stride : 0;
}

/* The side of the input where the number of positions tells one: another is possible where it is said how they are
 * resized, or that they are. */
static vt_status resolve_grid(vt_config *c, const vt_sources *s, vt_err *e) {
    const char *from, *text = vt_sources_meta(s, "image", &from), *unused;
    char buf[64];
    bool said = form_value(s, s->o, vt_form_find("pos_filter"), NULL, buf, &unused) ||
                form_value(s, s->o, vt_form_find("pos_grid"), NULL, buf, &unused);
    double v = s->o->image;
    const int at_hand = s->o->image ? s->o->image : s->o->shown;
    if (at_hand && at_hand != c->image && !said && try_other_grid(s->st, c, at_hand)) return VT_OK;
    if (at_hand && at_hand != c->image && !said && overlapping_stride(c, at_hand))
        return vt_fail(e, VT_E_SHAPE,
                       "%s: %d x %d positions belong to images of %d x %d pixels, or to patches of %d pixels that "
                       "overlap "
                       "at a stride of %d on these of %d x %d, which vitrine does not compute: `vitrine eval @oracle` "
                       "evaluates such a network where it runs, say in PyTorch",
                       vt_tensors_path(s->st), c->image / c->patch, c->image / c->patch, c->image, c->image, c->patch,
                       overlapping_stride(c, at_hand), at_hand, at_hand);
    if (s->o->image) from = VT_OPTION "image-size";
    if (!s->o->image && said && text) vt_sources_parse(text, &v);
    if (v == 0 || v == c->image) return VT_OK;
    if (!said)
        return vt_fail(e, VT_E_USAGE, "%s: @image-size %d contradicts the tensors, which say %d",
                       vt_tensors_path(s->st), s->o->image, c->image);
    if (!(v >= c->patch && v <= 4096) || fmod(v, c->patch) != 0)
        return vt_fail(e, VT_E_RANGE,
                       "%s: %s says images of %g pixels a side, must be a multiple of the patch, %d, up to 4096",
                       vt_tensors_path(s->st), vt_option_argument(from), v, c->patch);
    c->pos_grid = c->image / c->patch, c->image = (int)v;
    vt_sources_known(s, VT_FIELD_POS_GRID, "tensors"), vt_sources_known(s, VT_FIELD_IMAGE, from);
    return VT_OK;
}

/* The side of the input where tensors leave it open (in a ViT: without stored positions); c->image is then a guess, or
 * 0. */
static vt_status resolve_image(vt_config *c, const vt_sources *s, vt_err *e) {
    const char *from, *text = vt_sources_meta(s, "image", &from);
    double v = 0;
    bool said = true;
    if (*s->t->source[VT_FIELD_IMAGE]) return resolve_grid(c, s, e);
    if (s->o->image)
        v = s->o->image, from = VT_OPTION "image-size";
    else if (text)
        vt_sources_parse(text, &v);
    else if ((v = vt_hub_image(&s->hub, &from)) > 0)
        ;
    else if (s->o->preset)
        v = s->preset->image, from = s->preset_why;
    else if (said = false, vt_sources_scheme_number(s, "image", &v, &from))
        ;
    else if (s->o->shown)
        v = s->o->shown, from = "the images given";
    else if (s->preset)
        v = s->preset->image, from = s->preset_why;
    else if (c->image > 0)
        v = c->image, from = "a guess: " VT_OPTION "image-size tells";
    else
        return vt_fail(e, VT_E_USAGE,
                       "%s: the side of the input image cannot be read off the tensors: give @image-size, @preset, a "
                       "map with a line 'set image N' (@names), or a config.json beside the file",
                       vt_tensors_path(s->st));
    if (!(v >= 1 && v <= 4096) || v != floor(v))
        return vt_fail(e, VT_E_RANGE,
                       "%s: %s says images of %g pixels a side, must be a whole number between 1 and 4096",
                       vt_tensors_path(s->st), vt_option_argument(from), v);
    c->image = (int)v;
    if (said)
        vt_sources_known(s, VT_FIELD_IMAGE, from);
    else
        vt_sources_convention(s, VT_FIELD_IMAGE, from);
    return VT_OK;
}

static vt_status resolve_all(vt_config *c, vt_sources *s, vt_err *e) {
    char name[80];
    VT_TRY(vt_hub_open(&s->hub, vt_tensors_path(s->st), vt_tensors_args(s->st), e));
    VT_TRY(find_preset(s, c, e));
    const vt_preset *named = NULL;
    if (vt_hub_architecture(&s->hub, name, sizeof name, &s->named_from)) named = vt_preset_find(name);
    if (named && !strcmp(named->arch, c->arch)) s->named = named;
    if (!own_metadata(s, c)) {
        VT_TRY(vt_hub_computed(&s->hub, vt_tensors_path(s->st), e));
        vt_hub_unread(&s->hub, s->t->unread, sizeof s->t->unread);
    }
    s->whole = whole_of(s, c);
    if (!vt_names_linear(s->names)) vt_sources_known(s, VT_FIELD_PATCH_ORDER, "tensors");
    VT_TRY(resolve_image(c, s, e));
    VT_TRY(resolve_heads(c, s, e));
    VT_TRY(resolve_forms(c, s, e));
    VT_TRY(resolve_patch_order(c, s, e));
    resolve_ln_eps(c, s);
    VT_TRY(resolve_scale(c, s, e));
    VT_TRY(resolve_attn(c, s, e));
    vt_resolve_pixels(c, s);
    VT_TRY(vt_hub_labels(&s->hub, c->classes, vt_tensors_meta(s->st, "labels"), &s->t->labels, e));
    VT_TRY(vt_args_agree(&s->hub, c, s->t, vt_tensors_path(s->st), e));
    return vt_hub_check(&s->hub, c, vt_tensors_path(s->st), e);
}

vt_status vt_config_resolve(vt_config *c, vt_provenance *t, const vt_tensors *st, const vt_names *names,
                            const vt_overrides *o, vt_err *e) {
    static const vt_overrides none = {0};
    vt_sources s = {.st = st, .o = o ? o : &none, .names = names, .t = t};
    vt_status status = resolve_all(c, &s, e);
    const bool classifies = vt_hub_classifies(&s.hub);
    vt_hub_close(&s.hub);
    if (status != VT_OK) return status;
    if (c->pool == VT_POOL_TOKEN) c->norm_first = false; /* of one token there is no mean */
    if (c->pool == VT_POOL_TOKENS) c->head_layers = c->head_layers ? c->head_layers + 1 : 2; /* in the mean's place */
    if (c->patch > 0 && c->pos_grid == c->image / c->patch) c->pos_grid = 0;
    if (!c->pos_grid) c->pos_filter = VT_POS_FILTER_BICUBIC; /* nothing to resize */
    VT_TRY(vt_config_check(c, vt_tensors_path(st), e));
    vt_provenance_defaults(c, t, names, s.whole);
    vt_provenance_assumed(t, vt_tensors_meta(st, "assumed"), vt_tensors_meta(st, "unread"));
    if (!classifies) vt_provenance_left_out(t, names);
    return VT_OK;
}
