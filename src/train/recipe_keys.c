/* SPDX-License-Identifier: MIT */
/* The keys of a recipe as tables, and the way from a key's name to its place. */
#include "train/recipe.h"

#include <stdlib.h>
#include <string.h>
#include "models/config.h"
#include "train/objective.h"
#include "train/optim.h"
#include "train/penalty.h"

/* Rows of the section S of vt_recipe, each named as its field. */
#define INT(S, key, preset, lo, hi, help) VT_OPT_I(#key, vt_recipe, S.key, help, preset, lo, hi)
#define REAL(S, key, preset, lo, hi, help) VT_OPT_R(#key, vt_recipe, S.key, help, preset, lo, hi)
#define BOOL(S, key, preset, help) VT_OPT_B(#key, vt_recipe, S.key, help, preset)
#define CHOICE(S, key, words, preset, help) VT_OPT_C(#key, vt_recipe, S.key, help, words, preset)
#define TEXT(S, key, preset, help) VT_OPT_S(#key, vt_recipe, S.key, help, preset)
/* Left out of the resolved text: an empty text, and a number at its preset, which reads "none". */
#define TEXT_IF(S, key, help) VT_OPT_S(#key, vt_recipe, S.key, help, NULL)
#define INT_IF(S, key, preset, lo, hi, help) VT_OPT_I_OR(#key, vt_recipe, S.key, help, VT_RECIPE_NONE, preset, lo, hi)
#define REAL_IF(S, key, preset, lo, hi, help) VT_OPT_R_OR(#key, vt_recipe, S.key, help, VT_RECIPE_NONE, preset, lo, hi)
/* If it is not given, the preset or the data decide; the number stored for that lies outside the range. */
#define AUTO(S, key, kind, unset, lo, hi, words, help)                                                                 \
    VT_OPT_ROW(#key, vt_recipe, S.key, help, kind, .preset = unset, .min = lo, .max = hi, .choices = words,            \
               .preset_text = "auto")

static const vt_opt top[] =
    {TEXT(top, name, "", "a name of your own, for reports"),
     INT(top, seed, 0, 0, 2147483647, "every random draw is a function of it"),
     INT(top, epochs, 40, 1, 100000, "passes over the training images"),
     INT(top, batch, 64, 1, 1000000, "images of a step"),
     INT(top, micro_batch, 8, 1, 4096, "images that one thread handles at once; changes memory, speed and last digits"),
     TEXT(top, objective, "ce", "what is minimised: the name of an objective"),
     TEXT(top, optimiser, "sgd", "the name of an optimiser"),
     TEXT(top, attention_optimiser, "same", "of W_Q, W_K, W_V and W_O: same, or the name of an optimiser"),
     REAL(top, attention_lr_scale, 1, 1e-6, 1e6, "factor on the learning rate of W_Q, W_K, W_V and W_O"),
     REAL(top, lr, 0.1, 1e-9, 1000, "learning rate at its highest"),
     REAL(top, weight_decay, 1e-4, 0, 10, "of every tensor that no pattern of groups names"),
     REAL(top, clip, 1, 0, 1e6, "largest L2 norm of the whole gradient; 0: no limit"),
     REAL(top, ema, 0, 0, 0.99999999, "decay of the averaged weights, which are then what is kept; 0: no averaging"),
     REAL(top, label_smoothing, 0, 0, 0.99, "share of the label spread over all classes"),
     TEXT_IF(top, freeze,
             "tensors that stay as they are: embed, blocks.0-5, norm, head, or patterns of names, separated by "
             "commas"),
     TEXT_IF(top, extra,
             "shares of each batch that further data sets have (train " VT_OPTION
             "extra), one for each: 0.7, or 0.3,0.2"),
     REAL_IF(top, layer_decay, 1, 1e-3, 1,
             "factor on the learning rate for each layer below the head, the embedding's is the smallest"),
     VT_OPT_END};

static const vt_opt model[] =
    {TEXT(model, preset, "", "shape by name, see vitrine list models"),
     TEXT(model, attn, "", "attention variant, see vitrine list models"),
     AUTO(model, image, INT, 0, 1, 4096, NULL, "side of the input, pixels"),
     AUTO(model, native, INT, -1, 0, 4096, NULL,
          "side of the images when the model resizes them to model.image itself, so that perturbations live there; "
          "0: it does not"),
     AUTO(model, native_filter, CHOICE, -1, 0, 0, "bilinear|bicubic|nearest|bilinear_aa|bicubic_aa",
          "how it resizes them: F.interpolate(align_corners=False); _aa: antialias=True"),
     AUTO(model, patch, INT, 0, 1, 4096, NULL, "side of a patch, pixels"),
     AUTO(model, dim, INT, 0, 1, 16384, NULL, "width"),
     AUTO(model, depth, INT, 0, 1, 512, NULL, "blocks"),
     AUTO(model, heads, INT, 0, 1, 16384, NULL, "attention heads"),
     AUTO(model, hidden, INT, 0, 1, 131072, NULL, "width of the MLP"),
     AUTO(model, classes, INT, 0, 2, 100000, NULL, "classes"),
     AUTO(model, qkv_bias, CHOICE, -1, 0, 0, "0|1|no|yes|false|true", "biases on query, key and value"),
     AUTO(model, pool, CHOICE, -1, 0, 0, VT_POOL_WORDS,
          "what the head reads: the class token, the mean of the patches, that of all tokens, class token and mean, "
          "mean "
          "and class token, class tokens of the last blocks"),
     BOOL(model, patch_gate, 0, "a learned factor on every input patch"),
     REAL_IF(model, drop_path, 0, 0, 0.9,
             "stochastic depth: rate at which training leaves out the last block's branches, falling in a line to 0 at "
             "the first (XCiT: the same in all); evaluation and the inner attack leave out none"),
     TEXT_IF(model, forms,
             "what else a network may be, as " VT_OPTION
             "form of vitrine new: \"norm=center act=relu\", or a list of such "
             "words; see vitrine list models"),
     AUTO(model, mean, TRIPLE, -1e9, -1000, 1000, NULL,
          "of the input normalisation, three channels; only with model.std"),
     AUTO(model, std, TRIPLE, 0, 2e-6, 1000, NULL, "of the input normalisation, three channels; only with model.mean"),
     VT_OPT_END};

static const vt_opt init[] =
    {CHOICE(init, head, "keep|fresh", 0, "classifier of the checkpoint: kept, or drawn anew"),
     CHOICE(init, pos_embed, "bilinear|bicubic", 0, "how its position grid is resized"),
     TEXT_IF(init, part, "which state dict of a .pth file that holds several, as " VT_OPTION "part"),
     TEXT(init, sha256, "", "of the checkpoint, or its first 8 or more hexadecimal digits; filled in by training"),
     VT_OPT_END};

static const vt_opt attack[] =
    {REAL(attack, eps, 0, 0, 1e6, "radius in pixel units, 8/255; 0: not given"),
     CHOICE(attack, norm, "linf|l2", 0, "norm of the ball"),
     TEXT(attack, spec, "", "attack and its options, one stage with gradients; empty: the objective's own"),
     BOOL(attack, ard, 0, "ARD: the attack's gradient skips attention branches at random"),
     BOOL(attack, prm, 0, "PRM: random patches of the perturbation are reset before every step of the attack"),
     REAL(attack, drop_rate, 1, 0, 1, "ARD and PRM: share kept after the ramp"),
     REAL(attack, warm, 0.25, 0, 1, "ARD and PRM: length of the ramp, share of the training"),
     INT(attack, prm_patch, 0, 0, 1024, "PRM: side of its patches, pixels; 0: the model's"),
     REAL_IF(attack, noise, 0, 0, 100,
             "uniform noise of this many eps is added to the image before it is attacked; N-FGSM: 2, with spec fgsm"),
     REAL(attack, ramp_begin, 0, 0, 1, "share of the training until which eps is 0"),
     REAL(attack, ramp_end, 0, 0, 1, "share of the training from which eps is full, growing linearly before"),
     VT_OPT_END};

static const vt_opt awp[] =
    {REAL(awp, gamma, 0, 0, 1,
          "how far each matrix goes up the loss, in shares of its norm; 0: not at all; 0.005 is usual"),
     REAL(awp, warmup, 0, 0, 1, "share of the training without it"), VT_OPT_END};

static const vt_opt schedule[] =
    {CHOICE(schedule, kind, "constant|step|cosine|onecycle", 1, "of the learning rate"),
     REAL(schedule, min_lr, 0, 0, 1000, "cosine, onecycle: where it ends"),
     REAL(schedule, warmup, 0, 0, 1,
          "share of the training in which the rate has a factor that grows linearly from a thousandth to 1 (a cosine "
          "falls meanwhile); onecycle: it grows by half a cosine from a 25th, 0.3 is usual"),
     TEXT(schedule, drops, "0.875,0.95",
          "step: shares of the training after which the rate is multiplied by factor, ascending"),
     REAL(schedule, factor, 0.1, 1e-6, 1, "step: at every drop"),
     VT_OPT_END};

static const vt_opt augment[] =
    {INT(augment, crop, 4, 0, 1024, "zero padding of the random crop, pixels; 0: no crop"),
     REAL(augment, flip, 0.5, 0, 1, "probability of a mirrored image"),
     INT_IF(augment, randaugment, 0, 0, 8, "RandAugment: operations on each image (2 is usual), after crop and flip"),
     INT_IF(augment, magnitude, 9, 0, 30, "RandAugment: strength of its operations; none: 9"),
     REAL_IF(augment, erase, 0, 0, 1,
             "probability that a rectangle of the image becomes random pixels (random erasing)"),
     REAL_IF(augment, gaussian, 0, 0, 100,
             "Gaussian noise of this standard deviation, in pixel units, is added last, not clipped (randomised "
             "smoothing)"),
     REAL(augment, mix_prob, 0.3, 0, 1, "probability that a step mixes its images, with the batch reversed"),
     REAL(augment, mixup_alpha, 0.8, 0, 100, "Mixup: shares are drawn from Beta(alpha, alpha); 0: no Mixup"),
     REAL(augment, cutmix_alpha, 1, 0, 100, "CutMix: likewise"),
     REAL(augment, cutmix_switch, 0.5, 0, 1, "probability of CutMix, else Mixup, in a step that mixes"),
     VT_OPT_END};

static const vt_opt probe[] =
    {INT(probe, images, 500, 0, 1000000, "evaluated after every epoch, at most a tenth of the training split; 0: none"),
     CHOICE(probe, split, "train|test", 0,
            "from the training split, then held out of training, or from the test split; spread evenly"),
     REAL(probe, eps, 0, 0, 1e6, "radius in pixel units; 0: attack.eps"),
     TEXT(probe, attack, "pgd:steps=10,alpha=eps/4", "attack and its options, one stage with gradients"), VT_OPT_END};

static const struct {
    const char *name, *intro;
    const vt_opt *opts;
} own[] = {
    {"", "the run as a whole", top},
    {"model", "the shape of the network when training from scratch", model},
    {"init", "how a given checkpoint is fitted to the shape", init},
    {"attack", "the inner attack of adversarial training", attack},
    {"awp", "adversarial weight perturbation (Wu et al. 2020): gradients are taken at weights that went up the loss",
     awp},
    {"schedule", "the learning rate over the training", schedule},
    {"augment", "what is done to images before training sees them", augment},
    {"probe", "the small robustness check after every epoch", probe},
};
enum { OWN = sizeof own / sizeof *own };

/* Returns how many entries of vt_recipe.plugins a plug-in's parameters take. */
static size_t room_of(const vt_recipe_section *s) {
    return (s->params_size + sizeof(max_align_t) - 1) / sizeof(max_align_t);
}

/* In vt_recipe_section_at: returns the section of a family's plug-in i, or counts its plug-ins off i. */
#define FIND_PLUGIN(kind, family)                                                                                      \
    do {                                                                                                               \
        const VT_R(vt_##kind##_def) *const *defs = VT_R(vt_##kind##_defs)(&n);                                         \
        for (int k = 0; k < n; k++, i--) {                                                                             \
            *out = (vt_recipe_section){defs[k]->name,                                                                  \
                                       defs[k]->summary,                                                               \
                                       defs[k]->reference,                                                             \
                                       defs[k]->opts,                                                                  \
                                       r ? (void *)&r->plugins[used] : NULL,                                           \
                                       defs[k]->params_size,                                                           \
                                       family};                                                                        \
            if (!i) return true;                                                                                       \
            used += room_of(out);                                                                                      \
        }                                                                                                              \
    } while (0)

bool vt_recipe_section_at(const vt_recipe *r, int i, vt_recipe_section *out) {
    size_t used = 0;
    int n;
    if (i < OWN) {
        *out =
            (vt_recipe_section){.name = own[i].name, .intro = own[i].intro, .opts = own[i].opts, .params = (void *)r};
        return true;
    }
    i -= OWN;
    FIND_PLUGIN(objective, VT_RECIPE_OBJECTIVE);
    FIND_PLUGIN(optim, VT_RECIPE_OPTIM);
    FIND_PLUGIN(penalty, VT_RECIPE_PENALTY);
    return false;
}

vt_status vt_recipe_new(vt_recipe **out, vt_err *e) {
    vt_recipe_section s;
    size_t room = 0;
    for (int i = 0; vt_recipe_section_at(NULL, i, &s); i++) room += room_of(&s);
    vt_recipe *r = calloc(1, sizeof *r + room * sizeof *r->plugins);
    *out = r;
    if (!r) return vt_fail(e, VT_E_MEMORY, "no memory for a recipe");
    for (int i = 0; vt_recipe_section_at(r, i, &s); i++) vt_opt_defaults(s.opts, s.params);
    return VT_OK;
}

void vt_recipe_free(vt_recipe *r) { free(r); }

const void *vt_recipe_params(const vt_recipe *r, vt_recipe_family family, const char *name) {
    vt_recipe_section s;
    for (int i = 0; vt_recipe_section_at(r, i, &s); i++)
        if (s.family == family && !strcmp(s.name, name)) return s.params;
    return NULL;
}

bool vt_recipe_section_named(const vt_recipe *r, const char *name, vt_recipe_section *out) {
    for (int i = 0; vt_recipe_section_at(r, i, out); i++)
        if (!strcmp(out->name, name)) return true;
    return false;
}

/* Tells whether the section's keys are those of optimiser `name`, or of the one it leaves some tensors to. */
static bool in_optimiser(const char *section, const char *name) {
    const VT_R(vt_optim_def) *d = VT_R(vt_optim_find)(name);
    return d && (!strcmp(section, name) || (d->others && !strcmp(section, d->others)));
}

bool vt_recipe_in_use(const vt_recipe *r, const vt_recipe_section *s) {
    const vt_recipe_top *t = &r->top;
    if (s->family == VT_RECIPE_OBJECTIVE) return !strcmp(s->name, t->objective);
    if (s->family == VT_RECIPE_OPTIM)
        return in_optimiser(s->name, t->optimiser) || in_optimiser(s->name, t->attention_optimiser);
    if (s->family == VT_RECIPE_PENALTY) return VT_R(vt_penalty_find)(s->name)->active(s->params);
    if (!strcmp(s->name, "awp")) return r->awp.gamma > 0;
    if (strcmp(s->name, "attack")) return true;
    const VT_R(vt_objective_def) *o = VT_R(vt_objective_find)(t->objective);
    return (o && VT_R(vt_reads_worst)(o)) || r->attack.eps > 0 || r->probe.eps > 0; /* the probe has its norm */
}

bool vt_recipe_full_key(char out[VT_RECIPE_KEY_MAX], const char *section, const char *key) {
    return snprintf(out, VT_RECIPE_KEY_MAX, "%s%s%s", section, *section ? "." : "", key) < VT_RECIPE_KEY_MAX;
}

const vt_opt *vt_recipe_key(const vt_recipe *r, const char *key, vt_recipe_section *of) {
    char section[VT_RECIPE_KEY_MAX] = "";
    const char *dot = strchr(key, '.'), *last = dot ? dot + 1 : key;
    if (dot == key || (size_t)(last - key) > sizeof section) return NULL;
    if (dot) snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
    if (!vt_recipe_section_named(r, section, of)) return NULL;
    const vt_opt *o = of->opts;
    while (o && o->key && strcmp(o->key, last)) o++;
    return o && o->key ? o : NULL;
}
