/* SPDX-License-Identifier: MIT */
#include "remote/wire.h"

#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "base/schema.h"

#define CHARS(member, more)                                                                                            \
    {                                                                                                                  \
        .key = #member, .type = VT_KEY_CHARS, .at = offsetof(vt_handshake, member),                                    \
        .most = sizeof(((vt_handshake *)0)->member), .flags = more                                                     \
    }
#define WHOLE(member, lo, hi, more)                                                                                    \
    { .key = #member, .type = VT_KEY_INT, .at = offsetof(vt_handshake, member), .least = lo, .most = hi, .flags = more }
#define TRUTH(member, more)                                                                                            \
    { .key = #member, .type = VT_KEY_BOOL, .at = offsetof(vt_handshake, member), .flags = VT_KEY_ALWAYS | (more) }
static const vt_key keys[] = {
    CHARS(name, VT_KEY_MUST),
    CHARS(sha256, 0),
    CHARS(precision, 0),
    CHARS(library, 0),
    CHARS(device, 0),
    CHARS(note, 0),
    WHOLE(classes, 2, 100000, VT_KEY_MUST),
    WHOLE(channels, 1, VT_SHAPE_CHANNELS, VT_KEY_MUST),
    WHOLE(height, 1, VT_SHAPE_SIDE, VT_KEY_MUST),
    WHOLE(width, 1, VT_SHAPE_SIDE, VT_KEY_MUST),
    WHOLE(batch, 1, VT_WIRE_BATCH, VT_KEY_MUST),
    WHOLE(usual, 1, VT_WIRE_BATCH, VT_KEY_READ), /* it says nothing of the model */
    TRUTH(vjp, VT_KEY_MUST),
    TRUTH(logits64, 0),
    TRUTH(random, 0),
    TRUTH(independent, 0),
    {.key = "labels", .type = VT_KEY_BOOL, .at = offsetof(vt_handshake, labels)}, /* written where it is true */
    {.key = NULL},
};

vt_shape vt_handshake_shape(const vt_handshake *h) { return (vt_shape){h->channels, h->height, h->width}; }

size_t vt_handshake_pixels(const vt_handshake *h) { return vt_shape_values(vt_handshake_shape(h)); }

json_t *vt_handshake_json(const vt_handshake *h) {
    vt_handshake copy = *h;
    json_t *o = json_object();
    vt_keys_write(o, &copy, keys);
    return o;
}

/* Reads the greeting object o into h. VT_E_FORMAT: another protocol, or a value that it cannot have. */
static vt_status take_all(vt_handshake *h, const json_t *o, vt_err *e) {
    const json_t *p = json_object_get(o, "protocol");
    if (!json_is_object(o)) return vt_fail(e, VT_E_FORMAT, "its greeting must be a JSON object");
    if (json_integer_value(p) != VT_WIRE_PROTOCOL)
        return vt_fail(e, VT_E_FORMAT, "it speaks version %lld of the protocol, must be %d",
                       (long long)json_integer_value(p), VT_WIRE_PROTOCOL);
    VT_TRY(vt_keys_read(h, o, keys, "its greeting's ", e));
    size_t n = strlen(h->sha256);
    if (n && (n != 64 || strspn(h->sha256, "0123456789abcdef") != 64))
        return vt_fail(e, VT_E_FORMAT, "its greeting's sha256 must be 64 hexadecimal digits, or absent");
    if (h->labels && (h->vjp || h->logits64))
        return vt_fail(e, VT_E_FORMAT, "its greeting's labels is true, so %s must be false",
                       h->vjp ? "vjp" : "logits64");
    if (vt_handshake_pixels(h) > VT_SHAPE_VALUES)
        return vt_fail(e, VT_E_FORMAT, "its images have %zu values, must have at most %d", vt_handshake_pixels(h),
                       VT_SHAPE_VALUES);
    return VT_OK;
}

vt_status vt_handshake_read(vt_handshake *h, const char *text, size_t n, vt_err *e) {
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

vt_wire_parts vt_wire_layout(const vt_handshake *h, int rows) {
    size_t image = align_to_64((size_t)rows * vt_handshake_pixels(h) * sizeof(float));
    size_t scores = (size_t)rows * (size_t)h->classes;
    vt_wire_parts p = {.x = 0, .dx = image, .z = 2 * image};
    p.dz = p.z + align_to_64(scores * sizeof(float));
    p.z64 = p.dz + align_to_64(scores * sizeof(float));
    p.bytes = p.z64 + align_to_64(scores * sizeof(double));
    return p;
}

size_t vt_wire_row_bytes(const vt_handshake *h, vt_wire_op op, bool answer) {
    const bool image = answer == (op == VT_WIRE_VJP);
    const size_t each = answer && op == VT_WIRE_LOGITS64 ? sizeof(double) : sizeof(float);
    if (answer && h->labels) return sizeof(uint32_t);
    return (image ? vt_handshake_pixels(h) : (size_t)h->classes) * each;
}

bool vt_wire_expand_label(const vt_handshake *h, vt_wire_op op, void *row) {
    uint32_t label;
    float *z = row;
    if (!h->labels || op != VT_WIRE_LOGITS) return true;
    memcpy(&label, row, sizeof label);
    for (uint32_t k = 0; k < (uint32_t)h->classes; k++) z[k] = k == label;
    return label < (uint32_t)h->classes;
}

size_t vt_wire_place(const vt_wire_parts *p, vt_wire_op op, bool answer) {
    if (op == VT_WIRE_VJP) return answer ? p->dx : p->dz;
    return !answer ? p->x : op == VT_WIRE_LOGITS64 ? p->z64 : p->z;
}

size_t vt_wire_question_bytes(const vt_handshake *h, const vt_wire_head *q, int asked, bool shared) {
    return q->rows + (shared ? 0 : (size_t)asked * vt_wire_row_bytes(h, q->op, false));
}

size_t vt_wire_answer_bytes(const vt_handshake *h, const vt_wire_head *q, int asked, bool shared) {
    return shared ? 0 : (size_t)asked * vt_wire_row_bytes(h, q->op, true);
}

const char *vt_wire_refuses(const vt_handshake *h, const vt_wire_head *q, bool shared) {
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
