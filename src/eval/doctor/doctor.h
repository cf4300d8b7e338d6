/* SPDX-License-Identifier: MIT */
/* Is a checkpoint read as it was made? A fixed list of other readings is tried on the same labelled images, and each is
 * compared with the present one by McNemar's exact test of accuracy. */
#pragma once

#include <signal.h>
#include "base/progress.h"
#include "data/dataset.h"
#include "models/model.h"
#include "remote/remote.h"

/* What a trial changes. */
typedef enum vt_aspect {
    VT_ASPECT_NONE,
    VT_ASPECT_NORM,     /* mean and std */
    VT_ASPECT_RANGE,    /* pixels 0 to 255 */
    VT_ASPECT_CHANNELS, /* blue, green, red */
    VT_ASPECT_RESIZE,   /* resize, crop, filter; on bytes or inside the model */
    VT_ASPECT_EPS,      /* LayerNorm's */
    VT_ASPECT_ACT,      /* of the MLP */
    VT_ASPECT_DIST,     /* which of a distilled model's heads answer */
    VT_ASPECT_NETWORK, /* number of attention heads, pre- or post-norm, GELU or ReLU: together, since one alone may help
                          nothing */
    VT_ASPECT_SCALE,   /* of Q K^T; after the heads, which may have been taken for its cause */
    VT_ASPECT_PATCH,   /* order of the columns of a Linear patch embedding */
    VT_ASPECT_POOL,    /* what the head reads */
    VT_ASPECT_FILE,    /* rows of qkv, the class token's place, a factor of the embedding */
    VT_ASPECT_COUNT
} vt_aspect;
#define VT_ASPECT_ALL (~0u)

typedef struct vt_setting {
    vt_config config;
    vt_transform transform;
} vt_setting;

/* Against the present setting. AS_GOOD: better, and these images do not tell it from the first. */
typedef enum vt_judgement { VT_JUDGE_UNDECIDED, VT_JUDGE_WORSE, VT_JUDGE_AS_GOOD, VT_JUDGE_BETTER } vt_judgement;
/* Returns "undecided", "worse", "as good" or "better". */
const char *vt_judgement_name(vt_judgement j);

typedef struct vt_trial {
    vt_aspect aspect;
    char what[64];
    vt_setting setting;
    bool own_norm; /* mean and std are in use for this data set */
    int32_t *pred; /* [n_images]; -1: a logit is not finite */
    int64_t right;
    bool constant; /* the same logits for every image (a head of zeros) */
    /* against the present setting: images right here alone, there alone, McNemar's exact two-sided p */
    int64_t only_here, only_there;
    double mcnemar;
    vt_judgement judgement;
} vt_trial;

enum { VT_DOCTOR_TRIALS = 160 };

typedef struct vt_doctor {
    const vt_model *model;
    vt_remote *remote; /* of a model in another process, whose pixels and labels alone are tried: a setting is then what
                          is done to the pixels that it is sent. NULL: the model is here */
    const vt_dataset *data;
    const int32_t *images; /* [n_images] */
    size_t n_images;
    int threads;
    unsigned aspects; /* 1u << vt_aspect */
    vt_progress progress;
    const volatile sig_atomic_t *interrupt;
    /* filled by a round: trials by rank; the present setting is among them (VT_ASPECT_NONE) */
    vt_trial trials[VT_DOCTOR_TRIALS];
    int n_trials;
    int32_t *labels; /* [n_images] */
    int outputs;     /* classes of the model */
} vt_doctor;

/* Returns whether what is done to pixels is all that can be tried: of a model in another process, or of an ONNX
 * file. */
static inline bool vt_doctor_pixels_alone(const vt_doctor *d) { return d->remote || d->model->config.network; }

/* Tries everything that differs from `present` in one aspect: replaces trials, n_trials, labels and outputs, to be
 * freed also after a failure. VT_INTERRUPTED; VT_E_SHAPE: the present setting does not fit the images. */
vt_status vt_doctor_round(vt_doctor *d, const vt_setting *present, vt_err *e);
/* Frees the trials and labels of the last round; accepts a zeroed one. */
void vt_doctor_free(vt_doctor *d);
/* Returns the clearly better trial that ranks first: right most often, on a tie with the data set's own mean and std.
 * NULL: none. Of networks that are as good it is the one with the fewest changes. */
const vt_trial *vt_doctor_better(const vt_doctor *d);
/* Returns the trial of the present setting; NULL before a round. */
const vt_trial *vt_doctor_present(const vt_doctor *d);

/* Returns whether a model of `classes` outputs that is right on `right` of `total` images knows nothing of them: less
 * than twice chance, or for few classes less than halfway from chance to always right. */
bool vt_doctor_chance(int64_t right, int64_t total, int classes);

/* Returns whether the images of a round tell no reading from another: fewer than `least`; or of one class, or at most a
 * quarter of the classes that as many drawn at random would have. text: gets the reason, or NULL. */
bool vt_doctor_blind(const vt_doctor *d, size_t least, char *text, size_t size);

/* Writes one sentence if labels shifted or renumbered would fit what this trial predicts, beyond chance; false: they
 * would not, or no memory. */
bool vt_doctor_labels(const vt_doctor *d, const vt_trial *t, char *text, size_t size);

/* Fills out with the settings to try for images of width x height, the present one first. Returns how many; -1: no
 * memory. */
int vt_doctor_list(const vt_doctor *d, const vt_setting *present, int width, int height, vt_trial *out, int most);
/* Returns whether these are mean and std that are in use for this data set. */
bool vt_doctor_own_norm(const vt_dataset *data, const vt_setting *s);
/* Writes the options that turn `from` into `to`. m: also those of its values that are at least as doubtful as `least`
 * (OPEN: then it is read without a question; ASSUMED: then nothing is a guess any more); NULL: none. */
void vt_setting_options(char *buf, size_t size, const vt_setting *to, const vt_setting *from, const vt_model *m,
                        vt_certainty least);
/* Writes what a model in another process would have to do to its input to get setting `to`, "mean 0.5 and std 0.5". */
void vt_setting_words(char *buf, size_t size, const vt_setting *to, const vt_setting *from);
/* Fits v, a copy of m with another configuration: if that reads the file's rows or columns in another order (patch
 * embedding, q, k and v, positions), v->w becomes its own, to be freed if it is not m->w, also after a failure. */
vt_status vt_doctor_variant(vt_model *v, const vt_model *m, vt_err *e);

/* Writes n indices spread evenly over `of` [count] (NULL: 0, 1, ...), or all of them if these are fewer. Returns how
 * many. */
size_t vt_doctor_sample(int32_t *out, size_t n, const int32_t *of, size_t count);
/* Writes n indices of `of` [count], drawn without replacement, in random order, keyed by seed; all if there are fewer.
 * Returns how many. */
size_t vt_doctor_draw(int32_t *out, size_t n, const int32_t *of, size_t count, uint64_t seed);
