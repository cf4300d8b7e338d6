/* SPDX-License-Identifier: MIT */
/* vitrine draw: writes the drawn data set shapes10 in CIFAR-10's format. */
#include <stdio.h>
#include "cli/cli.h"
#include "io/draw.h"

static vt_status run(const vt_cli *c, vt_err *e) {
    const char *out = vt_cli_get(c, "out");
    long long train, test, seed;
    if (!out) return vt_fail(e, VT_E_USAGE, "vitrine draw needs --out DIR");
    VT_TRY(vt_cli_int(c, "train", 1, VT_DRAW_MAX, 1000, &train, e));
    VT_TRY(vt_cli_int(c, "test", 1, VT_DRAW_MAX, 300, &test, e));
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(vt_draw_write(out, train, test, (uint64_t)seed, e));
    printf("%s: %lld training and %lld test images, seed %lld\n", out, train, test, seed);
    return VT_OK;
}

static const vt_arg args[] = {{"out", "DIR", "folder to write: data_batch_1.bin, test_batch.bin, batches.meta.txt"},
                              {"train", "N", "training images (default 1000)"},
                              {"test", "N", "test images (default 300)"},
                              {"seed", "N", "seed (default 0)"},
                              {NULL, NULL, NULL}};

const vt_command vt_command_draw = {
    .name = "draw",
    .summary = "draw a ten-class set of 32 x 32 shapes and textures in CIFAR-10 format",
    .args = args,
    .details = "The embedded datasets/shapes10 is of this kind; a larger set for training comes from another seed.",
    .examples = {"vitrine draw --out shapes --train 100 --test 50",
                 "vitrine draw --out others --train 100 --test 50 --seed 7"},
    .run = run,
};
