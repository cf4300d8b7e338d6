/* SPDX-License-Identifier: MIT */
#include "checkpoint/resolve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/opt.h"
#include "models/attn.h"
#include "models/forms.h"
#include "models/vit.h"

/* Sets s->preset and preset_why: the one that an option names, or else the one whose shape is the file's (none: left
 * NULL). VT_E_SHAPE: the named one has another shape. */
static vt_status find_preset(vt_sources *s, const vt_config *c, vt_err *e) {
    const char *named = s->o->preset;
    if (named) {
        VT_TRY(vt_preset_named(named, &s->preset, e));
        if (strcmp(s->preset->arch, c->arch))
            return vt_fail(e, VT_E_SHAPE, "%s: is a %s, but preset %s is a %s", s->path, c->arch, named,
                           s->preset->arch);
        if (s->preset->dim != c->dim || s->preset->depth != c->depth)
            return vt_fail(e, VT_E_SHAPE, "%s: width %d and depth %d, but preset %s has %d and %d", s->path, c->dim,
                           c->depth, named, s->preset->dim, s->preset->depth);
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

/* Has the file vitrine's own metadata? They leave out forms at their default. */
static bool has_own_metadata(const vt_sources *s, const vt_config *c) {
    const char *arch = vt_tensors_meta(s->st, "architecture");
    return arch && !strcmp(arch, c->arch) && vt_tensors_meta(s->st, "attn") && vt_tensors_meta(s->st, "attn_scale");
}

/* Returns the source that describes the network as a whole, or NULL: a preset by name, vitrine's own metadata, timm's
 * or transformers' config.json (whose class has one norm order and, by default, one activation) if every key is
 * understood.
 */
static const char *find_whole_description(const vt_sources *s, const vt_config *c) {
    static const char *const types[] = {"vit", "deit", "swin"};
    const char *from, *type = json_string_value(vt_hub_get(&s->hub, "model_type", &from));
    if (s->o->preset) return s->preset_why;
    if (has_own_metadata(s, c)) return VT_OWN_METADATA;
    if (*s->t->unread) return NULL;
    if (s->named) return s->named_from;
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i])) return "model_type in config.json";
    return NULL;
}

/* Sets the likeliest number of heads, or that of a preset of this shape or of a recognised map: a guess, as no tensor
 * excludes another number. */
static void guess_heads(vt_config *c, const vt_sources *s, const vt_found *map) {
    int likely[VT_HEADS_MOST], width = vt_config_attn_dim(c);
    const char *who = "a guess";
    const double v = map->text ? vt_text_number(map->text) : NAN;
    vt_heads_likely(width, likely);
    c->heads = likely[0];
    if (s->preset && width % s->preset->heads == 0) c->heads = s->preset->heads, who = s->preset_why;
    if (v >= 1 && v <= width && width % (int)v == 0) c->heads = (int)v, who = map->from;
    vt_sources_mark(s, VT_FIELD_HEADS, who, VT_OPEN);
}

/* Sets the number of heads, or checks an option's if tensors prove it (VT_E_USAGE). VT_E_RANGE: a file's is none;
 * VT_E_SHAPE: it does not divide the width of attention. */
static vt_status resolve_heads(vt_config *c, const vt_sources *s, vt_err *e) {
    static const char *const keys[] = {"heads", "num_heads", "num_attention_heads", NULL};
    const int width = vt_config_attn_dim(c);
    if (*s->t->source[VT_FIELD_HEADS]) { /* by tensors: Swin's tables */
        if (!s->o->heads || s->o->heads == c->heads) return VT_OK;
        return vt_fail(e, VT_E_USAGE, "%s: @heads %d contradicts the tensors, which say %d", s->path, s->o->heads,
                       c->heads);
    }
    char given[VT_NUMBER], hub[VT_NUMBER], preset[VT_NUMBER];
    vt_setting k = {VT_OPTION "heads", vt_number_text(given, s->o->heads), .keys = keys};
    k.hub = vt_hub_number(&s->hub, keys, hub, &k.hub_from);
    if (!k.hub && s->named) k.hub = vt_number_text(hub, s->named->heads), k.hub_from = s->named_from;
    if (s->o->preset) k.preset = vt_number_text(preset, s->preset->heads);
    const vt_found f = vt_sources_find(s, &k);
    if (!f.text || f.by_map) {
        guess_heads(c, s, &f);
        return VT_OK;
    }
    const double v = vt_text_number(f.text);
    if (!s->o->heads && (!(v >= 1 && v <= width) || v != floor(v)))
        return vt_fail(e, VT_E_RANGE, "%s: %s says %g heads, must be a whole number between 1 and %d", s->path,
                       vt_option_argument(f.from), v, width);
    c->heads = (int)v;
    vt_sources_mark(s, VT_FIELD_HEADS, f.from, f.certainty);
    if (c->heads > 0 && width % c->heads == 0) return VT_OK;
    if (c->attn_dim)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: attention is %d wide by the tensors (attn.qkv has 3 x %d rows, the model is %d wide), no "
                       "multiple of %d heads (%s)",
                       s->path, width, width, c->dim, c->heads, vt_option_argument(f.from));
    return vt_fail(e, VT_E_SHAPE, "%s: width %d is not a multiple of %d heads (%s)", s->path, c->dim, c->heads,
                   vt_option_argument(f.from));
}

/* Has it timm's order and kind of norm? Other forms, and timm's CLIP models, have PyTorch's own modules, with their
 * eps. */
static bool has_plain_norm(const vt_config *c) { return c->norm == VT_NORM_LAYER && !c->post_norm && !c->norm_pre; }

/* Sets the usual eps, and returns its source: timm's if the names are a library's, or else that of PyTorch's own
 * modules. */
static vt_found set_usual_ln_eps(vt_config *c, const vt_sources *s) {
    bool torch = !s->names->def || !has_plain_norm(c);
    const char *from = "default of the architecture";
    if (torch)
        c->ln_eps = 1e-5, from = "default of PyTorch's modules";
    else if (s->preset)
        c->ln_eps = s->preset->ln_eps, from = s->preset_why;
    else if (!(c->ln_eps > 0))
        c->ln_eps = 1e-6, from = "default of timm's ViT";
    return vt_sources_default(s, NULL, from);
}

/* Sets LayerNorm's eps by its source, or the usual one. */
static void resolve_ln_eps(vt_config *c, const vt_sources *s) {
    static const char *const keys[] = {"ln_eps", "layer_norm_eps", NULL};
    char given[VT_NUMBER], hub[VT_NUMBER], preset[VT_NUMBER];
    const char *from, *type = json_string_value(vt_hub_get(&s->hub, "model_type", &from));
    vt_setting k = {VT_OPTION "ln-eps", vt_number_text(given, s->o->ln_eps), .keys = keys};
    k.hub = vt_hub_number(&s->hub, keys, hub, &k.hub_from);
    if (!k.hub && type && !strcmp(type, "vit_msn")) /* ViT's names, another default */
        k.hub = "1e-6", k.hub_from = "model_type in config.json";
    if (s->o->preset) k.preset = vt_number_text(preset, s->preset->ln_eps);
    vt_found f = vt_sources_find(s, &k);
    if (!f.text && s->named)
        f = (vt_found){vt_number_text(hub, s->named->ln_eps), s->whole ? s->whole : s->named_from, VT_KNOWN, false};
    if (f.text)
        c->ln_eps = vt_text_number(f.text);
    else
        f = set_usual_ln_eps(c, s);
    vt_sources_mark(s, VT_FIELD_LN_EPS, f.from, f.certainty);
}

/* Sets the scale that multiplies Q K^T: head (head width ^ -0.5), dim (width ^ -0.5) or a number above 0, head by
 * default. VT_E_USAGE: none of these. */
static vt_status resolve_scale(vt_config *c, const vt_sources *s, vt_err *e) {
    static const char *const keys[] = {"attn_scale", NULL}, *const hub_keys[] = {"qk_scale", NULL};
    char hub[VT_NUMBER];
    vt_setting k = {VT_OPTION "attn-scale", s->o->attn_scale, .keys = keys};
    k.hub = vt_hub_number(&s->hub, hub_keys, hub, &k.hub_from);
    vt_found f = vt_sources_find(s, &k);
    if (!f.text) f = vt_sources_default(s, "head", "default: head width ^ -0.5");
    if (!strcmp(f.text, "head"))
        c->attn_scale = 1 / sqrt((double)vt_config_attn_dim(c) / c->heads);
    else if (!strcmp(f.text, "dim"))
        c->attn_scale = 1 / sqrt((double)c->dim);
    else if (!vt_parse_real(f.text, &c->attn_scale) || !(c->attn_scale > 0))
        return vt_fail(e, VT_E_USAGE, "%s: attention scale is '%s' (%s), must be head, dim or a number above 0",
                       s->path, f.text, vt_option_argument(f.from));
    vt_sources_mark(s, VT_FIELD_SCALE, f.from, f.certainty);
    return VT_OK;
}

/* Returns "all" for timm's mean over all tokens (pool_include_prefix), else `pool`. */
static const char *apply_pool_prefix(const vt_sources *s, const char *pool) {
    const char *from;
    const bool all = json_is_true(vt_hub_get(&s->hub, "pool_include_prefix", &from));
    return all && !strcmp(pool, "avg") ? "all" : pool;
}

/* Returns what config.json and the like say of a form, or NULL. */
static const char *find_form_in_hub(const vt_sources *s, const vt_form *f, char buf[VT_FORM_VALUE], const char **from) {
    const json_t *v = f->json ? vt_hub_get(&s->hub, f->json, from) : NULL;
    char name[80];
    if (!v && f->field == VT_FIELD_ACT) v = vt_hub_get(&s->hub, "hidden_act", from); /* transformers */
    const char *text = v ? vt_hub_word(v, buf, VT_FORM_VALUE) : NULL;
    if (text) return f->field == VT_FIELD_POOL ? apply_pool_prefix(s, text) : text;
    return !v && f->field == VT_FIELD_ACT && vt_hub_architecture(&s->hub, name, sizeof name, from) ? vt_hub_act(name)
                                                                                                   : NULL;
}

/* The texts of one form, as long as they are used. */
typedef struct form_texts {
    char given[VT_FORM_VALUE], hub[VT_FORM_VALUE], preset[VT_FORM_VALUE];
} form_texts;

/* Finds one form. preset: the network of the preset that an option names, or NULL. */
static vt_found find_form(const vt_sources *s, const vt_form *f, const vt_config *preset, form_texts *t) {
    const char *const keys[] = {f->opt.key, NULL};
    vt_setting k = {VT_OPTION "form", vt_form_given(s->o, f->opt.key, t->given), .keys = keys};
    k.hub = find_form_in_hub(s, f, t->hub, &k.hub_from);
    *t->preset = 0;
    if (preset && !vt_form_is_default(preset, f)) vt_form_text(preset, f, t->preset, sizeof t->preset);
    if (preset) k.preset = t->preset;
    vt_found found = vt_sources_find(s, &k);
    if (found.text == t->preset && !*t->preset) found.text = NULL;
    return found;
}

/* Sets one form in *c, if a source says it and tensors do not prove it. VT_E_USAGE: an option, or the map that it
 * names, contradicts what tensors prove. */
static vt_status resolve_form(vt_config *c, const vt_sources *s, const vt_form *f, const vt_config *preset, vt_err *e) {
    form_texts texts;
    char who[600], is[64], wanted[64];
    const vt_found found = find_form(s, f, preset, &texts);
    if (!found.text) return VT_OK;
    /* tensors do not prove which tokens are pooled, and whether before or after the norm */
    bool proven =
        !strcmp(s->t->source[f->field], "tensors") && f->field != VT_FIELD_POOL && f->field != VT_FIELD_NORM_FIRST;
    vt_config wish = *c;
    snprintf(who, sizeof who, "%.500s (%s)", s->path, vt_option_argument(found.from));
    VT_TRY(vt_form_set(&wish, f, found.text, who, e));
    vt_form_text(c, f, is, sizeof is), vt_form_text(&wish, f, wanted, sizeof wanted);
    bool insists =
        vt_form_given(s->o, f->opt.key, texts.given) || (s->names->asked && vt_rename_value(s->names->map, f->opt.key));
    if (proven && insists && strcmp(is, wanted))
        return vt_fail(e, VT_E_USAGE, "%s: %s %s=%s contradicts the tensors, which say %s", s->path,
                       vt_option_argument(found.from), f->opt.key, wanted, is);
    if (proven && (!vt_provenance_suggested(f->field) || strcmp(is, wanted))) return VT_OK;
    *c = wish;
    vt_sources_mark(s, f->field, found.from, found.certainty);
    return VT_OK;
}

/* Sets the forms that tensors leave open. A preset counts if an option names it: a shape does not fix them. */
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

/* Marks how the columns of a Linear patch embedding were read (VT_E_USAGE if they were said to be a convolution's); a
 * convolution has been marked as proven by tensors. */
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
                   s->path, s->t->source[VT_FIELD_PATCH_ORDER]);
}

/* Sets the attention variant, dot by default; fails as vt_attn_parse does. */
static vt_status resolve_attn(vt_config *c, const vt_sources *s, vt_err *e) {
    static const char *const keys[] = {"attn", NULL};
    const vt_setting k = {VT_OPTION "attn", s->o->attn, .keys = keys, .preset = s->o->preset ? s->preset->attn : NULL};
    vt_found f = vt_sources_find(s, &k);
    if (!f.text) f = vt_sources_default(s, "dot", "default");
    vt_attn_spec spec;
    vt_err why = {0};
    if (vt_attn_parse(&spec, f.text, &why) != VT_OK)
        return vt_fail(e, why.code, "%s: %s (%s)", s->path, why.text, vt_option_argument(f.from));
    snprintf(c->attn, sizeof c->attn, "%s", spec.text);
    vt_sources_mark(s, VT_FIELD_ATTN, f.from, f.certainty);
    return VT_OK;
}

/* Takes the other grid of patches, if positions and register tokens allow two and images of this side have it. false:
 * unchanged. */
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

/* Returns the stride below the patch at which images of this side have as many patches as there are positions, or 0. */
static int overlapping_stride(const vt_config *c, int side) {
    if (strcmp(c->arch, "vit") || c->positions || c->conv_stem || c->patch < 2 || side <= c->patch) return 0;
    const int steps = c->image / c->patch - 1, stride = steps > 2 ? (side - c->patch) / steps : 0;
    return stride > 0 && stride < c->patch && stride * steps == side - c->patch ? stride : 0;
}

static const char *const image_keys[] = {"image", NULL};

/* Checks the side of the input against the one by the number of positions: another is set (image, pos_grid) if it is
 * said how they are resized, or that they are. VT_E_USAGE or VT_E_SHAPE: not said; VT_E_RANGE: no such side. */
static vt_status resolve_grid(vt_config *c, const vt_sources *s, vt_err *e) {
    char given[VT_NUMBER];
    form_texts texts;
    const vt_setting k = {VT_OPTION "image-size", vt_number_text(given, s->o->image), .keys = image_keys};
    const vt_found f = vt_sources_find(s, &k);
    bool said = find_form(s, vt_form_find("pos_filter"), NULL, &texts).text ||
                find_form(s, vt_form_find("pos_grid"), NULL, &texts).text;
    /* images at hand have the side of the grid, unless the model resizes its input */
    const char *native = find_form(s, vt_form_find("native"), NULL, &texts).text;
    const int at_hand = native && strcmp(native, "0") ? 0 : s->o->image ? s->o->image : s->o->shown;
    if (at_hand && at_hand != c->image && !said && try_other_grid(s->st, c, at_hand)) return VT_OK;
    if (at_hand && at_hand != c->image && !said && overlapping_stride(c, at_hand))
        return vt_fail(e, VT_E_SHAPE,
                       "%s: %d x %d positions belong to images of %d x %d pixels, or to patches of %d pixels that "
                       "overlap at a stride of %d on these of %d x %d, which vitrine does not compute: `vitrine eval "
                       "@oracle` evaluates such a network where it runs, say in PyTorch",
                       s->path, c->image / c->patch, c->image / c->patch, c->image, c->image, c->patch,
                       overlapping_stride(c, at_hand), at_hand, at_hand);
    const double v = f.text && !f.by_map && (said || k.given) ? vt_text_number(f.text) : 0;
    if (v == 0 || v == c->image) return VT_OK;
    if (!said)
        return vt_fail(e, VT_E_USAGE, "%s: @image-size %d contradicts the tensors, which say %d", s->path, s->o->image,
                       c->image);
    if (!(v >= c->patch && v <= 4096) || fmod(v, c->patch) != 0)
        return vt_fail(e, VT_E_RANGE,
                       "%s: %s says images of %g pixels a side, must be a multiple of the patch, %d, up to 4096",
                       s->path, vt_option_argument(f.from), v, c->patch);
    c->pos_grid = c->image / c->patch, c->image = (int)v;
    vt_sources_mark(s, VT_FIELD_POS_GRID, "tensors", VT_KNOWN);
    vt_sources_mark(s, VT_FIELD_IMAGE, f.from, VT_KNOWN);
    return VT_OK;
}

/* Sets the side of the input if tensors leave it open (in a ViT: without stored positions), where c->image is a guess,
 * or 0; else checks it. VT_E_USAGE: no source has one; VT_E_RANGE: above 4096. */
static vt_status resolve_image(vt_config *c, const vt_sources *s, vt_err *e) {
    if (*s->t->source[VT_FIELD_IMAGE]) return resolve_grid(c, s, e);
    char given[VT_NUMBER], hub[VT_NUMBER], preset[VT_NUMBER];
    vt_setting k = {VT_OPTION "image-size", vt_number_text(given, s->o->image), .keys = image_keys};
    k.hub = vt_number_text(hub, vt_hub_image(&s->hub, &k.hub_from));
    if (s->o->preset) k.preset = vt_number_text(preset, s->preset->image);
    vt_found f = vt_sources_find(s, &k);
    if (!f.text) {
        f.certainty = s->whole ? VT_KNOWN : VT_ASSUMED;
        f.text = vt_number_text(given, s->o->shown ? s->o->shown : s->preset ? s->preset->image : c->image);
        f.from = s->o->shown ? "the images given"
                 : s->preset ? s->preset_why
                             : "a guess: " VT_OPTION "image-size tells";
    }
    if (!f.text)
        return vt_fail(e, VT_E_USAGE,
                       "%s: the side of the input image cannot be read off the tensors: give @image-size, @preset, a "
                       "map with a line 'set image N' (@names), or a config.json beside the file",
                       s->path);
    const double v = vt_text_number(f.text);
    if (!(v >= 1 && v <= 4096) || v != floor(v))
        return vt_fail(e, VT_E_RANGE,
                       "%s: %s says images of %g pixels a side, must be a whole number between 1 and 4096", s->path,
                       vt_option_argument(f.from), v);
    c->image = (int)v;
    vt_sources_mark(s, VT_FIELD_IMAGE, f.from, f.certainty);
    return VT_OK;
}

/* Resolves all settings in their order, then checks them against the files beside the weights. */
static vt_status resolve_all(vt_config *c, vt_sources *s, vt_err *e) {
    char name[80];
    VT_TRY(vt_hub_open(&s->hub, s->path, s->st->args, e));
    VT_TRY(find_preset(s, c, e));
    const vt_preset *named = NULL;
    if (vt_hub_architecture(&s->hub, name, sizeof name, &s->named_from)) named = vt_preset_find(name);
    if (named && !strcmp(named->arch, c->arch)) s->named = named;
    if (!has_own_metadata(s, c)) {
        VT_TRY(vt_hub_computed(&s->hub, s->path, e));
        vt_hub_unread(&s->hub, s->t->unread, sizeof s->t->unread);
    }
    s->whole = find_whole_description(s, c);
    if (!vt_names_linear(s->names)) vt_sources_mark(s, VT_FIELD_PATCH_ORDER, "tensors", VT_KNOWN);
    VT_TRY(resolve_image(c, s, e));
    VT_TRY(resolve_heads(c, s, e));
    VT_TRY(resolve_forms(c, s, e));
    VT_TRY(resolve_patch_order(c, s, e));
    resolve_ln_eps(c, s);
    VT_TRY(resolve_scale(c, s, e));
    VT_TRY(resolve_attn(c, s, e));
    vt_resolve_pixels(c, s);
    VT_TRY(vt_hub_labels(&s->hub, c->classes, vt_tensors_meta(s->st, "labels"), &s->t->labels, e));
    VT_TRY(vt_args_agree(&s->hub, c, s->t, s->path, e));
    return vt_hub_check(&s->hub, c, s->path, e);
}

vt_status vt_config_resolve(vt_config *c, vt_provenance *t, const vt_tensors *st, const vt_names *names,
                            const vt_overrides *o, vt_err *e) {
    static const vt_overrides none = {0};
    vt_sources s = {.st = st, .path = vt_tensors_path(st), .o = o ? o : &none, .names = names, .t = t};
    vt_status status = resolve_all(c, &s, e);
    const bool classifies = vt_hub_classifies(&s.hub);
    vt_hub_close(&s.hub);
    if (status != VT_OK) return status;
    if (c->pool == VT_POOL_TOKEN) c->norm_first = false;                                     /* one token has no mean */
    if (c->pool == VT_POOL_TOKENS) c->head_layers = c->head_layers ? c->head_layers + 1 : 2; /* in the mean's place */
    if (c->patch > 0 && c->pos_grid == c->image / c->patch) c->pos_grid = 0;
    if (!c->pos_grid) c->pos_filter = VT_POS_FILTER_BICUBIC; /* nothing to resize */
    VT_TRY(vt_config_check(c, s.path, e));
    vt_provenance_defaults(c, t, names, s.whole);
    vt_provenance_assumed(t, vt_tensors_meta(st, "assumed"), vt_tensors_meta(st, "unread"));
    if (!classifies) vt_provenance_left_out(t, names);
    return VT_OK;
}
