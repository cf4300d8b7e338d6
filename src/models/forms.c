/* SPDX-License-Identifier: MIT */
#include "models/forms.h"

#include <stdio.h>
#include <string.h>
#include "models/arch.h"

#define AT(field) offsetof(vt_config, field)
#define YES_NO(key, id, help)                                                                                          \
    { VT_OPT_B(#key, vt_config, key, help, 0), VT_FIELD_##id, false, NULL }
#define COUNT(key, id, max, help)                                                                                      \
    { VT_OPT_I(#key, vt_config, key, help, 0, 0, max), VT_FIELD_##id, false, NULL }
#define FOUR(key, id, max, help)                                                                                       \
    { VT_OPT_I(#key, vt_config, key, help, 0, 0, max), VT_FIELD_##id, true, NULL }
#define WORD(key, id, json, words, help)                                                                               \
    { VT_OPT_C(#key, vt_config, key, help, words, 0), VT_FIELD_##id, false, json }
#define NORMS "layer|batch|center|none"

/* The order of metadata. */
static const vt_form forms[] = {
    WORD(pool, POOL, "global_pool", VT_POOL_WORDS,
         "what the head reads: class token, mean of patches, of all tokens; class token and mean of patches, mean "
         "first, class tokens of several blocks"),
    COUNT(native, NATIVE, 4096, "side of the input, which the model resizes to its image itself; 0: the image's"),
    WORD(native_filter, NATIVE_FILTER, NULL, "bilinear|bicubic|nearest|bilinear_aa|bicubic_aa",
         "how it resizes: F.interpolate(align_corners=False); _aa: antialias=True"),
    YES_NO(bgr, BGR, "trained on blue, green, red (OpenCV's order)"),
    WORD(dist_head, DIST_HEAD, NULL, "mean|class|dist", "distilled: the answer is the mean of both heads, or one"),
    WORD(norm, NORM, NULL, NORMS, "normalisation of the blocks; batch: with frozen statistics"),
    WORD(final_norm, FINAL_NORM, NULL, NORMS, "normalisation before the head"),
    WORD(act, ACT, "act_layer", "gelu|gelu_tanh|relu|quick_gelu",
         "activation of the MLP; quick_gelu: x sigmoid(1.702 x), of OpenAI's CLIP"),
    YES_NO(post_norm, POST_NORM, "x = norm(x + branch x), as torch's TransformerEncoderLayer"),
    YES_NO(norm_first, NORM_FIRST, "with a mean: the final norm comes before it"),
    YES_NO(norm_pre, NORM_PRE, "a norm before the first block"),
    YES_NO(no_patch_bias, NO_PATCH_BIAS, "the patch embedding has no bias"),
    YES_NO(no_cls, NO_CLS, "no class token"),
    YES_NO(no_embed_class, NO_EMBED_CLASS, "positions for the patches alone"),
    COUNT(registers, REGISTERS, 1024, "register tokens"),
    WORD(patch_order, PATCH_ORDER, NULL, "conv|chw|hwc",
         "columns of a Linear patch embedding: chw (nn.Unfold) or hwc (einops' p1 p2 c)"),
    YES_NO(qk_norm, QK_NORM, "LayerNorm of each head's q and k"),
    YES_NO(tied_qk, TIED_QK, "W_Q = W_K, one tensor"),
    WORD(factor, FACTOR, NULL, "none|layer_scale|alpha", "factors of residual branches: LayerScale, weighted residual"),
    {VT_OPT_R("factor_start", vt_config, factor_start, "where LayerScale starts; 0: 1e-5", 0, 0, 1),
     VT_FIELD_FACTOR_START, false, NULL},
    WORD(init, INIT, NULL, "timm|spectral|interval",
         "how new weights start; spectral: of singular value 1 (LipsFormer); interval: radii of bounds stay (IBP)"),
    YES_NO(no_embed_reg, NO_EMBED_REG, "ViT: no positions for register tokens (DINOv2)"),
    COUNT(pos_grid, POS_GRID, 1024,
          "ViT: side of the grid that positions are stored for and resized from; 0: the image's"),
    WORD(pos_filter, POS_FILTER, NULL, "bicubic|bicubic_aa|bicubic_offset",
         "ViT: how, as F.interpolate; _offset: by scale (n + 0.1) / grid, as DINOv2. Said, it allows another " VT_OPTION
         "image-size"),
    COUNT(head_layers, HEAD_LAYERS, 512,
          "ViT, token_avg, tokens: class tokens of that many last blocks are read (4: DINO's default); 0: 1"),
    COUNT(conv_stem, CONV_STEM, 2048,
          "ViT: channels of the first convolution of a stem in the patches' place (48); 0: none"),
    WORD(patch_norm, PATCH_NORM, NULL, "none|in|out|both",
         "ViT: LayerNorm of each patch before its embedding (in), of its token behind it (out)"),
    COUNT(attn_dim, ATTN_DIM, 65536, "ViT: width of attention, heads times head width; 0: the model's"),
    WORD(proj, PROJ, NULL, "bias|plain|none", "ViT: attention's output projection: with a bias, without one, none"),
    WORD(positions, POSITIONS, NULL, "learned|none|sincos|sincos_mae|sincos_moco|sincos_timm",
         "ViT: a tensor, none, or sines and cosines as vit-pytorch's SimpleViT, MAE, MoCo v3 or timm compute them"),
    WORD(qkv_rows, QKV_ROWS, NULL, "qkv|heads|dims",
         "ViT, rows of the file's qkv: all q, then k, then v; q, k, v of each head in turn; of each dimension in turn"),
    YES_NO(class_last, CLASS_LAST, "ViT: in the file the class token stands behind the patches"),
    {VT_OPT_R("embed_scale", vt_config, embed_scale,
              "ViT: the model multiplies the patches' embedding by this before it adds positions; 0: 1", 0, 0, 1e4),
     VT_FIELD_EMBED_SCALE, false, NULL},
    COUNT(local_blocks, LOCAL_BLOCKS, 512, "ConViT: blocks with positional attention, before the class token joins"),
    COUNT(stages, STAGES, 4, "Swin: stages"),
    FOUR(stage_depth, STAGE_DEPTH, 512, "Swin: blocks of each stage"),
    FOUR(stage_heads, STAGE_HEADS, 4096, "Swin: heads of each stage"),
    COUNT(window, WINDOW, 512, "Swin: side of a window in tokens"),
    YES_NO(no_shift, NO_SHIFT, "Swin: windows are not shifted (LipsFormer)"),
    COUNT(class_blocks, CLASS_BLOCKS, 64, "XCiT: class-attention blocks"),
    {VT_OPT_B("tokens_norm", vt_config, tokens_norm, "XCiT: class-attention blocks normalise all tokens", 0),
     VT_FIELD_TOKENS_NORM, false, "tokens_norm"},
    {VT_OPT_R("eta", vt_config, eta, "XCiT: start of the branch factors; 0: 1", 0, 0, 1), VT_FIELD_ETA, false, NULL},
    FOUR(stem_stride, STEM_STRIDE, 8, "XCiT: strides of the stem's convolutions; 0: 1,1,2,2 at 32 pixels, else 2"),
};
enum { COUNT_OF_FORMS = sizeof forms / sizeof *forms };

const vt_form *vt_forms(int *n) {
    *n = COUNT_OF_FORMS;
    return forms;
}

const vt_form *vt_form_find(const char *key) {
    for (int i = 0; i < COUNT_OF_FORMS; i++)
        if (!strcmp(forms[i].opt.key, key)) return &forms[i];
    return NULL;
}

const char *vt_form_given(const vt_overrides *o, const char *key, char value[VT_FORM_VALUE]) {
    size_t n = strlen(key);
    bool found = false;
    for (int i = 0; i < o->n_form; i++)
        for (const char *p = o->form[i] + strspn(o->form[i], " "); *p; p += strspn(p, " ")) {
            size_t word = strcspn(p, " ");
            if (word > n && !strncmp(p, key, n) && p[n] == '=') {
                snprintf(value, VT_FORM_VALUE, "%.*s", (int)(word - n - 1), p + n + 1);
                found = true;
            }
            p += word;
        }
    return found ? value : NULL;
}

/* What PyTorch, timm and transformers call our activations. */
static const char *our_word(const vt_form *f, const char *value) {
    static const char *const names[][2] = {{"gelu_erf", "gelu"},       {"nn.GELU", "gelu"},
                                           {"gelu_new", "gelu_tanh"},  {"gelu_pytorch_tanh", "gelu_tanh"},
                                           {"gelu_python", "gelu"},    {"gelu_fast", "gelu_tanh"},
                                           {"nn.ReLU", "relu"},        {"quickgelu", "quick_gelu"},
                                           {"QuickGELU", "quick_gelu"}};
    for (size_t i = 0; f->field == VT_FIELD_ACT && i < sizeof names / sizeof *names; i++)
        if (!strcmp(value, names[i][0])) return names[i][1];
    return value;
}

/* Sets a form of up to four numbers from "A,B,C,D" (those that are not given: 0); VT_E_USAGE: more, or one is no whole
 * number in range. */
static vt_status set_four(vt_config *c, const vt_form *f, const char *value, const char *who, vt_err *e) {
    int v[4] = {0}, n = 0;
    const char *p = value;
    for (; n < 4; n++) {
        char item[16];
        size_t len = strcspn(p, ",");
        long long number;
        snprintf(item, sizeof item, "%.*s", (int)(len < 15 ? len : 15), p);
        if (!vt_parse_int(item, &number) || number < 0 || number > (long long)f->opt.max) break;
        v[n] = (int)number;
        p += len;
        if (!*p++) break;
    }
    if (n == 4 || p == value || p[-1])
        return vt_fail(e, VT_E_USAGE, "%s: option %s is '%.60s', must be up to four whole numbers between 0 and %.0f",
                       who, f->opt.key, value, f->opt.max);
    memcpy((char *)c + f->opt.offset, v, sizeof v);
    return VT_OK;
}

vt_status vt_form_set(vt_config *c, const vt_form *f, const char *value, const char *who, vt_err *e) {
    if (f->four) return set_four(c, f, value, who, e);
    const vt_opt one[2] = {f->opt, VT_OPT_END};
    return vt_opt_set(one, c, f->opt.key, our_word(f, value), who, e);
}

/* Forms of one architecture alone, by their place in VT_FIELD_LIST; NULL: of several. */
static const char *arch_of_form(const vt_form *f) {
    static const struct {
        vt_field first, last;
        const char *arch;
    } own[] = {{VT_FIELD_NO_EMBED_REG, VT_FIELD_EMBED_SCALE, "vit"},
               {VT_FIELD_LOCAL_BLOCKS, VT_FIELD_LOCAL_BLOCKS, "convit"},
               {VT_FIELD_STAGES, VT_FIELD_NO_SHIFT, "swin"},
               {VT_FIELD_CLASS_BLOCKS, VT_FIELD_STEM_STRIDE, "xcit"}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (f->field >= own[i].first && f->field <= own[i].last) return own[i].arch;
    return NULL;
}

/* VT_E_UNKNOWN for a form, with the nearest name. */
static vt_status fail_unknown_form(const char *key, const char *who, vt_err *e) {
    const char *keys[COUNT_OF_FORMS];
    for (int i = 0; i < COUNT_OF_FORMS; i++) keys[i] = forms[i].opt.key;
    const char *near = vt_nearest(key, keys, COUNT_OF_FORMS);
    return vt_fail(e, VT_E_UNKNOWN, "%s: '%.60s' is no form of a network%s%s%s", who, key,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

vt_status vt_form_parse(vt_config *c, const char *text, const char *who, vt_err *e) {
    for (const char *p = text + strspn(text, " "); *p; p += strspn(p, " ")) {
        char item[128];
        size_t n = strcspn(p, " ");
        if (n >= sizeof item || !memchr(p, '=', n))
            return vt_fail(e, VT_E_USAGE, "%s: '%.100s' is not of the form key=value", who, p);
        memcpy(item, p, n), item[n] = 0;
        char *value = strchr(item, '=');
        *value++ = 0;
        const vt_form *f = vt_form_find(item);
        if (!f) return fail_unknown_form(item, who, e);
        const char *of = *c->arch ? arch_of_form(f) : NULL;
        if (of && strcmp(of, c->arch))
            return vt_fail(e, VT_E_USAGE, "%s: %s is a form of %s alone, and this is a %s", who, item, of, c->arch);
        VT_TRY(vt_form_set(c, f, value, who, e));
        p += n;
    }
    return VT_OK;
}

int vt_form_text(const vt_config *c, const vt_form *f, char *buf, size_t size) {
    if (!f->four) return vt_opt_value(&f->opt, c, buf, size);
    const int *v = (const int *)((const char *)c + f->opt.offset);
    return snprintf(buf, size, "%d,%d,%d,%d", v[0], v[1], v[2], v[3]);
}

bool vt_form_is_default(const vt_config *c, const vt_form *f) {
    vt_config base = {.pool = VT_POOL_TOKEN};
    const vt_arch *arch = vt_arch_find(c->arch);
    char now[64], was[64];
    if (arch && arch->defaults) arch->defaults(&base);
    vt_form_text(c, f, now, sizeof now), vt_form_text(&base, f, was, sizeof was);
    return !strcmp(now, was);
}

bool vt_form_of_file(const vt_form *f) {
    return f->field == VT_FIELD_PATCH_ORDER || (f->field >= VT_FIELD_QKV_ROWS && f->field <= VT_FIELD_EMBED_SCALE);
}

const char *vt_forms_of_file(const vt_config *c) {
    for (int i = 0; i < COUNT_OF_FORMS; i++)
        if (vt_form_of_file(&forms[i]) && !vt_form_is_default(c, &forms[i])) return forms[i].opt.key;
    return NULL;
}

int vt_forms_text(const vt_config *c, char *buf, size_t size) {
    int n = 0;
    if (size) buf[0] = 0;
    for (int i = 0; i < COUNT_OF_FORMS; i++) {
        char v[64];
        if (vt_form_is_default(c, &forms[i])) continue;
        vt_form_text(c, &forms[i], v, sizeof v);
        size_t used = (size_t)n < size ? (size_t)n : size;
        n += snprintf(buf + used, size - used, "%s%s=%s", n ? " " : "", forms[i].opt.key, v);
    }
    return n;
}

/* ---- fields: the values of all networks, and forms, in words ---- */

/* Returns the form that sets a field, or NULL. */
static const vt_form *form_of(vt_field f) {
    for (int i = 0; i < COUNT_OF_FORMS; i++)
        if (forms[i].field == f) return &forms[i];
    return NULL;
}

static const struct {
    const char *label, *key;
} fields[VT_FIELD_COUNT] = {
#define VT_FIELD_ROW(id, label, key) {label, key},
    VT_FIELD_LIST(VT_FIELD_ROW)
#undef VT_FIELD_ROW
};

const char *vt_field_key(vt_field f) {
    const vt_form *form = fields[f].key ? NULL : form_of(f);
    return form ? form->opt.key : fields[f].key;
}

const char *vt_field_label(vt_field f) { return fields[f].label; }

/* Writes a form's value as people read it. Returns its length; 0: the field is no form. */
static int form_text(const vt_config *c, vt_field f, char *buf, size_t size) {
    const vt_form *form = form_of(f);
    buf[0] = 0;
    if (!form) return 0;
    int n = vt_form_text(c, form, buf, size);
    const bool yes = *buf == '1';
    if (f == VT_FIELD_BGR) return snprintf(buf, size, "%s", yes ? "BGR" : "RGB");
    if (form->four && !strncmp(buf, "0,", 2)) return snprintf(buf, size, "by the image's side");
    return form->opt.type == VT_OPT_BOOL ? snprintf(buf, size, "%s", yes ? "yes" : "no") : n;
}

/* Writes the value of a field for people; returns the length that snprintf would. */
static int print_field(const vt_model *m, vt_field f, char *buf, size_t size) {
    static const char *const pools[] = {"class token",
                                        "mean of the patch tokens",
                                        "mean of all tokens",
                                        "class token and mean of the patch tokens",
                                        "mean of the patch tokens and class token",
                                        "class tokens of the last blocks"};
    const vt_config *c = &m->config;
    const double *v = f == VT_FIELD_STD ? c->std : c->mean;
    switch (f) {
    case VT_FIELD_ARCH:
        return snprintf(buf, size, "%s", c->arch);
    case VT_FIELD_IMAGE:
        return snprintf(buf, size, "3 x %d x %d", c->image, c->image);
    case VT_FIELD_PATCH:
        return snprintf(buf, size, "%d (%d tokens)", c->patch, vt_model_tokens(m));
    case VT_FIELD_DIM:
        return snprintf(buf, size, "%d", c->dim);
    case VT_FIELD_DEPTH:
        return snprintf(buf, size, "%d", c->depth);
    case VT_FIELD_HEADS:
        return snprintf(buf, size, "%d of width %d", c->heads, vt_config_attn_dim(c) / c->heads);
    case VT_FIELD_HIDDEN:
        return snprintf(buf, size, "%d", c->hidden);
    case VT_FIELD_CLASSES:
        return snprintf(buf, size, "%d", c->classes);
    case VT_FIELD_QKV_BIAS:
        return snprintf(buf, size, "%s", c->qkv_bias ? "yes" : "no");
    case VT_FIELD_DIST:
        return snprintf(buf, size, "%s", c->dist_token ? "yes (logits = mean of both heads)" : "no");
    case VT_FIELD_POOL:
        return snprintf(buf, size, "%s", pools[c->pool]);
    case VT_FIELD_ATTN:
        return snprintf(buf, size, "%s", c->attn);
    case VT_FIELD_SCALE:
        return snprintf(buf, size, "%.9g", c->attn_scale);
    case VT_FIELD_LN_EPS:
        return snprintf(buf, size, "%g", c->ln_eps);
    case VT_FIELD_MEAN:
    case VT_FIELD_STD:
        return snprintf(buf, size, "%.6g, %.6g, %.6g", v[0], v[1], v[2]);
    case VT_FIELD_TRANSFORM:
        return snprintf(buf, size, "%s", m->transform);
    default:
        return form_text(c, f, buf, size);
    }
}

void vt_field_text(const vt_model *m, vt_field f, char *buf, size_t size) { print_field(m, f, buf, size); }

bool vt_field_shown(const vt_model *m, vt_field f) {
    static const bool of_blocks[VT_FIELD_COUNT] =
        {[VT_FIELD_HEADS] = true, [VT_FIELD_HIDDEN] = true, [VT_FIELD_QKV_BIAS] = true, [VT_FIELD_ATTN] = true,
         [VT_FIELD_SCALE] = true, [VT_FIELD_LN_EPS] = true, [VT_FIELD_ACT] = true}; /* with attention and MLP */
    const vt_form *form = form_of(f);
    const char *from = m->source[f];
    if (f == VT_FIELD_TRANSFORM) return *m->transform != 0;
    if (m->config.network)
        return f == VT_FIELD_ARCH || f == VT_FIELD_CLASSES || f == VT_FIELD_MEAN || f == VT_FIELD_STD;
    if (of_blocks[f] && !vt_model_blocks(m)) return false;
    if (f < VT_FIELD_NORM || !form || f == VT_FIELD_ACT) return true;
    return !vt_form_is_default(&m->config, form) || (*from && strcmp(from, "tensors"));
}
