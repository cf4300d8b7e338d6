/* SPDX-License-Identifier: MIT */
#include "graph/wire.h"

#include <string.h>

bool vt_wire_varint(vt_slice *s, uint64_t *out) {
    *out = 0;
    for (int shift = 0; s->n && shift < 70; shift += 7) {
        uint8_t b = *s->p;
        s->p++, s->n--;
        if (shift < 64) *out |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) return true;
    }
    return false;
}

bool vt_wire_fixed(vt_slice *s, size_t n, uint64_t *out) {
    if (s->n < n) return false;
    *out = 0;
    for (size_t i = 0; i < n; i++) *out |= (uint64_t)s->p[i] << (8 * i);
    s->p += n, s->n -= n;
    return true;
}

/* Reads the next field of a message; false at its end and at what is none (then s stays and s->n is not 0). */
bool vt_wire_next(vt_slice *s, vt_wire_field *f) {
    vt_slice start = *s;
    uint64_t tag, n;
    *f = (vt_wire_field){0};
    bool good = s->n && vt_wire_varint(s, &tag) && tag >> 3 && tag >> 35 == 0;
    if (good) {
        f->number = (uint32_t)(tag >> 3), f->wire = (int)(tag & 7);
        if (f->wire == 0)
            good = vt_wire_varint(s, &f->value);
        else if (f->wire == 1 || f->wire == 5)
            good = vt_wire_fixed(s, f->wire == 1 ? 8 : 4, &f->value);
        else if (f->wire == 2 && (good = vt_wire_varint(s, &n) && n <= s->n))
            f->bytes = (vt_slice){s->p, (size_t)n}, s->p += n, s->n -= (size_t)n;
        else
            good = false;
    }
    if (!good) *s = start;
    return good;
}

bool vt_wire_whole(vt_slice s) {
    vt_wire_field f;
    while (vt_wire_next(&s, &f)) continue;
    return s.n == 0;
}

size_t vt_wire_count(vt_slice s, uint32_t number) {
    size_t n = 0;
    for (vt_wire_field f = {0}; vt_wire_next(&s, &f);) n += f.number == number && f.wire == 2;
    return n;
}

/* Finds the last field of that number and wire type, as protobuf reads one that is repeated. */
bool vt_wire_find(vt_slice s, uint32_t number, int wire, vt_wire_field *out) {
    bool found = false;
    *out = (vt_wire_field){0};
    for (vt_wire_field f = {0}; vt_wire_next(&s, &f);)
        if (f.number == number && f.wire == wire) *out = f, found = true;
    return found;
}

/* Calls take(ctx, i, bits) for each number, packed or not; false: malformed, perhaps after some calls. */
bool vt_wire_numbers(vt_slice s, uint32_t number, vt_wire_kind kind, void (*take)(void *, size_t, uint64_t),
                     void *ctx) {
    const size_t width = kind == VT_WIRE_FLOATS ? 4 : 8;
    const int wire = kind == VT_WIRE_VARINTS ? 0 : kind == VT_WIRE_FLOATS ? 5 : 1;
    size_t n = 0;
    for (vt_wire_field f = {0}; vt_wire_next(&s, &f);) {
        if (f.number != number) continue;
        if (f.wire == wire) {
            take(ctx, n++, f.value);
            continue;
        }
        if (f.wire != 2) return false;
        for (uint64_t v; f.bytes.n;) {
            if (!(kind == VT_WIRE_VARINTS ? vt_wire_varint(&f.bytes, &v) : vt_wire_fixed(&f.bytes, width, &v)))
                return false;
            take(ctx, n++, v);
        }
    }
    return true;
}

double vt_wire_float(uint64_t bits) {
    uint32_t b = (uint32_t)bits;
    float v;
    memcpy(&v, &b, sizeof v);
    return (double)v;
}

double vt_wire_double(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
