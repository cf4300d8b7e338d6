/* SPDX-License-Identifier: MIT */
/* build/tools/draw: writes a set of drawn images like datasets/shapes10 in CIFAR-10's format. */
#include <getopt.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include "base/opt.h"
#include "tools/draw.h"

static const char usage[] = "Usage: draw --out DIR [--train N] [--test N] [--seed N]\n"
                            "  --out DIR   folder to write: data_batch_1.bin, test_batch.bin, batches.meta.txt\n"
                            "  --train N   training images (default 1000)\n"
                            "  --test N    test images (default 300)\n"
                            "  --seed N    seed (default 0)\n";

static const struct option options[] = {{"out", required_argument, NULL, 1},
                                        {"train", required_argument, NULL, 1},
                                        {"test", required_argument, NULL, 1},
                                        {"seed", required_argument, NULL, 1},
                                        {NULL, 0, NULL, 0}};

static vt_status draw_as_chosen(const vt_choices *c, vt_err *e) {
    const char *out = vt_chosen(c, "out");
    long long train, test, seed;
    VT_TRY(vt_chosen_int(c, "train", 1, VT_DRAW_MAX, 1000, &train, e));
    VT_TRY(vt_chosen_int(c, "test", 1, VT_DRAW_MAX, 300, &test, e));
    VT_TRY(vt_chosen_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(vt_draw_write(out, train, test, (uint64_t)seed, e));
    printf("%s: %lld training and %lld test images, seed %lld\n", out, train, test, seed);
    return VT_OK;
}

int main(int argc, char **argv) {
    vt_choices c = {.n = 0};
    vt_err e = {0};
    bool good = true;
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is a write error with a sentence, not the end of the process */
    for (int found, i; (found = getopt_long(argc, argv, "", options, &i)) != -1;)
        good = good && found == 1 && vt_choose(&c, options[i].name, optarg);
    if (!good || optind < argc || !vt_is_chosen(&c, "out")) {
        fputs(usage, stderr);
        return 2;
    }
    vt_status s = draw_as_chosen(&c, &e);
    if (s != VT_OK) fprintf(stderr, "draw: %s\n", e.text);
    return vt_exit_code(s);
}
