/* SPDX-License-Identifier: MIT */
/* Reading a run's header: the only place where untrusted JSON becomes fields. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "core/json.h"
#include "core/fibers.h"
#include "core/opt.h"
#include "core/text.h"
#include "eval/header.h"
#include "io/dataset.h"
#include "models/wrap/wire.h"

typedef enum kind { TEXT, WHOLE, ANY_WHOLE, NUMBER, TRUTH, SCORING, OBJECT, LIST } kind;

/* A key of an object and where its value goes: const char *, int, uint64_t, double, bool, vt_scoring, const json_t *.
 */
typedef struct field {
    const char *key;
    kind kind;
    size_t at;
    double least, most;       /* of WHOLE and NUMBER */
    const char *const *names; /* of TEXT and SCORING: all that are known, and NULL; without them any text will do */
    bool must;                /* an object without it says nothing */
} field;

/* An object of the header: what a message calls it, up to the point before a key. */
typedef struct place {
    const char *path, *name;
} place;

enum { SIDE = 4096, NAME = 64 }; /* pixels, as the models' (models/params.c); characters of a place's name */
#define RADIUS 1e8               /* no two images of that side are further apart in any norm */

#define NAME_OF(id, text) text,
static const char *const scorings[] = {VT_SCORING_LIST(NAME_OF) NULL};
static const char *const norms[] = {"linf", "l2", "l1", "l0", "patch", NULL};
static const char *const searches[] = {"bf16", "bf16-emulated", NULL};
static const char *const target_ways[] = {"file", "least-likely", "random", NULL};
static const char *const formats[] = {VT_LEDGER_FORMAT, NULL};

/* Objects and lists that have fields of their own. */
typedef struct parts {
    const json_t *threat, *patch, *wrap, *oracle, *targets, *surrogate, *at, *list;
} parts;

#define IN(member) offsetof(vt_header, member)
static const field run_fields[] = {
    {.key = "format", .at = IN(format), .names = formats},
    {.key = "vitrine", .at = IN(version)},
    {.key = "weights", .at = IN(weights)},
    {.key = "weights_name", .at = IN(weights_name)},
    {.key = "blas", .at = IN(kernels)},
    {.key = "compiler", .at = IN(compiler)},
    {.key = "norm", .at = IN(norm_name), .names = norms},
    {.key = "eps", .at = IN(eps_text)},
    {.key = "eps_value", .kind = NUMBER, .at = IN(eps), .most = RADIUS},
    {.key = "seed", .kind = ANY_WHOLE, .at = IN(seed)},
    {.key = "exhaustive", .kind = TRUTH, .at = IN(exhaustive)},
    {.key = "curve", .kind = TRUTH, .at = IN(curve)},
    {.key = "batch", .kind = WHOLE, .at = IN(batch), .least = 1, .most = VT_FIBER_MOST},
    {.key = "search", .at = IN(search), .names = searches},
    {.key = "gradient_cost", .kind = NUMBER, .at = IN(gradient_cost), .most = 1e6},
    {.key = "model", .kind = OBJECT, .at = IN(model.document)},
    {.key = "sources", .kind = OBJECT, .at = IN(sources)},
    {.key = "data", .kind = OBJECT, .at = IN(data.document)},
    {.key = "as_published", .kind = OBJECT, .at = IN(published.document)},
};
static const field model_fields[] = {
    {.key = "architecture", .at = IN(model.architecture)},
    {.key = "image", .kind = WHOLE, .at = IN(model.image), .least = 1, .most = SIDE},
    {.key = "native", .kind = WHOLE, .at = IN(model.native), .least = 1, .most = SIDE},
    {.key = "channels", .kind = WHOLE, .at = IN(model.channels), .least = 1, .most = VT_SHAPE_CHANNELS},
    {.key = "height", .kind = WHOLE, .at = IN(model.height), .least = 1, .most = VT_SHAPE_SIDE},
    {.key = "width", .kind = WHOLE, .at = IN(model.width), .least = 1, .most = VT_SHAPE_SIDE},
    {.key = "patch", .kind = WHOLE, .at = IN(model.patch), .most = SIDE},
    {.key = "dim", .kind = WHOLE, .at = IN(model.dim), .most = 16384},
    {.key = "depth", .kind = WHOLE, .at = IN(model.depth), .most = 512},
    {.key = "heads", .kind = WHOLE, .at = IN(model.heads), .most = 65536},
    {.key = "classes", .kind = WHOLE, .at = IN(model.classes), .most = 100000},
};
static const field data_fields[] = {
    {.key = "format", .at = IN(data.format)},
    {.key = "split", .at = IN(data.split)},
    {.key = "sha256", .at = IN(data.sha256)},
    {.key = "corruption", .at = IN(data.corruption)},
    {.key = "severity", .kind = WHOLE, .at = IN(data.severity), .least = 1, .most = VT_SEVERITIES},
};
static const field patch_fields[] = {
    {.key = "size", .kind = WHOLE, .at = IN(patch.size), .least = 1, .most = SIDE, .must = true},
    {.key = "count", .kind = WHOLE, .at = IN(patch.count), .least = 1, .most = VT_PATCH_MOST, .must = true},
    {.key = "aligned", .kind = TRUTH, .at = IN(patch.aligned)},
};
static const field oracle_fields[] = {
    {.key = "name", .at = IN(oracle), .must = true},
    {.key = "library", .at = IN(library)},
    {.key = "device", .at = IN(device)},
    {.key = "batch", .kind = WHOLE, .at = IN(takes), .least = 1, .most = VT_WIRE_BATCH},
    {.key = "random", .kind = TRUTH, .at = IN(random)},
};
static const field targets_fields[] = {{.key = "by", .at = IN(targets), .names = target_ways, .must = true}};
static const field wrap_fields[] = {{.key = "id", .at = IN(wrap), .must = true}};
static const field published_fields[] = {
    {.key = "paper", .at = IN(published.paper)},
    {.key = "citation", .at = IN(published.citation)},
};
#undef IN
#define IN(member) offsetof(vt_header_row, member)
static const field row_fields[] = {
    {.key = "row", .at = IN(label)},
    {.key = "difference", .at = IN(why)},
    {.key = "published", .kind = WHOLE, .at = IN(published), .least = 1, .most = VT_HEADER_ATTACKS, .must = true},
    {.key = "corrected", .kind = WHOLE, .at = IN(corrected), .least = 1, .most = VT_HEADER_ATTACKS, .must = true},
};
#undef IN
#define IN(member) offsetof(vt_header_attack, member)
static const field attack_fields[] = {
    {.key = "name", .at = IN(name)},
    {.key = "id", .at = IN(id)},
    {.key = "scoring", .kind = SCORING, .at = IN(scoring), .names = scorings},
    {.key = "profile", .kind = TRUTH, .at = IN(profile)},
};
static const field at_fields[] = {
    {.key = "eps", .at = IN(radius_text)},
    {.key = "value", .kind = NUMBER, .at = IN(radius), .most = RADIUS, .must = true},
};
#undef IN
#define IN(member) offsetof(vt_header_stage, member)
static const field stage_fields[] = {
    {.key = "name", .at = IN(name)},
    {.key = "id", .at = IN(id)},
    {.key = "share", .kind = NUMBER, .at = IN(share), .most = 1},
};
#undef IN
#define IN(member) offsetof(parts, member)
static const field run_parts[] = {
    {.key = "threat", .kind = OBJECT, .at = IN(threat)},       {.key = "wrap", .kind = OBJECT, .at = IN(wrap)},
    {.key = "oracle", .kind = OBJECT, .at = IN(oracle)},       {.key = "targets", .kind = OBJECT, .at = IN(targets)},
    {.key = "surrogate", .kind = OBJECT, .at = IN(surrogate)},
};
static const field threat_parts[] = {{.key = "patch", .kind = OBJECT, .at = IN(patch), .must = true}};
static const field attack_parts[] = {{.key = "at", .kind = OBJECT, .at = IN(at)}};
static const field attacks_part = {.key = "attacks", .kind = LIST, .at = IN(list)},
                   stages_part = {.key = "stages", .kind = LIST, .at = IN(list)},
                   rows_part = {.key = "rows", .kind = LIST, .at = IN(list)},
                   notes_part = {.key = "notes", .kind = LIST, .at = IN(list)};
#undef IN

/* ---- one value ---- */

/* "text", "a whole number from 1 to 4096", "linf, l2, l1 or patch" */
static const char *expected_value_text(const field *f, char *buf, size_t size) {
    static const char *const kinds[] = {"text",          "a whole number", "a whole number", "a number",
                                        "true or false", "text",           "an object",      "a list"};
    size_t at = 0;
    if (f->most > 0) {
        snprintf(buf, size, "%s from %.10g to %.10g", kinds[f->kind], f->least, f->most);
        return buf;
    }
    if (!f->names) return kinds[f->kind];
    for (int i = 0; f->names[i] && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%s", !i ? "" : f->names[i + 1] ? ", " : " or ", f->names[i]);
    return buf;
}

static vt_status fail_wrong_value(const place *p, const char *key, const json_t *v, const char *must, vt_err *e) {
    char *text = vt_json_text(v, JSON_COMPACT | JSON_ENCODE_ANY);
    vt_fail(e, VT_E_FORMAT, "%s: the header's %s%s is %.60s, must be %s", p->path, p->name, key, text ? text : "?",
            must);
    free(text);
    return VT_E_FORMAT;
}

static bool is_known_text(const json_t *v, const char *const *names) {
    if (!json_is_string(v)) return false;
    while (names && *names && strcmp(*names, json_string_value(v))) names++;
    return !names || *names;
}

static bool in_range(const json_t *v, const field *f) {
    double x = json_number_value(v);
    return x >= f->least && x <= f->most;
}

static bool is_valid_value(const json_t *v, const field *f) {
    switch (f->kind) {
    case TEXT:
    case SCORING:
        return is_known_text(v, f->names);
    case WHOLE:
        return json_is_integer(v) && in_range(v, f);
    case ANY_WHOLE:
        return json_is_integer(v);
    case NUMBER:
        return json_is_number(v) && in_range(v, f);
    case TRUTH:
        return json_is_boolean(v);
    case OBJECT:
        return json_is_object(v);
    default:
        return json_is_array(v);
    }
}

static void store_value(void *at, const json_t *v, kind k) {
    if (k == TEXT)
        *(const char **)at = json_string_value(v);
    else if (k == SCORING)
        *(vt_scoring *)at = vt_scoring_find(json_string_value(v));
    else if (k == WHOLE)
        *(int *)at = (int)json_integer_value(v);
    else if (k == ANY_WHOLE)
        *(uint64_t *)at = (uint64_t)json_integer_value(v);
    else if (k == NUMBER)
        *(double *)at = json_number_value(v);
    else if (k == TRUTH)
        *(bool *)at = json_is_true(v);
    else
        *(const json_t **)at = v;
}

/* The fields of an object, which need not be there. What is absent stays as it is, but for texts: they become "". */
static vt_status read_fields(void *to, const json_t *o, const field *f, size_t n, const place *p, vt_err *e) {
    char buf[100];
    for (size_t i = 0; i < n; i++, f++) {
        void *at = (char *)to + f->at;
        const json_t *v = json_object_get(o, f->key);
        if (!v && f->kind == TEXT) *(const char **)at = "";
        if (!v && o && f->must)
            return vt_fail(e, VT_E_FORMAT, "%s: the header's %s%s is missing, must be %s", p->path, p->name, f->key,
                           expected_value_text(f, buf, sizeof buf));
        if (v && !is_valid_value(v, f))
            return fail_wrong_value(p, f->key, v, expected_value_text(f, buf, sizeof buf), e);
        if (v) store_value(at, v, f->kind);
    }
    return VT_OK;
}
#define READ(to, o, fields, p, e) read_fields(to, o, fields, sizeof(fields) / sizeof *(fields), p, e)

/* A radius is printed as it was typed and judged as a number: both are there, and are one value to the last bit. */
static vt_status one_radius(const json_t *o, const char *typed, const char *judged, const place *p, vt_err *e) {
    const json_t *t = json_object_get(o, typed), *v = json_object_get(o, judged);
    double said;
    if (!t && !v) return VT_OK;
    if (t && v && vt_parse_real(json_string_value(t), &said) && said == json_number_value(v)) return VT_OK;
    char number[40] = "missing", text[64] = "missing";
    if (t) snprintf(text, sizeof text, "\"%.60s\"", json_string_value(t));
    if (v) snprintf(number, sizeof number, "%.17g", json_number_value(v));
    return vt_fail(e, VT_E_FORMAT, "%s: the header's %s%s is %s, but its %s%s is %s: must be one number", p->path,
                   p->name, typed, text, p->name, judged, number);
}

/* ---- lists ---- */

/* A list of at most `most` members. Absent: none. */
static vt_status open_list(const json_t **list, int *n, const json_t *o, const field *part, int most, const place *p,
                           vt_err *e) {
    parts of = {0};
    *list = NULL;
    *n = 0;
    VT_TRY(read_fields(&of, o, part, 1, p, e));
    if (json_array_size(of.list) > (size_t)most)
        return vt_fail(e, VT_E_FORMAT, "%s: the header's %s%s has %zu members, must have at most %d", p->path, p->name,
                       part->key, json_array_size(of.list), most);
    *list = of.list;
    *n = (int)json_array_size(of.list);
    return VT_OK;
}

static vt_status no_memory(const char *path, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for the header", path);
}

/* Member i of a list of objects; its name is kept in buf. */
static vt_status read_list_member(const json_t **out, place *at, char buf[NAME], const json_t *list, const char *key,
                                  size_t i, const place *p, vt_err *e) {
    *out = json_array_get(list, i);
    snprintf(buf, NAME, "%.24s%.12s[%zu].", p->name, key, i);
    *at = (place){p->path, buf};
    if (json_is_object(*out)) return VT_OK;
    buf[strlen(buf) - 1] = 0;
    return fail_wrong_value(at, "", *out, "an object", e);
}

static vt_status read_stages(vt_header_attack *a, const json_t *o, const place *p, vt_err *e) {
    const json_t *list, *stage;
    char name[NAME];
    place at;
    int n;
    VT_TRY(open_list(&list, &n, o, &stages_part, VT_ATTACK_STAGES, p, e));
    a->stages = calloc((size_t)n + 1, sizeof *a->stages);
    if (!a->stages) return no_memory(p->path, e);
    for (int k = 0; k < n; k++) {
        a->stages[k].share = 1;
        VT_TRY(read_list_member(&stage, &at, name, list, "stages", (size_t)k, p, e));
        VT_TRY(READ(&a->stages[k], stage, stage_fields, &at, e));
    }
    a->n_stages = n;
    return VT_OK;
}

static vt_status read_attack(vt_header_attack *a, const json_t *o, const place *p, vt_err *e) {
    parts of = {0};
    char name[NAME];
    place at = {p->path, name};
    a->radius = INFINITY;
    VT_TRY(READ(a, o, attack_fields, p, e));
    VT_TRY(READ(&of, o, attack_parts, p, e));
    snprintf(name, sizeof name, "%.40sat.", p->name);
    if (of.at) VT_TRY(READ(a, of.at, at_fields, &at, e));
    VT_TRY(one_radius(of.at, "eps", "value", &at, e));
    return read_stages(a, o, p, e);
}

static vt_status read_attacks(vt_header *h, const place *p, vt_err *e) {
    const json_t *list, *attack;
    char name[NAME];
    place at;
    int n;
    VT_TRY(open_list(&list, &n, h->document, &attacks_part, VT_HEADER_ATTACKS, p, e));
    h->attacks = calloc((size_t)n + 1, sizeof *h->attacks);
    if (!h->attacks) return no_memory(p->path, e);
    h->n_attacks = n;
    for (int i = 0; i < h->n_attacks; i++) {
        VT_TRY(read_list_member(&attack, &at, name, list, "attacks", (size_t)i, p, e));
        VT_TRY(read_attack(&h->attacks[i], attack, &at, e));
        h->curve = h->curve || isfinite(h->attacks[i].radius);
    }
    if (!h->n_attacks || h->attacks[0].scoring != VT_SCORE_EIGHT_BIT) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: the header begins with an 8-bit entry, which needs one before it", p->path);
}

static vt_status read_rows(vt_header *h, const place *p, vt_err *e) {
    const json_t *list;
    char name[NAME];
    place at;
    int n;
    VT_TRY(open_list(&list, &n, h->published.document, &rows_part, VT_HEADER_ATTACKS, p, e));
    h->published.rows = calloc((size_t)n + 1, sizeof *h->published.rows);
    if (!h->published.rows) return no_memory(p->path, e);
    h->published.n_rows = n;
    for (int i = 0; i < h->published.n_rows; i++) {
        vt_header_row *r = &h->published.rows[i];
        VT_TRY(read_list_member(&r->document, &at, name, list, "rows", (size_t)i, p, e));
        VT_TRY(READ(r, r->document, row_fields, &at, e));
        if (r->published > h->n_attacks || r->corrected > h->n_attacks)
            return vt_fail(e, VT_E_FORMAT, "%s: the header's %s are of attacks %d and %d, must be at most %d, the last",
                           p->path, name, r->published, r->corrected, h->n_attacks);
        if (vt_header_scoring(h, r->published) != VT_SCORE_PUBLISHED ||
            vt_header_scoring(h, r->corrected) != VT_SCORE_BALL)
            return vt_fail(e, VT_E_FORMAT,
                           "%s: the header's %s are of attacks %d and %d, must be one scored as published and one in "
                           "the ball",
                           p->path, name, r->published, r->corrected);
    }
    return VT_OK;
}

static vt_status read_notes(vt_header *h, const json_t *surrogate, const char *path, vt_err *e) {
    const json_t *of[] = {h->data.document, h->model.document, surrogate, h->document};
    const place places[] = {{path, "data."}, {path, "model."}, {path, "surrogate."}, {path, ""}};
    enum { PLACES = sizeof of / sizeof *of };
    size_t most = 0;
    parts lists[PLACES] = {{0}};
    for (int k = 0; k < PLACES; k++) {
        VT_TRY(read_fields(&lists[k], of[k], &notes_part, 1, &places[k], e));
        most += json_array_size(lists[k].list);
    }
    h->notes = calloc(most + 1, sizeof *h->notes);
    if (!h->notes) return no_memory(path, e);
    for (int k = 0; k < PLACES; k++)
        for (size_t i = 0; i < json_array_size(lists[k].list); i++) {
            const json_t *v = json_array_get(lists[k].list, i);
            if (!json_is_string(v)) return fail_wrong_value(&places[k], "notes", lists[k].list, "a list of texts", e);
            h->notes[h->n_notes++] = json_string_value(v);
        }
    return VT_OK;
}

/* ---- the whole ---- */

/* What a header says is printed, and stands in reports: the first text of it that is not one line, or NULL. */
static const char *odd_text(const json_t *o) {
    const char *key,
        *found = json_is_string(o) && !vt_text_is_plain(json_string_value(o)) ? json_string_value(o) : NULL;
    json_t *v;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        if (!found) found = vt_text_is_plain(key) ? odd_text(v) : key;
    }
    json_array_foreach(o, i, v) {
        if (!found) found = odd_text(v);
    }
    return found;
}

static vt_status read_threat(vt_header *h, const json_t *threat, const char *path, vt_err *e) {
    parts of = {0};
    VT_TRY(READ(&of, threat, threat_parts, (&(place){path, "threat."}), e));
    VT_TRY(READ(h, of.patch, patch_fields, (&(place){path, "threat.patch."}), e));
    if (!h->patch.size == (strcmp(h->norm_name, "patch") != 0)) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: the header's norm is %s, must be patch where threat.patch says which, and only there", path,
                   *h->norm_name ? h->norm_name : "missing");
}

/* A curve's threat is printed without its eps, which is the whole box, so that only the radii of "at" limit anything.
 */
static vt_status whole_box(const vt_header *h, const char *path, vt_err *e) {
    double n = (double)vt_shape_values(h->shape), box = h->norm == VT_LINF ? 1 : h->norm == VT_L2 ? sqrt(n) : n;
    if (!h->curve || n == 0 || isnan(h->eps) || h->eps == box) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: the header says a curve, whose eps_value must be %.17g, the whole box, not %.17g", path, box,
                   h->eps);
}

/* One of the two ways to say it, and all of it. */
static vt_status take_shape(vt_header *h, const char *path, vt_err *e) {
    int side = h->model.native ? h->model.native : h->model.image;
    vt_shape other = {h->model.channels, h->model.height, h->model.width};
    bool any = other.channels || other.height || other.width, all = other.channels && other.height && other.width;
    if (any && (!all || side || vt_shape_values(other) > VT_SHAPE_VALUES))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: the header's model needs channels, height and width of at most %d values together, or "
                       "image alone",
                       path, VT_SHAPE_VALUES);
    h->shape = side ? vt_shape_rgb(side) : other;
    return VT_OK;
}

static vt_status read_all(vt_header *h, const char *path, vt_err *e) {
    const place top = {path, ""}, model = {path, "model."}, data = {path, "data."}, wrap = {path, "wrap."},
                oracle = {path, "oracle."}, targets = {path, "targets."}, published = {path, "as_published."};
    const char *odd = odd_text(h->document);
    parts of = {0};
    if (odd) return vt_fail(e, VT_E_FORMAT, "%s: the header's text '%.100s' holds control characters", path, odd);
    h->eps = NAN;
    VT_TRY(READ(h, h->document, run_fields, &top, e));
    VT_TRY(READ(&of, h->document, run_parts, &top, e));
    VT_TRY(READ(h, h->model.document, model_fields, &model, e));
    VT_TRY(READ(h, h->data.document, data_fields, &data, e));
    VT_TRY(READ(h, h->published.document, published_fields, &published, e));
    if (of.wrap) VT_TRY(READ(h, of.wrap, wrap_fields, &wrap, e));
    if (of.oracle) VT_TRY(READ(h, of.oracle, oracle_fields, &oracle, e));
    if (of.targets) VT_TRY(READ(h, of.targets, targets_fields, &targets, e));
    VT_TRY(read_threat(h, of.threat, path, e));
    VT_TRY(one_radius(h->document, "eps", "eps_value", &top, e));
    VT_TRY(read_attacks(h, &top, e));
    VT_TRY(read_rows(h, &published, e));
    vt_norm_find(h->norm_name, &h->norm);
    VT_TRY(take_shape(h, path, e));
    VT_TRY(whole_box(h, path, e));
    return read_notes(h, of.surrogate, path, e);
}

vt_status vt_header_read(vt_header **out, json_t *document, const char *path, vt_err *e) {
    vt_header *h = calloc(1, sizeof *h);
    vt_status s = h && document ? VT_OK : no_memory(path, e);
    *out = NULL;
    if (h)
        h->document = document;
    else
        json_decref(document);
    if (s == VT_OK) s = read_all(h, path, e);
    if (s == VT_OK)
        *out = h;
    else
        vt_header_free(h);
    return s;
}

void vt_header_free(vt_header *h) {
    if (!h) return;
    for (int i = 0; i < h->n_attacks; i++) free(h->attacks[i].stages);
    free(h->attacks), free(h->notes), free(h->published.rows);
    json_decref(h->document);
    free(h);
}
