/* SPDX-License-Identifier: MIT */
/* A run's header as JSON: the rows by which it is read and written. Reading is the only place where untrusted JSON
 * becomes fields. The order of the rows is that of the keys. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "parallel/fibers.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/schema.h"
#include "base/text.h"
#include "eval/header.h"
#include "data/dataset.h"
#include "remote/wire.h"

enum { SIDE = 4096 }; /* pixels, as the models' (models/params.c) */
#define RADIUS 1e8    /* no two images of that side are further apart in any norm */

#define NAME_OF(id, text) text,
static const char *const scorings[] = {VT_SCORING_LIST(NAME_OF) NULL};
static const char *const norms[] = {"linf", "l2", "l1", "l0", "patch", "box", "rotation", NULL};
static const char *const searches[] = {"bf16", "bf16-emulated", NULL};
static const char *const target_ways[] = {"file", "least-likely", "random", NULL};
static const char *const formats[] = {VT_LEDGER_FORMAT, NULL};

#define ROW(type_, key_, T, member, ...)                                                                               \
    { .key = key_, .type = VT_KEY_##type_, .at = offsetof(T, member), __VA_ARGS__ }
#define IN(type, key, member, ...) ROW(type, key, vt_header, member, __VA_ARGS__)
#define GROUP(key_, keys_, ...)                                                                                        \
    { .key = key_, .type = VT_KEY_GROUP, .keys = keys_, __VA_ARGS__ }
#define ITEMS(key_, T, member, count_, keys_, most_, flags_)                                                           \
    {                                                                                                                  \
        .key = key_, .type = VT_KEY_ITEMS, .at = offsetof(T, member), .count = offsetof(T, count_), .keys = keys_,     \
        .size = sizeof *((T *)0)->member, .most = most_, .flags = flags_                                               \
    }
#define END                                                                                                            \
    { .key = NULL }
#define NETWORK .given = offsetof(vt_header, model.depth) /* of a network of ours */

static const vt_key stage_keys[] = {
    ROW(TEXT, "name", vt_header_stage, name),
    ROW(TEXT, "id", vt_header_stage, id),
    ROW(REAL, "share", vt_header_stage, share, .most = 1, .absent = 1),
    END,
};
static const vt_key at_keys[] = {
    ROW(TEXT, "eps", vt_header_attack, radius_text),
    ROW(REAL, "value", vt_header_attack, radius, .most = RADIUS, .absent = INFINITY, .flags = VT_KEY_MUST),
    END,
};
static const vt_key attack_keys[] = {
    ROW(TEXT, "name", vt_header_attack, name),
    ROW(TEXT, "id", vt_header_attack, id),
    ROW(TEXT, "summary", vt_header_attack, summary, .flags = VT_KEY_ALWAYS),
    ROW(TEXT, "reference", vt_header_attack, reference, .flags = VT_KEY_ALWAYS),
    ITEMS("stages", vt_header_attack, stages, n_stages, stage_keys, VT_ATTACK_STAGES, VT_KEY_ALWAYS),
    GROUP("at", at_keys),
    ROW(CHOICE, "scoring", vt_header_attack, scoring, .names = scorings),
    ROW(BOOL, "profile", vt_header_attack, profile),
    END,
};
static const vt_key row_keys[] = {
    ROW(TEXT, "row", vt_header_row, label),
    ROW(INT, "published", vt_header_row, published, .least = 1, .most = VT_HEADER_ATTACKS, .flags = VT_KEY_MUST),
    ROW(INT, "corrected", vt_header_row, corrected, .least = 1, .most = VT_HEADER_ATTACKS, .flags = VT_KEY_MUST),
    ROW(TEXT, "difference", vt_header_row, why),
    END,
};
static const vt_key published_keys[] = {
    IN(TEXT, "paper", published.paper),
    IN(TEXT, "citation", published.citation),
    ITEMS("rows", vt_header, published.rows, published.n_rows, row_keys, VT_HEADER_ATTACKS, 0),
    END,
};
static const vt_key model_keys[] = {
    IN(TEXT, "architecture", model.architecture),
    IN(TEXT, "attention", model.attention),
    IN(INT, "image", model.image, .least = 1, .most = SIDE),
    IN(INT, "channels", model.channels, .least = 1, .most = VT_SHAPE_CHANNELS),
    IN(INT, "height", model.height, .least = 1, .most = VT_SHAPE_SIDE),
    IN(INT, "width", model.width, .least = 1, .most = VT_SHAPE_SIDE),
    IN(INT, "patch", model.patch, .most = SIDE, NETWORK),
    IN(INT, "dim", model.dim, .most = 16384, NETWORK),
    IN(INT, "depth", model.depth, .most = 512, NETWORK),
    IN(INT, "heads", model.heads, .most = 65536, NETWORK),
    IN(INT, "mlp_hidden", model.hidden, NETWORK),
    IN(INT, "classes", model.classes, .most = 100000),
    IN(BOOL, "qkv_bias", model.qkv_bias, NETWORK),
    IN(BOOL, "distillation_token", model.dist_token, NETWORK),
    IN(TEXT, "pool", model.pool),
    IN(REAL, "ln_eps", model.ln_eps, NETWORK),
    IN(REAL, "attn_scale", model.attn_scale, NETWORK),
    IN(TRIPLE, "mean", model.mean, NETWORK),
    IN(TRIPLE, "std", model.std, NETWORK),
    IN(TEXT, "input", model.input),
    IN(TEXT, "forms", model.forms),
    IN(TEXT, "part", model.part),
    IN(INT, "native", model.native, .least = 1, .most = SIDE),
    IN(TEXT, "native_filter", model.native_filter),
    IN(TEXTS, "notes", model.notes),
    END,
};
static const vt_key data_keys[] = {
    IN(TEXT, "format", data.format),
    IN(TEXT, "split", data.split),
    IN(TEXT, "sha256", data.sha256),
    IN(INT, "classes", data.classes),
    IN(SEED, "count", data.count),
    IN(TEXT, "preprocess", data.preprocess),
    IN(TEXT, "jpeg", data.jpeg),
    IN(OBJECT, "head", data.head),
    IN(TEXT, "corruption", data.corruption),
    IN(INT, "severity", data.severity, .least = 1, .most = VT_SEVERITIES),
    IN(TEXTS, "notes", data.notes),
    END,
};
static const vt_key oracle_keys[] = {
    IN(TEXT, "name", oracle, .flags = VT_KEY_MUST | VT_KEY_NULL),
    IN(TEXT, "library", library),
    IN(TEXT, "device", device),
    IN(INT, "batch", takes, .least = 1, .most = VT_WIRE_BATCH),
    IN(BOOL, "random", random),
    END,
};
static const vt_key targets_keys[] = {
    IN(TEXT, "by", targets, .names = target_ways, .flags = VT_KEY_MUST | VT_KEY_NULL),
    END,
};
static const vt_key patch_keys[] = {
    IN(INT, "size", patch.size, .least = 1, .most = SIDE, .flags = VT_KEY_MUST),
    IN(INT, "count", patch.count, .least = 1, .most = VT_PATCH_MOST, .flags = VT_KEY_MUST),
    IN(BOOL, "aligned", patch.aligned, .given = offsetof(vt_header, patch.size)),
    IN(TEXT, "sha256", patch.sha256),
    END,
};
static const vt_key box_keys[] = {IN(TEXT, "sha256", box, .flags = VT_KEY_MUST | VT_KEY_NULL), END};
static const vt_key rotation_keys[] = {
    IN(REAL, "angle", rotation.angle, .most = VT_ROTATION_ANGLE, .given = offsetof(vt_header, rotation.angles)),
    IN(REAL, "shift", rotation.shift, .most = VT_SHAPE_SIDE, .given = offsetof(vt_header, rotation.angles)),
    IN(INT, "angles", rotation.angles, .least = 1, .most = VT_ROTATION_COUNT, .flags = VT_KEY_MUST),
    IN(INT, "shifts", rotation.shifts, .least = 1, .most = VT_ROTATION_COUNT, .flags = VT_KEY_MUST),
    END,
};
static const vt_key threat_keys[] = {GROUP("patch", patch_keys), GROUP("box", box_keys),
                                     GROUP("rotation", rotation_keys), END};
static const vt_key wrap_keys[] = {
    IN(TEXT, "id", wrap, .flags = VT_KEY_MUST | VT_KEY_NULL),
    IN(TEXT, "sha256_64", wrap_sha256),
    END,
};
static const vt_key surrogate_keys[] = {
    IN(TEXT, "name", surrogate.name), IN(TEXT, "sha256", surrogate.sha256), IN(REAL, "moved", surrogate.moved),
    IN(TEXT, "of", surrogate.of),     IN(TEXTS, "notes", surrogate.notes),  END,
};
static const vt_key certify_keys[] = {
    IN(TEXT, "method", certify.method, .flags = VT_KEY_MUST | VT_KEY_NULL),
    IN(TEXT, "sentence", certify.sentence),
    IN(BOOL, "first", certify.first),
    END,
};
static const vt_key header_keys[] = {
    IN(TEXT, "format", format, .names = formats),
    IN(TEXT, "vitrine", version),
    IN(TEXT, "weights", weights),
    GROUP("model", model_keys),
    GROUP("data", data_keys),
    IN(TEXT, "norm", norm_name, .names = norms),
    IN(TEXT, "eps", eps_text),
    IN(REAL, "eps_value", eps, .most = RADIUS, .absent = NAN),
    IN(SEED, "seed", seed, .flags = VT_KEY_ALWAYS),
    IN(BOOL, "exhaustive", exhaustive, .flags = VT_KEY_ALWAYS),
    ITEMS("attacks", vt_header, attacks, n_attacks, attack_keys, VT_HEADER_ATTACKS, VT_KEY_ALWAYS),
    IN(TEXT, "blas", kernels),
    IN(TEXT, "compiler", compiler),
    IN(OBJECT, "oracle", handshake),
    IN(TEXT, "weights_name", weights_name),
    IN(TEXTS, "notes", remote_notes, .flags = VT_KEY_WRITE),
    IN(OBJECT, "sources", sources),
    IN(BOOL, "curve", curve),
    IN(OBJECT, "targets", targets_object),
    IN(INT, "batch", batch, .least = 1, .most = VT_FIBER_MOST),
    GROUP("threat", threat_keys),
    IN(TEXTS, "notes", run_notes),
    GROUP("wrap", wrap_keys),
#define RUN_KEY(ctype, member, value, type, key, ...) IN(type, key, member, __VA_ARGS__),
    VT_HEADER_RUN_KEYS(RUN_KEY) IN(TEXTS, "notes", search_notes, .flags = VT_KEY_WRITE),
    GROUP("surrogate", surrogate_keys),
    GROUP("as_published", published_keys),
    GROUP("certify", certify_keys),
    END,
};

/* What is looked at of objects that others write (remote/wire.h, eval/targets.h). */
static const vt_key nested_keys[] = {GROUP("oracle", oracle_keys), GROUP("targets", targets_keys), END};

/* ---- what is checked beside the rows ---- */

/* A radius is printed as it was typed and judged as a number: both are there, and are one value to the last bit. Not
 * finite: the number is missing. */
static vt_status check_one_radius(const char *typed, double judged, const char *path, const char *name,
                                  const char *judged_key, vt_err *e) {
    double said;
    if (!*typed && !isfinite(judged)) return VT_OK;
    if (isfinite(judged) && vt_parse_real(typed, &said) && said == judged) return VT_OK;
    char number[40] = "missing", text[64] = "missing";
    if (*typed) snprintf(text, sizeof text, "\"%.60s\"", typed);
    if (isfinite(judged)) snprintf(number, sizeof number, "%.17g", judged);
    return vt_fail(e, VT_E_FORMAT, "%s: the header's %seps is %s, but its %s%s is %s: must be one number", path, name,
                   text, name, judged_key, number);
}

/* Checks each entry's radius, and that an 8-bit entry has one before it. */
static vt_status check_attacks(const vt_header *h, const char *path, vt_err *e) {
    char name[40];
    for (int i = 0; i < h->n_attacks; i++) {
        snprintf(name, sizeof name, "attacks[%d].at.", i);
        VT_TRY(check_one_radius(h->attacks[i].radius_text, h->attacks[i].radius, path, name, "value", e));
    }
    if (!h->n_attacks || h->attacks[0].scoring != VT_SCORE_EIGHT_BIT) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: the header begins with an 8-bit entry, which needs one before it", path);
}

/* Checks that the rows of as_published name two entries that exist and are scored so. */
static vt_status check_rows(const vt_header *h, const char *path, vt_err *e) {
    for (int i = 0; i < h->published.n_rows; i++) {
        const vt_header_row *r = &h->published.rows[i];
        if (r->published > h->n_attacks || r->corrected > h->n_attacks)
            return vt_fail(e, VT_E_FORMAT,
                           "%s: the header's as_published.rows[%d] are of attacks %d and %d, must be at most %d, the "
                           "last",
                           path, i, r->published, r->corrected, h->n_attacks);
        if (vt_header_scoring(h, r->published) != VT_SCORE_PUBLISHED ||
            vt_header_scoring(h, r->corrected) != VT_SCORE_BALL)
            return vt_fail(e, VT_E_FORMAT,
                           "%s: the header's as_published.rows[%d] are of attacks %d and %d, must be one scored as "
                           "published and one in the ball",
                           path, i, r->published, r->corrected);
    }
    return VT_OK;
}

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

/* Checks that norm is "patch", "box" or "rotation" exactly if there is that threat. */
static vt_status check_threat(const vt_header *h, const char *path, vt_err *e) {
    const bool patch = !strcmp(h->norm_name, "patch"), box = !strcmp(h->norm_name, "box");
    const bool rotation = !strcmp(h->norm_name, "rotation");
    if (patch == (h->patch.size > 0) && box == (h->box != NULL) && rotation == (h->rotation.angles > 0)) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: the header's norm is %s, must be patch where threat.patch says which, box where threat.box "
                   "does, rotation where threat.rotation does, and only there",
                   path, *h->norm_name ? h->norm_name : "missing");
}

/* A curve's threat is printed without its eps, which is the whole box, so that only the radii of "at" limit anything.
 */
static vt_status check_whole_box(const vt_header *h, const char *path, vt_err *e) {
    double n = (double)vt_shape_values(h->shape), box = h->norm == VT_LINF ? 1 : h->norm == VT_L2 ? sqrt(n) : n;
    if (!h->curve || n == 0 || isnan(h->eps) || h->eps == box) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: the header says a curve, whose eps_value must be %.17g, the whole box, not %.17g", path, box,
                   h->eps);
}

/* ---- what follows from the values ---- */

/* Sets the images' shape from side or channels, height, width; VT_E_FORMAT: both, or a part of it. */
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

/* Collects the sentences of data, model, surrogate and run into h->notes. */
static vt_status collect_notes(vt_header *h, const char *path, vt_err *e) {
    const json_t *const lists[] = {h->data.notes, h->model.notes, h->surrogate.notes, h->run_notes};
    size_t most = 0;
    for (int k = 0; k < 4; k++) most += json_array_size(lists[k]);
    h->notes = calloc(most + 1, sizeof *h->notes);
    if (!h->notes) return vt_fail(e, VT_E_MEMORY, "%s: no memory for the header", path);
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < json_array_size(lists[k]); i++)
            h->notes[h->n_notes++] = json_string_value(json_array_get(lists[k], i));
    return VT_OK;
}

/* Sets the fields that follow from others, in a header whose document and fields are there. */
static vt_status complete(vt_header *h, const char *path, vt_err *e) {
    h->model.document = json_object_get(h->document, "model");
    h->data.document = json_object_get(h->document, "data");
    h->published.document = json_object_get(h->document, "as_published");
    char name[300];
    snprintf(name, sizeof name, "%.200s: the header's ", path);
    VT_TRY(vt_keys_read(h, h->document, nested_keys, name, e));
    for (int i = 0; i < h->n_attacks; i++) h->curve = h->curve || isfinite(h->attacks[i].radius);
    vt_norm_find(h->norm_name, &h->norm);
    VT_TRY(take_shape(h, path, e));
    return collect_notes(h, path, e);
}

/* Reads and checks all fields of h->document. */
static vt_status read_all(vt_header *h, const char *path, vt_err *e) {
    const char *odd = odd_text(h->document);
    char name[300];
    if (odd) return vt_fail(e, VT_E_FORMAT, "%s: the header's text '%.100s' holds control characters", path, odd);
    snprintf(name, sizeof name, "%.200s: the header's ", path);
    VT_TRY(vt_keys_read(h, h->document, header_keys, name, e));
    VT_TRY(check_threat(h, path, e));
    VT_TRY(check_one_radius(h->eps_text, h->eps, path, "", "eps_value", e));
    VT_TRY(check_attacks(h, path, e));
    VT_TRY(check_rows(h, path, e));
    VT_TRY(complete(h, path, e));
    return check_whole_box(h, path, e);
}

vt_status vt_header_read(vt_header **out, json_t *document, const char *path, vt_err *e) {
    vt_header *h = calloc(1, sizeof *h);
    vt_status s = h && document ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for the header", path);
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

/* The document has them now. */
static void release_objects(vt_header *h) {
    const json_t **const all[] = {&h->model.notes, &h->data.notes,    &h->data.head, &h->surrogate.notes,
                                  &h->handshake,   &h->remote_notes,  &h->run_notes, &h->search_notes,
                                  &h->sources,     &h->targets_object};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) json_decref((json_t *)(uintptr_t)*all[i]);
    h->remote_notes = h->search_notes = NULL;
    h->run_notes = json_object_get(h->document, "notes");
}

vt_status vt_header_finish(vt_header *h, size_t before, vt_err *e) {
    h->document = json_object();
    vt_keys_write(h->document, h, header_keys);
    release_objects(h);
    if (vt_json_refused() != before) return vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
    return complete(h, "the run", e);
}

vt_status vt_header_publish(vt_header *h, const char *paper, const char *citation, vt_header_row *rows, int n,
                            vt_err *e) {
    static const vt_key keys[] = {GROUP("as_published", published_keys), END};
    size_t before = vt_json_refused();
    h->published.paper = paper, h->published.citation = citation;
    free(h->published.rows);
    h->published.rows = rows, h->published.n_rows = n;
    vt_keys_write(h->document, h, keys);
    h->published.document = json_object_get(h->document, "as_published");
    return vt_json_refused() == before ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
}

vt_header *vt_header_share(vt_header *h) {
    h->users++;
    return h;
}

void vt_header_free(vt_header *h) {
    if (!h || h->users-- > 0) return;
    for (int i = 0; i < h->n_attacks; i++) free(h->attacks[i].stages);
    free(h->attacks), free(h->notes), free(h->published.rows);
    json_decref(h->document);
    free(h);
}
