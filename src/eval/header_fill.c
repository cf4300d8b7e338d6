/* SPDX-License-Identifier: MIT */
/* The header of an evaluation (eval/header.h), from its options. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "base/json.h"
#include "linalg/products.h"
#include "base/version.h"
#include "eval/evaluate.h"
#include "graph/network.h"
#include "data/image.h"
#include "data/dataset.h"
#include "checkpoint/provenance.h"
#include "models/forms.h"
#include "models/surgery.h"

/* Texts that are put together here; the header's document has copies of them. */
typedef struct texts {
    char kernels[192], forms[1000], native_filter[64], preprocess[64], weights[VT_WEIGHTS_NAME], wrap[17];
    char certify[VT_CERTIFIER_TEXT];
} texts;

/* Adds a sentence to a list of notes. */
__attribute__((format(printf, 2, 3))) static void add_note(const json_t **notes, const char *format, ...) {
    char text[500];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (!*notes) *notes = json_array();
    json_array_append_new((json_t *)(uintptr_t)*notes, json_string(text));
}

/* ---- data ---- */

/* Returns which of the model's outputs the data's classes are. */
static json_t *head_json(const vt_dataset *d, int outputs) {
    json_t *present = json_array();
    for (int k = 0; k < d->classes; k++) json_array_append_new(present, json_integer(d->head[k]));
    return json_pack("{s:i,s:o,s:b}", "outputs", outputs, "present", present, "restricted", d->restricted);
}

/* Notes how labels were found and whether all outputs are compared. */
static void note_head(vt_header *h, const vt_dataset *d, int outputs) {
    if (*d->how) add_note(&h->data.notes, "%s", d->how);
    if (d->classes < outputs)
        add_note(&h->data.notes, "%d classes on a head of %d%s classes: %s", d->classes, outputs,
                 *d->how ? "" : " ImageNet",
                 d->restricted ? "only the outputs of the classes present are compared (restricted)"
                               : "all outputs are compared (not restricted)");
}

/* Fills h->data, with notes on labels and head, on images outside ImageNet's validation set, and on corruption. t:
 * keeps the text of preprocess; outputs: of the model. */
static void fill_data(vt_header *h, texts *t, const vt_dataset *d, int outputs) {
    h->data.format = d->def->name, h->data.split = vt_split_name(d->split), h->data.sha256 = d->hash;
    h->data.classes = d->classes, h->data.count = (uint64_t)d->count;
    if (!vt_transform_is_none(&d->transform)) {
        vt_transform_text(&d->transform, t->preprocess, sizeof t->preprocess);
        h->data.preprocess = t->preprocess;
    }
    if (d->jpeg) h->data.jpeg = vt_jpeg_decoder;
    if (d->head) h->data.head = head_json(d, outputs), note_head(h, d, outputs);
    int64_t val = d->split == VT_SPLIT_TEST ? vt_imagenet_val_count(d) : -1;
    if (val >= 0 && val < d->count)
        add_note(&h->data.notes,
                 "%lld of %lld images are of ImageNet's validation set; the others may have been "
                 "trained on%s",
                 (long long)val, (long long)d->count,
                 val ? " (" VT_OPTION "images imagenette-v1 leaves them out)" : "");
    if (!*d->corruption.name) return;
    h->data.corruption = d->corruption.name, h->data.severity = d->corruption.severity;
    add_note(&h->data.notes, "corruption %s, severity %d of %d", d->corruption.name, d->corruption.severity,
             VT_SEVERITIES);
}

/* ---- model ---- */

/* Returns the value of a field, by the row that says its type and place in vt_config. */
static json_t *value_json(const vt_model *m, vt_field f) {
#define V(field, kind, member) [VT_FIELD_##field] = {.type = VT_OPT_##kind, .offset = offsetof(vt_config, member) }
    static const vt_opt values[VT_FIELD_COUNT] = {
        V(ARCH, TEXT, arch),      V(ATTN, TEXT, attn),         V(IMAGE, INT, image),      V(PATCH, INT, patch),
        V(DIM, INT, dim),         V(DEPTH, INT, depth),        V(HEADS, INT, heads),      V(HIDDEN, INT, hidden),
        V(CLASSES, INT, classes), V(QKV_BIAS, BOOL, qkv_bias), V(DIST, BOOL, dist_token), V(SCALE, REAL, attn_scale),
        V(LN_EPS, REAL, ln_eps),  V(MEAN, TRIPLE, mean),       V(STD, TRIPLE, std),
    };
#undef V
    char text[VT_FORM_VALUE];
    const vt_form *form = vt_form_find(vt_field_key(f));
    const vt_opt *o = form ? &form->opt : &values[f];
    const void *at = (const char *)&m->config + o->offset;
    const double *x = at;
    if (f == VT_FIELD_TRANSFORM) return json_string(m->transform);
    if (o->type == VT_OPT_BOOL) return json_boolean(*(const bool *)at);
    if (o->type == VT_OPT_INT && !(form && form->four)) return json_integer(*(const int *)at);
    if (o->type == VT_OPT_REAL) return json_real(*x);
    if (o->type == VT_OPT_TRIPLE) return json_pack("[f,f,f]", x[0], x[1], x[2]);
    if (!form) return json_string(at);
    vt_form_text(&m->config, form, text, sizeof text);
    return json_string(text);
}

/* Returns each setting of the model as {"value", "source", "assumed"}. */
static json_t *sources_json(const vt_model *m) {
    json_t *o = json_object();
    for (int i = 0; i < VT_FIELD_COUNT; i++) {
        const vt_field f = (vt_field)i;
        if (vt_field_shown(m, f))
            json_object_set_new(o, vt_field_key(f),
                                json_pack("{s:o,s:s,s:b}", "value", value_json(m, f), "source", m->source[f], "assumed",
                                          m->certainty[f] != VT_KNOWN));
    }
    return o;
}

/* Fills the configuration of a network computed here, and its sources. */
static void fill_network(vt_header *h, texts *t, const vt_model *m) {
    static const char *const pools[] = {"token", "avg", "all"};
    const vt_config *c = &m->config;
    h->model.architecture = c->arch, h->model.attention = c->attn, h->model.pool = pools[c->pool];
    h->model.image = c->image, h->model.patch = c->patch, h->model.dim = c->dim, h->model.depth = c->depth;
    h->model.heads = c->heads, h->model.hidden = c->hidden, h->model.classes = c->classes;
    h->model.qkv_bias = c->qkv_bias, h->model.dist_token = c->dist_token;
    h->model.ln_eps = c->ln_eps, h->model.attn_scale = c->attn_scale;
    memcpy(h->model.mean, c->mean, sizeof h->model.mean), memcpy(h->model.std, c->std, sizeof h->model.std);
    h->model.input = "u8/255 in [0,1], then (x - mean) / std inside the model";
    if (vt_forms_text(c, t->forms, sizeof t->forms)) h->model.forms = t->forms;
    if (m->part && *m->part && *m->parts) h->model.part = m->part;
    h->sources = sources_json(m);
}

/* A model that is no network of ours: all that is known of it. */
static void fill_external(vt_header *h, const vt_config *c) {
    vt_shape s = c->foreign;
    h->model.architecture = c->arch, h->model.classes = c->classes;
    if (vt_shape_side(s))
        h->model.image = s.height;
    else
        h->model.channels = s.channels, h->model.height = s.height, h->model.width = s.width;
    h->model.input = "u8/255 in [0,1], as the model in its process takes it";
}

/* A network of an ONNX file: what its input and output were made to be is said. */
static void fill_onnx(vt_header *h, const vt_model *m) {
    const vt_graph *g = m->config.network->g;
    fill_external(h, &m->config);
    memcpy(h->model.mean, m->config.mean, sizeof h->model.mean),
        memcpy(h->model.std, m->config.std, sizeof h->model.std);
    h->model.input = "u8/255 in [0,1], then (x - mean) / std, then the graph";
    h->sources = sources_json(m);
    if (g->pixels == VT_PIXELS_BYTES)
        add_note(&h->model.notes, "the graph's first nodes expect pixels of [0,255]: std 1/255 makes them");
    if (g->left_out)
        add_note(&h->model.notes, "the graph's last %s is left out: attacks and verdicts take its input as logits",
                 g->left_out);
    if (vt_graph_straight_through(g))
        add_note(&h->model.notes,
                 "quantised: gradients pass straight through the graph's roundings, %d of them (BPDA, Athalye et al. "
                 "2018); "
                 "forwards are exact",
                 vt_graph_straight_through(g));
    if (g->one_logit) add_note(&h->model.notes, "the graph has one output: logits are 0 and that");
}

/* What an external model said of itself, and how it is judged (docs/oracle.md). */
static void fill_handshake(vt_header *h, const vt_handshake *handshake) {
    const char *judged =
        handshake->random
            ? "by votes: it says that it draws at random when it is asked, so each verdict is that of most of "
              "20 askings, and borderline where their 95 % interval holds a half"
        : handshake->labels
            ? "by its labels alone, so margins are 1 and -1: a broken image was asked about again, alone "
              "and in another batch, and is borderline unless every answer agrees"
        : handshake->logits64
            ? "in double, by its own process"
            : "by the model's own forward, as it shows no copy in double: a broken image was asked about "
              "again, alone and in another batch, and is borderline unless every answer agrees by more "
              "than any two differ";
    h->handshake = vt_handshake_json(handshake);
    h->weights_name = handshake->name;
    add_note(&h->remote_notes, "a model in another process (%s%s%s), judged %s", handshake->name,
             *handshake->sha256 ? "" : ", no hash claimed", *handshake->note ? ", see its note" : "", judged);
    if (*handshake->note) add_note(&h->remote_notes, "%s says of itself: %s", handshake->name, handshake->note);
}

/* Where the pixels that the model sees come from. */
static void fill_input(vt_header *h, texts *t, const vt_subject *s) {
    const vt_config *c = &s->model->config;
    const vt_input_provenance *story = &s->input;
    vt_shape at = vt_config_shape(c);
    if (s->data->floats)
        h->model.input = "float32 as stored, in [0,1] (bytes / 255 where preprocessing changes the size), then (x - "
                         "mean) / std inside the model";
    if (h->data.preprocess)
        add_note(&h->model.notes, "preprocessing %s%s%s%s; perturbations live at %d x %d, after it", h->data.preprocess,
                 *story->from ? " (" : "", story->from, *story->from ? ")" : "", at.height, at.width);
    else if (story->left)
        add_note(&h->model.notes,
                 "the images have the model's size: its own preprocessing %s was left out (" VT_OPTION
                 "preprocess brings it back)",
                 story->left);
    if (!c->native) return;
    vt_form_text(c, vt_form_find("native_filter"), t->native_filter, sizeof t->native_filter);
    h->model.native = c->native, h->model.native_filter = t->native_filter;
    add_note(&h->model.notes, "perturbations live at %d x %d; the model resizes that to %d x %d itself (%s)", at.height,
             at.width, c->image, c->image, t->native_filter);
}

/* A wrapped checkpoint is another model: it has a name and a hash of its own, and every report says so. */
static void fill_wrap(vt_header *h, texts *t, const vt_subject *s) {
    char text[400];
    if (!s->wrap.def) return;
    int n = snprintf(text, sizeof text, "%s\n%s", s->model->sha256, s->wrap.id);
    snprintf(t->wrap, sizeof t->wrap, "%016llx", (unsigned long long)vt_sha_prefix(text, (size_t)n));
    h->wrap = s->wrap.id, h->wrap_sha256 = t->wrap;
    add_note(&h->model.notes, "WRAPPED: not the checkpoint itself, but a %s around it (%s)",
             vt_wrap_defends(&s->wrap) ? "defence" : "known cheat", s->wrap.id);
}

/* Fills what is said of the model: network or external, input, wrap, names and hashes. */
static void fill_model(vt_header *h, texts *t, const vt_subject *s) {
    const vt_model *m = s->model;
    h->weights = m->sha256;
    if (vt_subject_is_remote(s))
        fill_external(h, &m->config);
    else if (m->config.network)
        fill_onnx(h, m);
    else
        fill_network(h, t, m);
    if (s->remote) {
        fill_handshake(h, vt_remote_handshake(s->remote));
    } else if (m->path) {
        vt_weights_name(t->weights, sizeof t->weights, m->path);
        h->weights_name = t->weights;
    }
    fill_input(h, t, s);
    fill_wrap(h, t, s);
}

/* ---- threat and attacks ---- */

/* Fills the entries and their stages. */
static vt_status fill_attacks(vt_header *h, const vt_eval_options *v, vt_err *e) {
    h->attacks = calloc((size_t)v->n_attacks + 1, sizeof *h->attacks);
    if (!h->attacks) return vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
    h->n_attacks = v->n_attacks;
    for (int i = 0; i < v->n_attacks; i++) {
        const vt_attack *a = &v->attacks[i];
        bool ball = a->scoring == VT_SCORE_BALL;
        vt_header_attack *to = &h->attacks[i];
        *to = (vt_header_attack){.name = a->name, .id = a->id, .summary = a->def->summary};
        to->reference = a->def->reference, to->scoring = a->scoring, to->profile = a->def->profile && ball;
        to->radius = v->radii ? v->radii[i].eps : INFINITY;
        if (isfinite(to->radius)) to->radius_text = v->radii[i].text;
        to->stages = calloc((size_t)a->n_stages + 1, sizeof *to->stages);
        if (!to->stages) return vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
        to->n_stages = a->n_stages;
        for (int k = 0; k < a->n_stages; k++) {
            const vt_attack_stage *s = &a->stages[k];
            to->stages[k] = (vt_header_stage){s->def->name, s->id, ball ? s->share : 1};
        }
    }
    return VT_OK;
}

/* Notes attacks that need more classes than there are, and an eps of 0.031. */
static void note_attacks(vt_header *h, const vt_eval_options *v) {
    char text[200];
    int classes = vt_subject_classes(v->subject);
    for (int i = 0; i < v->n_attacks; i++)
        for (int k = 0; k < v->attacks[i].n_stages; k++)
            if (vt_attack_few_classes(&v->attacks[i].stages[k], classes, text, sizeof text))
                add_note(&h->run_notes, "%s", text);
    if (!v->radii && v->norm == VT_LINF && fabs(v->eps - 0.031) <= 1e-12)
        add_note(&h->run_notes, "eps 0.031 is what papers write for 8/255 = 0.031373: it is 1.2 %% smaller");
}

/* Notes what the 8-bit rows allow, in levels. */
static void note_eight_bit(vt_header *h, const vt_eval_options *v) {
    char bound[80];
    long long most = (long long)vt_grid8_most(v->norm, v->eps);
    if (!vt_eval_eight_bit(v)) return;
    if (v->patch.size)
        snprintf(bound, sizeof bound, "free in the squares");
    else if (v->norm == VT_LINF)
        snprintf(bound, sizeof bound, "at most %lld level%s from the clean byte", most, most == 1 ? "" : "s");
    else
        snprintf(bound, sizeof bound, "the %s of their differences at most %lld",
                 v->norm == VT_L2 ? "sum of squares" : "sum", most);
    add_note(&h->run_notes, "8-bit rows: the adversarial image is bytes too, %s; tried on what the row above broke",
             bound);
}

/* Returns whether answers may be drawn at random. */
static bool answers_drawn(const vt_eval_options *v) {
    const vt_remote *remote = v->subject->remote;
    return v->subject->wrap.def || (remote && vt_remote_handshake(remote)->random);
}

/* Notes what the attack of a whole grid says of images that it leaves. */
static void note_rotation(vt_header *h, const vt_eval_options *v) {
    for (int i = 0; v->rotation.angles && !answers_drawn(v) && i < v->n_attacks; i++)
        if (!strcmp(v->attacks[i].id, "grid:tries=all"))
            add_note(&h->run_notes,
                     "grid: an image that it leaves is right at all %d points: exact for this grid, and says nothing "
                     "of "
                     "what lies between them",
                     vt_rotation_points(&v->rotation));
}

/* Notes which picture a universal patch shows, and what is exact if all places were asked. */
static void note_picture(vt_header *h, const vt_eval_options *v) {
    if (v->picture_sha256) add_note(&h->run_notes, "universal: one picture, SHA-256 %s", v->picture_sha256);
    for (int i = 0; v->picture_sha256 && v->patch.count == 1 && !answers_drawn(v) && i < v->n_attacks; i++)
        if (!strcmp(v->attacks[i].id, "universal:where=any,places=0"))
            add_note(&h->run_notes, "universal: an image that it leaves is right with this picture at all %d places",
                     vt_patch_places(&v->patch, vt_subject_shape(v->subject)));
}

/* Returns the forwards that a gradient costs, by matrix products. */
static double vt_eval_gradient_cost(const vt_eval_options *v) {
    double forward, gradient;
    vt_subject_flops(v->subject, &forward, &gradient);
    return gradient / forward;
}

/* Returns the precision of the search; NULL: float32. */
static const char *vt_eval_search(const vt_eval_options *v) {
    return v->subject->search ? vt_precision_name(v->subject->search) : NULL;
}

/* How attacks search if not in float32; another unit is another kernel. */
static void note_search(vt_header *h, texts *t, vt_precision search) {
    size_t n = strlen(t->kernels);
    if (!search) return;
    if (search == VT_PRODUCTS_BF16)
        snprintf(t->kernels + n, sizeof t->kernels - n, ", bfloat16 by %s", vt_bf16_hardware());
    add_note(&h->search_notes,
             "searched in %s: attacks followed products of bfloat16 inputs, the last %g %% of each stage in float32; "
             "every image was ended and judged in float32 and double, as ever",
             vt_precision_name(search), 100 * VT_FINISH);
}

/* Whose gradients a transfer follows: a key of its own, since "model" is what is judged, and a run is verified without
 * the surrogate. */
static void fill_surrogate(vt_header *h, const vt_subject *s) {
    const json_t **notes = &h->surrogate.notes;
    const char *name = s->surrogate_name;
    if (s->surrogate) {
        h->surrogate.name = name, h->surrogate.sha256 = s->surrogate->sha256;
        add_note(notes, "transfer: from %.100s (SHA-256 %s)", name, s->surrogate->sha256);
    } else {
        h->surrogate.name = "twin", h->surrogate.moved = VT_TWIN_SHARE, h->surrogate.of = "row";
        add_note(notes,
                 "transfer: from a twin of the checkpoint itself (weights moved by %g %%), no " VT_OPTION
                 "surrogate given",
                 100 * VT_TWIN_SHARE);
    }
}

/* Fills what proves images. */
static void fill_certify(vt_header *h, texts *t, const vt_eval_options *v) {
    if (!v->certify.def) return;
    v->certify.def->sentence(v->certify.params, v, t->certify, sizeof t->certify);
    h->certify.method = v->certify.id, h->certify.sentence = t->certify, h->certify.first = v->certify_first;
}

/* Fills all fields from the evaluation's options; texts live in t. */
static vt_status fill_all(vt_header *h, texts *t, const vt_eval_options *v, vt_err *e) {
    const vt_subject *s = v->subject;
    vt_gemm_kernels(t->kernels, sizeof t->kernels);
    h->format = VT_LEDGER_FORMAT, h->version = VT_VERSION, h->kernels = t->kernels, h->compiler = VT_COMPILER;
    h->norm_name = v->patch.size ? "patch" : v->box ? "box" : v->rotation.angles ? "rotation" : vt_norm_name(v->norm);
    h->eps_text = v->eps_text, h->eps = v->eps, h->seed = v->seed, h->exhaustive = v->exhaustive;
    h->patch.size = v->patch.size, h->patch.count = v->patch.count, h->patch.aligned = v->patch.aligned;
    h->patch.sha256 = v->picture_sha256;
    if (v->box) h->box = v->box->sha256;
    h->rotation = v->rotation;
    h->curve = v->radii != NULL;
#define FILL(type, member, value, ...) h->member = value;
    VT_HEADER_RUN_KEYS(FILL)
#undef FILL
    h->batch = vt_eval_batch(v) > 1 ? vt_eval_batch(v) : 0;
    if (v->targets) h->targets_object = vt_targets_json(v->targets);
    fill_data(h, t, s->data, s->model->config.classes);
    fill_model(h, t, s);
    note_attacks(h, v);
    note_eight_bit(h, v);
    note_rotation(h, v);
    note_picture(h, v);
    note_search(h, t, s->search);
    if (vt_eval_transfers(v)) fill_surrogate(h, s);
    fill_certify(h, t, v);
    return fill_attacks(h, v, e);
}

vt_status vt_eval_header(vt_header **out, const vt_eval_options *v, vt_err *e) {
    size_t before = vt_json_refused();
    texts *t = calloc(1, sizeof *t);
    vt_header *h = *out = calloc(1, sizeof *h);
    vt_status s = t && h ? fill_all(h, t, v, e) : vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
    vt_status finished = h ? vt_header_finish(h, before, s == VT_OK ? e : NULL) : s;
    if (s == VT_OK) s = finished;
    if (s != VT_OK) vt_header_free(h), *out = NULL;
    free(t);
    return s;
}
