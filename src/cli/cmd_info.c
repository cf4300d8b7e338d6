/* SPDX-License-Identifier: MIT */
/* vitrine info: what a checkpoint is and where each value was read. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "graph/network.h"
#include "linalg/gemm.h"
#include "base/text.h"
#include "models/arch.h"
#include "checkpoint/provenance.h"
#include "checkpoint/names.h"
#include "models/forms.h"

/* Prints "  KEY VALUE (FROM)"; the texts come from the file and are made safe to show. */
static void print_row(const char *key, const char *value, const char *from) {
    char a[400], b[400]; /* parts and preprocessing are the file's own words: no line of ours is theirs to write */
    from = from ? vt_text_line(b, sizeof b, from) : "";
    printf("  %-20s %-40s %s%s%s\n", key, vt_text_line(a, sizeof a, value), *from ? "(" : "", from, *from ? ")" : "");
}

/* Prints a setting with its source, marked as assumed or not told if it is. */
static void print_field(const vt_model *m, vt_field f) {
    static const char *const how[] = {[VT_KNOWN] = "", [VT_ASSUMED] = "assumed: ", [VT_OPEN] = "not told: "};
    char value[64], from[100];
    vt_field_text(m, f, value, sizeof value);
    snprintf(from, sizeof from, "%s%s", how[m->certainty[f]], m->source[f]);
    print_row(vt_field_label(f), value, from);
}

/* Prints all settings that the architecture has. */
static void print_config(const vt_model *m) {
    for (int f = 0; f < VT_FIELD_COUNT; f++)
        if (vt_field_shown(m, (vt_field)f)) print_field(m, (vt_field)f);
}

/* Prints the open settings and the options that commands ask for. */
static void print_missing(const vt_model *m) {
    char what[1000], options[300];
    if (vt_model_missing(m, what, sizeof what, options, sizeof options))
        printf("\nnot told: %s; commands that compute with it ask for%s\n", what, options);
}

/* ---- --explain: what became of every tensor of a file, and why ---- */

/* Prints what became of a tensor: "NAME DTYPE SHAPE -> CANONICAL", or why it was ignored. */
static void print_tensor(const vt_names_row *r) {
    char shape[200], what[240], origin[300], became[300];
    const char *to = r->became ? r->became : r->why ? r->why : "not looked at"; /* an error before it */
    snprintf(what, sizeof what, "%s %s", vt_dtype_name(r->was.dtype),
             vt_shape_text(shape, sizeof shape, r->was.shape, r->was.ndim));
    printf("  %-48s %-22s %s%s\n", vt_text_line(origin, sizeof origin, r->origin), what,
           r->became ? "-> "
           : r->why  ? "ignored: "
                     : "",
           vt_text_line(became, sizeof became, to));
}

/* Prints the notes of reading: prefixes, ignored entries, normalisation layers, values. */
static void print_notes(const vt_tensors *st) {
    static const char *const kinds[] = {[VT_NOTE_CHOSEN] = "chosen",
                                        [VT_NOTE_IGNORED] = "ignored",
                                        [VT_NOTE_RENAMED] = "prefix",
                                        [VT_NOTE_MEAN_STD] = "normalisation",
                                        [VT_NOTE_VALUE] = "value"};
    const vt_note *n;
    char name[300], text[1000];
    for (int i = 0; (n = vt_tensors_note(st, i)); i++)
        printf("  %-14s %s: %s\n", kinds[n->kind], vt_text_line(name, sizeof name, n->name),
               vt_text_line(text, sizeof text, n->text));
}

/* Prints the tensors of a file whose names fit no scheme. */
static void print_unknown(const vt_tensors *st) {
    for (int i = 0; i < vt_tensors_count(st); i++)
        print_tensor(
            &(vt_names_row){.was = *vt_tensors_at(st, i), .origin = vt_tensors_origin(st, i), .why = "no scheme fits"});
}

/* Prints also when names are not understood, and then returns why not. unknown_alone: nothing but the tensors of a file
 * whose names fit no scheme. */
static vt_status explain(const char *path, const vt_overrides *o, bool unknown_alone, vt_err *e) {
    vt_tensors *st;
    vt_names n;
    VT_TRY(vt_weights_open(&st, path, o->part, e));
    vt_status s = vt_names_apply(&n, st, o->names, NULL, e);
    const char *scheme = *n.naming ? n.naming : "not known";
    int count = n.n_rows ? n.n_rows : vt_tensors_count(st);
    if (!unknown_alone) {
        printf("\n%s, %d tensors, names: %s\n", vt_tensors_format(st), count, scheme);
        print_notes(st);
        for (int i = 0; i < n.n_rows; i++) print_tensor(&n.rows[i]);
        if (!n.n_rows) print_unknown(st);
    } else if (s != VT_OK && !*n.naming && !vt_unsupported_network(st, NULL, 0)) {
        printf("%s, %d tensors, names: %s\n", vt_tensors_format(st), vt_tensors_count(st), scheme);
        print_unknown(st);
    }
    vt_names_close(&n);
    vt_tensors_close(st);
    return s;
}

/* ---- --json ---- */

typedef enum kind { WORD, NUMBER, YES, REAL, THREE } kind;

static const struct {
    const char *key;
    vt_field field;
    kind kind;
    size_t offset;
} rows[] = {{"image", VT_FIELD_IMAGE, NUMBER, offsetof(vt_config, image)},
            {"patch", VT_FIELD_PATCH, NUMBER, offsetof(vt_config, patch)},
            {"dim", VT_FIELD_DIM, NUMBER, offsetof(vt_config, dim)},
            {"depth", VT_FIELD_DEPTH, NUMBER, offsetof(vt_config, depth)},
            {"heads", VT_FIELD_HEADS, NUMBER, offsetof(vt_config, heads)},
            {"mlp_hidden", VT_FIELD_HIDDEN, NUMBER, offsetof(vt_config, hidden)},
            {"classes", VT_FIELD_CLASSES, NUMBER, offsetof(vt_config, classes)},
            {"qkv_bias", VT_FIELD_QKV_BIAS, YES, offsetof(vt_config, qkv_bias)},
            {"distillation_token", VT_FIELD_DIST, YES, offsetof(vt_config, dist_token)},
            {"attn_scale", VT_FIELD_SCALE, REAL, offsetof(vt_config, attn_scale)},
            {"ln_eps", VT_FIELD_LN_EPS, REAL, offsetof(vt_config, ln_eps)},
            {"mean", VT_FIELD_MEAN, THREE, offsetof(vt_config, mean)},
            {"std", VT_FIELD_STD, THREE, offsetof(vt_config, std)}};

/* Returns the value of that kind at an address of vt_config. */
static json_t *value_as_json(kind k, const void *at) {
    const double *v = at;
    switch (k) {
    case WORD:
        return json_string(at);
    case NUMBER:
        return json_integer(*(const int *)at);
    case YES:
        return json_boolean(*(const bool *)at);
    case REAL:
        return json_real(*v);
    case THREE:
        break;
    }
    return json_pack("[f,f,f]", v[0], v[1], v[2]);
}

/* Sets key to {"value", "source"} of a field. */
static void add_sourced_value(json_t *o, const vt_model *m, const char *key, vt_field field, kind k, const void *at) {
    json_object_set_new(o, key, json_pack("{s:o,s:s}", "value", value_as_json(k, at), "source", m->source[field]));
}

/* Returns the settings, each as {"value", "source"}: those of timm's ViT always, other forms if the model has them. */
static json_t *model_as_json(const vt_model *m) {
    int n;
    char text[64];
    json_t *o = json_object();
    const vt_config *c = &m->config;
    const vt_form *forms = vt_forms(&n);
    add_sourced_value(o, m, "architecture", VT_FIELD_ARCH, WORD, c->arch);
    if (vt_field_shown(m, VT_FIELD_ATTN)) add_sourced_value(o, m, "attention", VT_FIELD_ATTN, WORD, c->attn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (vt_field_shown(m, rows[i].field))
            add_sourced_value(o, m, rows[i].key, rows[i].field, rows[i].kind, (const char *)c + rows[i].offset);
    for (int i = 0; i < n && !c->network; i++) {
        if (forms[i].field != VT_FIELD_POOL && vt_form_is_default(c, &forms[i])) continue;
        vt_form_text(c, &forms[i], text, sizeof text);
        add_sourced_value(o, m, forms[i].opt.key, forms[i].field, WORD, text);
    }
    if (*m->transform) add_sourced_value(o, m, "preprocess", VT_FIELD_TRANSFORM, WORD, m->transform);
    return o;
}

/* Returns the document of --json (docs/formats.md). */
static json_t *info_json(const vt_model *m) {
    double forward, gradient;
    vt_arch_find(m->config.arch)->flops(&m->config, true, &forward, &gradient);
    json_t *o =
        json_pack("{s:i,s:s,s:s,s:s,s:I,s:i,s:f,s:f,s:o}", "version", 1, "file", m->path, "sha256", m->sha256, "names",
                  m->naming, "parameters", (json_int_t)vt_model_param_count(m), "tensors", m->params.count,
                  "flop_forward", forward, "flop_gradient", gradient, "model", model_as_json(m));
    if (o) json_object_set_new(o, "checksum", m->seal ? json_string(m->seal) : json_null());
    if (o && *m->part) json_object_set_new(o, "part", json_string(m->part));
    if (o && m->config.network) json_object_set_new(o, "onnx", vt_network_json(m->config.network));
    return o;
}

/* ---- ONNX files ---- */

/* Prints "Conv 20, Relu 17, ..." below a row, in lines of at most 80 columns. */
static void print_counts(const json_t *counts) {
    char text[80] = "";
    const char *name;
    json_t *n;
    json_object_foreach((json_t *)(uintptr_t)counts, name, n) {
        char item[60];
        snprintf(item, sizeof item, "%.40s %lld", name, (long long)json_integer_value(n));
        if (strlen(text) + strlen(item) > 54) print_row("", text, ""), text[0] = 0;
        vt_text_item(text, sizeof text, ", ", "%s", item);
    }
    print_row("", text, "");
}

static const char *text_of(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    return text && *text ? text : "not said";
}

static long long number_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

/* Prints what an ONNX file is, and what became of it. */
static void print_network(const json_t *n) {
    const json_t *in = json_object_get(n, "input"), *out = json_object_get(n, "output"),
                 *image = json_object_get(n, "image");
    char text[300];
    snprintf(text, sizeof text, "%.80s %.60s, opset %lld", text_of(n, "producer"), text_of(n, "producer_version"),
             number_of(n, "opset"));
    print_row("producer", text, "");
    print_row("input", text_of(in, "name"), text_of(in, "layout"));
    snprintf(text, sizeof text, "%lld x %lld x %lld", json_integer_value(json_array_get(image, 0)),
             json_integer_value(json_array_get(image, 1)), json_integer_value(json_array_get(image, 2)));
    print_row("image", text, "channels, height, width");
    print_row("output", text_of(out, "name"),
              json_object_get(out, "one_logit") ? "one number: logits are 0 and it" : "");
    if (json_object_get(out, "left_out")) print_row("left out", text_of(out, "left_out"), "logits are its input");
    snprintf(text, sizeof text, "%lld in %lld tensors", number_of(n, "parameters"), number_of(n, "tensors"));
    print_row("parameters", text, "no NaN");
    snprintf(text, sizeof text, "%lld nodes of the file", number_of(n, "file_nodes"));
    print_row("operators", text, "");
    print_counts(json_object_get(n, "file_operators"));
    snprintf(text, sizeof text, "%lld nodes", number_of(n, "nodes"));
    print_row("computed", text, "after constants are folded, operators composed");
    print_counts(json_object_get(n, "operators"));
    snprintf(text, sizeof text, "straight through roundings: %lld", number_of(n, "straight_through"));
    if (number_of(n, "straight_through")) print_row("gradients", text, "BPDA: no derivatives");
    snprintf(text, sizeof text, "%lld values", number_of(n, "cuts"));
    print_row("cuts", text, "where the self-test looks inside");
    snprintf(text, sizeof text, "%.1f MB", (double)number_of(n, "bytes_float32") * 1e-6);
    print_row("memory", text, "one image's gradient step, float32");
}

/* ---- the command ---- */

static vt_status run(const vt_cli *c, vt_err *e) {
    vt_model *m;
    vt_overrides o;
    VT_TRY(vt_cli_overrides(c, &o, e));
    o.onnx = true;
    vt_status known = vt_model_inspect(&m, c->positional[0], &o, e);
    if (known != VT_OK) { /* what is known of its tensors helps to write a map */
        if (vt_cli_has(c, "explain") || !o.names) (void)explain(c->positional[0], &o, !vt_cli_has(c, "explain"), NULL);
        return known;
    }
    if (vt_script_stream()) {
        known = vt_script_print(info_json(m), e);
        vt_model_close(m);
        return known;
    }
    printf("%s\n", c->positional[0]);
    if (*m->part) {
        char from[240];
        snprintf(from, sizeof from, *m->parts ? "one of %s: --part tells" : "the entry with tensors", m->parts);
        print_row("part", m->part, from);
    }
    print_row("names", m->naming, "");
    print_config(m);
    json_t *network = m->config.network ? vt_network_json(m->config.network) : NULL;
    if (network) print_network(network);
    json_decref(network);
    if (*m->unread) print_row("not read", m->unread, "");
    char text[64];
    snprintf(text, sizeof text, "%zu in %d tensors", vt_model_param_count(m), m->params.count);
    if (!m->config.network) print_row("parameters", text, "all finite");
    double fwd, grad;
    vt_arch_find(m->config.arch)->flops(&m->config, true, &fwd, &grad);
    snprintf(text, sizeof text, "%.4g / %.4g GFLOP", fwd * 1e-9, grad * 1e-9);
    print_row("one image", text, "forward / gradient step");
    printf("  %-12s %s\n", "sha256", m->sha256); /* as wide as a terminal bears */
    if (!m->config.network)
        print_row("checksum", m->seal ? m->seal : "none in the file",
                  !m->seal                       ? ""
                  : !strcmp(m->seal, VT_ST_FILE) ? "of the whole file: as it was written"
                                                 : "of its tensors: as written; its metadata are held by nothing");
    print_missing(m);
    if (m->recipe)
        printf("\nmade by vitrine train with this recipe (repeat it with vitrine train --from):\n%s", m->recipe);
    if (vt_cli_has(c, "explain") && !m->config.network) known = explain(c->positional[0], &o, false, e);
    if (vt_cli_has(c, "tensors"))
        for (int i = 0; i < m->params.count; i++) {
            char shape[96] = "";
            const vt_param *p = &m->params.items[i];
            for (int k = 0, n = 0; k < p->ndim; k++)
                n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%lld", k ? "," : "", (long long)p->shape[k]);
            printf("  %-36s [%s]\n", p->name, shape);
        }
    vt_model_close(m);
    return known;
}

static const vt_arg args[] = {
    VT_MODEL_ARGS,
    {"tensors", NULL, "list every tensor with its shape", VT_OF_OUTPUT},
    {"explain", NULL, "what every tensor of the file became, or why it was ignored", VT_OF_OUTPUT},
    VT_JSON_ARG,
    {0},
};

const vt_command vt_command_info = {
    .name = "info",
    .summary = "what a checkpoint is, and where each value was read",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .examples = {"vitrine info weights/shapes10-vit", "vitrine info weights/shapes10-vit --tensors",
                 "vitrine info weights/cifar10-at --explain"},
    .run = run,
};
