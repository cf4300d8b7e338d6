/* SPDX-License-Identifier: MIT */
/* What a run's header says: what was evaluated, and how. It is filled from an evaluation's options (header_fill.c) or
 * read from the first line of a ledger; the rows of header_keys.c are the JSON document of both. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "attacks/ball.h"
#include "attacks/rotation.h"
#include "base/shape.h"
#include "base/status.h"

#define VT_LEDGER_FORMAT "vitrine ledger 2"
enum { VT_HEADER_ATTACKS = 1000 }; /* as a line's "entry" (ledger_line.c) */

/* A stage of an entry of "attacks". */
typedef struct vt_header_stage {
    const char *name, *id; /* "pgd", "pgd:steps=10,alpha=eps/4"; absent: "" */
    double share;          /* of the survivors that it was run on, 0 to 1; absent: 1, all */
} vt_header_stage;

/* An entry of "attacks". */
typedef struct vt_header_attack {
    const char *name, *id;           /* "pgd+square", its stages' ids joined by "+"; absent: "" */
    const char *summary, *reference; /* a sentence; the paper */
    vt_scoring scoring;              /* what its verdicts are about; absent: points of the ball */
    bool profile;                    /* its report says what samples leave open, even nothing; absent: it does not */
    const char *radius_text;         /* "at": the radius of a curve's confirmation as typed; absent: "" */
    double radius;                   /* what that text says, in units of pixels in [0,1]; absent: INFINITY */
    vt_header_stage *stages;
    int n_stages; /* at most VT_ATTACK_STAGES; absent: 0 */
} vt_header_attack;

/* A row of "as_published": two entries of "attacks", which count from 1. */
typedef struct vt_header_row {
    const char *label, *why; /* "row", "difference": "PGD-20", a sentence; absent: "" */
    int published, corrected;
} vt_header_row;

/* Keys of the run that stand beside the others: the member's type and name, its value in an evaluation v, and its row
 * (base/schema.h). A further one takes a line here and nothing else; it is written after the others, where it is not
 * what an absent one reads as.
 *   gradient_cost  forwards that a gradient costs
 *   search         how attacks searched: "bf16", "bf16-emulated"; absent: "", in float32 */
#define VT_HEADER_RUN_KEYS(X)                                                                                          \
    X(double, gradient_cost, vt_eval_gradient_cost(v), REAL, "gradient_cost", .most = 1e6)                             \
    X(const char *, search, vt_eval_search(v), TEXT, "search", .names = searches)

/* Texts are one line each, belong to the document and are never NULL unless said: absent is "". So do objects and
 * lists, whose absence is NULL. */
typedef struct vt_header {
    json_t *document; /* the whole: for hashes, resumes, copies into results */
    int users;        /* who hold it, besides the first (vt_header_share) */

    const char *format;             /* VT_LEDGER_FORMAT */
    const char *version;            /* "vitrine": of the program that began the run */
    const char *weights;            /* SHA-256 of the checkpoint, hexadecimal */
    const char *weights_name;       /* its file's name; absent: made before there was one, or of no file */
    const char *kernels, *compiler; /* "blas", "compiler": what decides the last bits */
    const char *norm_name;          /* "linf", "l2", "l1"; "patch", "box", "rotation": a threat in its place */
    vt_norm norm;                   /* absent, and of such threats: VT_LINF */
    const char *eps_text;           /* "eps", as typed */
    double eps;                     /* "eps_value": what that text says, in units of pixels in [0,1]; absent: NaN */
    uint64_t seed;                  /* absent: 0 */
    bool exhaustive;                /* absent: no */
    bool curve;                     /* "curve", or an attack has a radius of its own: of vitrine curve */
    int batch;                      /* images whose questions to the model were one batch; absent: 0, one at a time */
#define VT_HEADER_MEMBER(type, member, ...) type member;
    VT_HEADER_RUN_KEYS(VT_HEADER_MEMBER)
#undef VT_HEADER_MEMBER
    const char *wrap;          /* "wrap": id of the wrap around the model; absent: NULL */
    vt_shape shape;            /* of the images that were attacked: three squares of "native", else "image", or
                                * "channels", "height" and "width"; absent: 0 */
    vt_header_attack *attacks; /* [n_attacks]; absent: none, clean predictions alone */
    int n_attacks;             /* at most VT_HEADER_ATTACKS */
    const char **notes;        /* [n_notes] sentences that every report has to say, of data, model
                                * (preprocessing, classes, resolution of the attack), surrogate, and the run */
    size_t n_notes;

    struct {
        const char *architecture;
        int image, native;           /* sides in pixels, of what is cut into patches and of the input, which the model
                                      * resizes; native absent: 0, the same */
        int channels, height, width; /* of an external model; absent: 0 */
        int patch, dim, depth, heads, hidden, classes; /* pixels, then counts; depth 0: an external model */
        bool qkv_bias, dist_token;
        double ln_eps, attn_scale, mean[3], std[3];
        const char *attention, *pool, *input, *forms, *part, *native_filter;
        const json_t *notes, *document;
    } model;

    struct {             /* "threat": squares of so many pixels a side, which begin at tokens or anywhere */
        int size, count; /* absent: 0 */
        bool aligned;
        const char *sha256; /* of the picture that attack universal pastes; absent: "" */
    } patch;
    const char *box;                    /* "threat": SHA-256 of the file with a box of bounds; absent: NULL */
    vt_rotation rotation;               /* "threat": absent: 0 */
    const json_t *handshake;            /* "oracle": what an external model said of itself; of it: */
    const char *oracle;                 /* its name; absent: NULL, a checkpoint */
    const char *library, *device;       /* what it said it is computed by and on; absent: "" */
    int takes;                          /* images at a time, at most; absent: 0 */
    bool random;                        /* of it: it draws when it is asked, verdicts are votes */
    const json_t *targets_object;       /* "targets"; of it: */
    const char *targets;                /* by what each image has a class that it is to be turned into: "file",
                                         * "least-likely", "random"; absent: NULL, any other class will do */
    const json_t *sources;              /* where each value of the model is from, for results */
    const char *wrap_sha256;            /* first 64 bits of it: of the checkpoint with the wrap */
    struct {                            /* of an attack that transfers: the model whose gradients it follows */
        const char *name, *sha256, *of; /* "twin" of the model's own: no hash, but what was moved, */
        double moved;                   /* and by which share */
        const json_t *notes;
    } surrogate;
    /* The document's own notes: of an external model, of the run, of how attacks search. Read: all are run_notes. */
    const json_t *remote_notes, *run_notes, *search_notes;

    struct {
        const char *format, *split, *sha256;
        int classes;
        uint64_t count;                /* images */
        const char *preprocess, *jpeg; /* a transform; the decoder's name */
        const char *corruption;        /* of ImageNet-C; absent: "" */
        int severity;                  /* 1 to 5; absent: 0, no corruption */
        const json_t *head;            /* which outputs its classes are */
        const json_t *notes, *document;
    } data;

    struct { /* "certify": the method, "linear:boxes=500,refine=1,intervals=0"; absent: NULL, no certificates */
        const char *method, *sentence; /* what its certificates say */
        bool first;                    /* certified images are not attacked; absent: they are */
    } certify;

    struct {
        const char *paper, *citation;
        vt_header_row *rows;
        int n_rows;
        const json_t *document; /* absent: NULL, a run without as-published */
    } published;
} vt_header;

/* Reads a document, whose reference it takes, whatever comes of it. VT_E_FORMAT for what is of another type or out of
 * its range, for a radius that is printed as one number and judged as another, and for control characters anywhere:
 * path, key, value and limit are named. */
vt_status vt_header_read(vt_header **out, json_t *document, const char *path, vt_err *e);
/* The document of a header whose fields are set, in a zeroed and calloc'ed struct. Free it whatever comes of it.
 * Objects and lists are taken over; texts are copied. before: vt_json_refused before the first of them was made. */
vt_status vt_header_finish(vt_header *h, size_t before, vt_err *e);
/* "as_published", of n rows (calloc'ed, taken over), in a header that is finished. */
vt_status vt_header_publish(vt_header *h, const char *paper, const char *citation, vt_header_row *rows, int n,
                            vt_err *e);
vt_header *vt_header_share(vt_header *h); /* h, for one more user */
void vt_header_free(vt_header *h);        /* when the last has: frees it; accepts NULL */

/* Entry 1, 2, ... of the attacks; of 0, clean, and of numbers that there are not one that says nothing. */
const vt_header_attack *vt_header_entry(const vt_header *h, int entry);
/* Entries are numbered by the attacks, from 1: before them the clean images, after them the certificates. */
enum { VT_ENTRY_CLEAN = 0, VT_ENTRY_CERTIFY = VT_HEADER_ATTACKS + 1 };
/* What the verdicts of an entry (1, 2, ...) are about; of VT_ENTRY_CLEAN: VT_SCORE_BALL. */
vt_scoring vt_header_scoring(const vt_header *h, int entry);
/* An entry by its name and, unless it is scored in the ball, how: "pgd", "pgd, 8-bit". */
const char *vt_attack_label(const vt_header_attack *a, char *buf, size_t size);
/* Stage k of it: its name, and what tells it from another stage of that name: "pgd (loss=ce)", "apgd-t (10 %)". */
const char *vt_stage_label(const vt_header_attack *a, int k, char *buf, size_t size);
/* Does a threat stand in place of norm and eps? */
bool vt_header_is_threat(const vt_header *h);
/* What was allowed: "linf eps 8/255", "patch 16 x 16, count 1, anywhere", "box of SHA-256 0123456789ab...". */
const char *vt_header_threat(const vt_header *h, char *buf, size_t size);
/* The checkpoint by the name of its file, or where the ledger has none (made before there was one) by its hash. */
const char *vt_header_weights(const vt_header *h, char *buf, size_t size);

/* ---- whole documents against each other ---- */

/* Writes the keys by which two documents differ, "a, b"; false: none. The format's number and the checkpoint's name do
 * not count; "blas" neither with allow_mixed. */
bool vt_header_difference(const json_t *a, const json_t *b, bool allow_mixed, char *names, size_t size);
/* Is this key in both with one value, or in neither? */
bool vt_header_agree(const vt_header *a, const vt_header *b, const char *key);
/* The first key of `a`, but for those to skip, of which b says something else (in_b NULL: nothing); false: none. */
typedef struct vt_header_gap {
    const char *key;
    const json_t *in_a, *in_b;
} vt_header_gap;
/* Finds the first key of a, but for those that `skip` takes, of which b says something else; false: none. */
bool vt_header_gap_find(vt_header_gap *out, const vt_header *a, const vt_header *b, bool (*skip)(const char *key));
