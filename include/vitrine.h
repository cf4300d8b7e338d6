/* SPDX-License-Identifier: MIT */
/* libvitrine: robustness of image classifiers against adversarial examples, from C. The only public header.
 *
 * Rules for every function below, unless it says otherwise:
 *   - It returns VITRINE_OK or another status, and then writes one sentence into *e (NULL: nobody wants it), which
 * names what was wrong, its value and the limit. NULL where something is needed, or an impossible size, is
 * VITRINE_E_USAGE; no memory VITRINE_E_MEMORY; nothing aborts, exits, prints, or changes signal handlers, the
 * environment or the threads of OpenBLAS. Outputs are undefined after a failure, handles are then NULL.
 *   - Images are float [n, channels, height, width], planar, row-major (of a checkpoint [n, 3, side, side], RGB),
 * values in [0,1]: a byte is byte/255. Mean and standard deviation live inside the model. Sizes of perturbations are in
 * the same unit: 8/255 is 8.0 / 255.
 *   - Arrays belong to the caller and are not kept, but for what stands in a vitrine_classifier.
 *   - A handle may be read by several threads at once, and is closed once, by one of them; closing NULL is allowed.
 *   - `threads` is how many threads the call may use; 0: as many as there are processors. Results do not depend on it.
 *
 * A signal handler of the caller's that may interrupt a thread inside a call (one that sets *interrupt, say) needs
 * sigaltstack and SA_ONSTACK: kernels of oneDNN 2.6.3 keep numbers further below the stack's end than a signal leaves
 * alone. The command does so; the Python view lets signals wait, or calls from a thread that none
 * reaches.
 *
 * The environment of the process decides speed, and with it the last bits of products: see vitrine_environment().
 * Names beginning with vitrine_ and VITRINE_ are public; docs/library.md is the tour, examples/ has programs. */
#ifndef VITRINE_H
#define VITRINE_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VITRINE_API __attribute__((visibility("default")))
#else
#define VITRINE_API
#endif

/* Of this header, to be tested at compile time: "0.1.0", and 10000 * major + 100 * minor + patch. */
#define VITRINE_VERSION "0.1.0"
#define VITRINE_VERSION_NUMBER 100
/* The same text of the library that runs. Functions and structs of one soname (libvitrine.so.0) keep their meaning. */
VITRINE_API const char *vitrine_version(void);

/* ---- failures ---- */

typedef enum vitrine_status {
    VITRINE_OK = 0,
    VITRINE_INTERRUPTED = 2, /* *interrupt was set; what is on disk can be gone on from */
    VITRINE_E_USAGE = 3,     /* an argument, an option */
    VITRINE_E_IO = 4,        /* a file that cannot be read or written */
    VITRINE_E_FORMAT = 5,    /* a file that is not what it should be */
    VITRINE_E_SHAPE = 6,
    VITRINE_E_RANGE = 7,
    VITRINE_E_MEMORY = 8,
    VITRINE_E_FORBIDDEN = 9,
    VITRINE_E_NUMERIC = 10, /* logits that are not finite where they must be */
    VITRINE_E_UNKNOWN = 11, /* a name that nothing here has */
    VITRINE_E_MODEL = 12    /* a model in another process, or a vitrine_classifier, failed */
} vitrine_status;

typedef struct vitrine_err {
    vitrine_status code;
    char text[2000]; /* one line, without control characters */
} vitrine_err;

/* "malformed file", for any of the above. */
VITRINE_API const char *vitrine_status_name(vitrine_status s);

/* Setting i = 0, 1, ... of the environment, "NAME=value", with which a program that uses this library is faster on this
 * machine, or gives the bytes that the command gives (which starts itself again with them); NULL past the last, or
 * where they are set already. To be put into the environment before the process starts: OpenBLAS reads it while it is
 * loaded.
 */
VITRINE_API const char *vitrine_environment(int i);

/* ---- models ---- */

typedef struct vitrine_model vitrine_model;

/* A checkpoint: a file (.safetensors, .pth, .pt) or a folder that holds one. options: NULL, or pairs "name=value" that
 * end in NULL: heads, image-size, mean, std, ln-eps, attn-scale, preset, attn, form, names, part and attack-at say what
 * tensors cannot, as the command's options of these names. A model of which something would have to be guessed is
 * refused (VITRINE_E_USAGE), in a sentence with the options that would tell. */
VITRINE_API vitrine_status vitrine_open(vitrine_model **out, const char *path, const char *const *options,
                                        vitrine_err *e);
/* A model in another process (docs/oracle.md): an address "unix:PATH" or "tcp:PORT", else a command line, which is
 * started and ends with the handle. timeout: seconds for one answer, 0.1 to 1e6. */
VITRINE_API vitrine_status vitrine_connect(vitrine_model **out, const char *where, double timeout, vitrine_err *e);

/* A model of the caller's own. logits and vjp return 0, or anything else when they failed (VITRINE_E_MODEL). An
 * attack fails so too where vjp is not finite, even of a dz 2^100 times smaller: there is nothing to follow. */
typedef struct vitrine_classifier {
    size_t size;      /* sizeof(vitrine_classifier) */
    const char *name; /* for sentences; copied */
    int classes;
    int channels, height, width; /* of an image */
    int batch;                   /* most images of one call, 1 at least */
    int parallel;                /* not 0: may be called by several threads at once; else calls wait for each other */
    int random;                  /* not 0: draws when it is asked; verdicts are votes of 20 queries */
    void *self;                  /* first argument of both */
    /* z [n, classes] of x [n, channels, height, width], n <= batch. */
    int (*logits)(void *self, int n, const float *x, float *z);
    /* dx [as x] = the gradient of sum(z * dz) at x; dz [n, classes]. NULL: it has no gradients, and only
     * attacks that need none can be run. */
    int (*vjp)(void *self, int n, const float *x, const float *dz, float *dx);
} vitrine_classifier;
/* self, logits and vjp must stay good until vitrine_close. */
VITRINE_API vitrine_status vitrine_own(vitrine_model **out, const vitrine_classifier *c, vitrine_err *e);

VITRINE_API void vitrine_close(vitrine_model *m);
VITRINE_API int vitrine_classes(const vitrine_model *m);
VITRINE_API int vitrine_side(const vitrine_model *m); /* pixels; 0: its images are not [3, side, side] */
VITRINE_API int vitrine_channels(const vitrine_model *m);
VITRINE_API int vitrine_height(const vitrine_model *m);
VITRINE_API int vitrine_width(const vitrine_model *m);
VITRINE_API size_t vitrine_pixels(const vitrine_model *m);      /* floats of one image: channels * height * width */
VITRINE_API const char *vitrine_sha256(const vitrine_model *m); /* of the file, 64 hexadecimal digits */
/* What was assumed because its file does not tell it ("activation gelu, ..."), which of several state dicts was read,
 * and what was not read; "" if nothing; lives as long as the model. */
VITRINE_API const char *vitrine_assumed(const vitrine_model *m);

/* z [n, classes] = logits of x [n, channels, height, width], whose values need not lie in [0,1]. An image's logits have
 * the same bits alone and among others. */
VITRINE_API vitrine_status vitrine_logits(const vitrine_model *m, size_t n, const float *x, float *z, int threads,
                                          vitrine_err *e);
/* dx [as x] = the exact gradient of sum(logits(x) * dz) at x, dz [n, classes]. VITRINE_E_FORBIDDEN: the
 * model gives none. */
VITRINE_API vitrine_status vitrine_vjp(const vitrine_model *m, size_t n, const float *x, const float *dz, float *dx,
                                       int threads, vitrine_err *e);

/* ---- attacks ---- */

typedef enum vitrine_outcome {
    VITRINE_CORRECT = 0, /* a clean image that is classified as its label; nothing was tried */
    VITRINE_WRONG = 1,   /* a clean image that is not: nothing was tried */
    VITRINE_ROBUST = 2,  /* nothing was found */
    VITRINE_BROKEN = 3, /* a point within the threat is classified otherwise (an attack of a paper's released evaluator,
                         * as fgsm-specformer, is scored as that was: its points may lie outside) */
    VITRINE_INVALID = 4,    /* the attack's result lies outside of the threat: not counted as broken */
    VITRINE_NOT_FINITE = 5, /* the attack met a point whose logits are not finite: neither robust nor broken */
    VITRINE_CERTIFIED = 6,  /* entry VITRINE_ENTRY_CERTIFY: proven robust at the run's threat, */
    VITRINE_UNDECIDED = 7   /* or not proven */
} vitrine_outcome;

/* What separate code said of one point, in double on the stored float32 values, without tolerance. */
typedef struct vitrine_verdict {
    int32_t image;               /* its number */
    int32_t label;               /* as given */
    int32_t clean;               /* class of the clean image; of vitrine_judge -1 */
    int32_t outcome;             /* vitrine_outcome */
    int32_t pred, pred64;        /* class of the point by float and by double products; -1: was not asked for */
    int32_t borderline;          /* not 0: broken, but the double verdict disagrees or its margin is within the noise */
    int32_t stage;               /* of an ensemble or a list: the attack that ended the image, from 0; else the last */
    double margin, margin64;     /* largest other logit minus the label's: above 0 misclassified; NaN: not asked for */
    double linf, l2, l1, l0;     /* distance from the clean image; l0: values that differ */
    int64_t forwards, gradients; /* that all stages asked for */
} vitrine_verdict;

/* What rounding to float32 may have moved a value by: half a unit in the last place below 1, 2^-24. */
#define VITRINE_ALLOWANCE (1.0 / 16777216)

/* How images are attacked, or points judged. Begin with VITRINE_ATTACK(...) or VITRINE_JUDGE(...), so that new fields
 * are 0. */
typedef struct vitrine_attack_plan {
    size_t size;           /* sizeof(vitrine_attack_plan) */
    const char *attack;    /* "pgd:steps=20", "apgd-ce+fab-t", "autoattack" (vitrine_list_attack); of a judge unused */
    const char *norm;      /* "linf", "l2", "l1", "l0" (vitrine_list_norm) */
    double eps;            /* radius: linf above 0, at most 1; l0: a whole number of values */
    uint64_t seed;         /* of every random draw, below 2^63 */
    int threads;           /* 0: as many as there are processors */
    int batch;             /* images that a thread attacks at a time, 1 to 1024; 0: 1, of other processes their own */
    int exhaustive;        /* not 0: no image is left early; batch and exhaustive are unused of a judge */
    const int32_t *images; /* [n] number of each image, distinct, not negative: draws depend on it; NULL: 0, 1, ... */
    const volatile sig_atomic_t *interrupt; /* set to end the call (VITRINE_INTERRUPTED); NULL: it runs to its end */
    const char *threat;     /* "patch:size=8,count=1", squares whose pixels are free, or "rotation:angle=30,shift=3", of
                               which attack "grid" tries all; with norm NULL and eps 0; or NULL */
    const int32_t *targets; /* [n] class that each image is to be taken for, not its label; NULL: any but the label */
    int eight_bit;          /* not 0: only points of whole grey levels k/255 count, and x must consist of them */
    double allowance;       /* of a judge, 0 to 1e-5: added to eps for each value, for points of other programs: once in
                             * linf, sqrt(values) times in l2, values times in l1, never in l0, patches and 8 bits */
} vitrine_attack_plan;
#define VITRINE_ATTACK(attack, norm, eps)                                                                              \
    { sizeof(vitrine_attack_plan), attack, norm, eps, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, VITRINE_ALLOWANCE }
#define VITRINE_JUDGE(norm, eps) VITRINE_ATTACK(NULL, norm, eps)

/* Attacks n images x [n, channels, height, width], values in [0,1], with labels [n] in [0, classes). x_adv [as x]
 * (NULL: not wanted): the point that broke an image, or with `exhaustive` the attack's last; x itself where there is
 * none. verdicts [n]. Each image yields what vitrine eval says of that image of a data set. */
VITRINE_API vitrine_status vitrine_attack(const vitrine_model *m, const vitrine_attack_plan *plan, size_t n,
                                          const float *x, const int32_t *labels, float *x_adv,
                                          vitrine_verdict *verdicts, vitrine_err *e);
/* The verdict alone on points x_adv, of whatever program, by the plan's norm, eps, threat, targets, eight_bit and
 * allowance, as `vitrine verify --adv`: forwards and gradients are 0, and linf, l2, l1, l0 say how far a point lies. */
VITRINE_API vitrine_status vitrine_judge(const vitrine_model *m, const vitrine_attack_plan *plan, size_t n,
                                         const float *x, const float *x_adv, const int32_t *labels,
                                         vitrine_verdict *verdicts, vitrine_err *e);

/* ---- what there is ---- */

typedef struct vitrine_attack_info {
    size_t size;                            /* sizeof(vitrine_attack_info), set by the caller */
    const char *name, *summary, *reference; /* "pgd", a sentence, the paper; they live as long as the program */
    char norms[40];                         /* "linf l2 l1 patch": what it knows, by spaces */
    int gradients;                          /* not 0: it asks for the model's */
    int surrogate;                          /* not 0: it asks for those of another model */
} vitrine_attack_info;

typedef struct vitrine_option_info {
    size_t size;             /* sizeof(vitrine_option_info), set by the caller */
    const char *name, *help; /* "steps", a phrase; as above */
    const char *type;        /* "integer", "real", "flag" (0 or 1), "choice", "triple" (of reals), "text" */
    const char *choices;     /* "ce|margin"; NULL: of another type */
    char preset[200];        /* the default, as it would be given: "10", "eps/4" */
    double min, max;         /* inclusive, of integer, real and triple */
} vitrine_option_info;

/* Attack i = 0, 1, ...; its option k = 0, 1, ... (attack NULL: those that every attack takes under a patch threat). 1,
 * or 0 past the last, of an unknown attack, or where `out` has another size. */
VITRINE_API int vitrine_list_attack(int i, vitrine_attack_info *out);
VITRINE_API int vitrine_list_option(const char *attack, int k, vitrine_option_info *out);
VITRINE_API const char *vitrine_list_norm(int i); /* "linf", ...; NULL past the last */

/* ---- runs ---- */

enum { VITRINE_ENTRY_CERTIFY = 1001 }; /* the entry of a run's certificates (option certify) */

typedef struct vitrine_run vitrine_run;

/* What becomes known of an image, as soon as it is: by one thread at a time, in no order. entry 0: the clean image;
 * k: the k-th attack; VITRINE_ENTRY_CERTIFY: its certificate. It must call no function on the same run. */
typedef void (*vitrine_on_verdict)(void *ctx, int entry, const vitrine_verdict *v);
/* "apgd-ce: 41 of 100 images, robust 30, 12 s left"; at most ten a second. */
typedef void (*vitrine_say)(void *ctx, const char *text);

typedef struct vitrine_listener {
    size_t size;                   /* sizeof(vitrine_listener) */
    vitrine_on_verdict on_verdict; /* NULL: no callback; a training does not use it */
    vitrine_say say;               /* NULL: silent */
    void *ctx;
    const volatile sig_atomic_t *interrupt; /* set to end the call; NULL: nobody does */
} vitrine_listener;

/* An evaluation, as `vitrine eval`: options are "name=value" pairs, "name" alone for a flag, that end in NULL: weights
 * (or oracle), data and whatever else `vitrine help eval` lists below Model, Data and Threat, with attack, profile,
 * individual, eight-bit, targets, certify, certify-first, surrogate, surrogate-oracle, seed, threads, batch,
 * exhaustive, and out, resume, allow-mixed, save-adv, save-npz, search, skip-not-finite. attack and form may be
 * repeated; of another name the last value counts. Without `out` nothing is written. With it the folder gets what the
 * command writes, but for run.json. listener: NULL, or whom to tell. */
VITRINE_API vitrine_status vitrine_evaluate(vitrine_run **out, const char *const *options,
                                            const vitrine_listener *listener, vitrine_err *e);
/* The folder of a run, of this library or of the command, finished or not; its lines are checked. */
VITRINE_API vitrine_status vitrine_read(vitrine_run **out, const char *dir, vitrine_err *e);
VITRINE_API void vitrine_run_close(vitrine_run *r);
VITRINE_API int vitrine_run_entries(const vitrine_run *r);                  /* attacks; the clean images are entry 0 */
VITRINE_API const char *vitrine_run_entry(const vitrine_run *r, int entry); /* "clean", "pgd"; NULL: there is none */
VITRINE_API size_t vitrine_run_images(const vitrine_run *r);                /* with a clean prediction */
VITRINE_API size_t vitrine_run_pixels(const vitrine_run *r);                /* floats of one image */
/* What an entry says of every image, verdicts [vitrine_run_images], ascending by image. An image that the entry has not
 * come to yet has outcome -1; one that was wrong before it VITRINE_WRONG. */
VITRINE_API vitrine_status vitrine_run_verdicts(const vitrine_run *r, int entry, vitrine_verdict *verdicts,
                                                vitrine_err *e);
/* The stored point of an image x_adv [vitrine_run_pixels]; VITRINE_E_RANGE: the entry has stored none, nor has any of a
 * run without `out`. */
VITRINE_API vitrine_status vitrine_run_adversarial(const vitrine_run *r, int entry, int32_t image, float *x_adv,
                                                   vitrine_err *e);
/* results.json (docs/results.schema.json), to be freed with vitrine_free. */
VITRINE_API vitrine_status vitrine_run_json(const vitrine_run *r, char **text, vitrine_err *e);
VITRINE_API void vitrine_free(void *p);

/* ---- training ---- */

/* As `vitrine train`: options recipe (a file), data, out, and init, resume, max-steps, threads, set=KEY=VALUE
 * (repeated) and those that tell of the checkpoint `init`. The folder `out` gets model.safetensors, state.safetensors
 * and log.jsonl, and with watched images best.safetensors. VITRINE_INTERRUPTED: *interrupt stopped it. With resume it
 * goes on from there, and from where max-steps ended it (VITRINE_OK). */
VITRINE_API vitrine_status vitrine_train(const char *const *options, const vitrine_listener *listener, vitrine_err *e);

#ifdef __cplusplus
}
#endif

#endif
