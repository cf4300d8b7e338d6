/* SPDX-License-Identifier: MIT */
/* An attack is one file attack_*.c: a parameter struct, an option table, one straight-line run() for one image, and a
 * definition. It knows the oracle, the ball and its own options; nothing of files, threads, batches or reports. */
#pragma once

#include <math.h>
#include "attacks/ball.h"
#include "attacks/oracle.h"
#include "attacks/patch.h"
#include "attacks/rotation.h"
#include "base/opt.h"

/* Threats an attack knows: norms, a bit each, the box of chosen squares (attacks/patch.h), and the grid of rotations
 * (attacks/rotation.h). */
enum {
    VT_CAN_LINF = 1u << VT_LINF,
    VT_CAN_L2 = 1u << VT_L2,
    VT_CAN_L1 = 1u << VT_L1,
    VT_CAN_L0 = 1u << VT_L0,
    /* all that are norms: steps along a gradient know nothing of l0 */
    VT_CAN_ALL = VT_CAN_LINF | VT_CAN_L2 | VT_CAN_L1,
    VT_CAN_PATCH = 1u << VT_NORM_PATCH,
    VT_CAN_ROTATION = 1u << VT_NORM_ROTATION
};

/* What is peculiar about an attack. The generic tests ask for the opposite of those who do not say so. */
enum {
    VT_DRAWS_NOTHING = 1,   /* the same whatever the key */
    VT_DRAWS_RESTARTS = 2,  /* the first run is the same whatever the key */
    VT_SHARES_FORWARDS = 4, /* computes logits where gradients follow at the same point: its forwards are more than
                               those that the model makes for them */
    VT_ENDS_ITSELF = 8,     /* may end before its budget by a rule of its own */
    VT_LEAVES_BALL = 16,    /* its result may lie outside of the ball, as published */
    VT_CANNOT_AIM = 32,     /* knows no way to a class of one's choice (vt_oracle_aim) */
    VT_FROM_LABELS = 64     /* asks for nothing but the predicted class */
};

/* One image. What is asked, by the caller of vt_attacker_run: */
typedef struct vt_task {
    const float *clean;  /* [n] the ball's centre */
    const float *x;      /* [n] where the attack starts, in [0,1]; NULL: at `clean` */
    const float *target; /* [classes] what losses aim away from; NULL: the label */
    const int32_t *goal; /* the class to reach (vt_oracle_aim), of an attack that can aim; NULL: any but the label */
    int label, classes;
    vt_norm norm;
    double eps;
    const vt_patch *patch; /* the patch threat, or NULL */
    const float *lo, *hi;  /* [n] bounds of each value, between which `clean` lies, in place of norm and eps; or NULL */
    const vt_rotation *rotation; /* the rotation threat, with linf and 1 as norm and eps; or NULL */
    const float *picture;        /* [channels, size, size] that a universal patch shows, or NULL */
    vt_oracle_mode mode;
    vt_grid8 *eight_bit;       /* the 8-bit threat, or NULL */
    const unsigned char *open; /* ARD: blocks whose attention passes the gradient (vt_loss.open), or NULL */
    bool blind;                /* no gradients, though the attack may ask for them */
    vt_rng rng;                /* keyed by seed, attack and image: run and step are the attack's to set */
    /* Called before gradient step k of an attack that follows gradients (pgd), when not NULL: training's maskings (PRM
     * edits x_adv, ARD sets the gradient's path). */
    void (*before_step)(void *ctx, int k, float *x_adv);
    void *ctx;
    /* and what the attacker adds: */
    size_t n; /* vt_shape_values(shape): pixels are planar */
    vt_shape shape;
    const vt_ball *ball;
    float *x_adv; /* [n] result after VT_OK: a point of the ball; in exhaustive mode it is what is judged. On entry it
                     holds anything: run() does not read what it has not written */
    float *work;  /* work_len floats */
} vt_task;

/* The passes that one image takes, counted as the oracle counts them. (A gradient at the point of the
 * forward before it shares that forward: FAB takes less time than these say.) */
typedef struct vt_passes {
    double forwards, gradients;
    double unread; /* forwards whose logits the attack does not look at: without a judge they are left out */
} vt_passes;

/* What these depend on besides an attack's options. */
typedef struct vt_cost_dims {
    int classes, layers; /* layers: blocks whose attention can be looked at */
    vt_norm norm;
    bool aimed; /* a class is to be reached (vt_oracle_aim) */
    bool patch; /* vt_attack_cost sets it */
    int points; /* of the rotation threat's grid; places of the patch threat */
    int count;  /* squares of the patch threat */
} vt_cost_dims;

/* Defines an attack's `cost`, a vt_passes of its options p and the sizes d: VT_COST(params, .gradients = p->steps). */
#define VT_COST(params_, ...)                                                                                          \
    static vt_passes cost(const void *options, const vt_cost_dims *d) {                                                \
        const params_ *p = options;                                                                                    \
        (void)p, (void)d;                                                                                              \
        return (vt_passes){__VA_ARGS__};                                                                               \
    }

/* The end of a definition: options, run, cost, and the scratch that run takes (.images = 2, .logits = 1). */
#define VT_ATTACK_CODE(params_, ...)                                                                                   \
    .params_size = sizeof(params_), .opts = opts, .run = run, .cost = cost, .work = {__VA_ARGS__}

/* A schedule's factor at step k: falls from 1 by half a cosine, to 0 at step `steps`. */
static inline double vt_cosine(int k, int steps) { return (1 + cos(M_PI * k / steps)) / 2; }

typedef struct vt_attack_def {
    const char *name, *summary, *reference; /* "pgd", one sentence, paper */
    unsigned norms;                         /* VT_CAN_* */
    bool white_box;                         /* may ask for the model's gradients */
    bool surrogate;                         /* asks for those of the oracle's surrogate, which it needs */
    bool inside;                            /* climbs what is inside the model (vt_oracle.inside) */
    bool minimum_norm;                      /* looks for the nearest adversarial point, whatever the ball */
    bool looks;                             /* asks for attention: models without a view of it are refused */
    bool pastes;                            /* pastes the task's picture, which it needs */
    vt_where where;                         /* patch threat: what chooses the squares by default */
    bool published;                         /* a paper's released code: scored as there, wherever its point lies */
    bool follows_steps;                     /* calls the task's before_step: ARD and PRM work with it */
    unsigned traits;                        /* VT_DRAWS_NOTHING ... */
    bool tested; /* what it leaves is reported as robust: a run with it ends in the self-test */
    size_t params_size;
    const vt_opt *opts; /* ends at key NULL */
    struct {
        int images, logits; /* floats of task->work: this many times n, and this many times classes */
    } work;
    size_t (*work_len)(const void *params, const vt_task *dims); /* more of it, by options; NULL: none */
    vt_status (*run)(vt_oracle *o, const void *params, const vt_task *t);
    /* Passes of an image that stands to the end: the most that run() asks for, and exactly that unless a rule of the
     * attack's own ends it sooner (tests/unit/attacks/test_attacks.c counts). VT_COST defines it. */
    vt_passes (*cost)(const void *params, const vt_cost_dims *d);
    /* Instead of run: specs of other attacks, each on the survivors of the one before (one spec: an alias). Options
     * given to the whole are not taken. NULL-terminated. */
    const char *const *stages;
    const char *const *stages_l1; /* in l1 instead of these, or NULL */
    bool profile;                 /* an ensemble that reports what its sampled stages leave open (--profile) */
    int dlr_classes; /* fewest classes of its difference-of-logits ratio, 0: it has none; below, there is no ratio */
} vt_attack_def;

/* Returns all attacks [*n], in the order of their files. */
const vt_attack_def *const *vt_attack_defs(int *n);
const vt_attack_def *vt_attack_find(const char *name); /* NULL: unknown */

/* One stage with its parameters. */
typedef struct vt_attack_stage {
    const vt_attack_def *def;
    void *params;
    const vt_place *place; /* patch threat: where (in params); else NULL */
    double share;          /* of the survivors, drawn at random, that it is run on; 1: all */
    double floor;          /* of the lengths that its steps in l2 divide by; 0: none */
    char id[400];          /* canonical "name:key=value,..."; floor and share are named where they are not 0 and 1 */
} vt_attack_stage;

enum { VT_ATTACK_STAGES = 16 };

/* A parsed `--attack` spec. */
typedef struct vt_attack {
    const vt_attack_def *def;        /* of a list: one that says so, without a run of its own */
    char name[32];                   /* "pgd"; of a list its parts, "apgd-ce+fab-t", cut with "+..." */
    char id[VT_ATTACK_STAGES * 400]; /* canonical: the stages joined by "+", which parses as a list */
    vt_attack_stage *stages;
    int n_stages;
    bool climbs, needs_surrogate; /* a stage of it climbs what is inside the model, needs a surrogate */
    vt_scoring scoring;
} vt_attack;

/* Parses "name" or "name:key=value,..."; "ENSEMBLE:version=V" is the ensemble ENSEMBLE-V (standard: ENSEMBLE); or a
 * list of these joined by "+", each attack on the survivors of the one before. Checks that every stage supports the
 * norm. VT_NORM_PATCH: the patch threat, where every attack takes `where` and `places` too. VT_NORM_BOX: bounds of each
 * value, for the attacks of that threat that ask for no squares. VT_NORM_ROTATION: the rotation threat. */
vt_status vt_attack_parse(vt_attack *out, const char *spec, vt_norm norm, vt_err *e);
/* Returns stage k of a as an attack of its own on all images, which takes the stage's parameters with it. */
vt_status vt_attack_single(vt_attack *out, vt_attack *a, int k, vt_err *e);
/* Says why stage s cannot run as it is set with so few classes, and what it does instead; false: nothing to say. */
bool vt_attack_few_classes(const vt_attack_stage *s, int classes, char *text, size_t size);
/* Frees the stages and zeroes *a; accepts a zeroed one. */
void vt_attack_free(vt_attack *a);

/* Refuses options that do not fit the model, a target class that it does not have, and a picture that is missing. */
vt_status vt_attack_fits(const vt_attack_stage *s, const vt_task *dims, vt_err *e);

/* Passes of an image that stands to the end of all stages; a stage's share counts as the mean of those drawn and not.
 */
vt_passes vt_attack_cost(const vt_attack *a, const vt_cost_dims *d);
/* Passes of one stage on an image that stands to its end, whatever its share. */
vt_passes vt_attack_stage_cost(const vt_attack_stage *s, vt_cost_dims d);

/* Returns the floats of task->work that a stage takes. */
size_t vt_attack_work_len(const vt_attack_stage *s, const vt_task *dims);
/* Runs a stage on one image; under the patch threat at one location after another, until one breaks the image. */
vt_status vt_attack_stage_run(vt_oracle *o, const vt_attack_stage *s, const vt_task *t);
