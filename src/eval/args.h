/* SPDX-License-Identifier: MIT */
/* Options of the command that the library takes too, and others that several commands share: rows of their tables. An
 * option stands in one row; help, manual pages, completion and the library's list of names are made from it. */
#pragma once

#include "base/opt.h"

// clang-format off
/* What tensors cannot tell; vt_prepare_overrides reads them. */
#define VT_MODEL_ARGS                                                                                                  \
    {"heads", "N", "number of attention heads", VT_OF_MODEL},                                                          \
    {"image-size", "N", "side of the input, where tensors do not tell", VT_OF_MODEL},                                  \
    {"mean", "A,B,C", "mean of the input normalisation", VT_OF_MODEL},                                                 \
    {"std", "A,B,C", "standard deviation of the input normalisation", VT_OF_MODEL},                                    \
    {"ln-eps", "X", "LayerNorm epsilon", VT_OF_MODEL},                                                                 \
    {"attn-scale", "head|dim|X", "factor on Q K^T", VT_OF_MODEL},                                                      \
    {"preset", "PRESET", "take heads, eps, mean and std from a preset", VT_OF_MODEL},                                  \
    {"attn", "VARIANT", "attention variant", VT_OF_MODEL},                                                             \
    {"form", "FORM=VALUE ...", "norm, act, post_norm, pool, ... (vitrine list models); repeatable", VT_OF_MODEL},      \
    {"names", "MAP", "map file for the tensors' names, or a scheme of vitrine list formats", VT_OF_MODEL},             \
    {"part", "NAME", "which state dict of a .pth file that holds several: ema, model.generator", VT_OF_MODEL},         \
    {"image-shape", "C,H,W", "of an ONNX file: the image, where the file leaves it open", VT_OF_MODEL},                \
    {"layout", "nchw|nhwc", "of an ONNX file: order of its input's sides (default: by which is 1 or 3)", VT_OF_MODEL}, \
    {"output", "NAME", "of an ONNX file with several outputs: the logits", VT_OF_MODEL}

#define VT_ORACLE_ARGS                                                                                                 \
    {"oracle", "COMMAND|ADDRESS", "instead of WEIGHTS: a model in another process (docs/oracle.md)", VT_OF_MODEL},     \
    {"oracle-timeout", "S", "seconds that it may take for one answer (default 600)", VT_OF_MODEL}
#define VT_WRAP_ARG                                                                                                    \
    {"wrap", "WRAP", "put a defence, or a known cheat to test the tester, around the model (vitrine list wraps)", VT_OF_MODEL}

#define VT_DATA_ARG                                                                                                    \
    {"data", "FOLDER", "CIFAR-10/100 (binary, Python), .npz, x.npy,y.npy, CIFAR-10-C, or folders of pictures, one a "  \
                       "class", VT_OF_DATA}
#define VT_IMAGES_ARG                                                                                                  \
    {"images", "A:B|spread:N|FILE",                                                                                    \
     "indices, N spread over all classes, a file of indices or paths, or imagenette-v1 (default all)", VT_OF_DATA}
#define VT_SPLIT_ARG {"split", "test|train|val", "which split (default test)", VT_OF_DATA}
#define VT_CLASS_ORDER_ARG                                                                                             \
    {"class-order", "text|number|FILE", "order of the class folders in the model; FILE: one name a line", VT_OF_DATA}
#define VT_PREPROCESS_ARG                                                                                              \
    {"preprocess", "TEXT", "short:248,bicubic,crop:224 and the like (docs/images.md); default: the model's own",       \
     VT_OF_DATA}
#define VT_ATTACK_AT_ARG                                                                                               \
    {"attack-at", "native|model", "perturb images before or after they are resized for the model", VT_OF_DATA}
#define VT_RESTRICT_ARG                                                                                                \
    {"restrict-classes", NULL, "compare only the outputs of the classes present (ImageNet heads)", VT_OF_DATA}
/* What commands that attack images are given of them, beside --data. */
#define VT_IMAGES_ARGS                                                                                                 \
    VT_IMAGES_ARG, VT_SPLIT_ARG, VT_CLASS_ORDER_ARG,                                                                   \
    {"corruption", "NAME", "of CIFAR-10-C or ImageNet-C, with " VT_OPTION "severity; eval: also A,B or all, into "     \
                           "OUT/NAME-SEVERITY", VT_OF_DATA},                                                           \
    {"severity", "1..5", "how strong (eval: default all five)", VT_OF_DATA},                                           \
    VT_PREPROCESS_ARG, VT_ATTACK_AT_ARG, VT_RESTRICT_ARG

#define VT_SEED_ARG {"seed", "N", "seed of every random draw (default 0)", VT_OF_RUN}
#define VT_THREADS_ARG                                                                                                 \
    {"threads", "N", "threads (default OMP_NUM_THREADS, else all cores given); changes no result, limits of time apart", VT_OF_RUN}
/* Images that each thread attacks at a time, whose questions to the model are one batch. */
#define VT_BATCH_ARG {"batch", "N", "images of each thread that wait for the model together (default 1)", VT_OF_RUN}
#define VT_SEARCH_ARG                                                                                                  \
    {"search", "float32|auto|bf16|bf16-emulated",                                                                      \
     "products that attacks search on (default float32); verdicts stay float32 and double (docs/speed.md)", VT_OF_RUN}
#define VT_EPS_ARG                                                                                                     \
    {"eps", "A/B", "radius in pixel units: 8/255, 0.031 (linf at most 1), 0.5 (l2), 12 (l1)", VT_OF_THREAT}
#define VT_RESUME_ARG {"resume", NULL, "go on where a killed run was; may extend " VT_OPTION "images", VT_OF_RUN}
#define VT_SKIP_ARG                                                                                                    \
    {"skip-not-finite", NULL, "count clean images without finite logits apart, in place of ending there", VT_OF_RUN}

/* All that an evaluation takes, of the command and of vitrine_evaluate. */
#define VT_EVAL_ARGS                                                                                                   \
    VT_DATA_ARG,                                                                                                       \
    {"attack", "ATTACK", "name:key=value,..., or a list A+B+C; repeatable; without any: clean accuracy alone", VT_OF_ATTACK},  \
    {"profile", "quick|standard|paranoid", "AutoAttack for less with a bound, AutoAttack, AutoAttack and more",        \
     VT_OF_ATTACK},                                                                                                    \
    {"surrogate", "WEIGHTS", "another checkpoint, whose gradients transfer follows (an entry of its own if no "        \
                             VT_OPTION "attack asks for it)", VT_OF_ATTACK},                                           \
    {"surrogate-oracle", "COMMAND|ADDRESS", "the same, of a model in another process", VT_OF_ATTACK},                  \
    {"eight-bit", NULL, "after each attack, a row for 8-bit images: every value k/255 (docs/attacks.md)",              \
     VT_OF_ATTACK},                                                                                                    \
    {"individual", NULL, "run each attack of a list or ensemble on every image, as a row of its own", VT_OF_ATTACK},   \
    {"certify", "METHOD", "prove images that are right: name:key=value,... (vitrine list certificates)", VT_OF_ATTACK}, \
    {"certify-first", NULL, "do not attack images that are certified", VT_OF_ATTACK},                                  \
    VT_EPS_ARG,                                                                                                        \
    {"norm", "linf|l2|l1|l0", "threat model (default linf); l0 counts changed values", VT_OF_THREAT},                  \
    {"threat", "patch:size=N,count=N|box|rotation",                                                                    \
     "instead: any such squares, free inside (aligned=1: on tokens; default anywhere), a box, or a grid "              \
     "rotation:angle=30,shift=3,angles=31,shifts=5", VT_OF_THREAT},                                                    \
    {"box", "FILE",                                                                                                    \
     "of " VT_OPTION "threat box: bounds lo and hi of each value, [C,H,W] or [N,C,H,W] (.safetensors, .npz)",          \
     VT_OF_THREAT},                                                                                                    \
    {"patch", "FILE", "the picture that attack universal pastes, of " VT_OPTION "threat patch's size (vitrine patch)",  \
     VT_OF_ATTACK},                                                                                                    \
    {"targets", "FILE|least-likely|random",                                                                            \
     "turn each image into that class and no other; FILE: index,class a line (docs/attacks.md)", VT_OF_ATTACK},        \
    VT_IMAGES_ARGS,                                                                                                    \
    {"out", "DIR", "folder for ledger, results and tables (default: terminal only)", VT_OF_OUTPUT},                    \
    VT_RESUME_ARG,                                                                                                     \
    {"allow-mixed", NULL, "resume or merge although another BLAS kernel was in use", VT_OF_RUN},                       \
    VT_SEED_ARG, VT_THREADS_ARG, VT_BATCH_ARG, VT_SEARCH_ARG, VT_SKIP_ARG,                                             \
    {"exhaustive", NULL, "never leave an image early; score fgsm and pgd on the last iterate", VT_OF_RUN},             \
    {"save-adv", NULL, "write adversarial images: adv.safetensors and (3 channels, or 1) adv/NAME/INDEX.png",          \
     VT_OF_OUTPUT},                                                                                                    \
    {"save-npz", NULL, "write adversarial images for NumPy: adv/NAME.npz (x_adv, labels, indices, preds, status)",     \
     VT_OF_OUTPUT},                                                                                                    \
    VT_WRAP_ARG, VT_ORACLE_ARGS, VT_MODEL_ARGS

/* What says where weights and data of a finished run are, if not where run.json says. */
#define VT_RUN_ARGS                                                                                                    \
    {"weights", "FILE", "the checkpoint; of a run, where it is not as run.json says", VT_OF_MODEL}, VT_ORACLE_ARGS,    \
    {"data", "FOLDER", "the data; of a run, where they are not as run.json says", VT_OF_DATA},                         \
    {"split", "test|train|val", "which split", VT_OF_DATA}, VT_CLASS_ORDER_ARG,                                        \
    {"preprocess", "TEXT", "as in vitrine eval", VT_OF_DATA}, VT_ATTACK_AT_ARG, VT_RESTRICT_ARG

/* All that a training takes, of the command and of vitrine_train. */
#define VT_TRAIN_ARGS                                                                                                  \
    {"data", "FOLDER", "CIFAR-10/100 binary folder, or folders of PNGs below train/ and test/", VT_OF_DATA},           \
    {"extra", "DATA", "further training images (generated ones, say); their share: recipe key extra; repeatable",      \
     VT_OF_DATA},                                                                                                      \
    {"out", "DIR", "folder for checkpoints and log", VT_OF_OUTPUT},                                                    \
    {"resume", NULL, "go on where a killed run was (byte-identical); starts one that is not there", VT_OF_RUN},        \
    {"init", "CKPT", "start from this checkpoint instead of from scratch", VT_OF_MODEL},                               \
    {"set", "KEY=VALUE", "change a key of the recipe; repeatable", VT_OF_RUN},                                         \
    {"max-steps", "N", "stop, resumable, after N steps", VT_OF_RUN},                                                   \
    VT_THREADS_ARG, VT_MODEL_ARGS
// clang-format on
