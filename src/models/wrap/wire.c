/* SPDX-License-Identifier: MIT */
#include "models/wrap/wire.h"

#include <stdio.h>
#include <string.h>
#include "core/json.h"
#include "core/text.h"

typedef enum kind { TEXT, WHOLE, TRUTH } kind;

typedef struct field {
    const char *key;
    kind kind;
    size_t at;
    int least, most; /* of WHOLE; of TEXT the room */
    bool must, pace; /* pace: it says nothing of the model */
} field;

#define IN(member) offsetof(vt_hello, member)
#define ROOM(member) .most = (int)sizeof(((vt_hello *)0)->member)
#define TEXT_OF(member) .key = #member, .kind = TEXT, .at = IN(member), ROOM(member)
#define WHOLE_OF(member, lo, hi) .key = #member, .kind = WHOLE, .at = IN(member), .least = lo, .most = hi
#define TRUTH_OF(member) .key = #member, .kind = TRUTH, .at = IN(member)
static const field fields[] = {
    {TEXT_OF(name), .must = true},
    {TEXT_OF(sha256)},
    {TEXT_OF(precision)},
    {TEXT_OF(library)},
    {TEXT_OF(device)},
    {TEXT_OF(note)},
    {WHOLE_OF(classes, 2, 100000), .must = true},
    {WHOLE_OF(channels, 1, VT_SHAPE_CHANNELS), .must = true},
    {WHOLE_OF(height, 1, VT_SHAPE_SIDE), .must = true},
    {WHOLE_OF(width, 1, VT_SHAPE_SIDE), .must = true},
    {WHOLE_OF(batch, 1, VT_WIRE_BATCH), .must = true},
    {WHOLE_OF(usual, 1, VT_WIRE_BATCH), .pace = true},
    {TRUTH_OF(vjp), .must = true},
    {TRUTH_OF(logits64)},
    {TRUTH_OF(random)},
    {TRUTH_OF(independent)},
};
enum { FIELDS = sizeof fields / sizeof *fields };
#undef IN
#undef ROOM

vt_shape vt_hello_shape(const vt_hello *h) { return (vt_shape){h->channels, h->height, h->width}; }

size_t vt_hello_pixels(const vt_hello *h) { return vt_shape_values(vt_hello_shape(h)); }

json_t *vt_hello_json(const vt_hello *h) {
    json_t *o = json_object();
    for (int i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        const char *at = (const char *)h + f->at;
        if (f->pace || (f->kind == TEXT && !*at)) continue;
        json_object_set_new(o, f->key,
                            f->kind == TEXT    ? json_string(at)
                            : f->kind == WHOLE ? json_integer(*(const int *)(const void *)at)
                                               : json_boolean(*(const bool *)(const void *)at));
    }
    return o;
}

static vt_status report_bad_field(const field *f, const char *must, vt_err *e) {
    return vt_fail(e, VT_E_FORMAT, "its greeting's \"%s\" must be %s", f->key, must);
}

static vt_status take_text(vt_hello *h, const field *f, const json_t *v, vt_err *e) {
    const char *text = json_string_value(v);
    char must[60];
    snprintf(must, sizeof must, "text of one line and %s %d bytes", f->must ? "1 to" : "at most", f->most - 1);
    if (text && !*text && !f->must) return VT_OK; /* as if it were not there */
    if (!text || !*text || !vt_text_is_plain(text) || strlen(text) >= (size_t)f->most)
        return report_bad_field(f, must, e);
    memcpy((char *)h + f->at, text, strlen(text) + 1);
    return VT_OK;
}

static vt_status read_field(vt_hello *h, const field *f, const json_t *v, vt_err *e) {
    void *at = (char *)h + f->at;
    char must[60];
    if (!v) return f->must ? vt_fail(e, VT_E_FORMAT, "its greeting has no \"%s\"", f->key) : VT_OK;
    if (f->kind == TEXT) return take_text(h, f, v, e);
    if (f->kind == TRUTH) {
        *(bool *)at = json_is_true(v);
        return json_is_boolean(v) ? VT_OK : report_bad_field(f, "true or false", e);
    }
    json_int_t k = json_integer_value(v);
    snprintf(must, sizeof must, "a whole number from %d to %d", f->least, f->most);
    if (!json_is_integer(v) || k < f->least || k > f->most) return report_bad_field(f, must, e);
    *(int *)at = (int)k;
    return VT_OK;
}

static vt_status take_all(vt_hello *h, const json_t *o, vt_err *e) {
    const json_t *p = json_object_get(o, "protocol");
    if (!json_is_object(o)) return vt_fail(e, VT_E_FORMAT, "its greeting must be a JSON object");
    if (json_integer_value(p) != VT_WIRE_PROTOCOL)
        return vt_fail(e, VT_E_FORMAT, "it speaks version %lld of the protocol, must be %d",
                       (long long)json_integer_value(p), VT_WIRE_PROTOCOL);
    for (int i = 0; i < FIELDS; i++) VT_TRY(read_field(h, &fields[i], json_object_get(o, fields[i].key), e));
    size_t n = strlen(h->sha256);
    if (n && (n != 64 || strspn(h->sha256, "0123456789abcdef") != 64))
        return vt_fail(e, VT_E_FORMAT, "its greeting's \"sha256\" must be 64 hexadecimal digits, or absent");
    if (vt_hello_pixels(h) > VT_SHAPE_VALUES)
        return vt_fail(e, VT_E_FORMAT, "its images have %zu values, must have at most %d", vt_hello_pixels(h),
                       VT_SHAPE_VALUES);
    return VT_OK;
}

vt_status vt_hello_read(vt_hello *h, const char *text, size_t n, vt_err *e) {
    json_error_t why;
    memset(h, 0, sizeof *h); /* two are compared byte by byte */
    memcpy(h->precision, "float32", sizeof "float32");
    json_t *o = vt_json(text, n, &why);
    if (!o && vt_json_why(&why) == VT_E_MEMORY) return vt_fail(e, VT_E_MEMORY, "no memory for its greeting");
    if (!o) return vt_fail(e, VT_E_FORMAT, "its greeting is not JSON (line %d: %.100s)", why.line, why.text);
    vt_status s = take_all(h, o, e);
    json_decref(o);
    return s;
}

static size_t align_to_64(size_t n) { return (n + 63) / 64 * 64; }

vt_wire_parts vt_wire_layout(const vt_hello *h, int rows) {
    size_t image = align_to_64((size_t)rows * vt_hello_pixels(h) * sizeof(float));
    size_t scores = (size_t)rows * (size_t)h->classes;
    vt_wire_parts p = {.x = 0, .dx = image, .z = 2 * image};
    p.dz = p.z + align_to_64(scores * sizeof(float));
    p.z64 = p.dz + align_to_64(scores * sizeof(float));
    p.bytes = p.z64 + align_to_64(scores * sizeof(double));
    return p;
}

size_t vt_wire_question_bytes(const vt_hello *h, const vt_wire_head *q, int asked, bool shared) {
    size_t mask = q->rows;
    if (shared) return mask;
    size_t each = q->op == VT_WIRE_VJP ? (size_t)h->classes : vt_hello_pixels(h);
    return mask + (size_t)asked * each * sizeof(float);
}

size_t vt_wire_answer_bytes(const vt_hello *h, const vt_wire_head *q, int asked, bool shared) {
    if (shared) return 0;
    size_t k = (size_t)asked, classes = (size_t)h->classes;
    return q->op == VT_WIRE_LOGITS64 ? k * classes * sizeof(double)
           : q->op == VT_WIRE_VJP    ? k * vt_hello_pixels(h) * sizeof(float)
                                     : k * classes * sizeof(float);
}

const char *vt_wire_refuses(const vt_hello *h, const vt_wire_head *q, bool shared) {
    if (q->magic != VT_WIRE_MAGIC || q->zero) return "no message of the protocol";
    if (q->op < VT_WIRE_LOGITS || q->op > VT_WIRE_LOGITS64) return "no question that is known";
    if (q->op == VT_WIRE_VJP && !h->vjp) return "a vjp, which this model does not give";
    if (q->op == VT_WIRE_LOGITS64 && !h->logits64) return "logits in double, which this model does not give";
    if (!q->rows || q->rows > (uint32_t)h->batch) return "a batch of another size than was greeted with";
    if (q->flags & ~(uint32_t)VT_WIRE_KEEP) return "flags that are not known";
    size_t least = vt_wire_question_bytes(h, q, 0, shared), most = vt_wire_question_bytes(h, q, (int)q->rows, shared);
    if (q->bytes < least || q->bytes > most) return "a message of another length than its rows have";
    return NULL;
}
