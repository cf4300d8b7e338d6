/* SPDX-License-Identifier: MIT */
#include "checkpoint/provenance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "models/vit.h"

/* ---- marks ---- */

/* Would the other norm order be another network? XCiT has one alone, and without norms there is none. */
static bool has_norm_order(const vt_config *c) {
    vt_config other = *c;
    other.post_norm = !c->post_norm;
    return vt_config_check(&other, "", NULL) == VT_OK;
}

/* Are q, k and v one tensor of the file, other than nn.MultiheadAttention's, whose rows are known? */
static bool has_fused_qkv(const vt_names *n) {
    for (int i = 0; i < n->n_rows; i++)
        if (n->rows[i].became && !strcmp(n->rows[i].became, "blocks.0.attn.qkv.weight"))
            return !strstr(n->rows[i].origin, "in_proj_weight");
    return false;
}

/* Can a network with these tensors have another value of field f? */
static bool is_undetermined_field(const vt_config *c, const vt_names *names, vt_field f) {
    /* where names prove some forms of a class, what they do not set is at its default */
    const bool vit = !strcmp(c->arch, "vit"), open = vit && !names->map->proves;
    switch (f) {
    case VT_FIELD_POST_NORM:
        return has_norm_order(c);
    case VT_FIELD_POOL: /* DINOv2's own names come with its own head */
        return !(vt_readout_wide(c) && names->def && strstr(names->def->name, "dinov2"));
    case VT_FIELD_DIST_HEAD:
        return c->dist_token;
    case VT_FIELD_NO_SHIFT:
        return !strcmp(c->arch, "swin");
    case VT_FIELD_TOKENS_NORM:
    case VT_FIELD_STEM_STRIDE:
        return !strcmp(c->arch, "xcit");
    case VT_FIELD_NORM_FIRST:
        return open && (c->pool == VT_POOL_AVG || c->pool == VT_POOL_ALL) && c->final_norm != VT_NORM_NONE;
    case VT_FIELD_TIED_QK:
        return c->tied_qk;
    case VT_FIELD_POSITIONS:
        return open && c->positions == VT_POSITIONS_LEARNED;
    case VT_FIELD_QKV_ROWS:
        return open && has_fused_qkv(names);
    case VT_FIELD_CLASS_LAST:
        return open && !c->no_cls && vt_config_placed(c) > 0;
    case VT_FIELD_EMBED_SCALE:
        return open && !names->def;
    default:
        return true;
    }
}

/* Is no value of field f usual: a head of several widths, two thirds of the rows of qkv, a mean and a norm in a home-
 * made model, activation and norm order of a shipped map that no option named? */
static bool has_no_usual_value(const vt_config *c, const vt_names *names, vt_field f) {
    return (f == VT_FIELD_POOL && vt_readout_wide(c)) || f == VT_FIELD_TIED_QK ||
           (f == VT_FIELD_NORM_FIRST && !names->def && c->norm_first) ||
           (names->own_map && (f == VT_FIELD_ACT || f == VT_FIELD_POST_NORM));
}

bool vt_provenance_suggested(vt_field f) {
    return f == VT_FIELD_POOL || f == VT_FIELD_NORM_FIRST || f == VT_FIELD_POSITIONS || f == VT_FIELD_TIED_QK;
}

/* Sets where field f is from and how sure it is. */
static void set_field_source(vt_provenance *t, vt_field f, const char *from, vt_certainty d) {
    char source[sizeof t->source[f]] = "";
    snprintf(source, sizeof source, "%s", from); /* which may be the place itself */
    memcpy(t->source[f], source, sizeof source);
    t->certainty[f] = d;
}

void vt_provenance_defaults(const vt_config *c, vt_provenance *t, const vt_names *names, const char *whole) {
    static const vt_field fields[] = {VT_FIELD_ACT,         VT_FIELD_POST_NORM,   VT_FIELD_POOL,
                                      VT_FIELD_BGR,         VT_FIELD_DIST_HEAD,   VT_FIELD_NO_SHIFT,
                                      VT_FIELD_TOKENS_NORM, VT_FIELD_STEM_STRIDE, VT_FIELD_NORM_FIRST,
                                      VT_FIELD_TIED_QK,     VT_FIELD_POSITIONS,   VT_FIELD_QKV_ROWS,
                                      VT_FIELD_CLASS_LAST,  VT_FIELD_EMBED_SCALE};
    const bool own = whole && !strcmp(whole, VT_OWN_METADATA);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const vt_field f = fields[i];
        const char *from = t->source[f];
        bool seen = vt_provenance_suggested(f) && !strcmp(from, "tensors"), open = has_no_usual_value(c, names, f);
        if ((*from && !seen && strncmp(from, "default", 7)) || !is_undetermined_field(c, names, f)) continue;
        if (whole && (own || !open || names->own_map)) {
            if (!seen && f < VT_FIELD_QKV_ROWS) set_field_source(t, f, whole, VT_KNOWN);
        } else {
            set_field_source(t, f, open ? "a guess" : *from && !seen ? from : "default", open ? VT_OPEN : VT_ASSUMED);
        }
    }
}

void vt_provenance_assumed(vt_provenance *t, const char *list, const char *unread) {
    for (int f = 0; list && f < VT_FIELD_COUNT; f++) {
        const char *key = vt_field_key((vt_field)f), *at = key ? strstr(list, key) : NULL;
        bool word = at && (at == list || at[-1] == ',') && (!at[strlen(key)] || at[strlen(key)] == ',');
        const char *from = t->source[f]; /* metadata leave out what is at its default, or as tensors say */
        bool theirs = !*from || !strcmp(from, VT_OWN_METADATA) ||
                      (vt_provenance_suggested((vt_field)f) && !strcmp(from, "tensors"));
        if (word && theirs) set_field_source(t, (vt_field)f, VT_OWN_METADATA ", which assume it", VT_ASSUMED);
    }
    if (unread) snprintf(t->unread, sizeof t->unread, "%s", unread);
}

void vt_provenance_left_out(vt_provenance *t, const vt_names *names) {
    static const char *const parts[] = {"pooler.", "post_layernorm.", ".head."};
    for (size_t k = 0; !names->asked && k < sizeof parts / sizeof *parts; k++)
        for (int i = 0; i < names->n_rows; i++) {
            const char *name = names->rows[i].origin, *at = strstr(name, parts[k]);
            if (names->rows[i].became || !at || names->rows[i].was.ndim < 1) continue;
            vt_text_item(t->unread, sizeof t->unread, ", ", "tensors %.*s",
                         (int)(at - name + (int)strlen(parts[k]) - 1), name);
            break;
        }
}

/* ---- what is missing, what was assumed ---- */

int vt_heads_likely(int dim, int out[VT_HEADS_MOST]) {
    int n = 0;
    for (int least = 16; !n; least = 1)
        for (int h = 1; h <= dim && n < VT_HEADS_MOST; h++)
            if (dim % h == 0 && dim / h >= least && (dim / h <= 128 || least == 1)) out[n++] = h;
    for (int i = 1; i < n; i++) /* by distance from 64 on a scale of ratios, narrower first of two as far */
        for (int k = i; k > 0; k--) {
            double a = fabs(log2(64.0 * out[k - 1] / dim)), b = fabs(log2(64.0 * out[k] / dim));
            if (a < b || (a <= b && out[k - 1] > out[k])) break;
            int swap = out[k];
            out[k] = out[k - 1], out[k - 1] = swap;
        }
    return n;
}

/* Appends "2, 4 or 8", of a list that ends at NULL. */
static void append_alternatives(char *buf, size_t size, const char *const *all) {
    for (int i = 0; all[i]; i++) vt_text_item(buf, size, "", "%s%s", !i ? "" : all[i + 1] ? ", " : " or ", all[i]);
}

/* Appends the likely numbers of heads in ascending order. */
static void append_heads(const vt_model *m, char *buf, size_t size) {
    const int width = vt_config_attn_dim(&m->config);
    int likely[VT_HEADS_MOST], n = vt_heads_likely(width, likely), k = 0, divisors = 0;
    char text[VT_HEADS_MOST + 1][40];
    const char *all[VT_HEADS_MOST + 2] = {NULL};
    for (int h = 1; h <= width; h++) {
        divisors += width % h == 0;
        for (int i = 0; i < n; i++)
            if (likely[i] == h) snprintf(text[k], sizeof text[k], "%d", h), all[k] = text[k], k++;
    }
    snprintf(text[k], sizeof text[k], "another divisor of %d", width);
    if (divisors > n) all[k] = text[k];
    append_alternatives(buf, size, all);
}

/* Do tensors exclude this value: a Linear is no convolution, a norm after a mean no norm of the class token, a head of
 * one width reads no two rows (token_avg, avg_token, tokens), and fewer rows than three of qkv are no three. */
static bool is_excluded_by_tensors(const vt_config *c, vt_field f, const char *word) {
    const bool mean = c->pool != VT_POOL_TOKEN && !c->norm_first, wide = strlen(word) > strlen("token");
    return (f == VT_FIELD_PATCH_ORDER && !strcmp(word, "conv")) || (f == VT_FIELD_TIED_QK && *word == '0') ||
           (f == VT_FIELD_POOL && ((mean && !strcmp(word, "token")) || vt_readout_wide(c) != wide));
}

/* Appends the values that a form may have with these tensors. */
static void append_form_values(const vt_model *m, vt_field f, char *buf, size_t size) {
    const vt_form *form = vt_form_find(vt_field_key(f));
    char words[200], *save = NULL;
    const char *all[16];
    int n = 0;
    snprintf(words, sizeof words, "%s", form->opt.choices ? form->opt.choices : "0|1");
    for (char *w = strtok_r(words, "|", &save); w && n < 15; w = strtok_r(NULL, "|", &save))
        if (!is_excluded_by_tensors(&m->config, f, w)) all[n++] = w;
    all[n] = NULL;
    append_alternatives(buf, size, all);
}

/* Does the file hint at a mean or std that cannot be of pixels in [0,1]? */
static bool has_hint(const vt_model *m, vt_field f) {
    return !strncmp(m->source[f], VT_FILE_SAYS, sizeof VT_FILE_SAYS - 1);
}

/* Appends mean or std as an option's value. */
static void append_triple(const vt_model *m, vt_field f, char *buf, size_t size) {
    const double *v = f == VT_FIELD_STD ? m->config.std : m->config.mean;
    vt_text_item(buf, size, "", v[0] == v[1] && v[1] == v[2] ? "%.6g" : "%.6g,%.6g,%.6g", v[0], v[1], v[2]);
}

/* Appends the option that sets a field, with HEADS for its value, or what the file hints at. */
static void append_option(const vt_model *m, vt_field f, char *buf, size_t size) {
    const char *key = vt_field_key(f);
    vt_text_item(buf, size, "", vt_form_find(key) ? " " VT_OPTION "form %s=" : " " VT_OPTION "%s ", key);
    if (has_hint(m, f))
        append_triple(m, f, buf, size);
    else
        for (; *key; key++) vt_text_item(buf, size, "", "%c", *key >= 'a' && *key <= 'z' ? *key - 'a' + 'A' : *key);
}

/* Appends an open value with its possible ones: "heads (2, 4, 8 or another divisor of 128)". */
static void append_missing_field(const vt_model *m, vt_field f, char *what, size_t size) {
    vt_text_item(what, size, ", ", "%s (", vt_field_label(f));
    if (f == VT_FIELD_HEADS)
        append_heads(m, what, size);
    else if (has_hint(m, f))
        vt_text_item(what, size, "", "%s hint: ", m->source[f]), append_triple(m, f, what, size);
    else if (f == VT_FIELD_MEAN)
        vt_text_item(what, size, "",
                     "0.4914,0.4822,0.4465 CIFAR-10, 0.485,0.456,0.406 ImageNet, 0.5 timm's ViT, 0 none%s",
                     m->config.network ? " or bytes" : "");
    else if (f == VT_FIELD_STD)
        vt_text_item(what, size, "", "0.2470,0.2435,0.2616, 0.229,0.224,0.225, 0.5%s there",
                     m->config.network ? ", 1 or 0.00392156862745098" : " or 1");
    else
        append_form_values(m, f, what, size);
    if (f == VT_FIELD_POOL && vt_readout_wide(&m->config))
        vt_text_item(what, size, "", "; a maximum, other tokens or interleaved parts are not computed");
    if (f == VT_FIELD_TIED_QK)
        vt_text_item(what, size, "", "; grouped-query attention has the same rows and is not computed");
    vt_text_item(what, size, "", ")");
}

int vt_model_missing(const vt_model *m, char *what, size_t what_size, char *options, size_t options_size) {
    int n = 0;
    what[0] = options[0] = 0;
    for (int f = 0; f < VT_FIELD_COUNT; f++) {
        if (m->certainty[f] != VT_OPEN) continue;
        n++;
        append_missing_field(m, (vt_field)f, what, what_size);
        append_option(m, (vt_field)f, options, options_size);
    }
    return n;
}

/* Said otherwise than "label value". */
static const struct {
    vt_field field;
    const char *value, *text;
} phrases[] = {{VT_FIELD_POST_NORM, "no", "pre-norm"},
               {VT_FIELD_POST_NORM, "yes", "post-norm"},
               {VT_FIELD_NO_SHIFT, "no", "shifted windows"},
               {VT_FIELD_NO_SHIFT, "yes", "windows not shifted"},
               {VT_FIELD_NORM_FIRST, "yes", "norm before the mean"},
               {VT_FIELD_NORM_FIRST, "no", "norm behind the mean"},
               {VT_FIELD_POSITIONS, "learned", "positions by the table alone"},
               {VT_FIELD_QKV_ROWS, "qkv", "rows of qkv q then k then v"},
               {VT_FIELD_CLASS_LAST, "no", "class token first"},
               {VT_FIELD_EMBED_SCALE, "0", "embedding not scaled, attention within an image (batch_first)"}};

int vt_model_assumed(const vt_model *m, char *text, size_t size) {
    int n = 0;
    text[0] = 0;
    for (int f = 0; f < VT_FIELD_COUNT; f++) {
        char value[64];
        const char *whole = NULL;
        if (m->certainty[f] != VT_ASSUMED) continue;
        vt_field_text(m, (vt_field)f, value, sizeof value);
        for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
            if ((int)phrases[i].field == f && !strcmp(phrases[i].value, value)) whole = phrases[i].text;
        if (whole)
            vt_text_item(text, size, ", ", "%s", whole);
        else if (f == VT_FIELD_CLASSES) /* checkpoint/head */
            vt_text_item(text, size, ", ", "classes %s (%s)", value, m->source[f]);
        else
            vt_text_item(text, size, ", ", "%s %s", vt_field_label((vt_field)f), value);
        n++;
    }
    if (*m->unread) vt_text_item(text, size, ", ", "%s not read", m->unread);
    return n + (*m->unread != 0);
}

bool vt_model_part_text(const vt_model *m, char *buf, size_t size) {
    if (m->part_asked || !m->parts || !*m->parts) return false;
    const bool average = strstr(m->parts, "ema") && !strstr(m->part, "ema"), timm = strstr(m->parts, "_ema") != NULL;
    snprintf(buf, size, "%.40s was read, one of its parts %.200s%s", m->part, m->parts,
             !average ? ""
             : timm   ? " (the plain weights; timm's loader takes their average, the EMA)"
                      : " (the plain weights, not their average)");
    return true;
}

int vt_model_uncertain(const vt_model *m, char *text, size_t size) {
    int n = 0;
    text[0] = 0;
    for (int f = 0; f < VT_FIELD_COUNT; f++)
        if (m->certainty[f] != VT_KNOWN) n++, vt_text_item(text, size, ",", "%s", vt_field_key((vt_field)f));
    return n;
}
