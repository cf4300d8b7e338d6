/* SPDX-License-Identifier: MIT */
/* Protobuf's wire format: fields of a message, one after another. Nothing recurses; lengths are checked against what
 * is there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the file. */
typedef struct vt_slice {
    const uint8_t *p;
    size_t n;
} vt_slice;

typedef struct vt_wire_field {
    uint32_t number;
    int wire;       /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t value; /* of 0, 1 and 5 */
    vt_slice bytes; /* of 2 */
} vt_wire_field;

/* Reads a varint of at most ten bytes from the front of s; false: it is cut off or longer. */
bool vt_wire_varint(vt_slice *s, uint64_t *out);
/* Reads n little-endian bytes, at most 8, from the front of s; false: there are fewer. */
bool vt_wire_fixed(vt_slice *s, size_t n, uint64_t *out);
/* Moves s past the next field of a message, into *f; false at its end and at malformed bytes (then s stays and s->n is
 * not 0). */
bool vt_wire_next(vt_slice *s, vt_wire_field *f);
/* Returns whether s is a sequence of whole fields. */
bool vt_wire_whole(vt_slice s);
/* Returns how many fields with that number and of bytes (wire type 2) s has. */
size_t vt_wire_count(vt_slice s, uint32_t number);
/* Sets *out to the last field of that number and wire type, as protobuf reads a repeated one; false: none, *out is
 * zero. */
bool vt_wire_find(vt_slice s, uint32_t number, int wire, vt_wire_field *out);

typedef enum vt_wire_kind { VT_WIRE_VARINTS, VT_WIRE_FLOATS, VT_WIRE_DOUBLES } vt_wire_kind;
/* Calls take(ctx, i, bits) for each number of a repeated field, packed or not; false: malformed. */
bool vt_wire_numbers(vt_slice s, uint32_t number, vt_wire_kind kind, void (*take)(void *, size_t, uint64_t), void *ctx);
/* Returns the float with these 32 bits. */
double vt_wire_float(uint64_t bits);
/* Returns the double with these 64 bits. */
double vt_wire_double(uint64_t bits);
