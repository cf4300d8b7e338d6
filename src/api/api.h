/* SPDX-License-Identifier: MIT */
/* Behind include/vitrine.h: what its handles hold, and the way from our statuses to its own. */
#pragma once

#include <pthread.h>
#include "base/opt.h"
#include "base/status.h"
#include "eval/ledger.h"
#include "eval/subject.h"
#include "vitrine.h"

/* A classifier of the caller's. Calls of one that is not `parallel` wait for each other, on any thread. */
typedef struct vt_own {
    vitrine_classifier c; /* a copy; its name is the description's path */
    pthread_mutex_t lock;
} vt_own;

struct vitrine_model {
    vt_subject subject; /* model, remote or own; no data, no wrap */
    vt_own own;
    vt_engine_source source; /* of it */
    char assumed[1000];
};

struct vitrine_run {
    vt_ledger *ledger;
    int64_t images; /* that the run wants; 0: those of the ledger */
};

/* Fills e (may be NULL) from a status and its sentence, and returns the public status. */
vitrine_status vt_api_end(vitrine_err *e, vt_status s, const vt_err *why);
/* Fails with VITRINE_E_USAGE and a formatted sentence. */
vitrine_status vt_api_usage(vitrine_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns whether one of n pointers is NULL; then it fails with VITRINE_E_USAGE and the name at the same position of
 * `names` ("m, x, z"). */
bool vt_api_missing(const char *who, const char *names, const void *const *given, size_t n, vitrine_err *e);
#define VT_API_NEEDS(...)                                                                                              \
    do {                                                                                                               \
        const void *const given_[] = {__VA_ARGS__};                                                                    \
        if (vt_api_missing(__func__, #__VA_ARGS__, given_, sizeof given_ / sizeof *given_, e)) return VITRINE_E_USAGE; \
    } while (0)

/* A structure of the caller's, or NULL. */
#define VT_API_SIZED(thing, what, type)                                                                                \
    do {                                                                                                               \
        if ((thing) && (thing)->size != sizeof(type))                                                                  \
            return vt_api_usage(e, "%s: " what " is %zu, must be sizeof(" #type "), %zu", __func__, (thing)->size,     \
                                sizeof(type));                                                                         \
    } while (0)
void vt_api_say(void *listener, const char *text, bool live); /* vt_progress_fn of a listener */

/* "name=value" pairs as choices; `known`: the table of those that may be there. */
typedef struct vt_api_options {
    char *copies[VT_CHOICES_MOST];
    vt_choices c;
} vt_api_options;
/* Reads "name=value" pairs (options ends at NULL) by the table `known`, to be freed also after a failure; `call`: the
 * function's name. VT_E_UNKNOWN: an option that is not in it; VT_E_USAGE: a missing or unwanted value, or too many. */
vt_status vt_api_options_read(vt_api_options *o, const char *call, const char *const *options, const vt_arg *known,
                              vt_err *e);
/* Frees the copies; accepts what a failed read left. */
void vt_api_options_free(vt_api_options *o);

/* Sets *threads as asked for, or to the processors (vt_thread_count) for 0; to 1 for a model that takes one call at a
 * time. m may be NULL. VT_E_USAGE: asked is out of range. */
vt_status vt_api_threads(const vitrine_model *m, int asked, int *threads, vt_err *e);
/* Writes the shortest text that is read as this number again, as a user would have typed it, into out [40]; returns
 * out. */
const char *vt_api_real(char *out, double value);
/* Sets *norm by name: linf, l2, l1 or l0. VT_E_USAGE: unknown. */
vt_status vt_api_norm(const char *name, vt_norm *norm, vt_err *e);

/* Returns a source of engines on the caller's classifier, which must outlive them. */
vt_engine_source vt_api_own_source(vt_own *own);
/* Returns the shape of the classifier's images. */
vt_shape vt_api_own_shape(const vitrine_classifier *c);

/* Writes what was assumed of m into text [size], "" if nothing; VT_E_USAGE if settings are open. */
vt_status vt_api_known(const vt_model *m, char *text, size_t size, vt_err *e);
/* Tells the listener (may be NULL) what was assumed of m (vt_known_fn); VT_E_USAGE if settings are open. */
vt_status vt_api_known_say(void *listener, const vt_model *m, bool other, vt_err *e);

/* Replaces an image's verdict by a ledger line's: the clean line clears it, a stage's line keeps `clean` and adds to
 * forwards and gradients. */
void vt_api_verdict(vitrine_verdict *v, const vt_record *r);
