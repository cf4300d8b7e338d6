/* SPDX-License-Identifier: MIT */
/* The language that vitrine and a model in another process speak (docs/oracle.md), for both sides: a greeting, then
 * questions of one batch each and their answers. Numbers are little-endian. Whatever comes in is checked here before
 * anyone uses it; a greeting may come from an untrusted program. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

enum { VT_WIRE_PROTOCOL = 1, VT_WIRE_TEXT = 1 << 16, VT_WIRE_BATCH = 1024 };
#define VT_WIRE_MAGIC 0x31525456u /* "VTR1" */

/* What is asked, or answered with the same number. */
typedef enum vt_wire_op {
    VT_WIRE_HANDSHAKE = 1, /* JSON both ways */
    VT_WIRE_SHARE,         /* a descriptor of shared memory comes along; rows: of each of its parts */
    VT_WIRE_LOGITS,        /* flags: VT_WIRE_KEEP */
    VT_WIRE_VJP,           /* of the batch that was kept last */
    VT_WIRE_LOGITS64,
    VT_WIRE_ERROR /* an answer alone: a sentence; the conversation is over */
} vt_wire_op;

enum { VT_WIRE_KEEP = 1 }; /* vjps of this batch may follow */

/* What precedes every message: 32 bytes. */
typedef struct vt_wire_head {
    uint32_t magic, op, id; /* an answer has its question's id */
    uint32_t rows;          /* images of the batch that is to be computed, asked for or not */
    uint32_t flags, zero;
    uint64_t bytes; /* what follows */
} vt_wire_head;

/* What a model reports of itself. */
typedef struct vt_handshake {
    char name[100], sha256[65]; /* as it claims; "" where it claims none */
    char precision[24];         /* of its logits: "float32" */
    char library[100], device[60], note[200];
    int classes, channels, height, width;
    int batch; /* images of one question at most, 1 to VT_WIRE_BATCH */
    int usual; /* images of one question where nothing else is chosen; 0: not said. No part of vt_handshake_json */
    bool vjp, logits64;
    bool random;      /* asked again it answers otherwise */
    bool labels;      /* it answers with classes alone: no vjp, no logits in double; its logits are 1 and 0 here */
    bool independent; /* an image's answer has the same bits whatever stands beside it: batches need no padding */
} vt_handshake;

/* Returns the shape of the model's images. */
vt_shape vt_handshake_shape(const vt_handshake *h);
size_t vt_handshake_pixels(const vt_handshake *h); /* floats of one image */
/* Returns what the model greets with as JSON (without `usual`), to be freed; look at vt_json_refused. */
json_t *vt_handshake_json(const vt_handshake *h);
/* Parses a greeting; VT_E_FORMAT: not JSON, or a value of another type or outside its range, which is named with its
 * limit. What is not known is ignored. */
vt_status vt_handshake_read(vt_handshake *h, const char *text, size_t n, vt_err *e);

/* Shared memory: five arrays of `rows` rows each, at multiples of 64 bytes. */
typedef struct vt_wire_parts {
    size_t x, dx, z, dz, z64; /* offsets: [rows, pixels] twice, [rows, classes] twice, [rows, classes] of double */
    size_t bytes;
} vt_wire_parts;
/* Returns where the arrays of `rows` rows lie. */
vt_wire_parts vt_wire_layout(const vt_handshake *h, int rows);

/* Turns an answer to a question about logits that is a label (u32 in the first bytes of row [classes]) into logits: 1
 * for that class, else 0. Leaves a model of logits as it is. false: the label is no class. */
bool vt_wire_expand_label(const vt_handshake *h, vt_wire_op op, void *row);
/* Returns the bytes of one row of a question or of its answer. */
size_t vt_wire_row_bytes(const vt_handshake *h, vt_wire_op op, bool answer);
/* Returns the offset in shared memory of the first row of a question or of its answer. */
size_t vt_wire_place(const vt_wire_parts *p, vt_wire_op op, bool answer);
/* Returns the bytes after the head of a question that wants `asked` rows, plainly or in shared memory. */
size_t vt_wire_question_bytes(const vt_handshake *h, const vt_wire_head *q, int asked, bool shared);
/* Returns the bytes after the head of the answer to a question that wants `asked` rows; 0 in shared memory. */
size_t vt_wire_answer_bytes(const vt_handshake *h, const vt_wire_head *q, int asked, bool shared);
/* Checks a question's head. NULL: a good question; else what is wrong with it. */
const char *vt_wire_refuses(const vt_handshake *h, const vt_wire_head *q, bool shared);
