/* SPDX-License-Identifier: MIT */
/* What was probably meant by an unknown option. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/opt.h"

/* What people type who come from other tools. The first row counts whose command is this one (NULL: any) and whose
 * option the command has (NULL: needs none); without an answer the option itself is it. */
static const struct {
    const char *words, *command, *option, *answer;
} answers[] = {
    {"|epsilon|radius|", NULL, "eps", NULL},
    {"|p|lp|lp-norm|p-norm|threat-model|", NULL, "norm", NULL},
    {"|n|num|n-ex|n-examples|num-images|num-samples|samples|limit|subset|", NULL, "images",
     "--images A:B says which images, --images 0:100 is the first hundred"},
    {"|data-dir|data-path|dataset|datasets|dataset-dir|data-root|", NULL, "data", NULL},
    {"|output|output-dir|save|save-dir|log-dir|results|", NULL, "out", NULL},
    {"|workers|num-workers|jobs|cpus|cores|num-threads|", NULL, "threads", NULL},
    {"|silent|q|", NULL, "quiet", NULL},
    {"|random-seed|rng|manual-seed|", NULL, "seed", NULL},
    {"|continue|restart|", NULL, "resume", NULL},
    {"|force|overwrite|f|", NULL, "resume", "nothing is overwritten: name another --out, or go on with --resume"},
    {"|force|overwrite|f|", NULL, NULL, "no file of another kind is ever overwritten: name a new place"},
    {"|gpu|gpus|cuda|device|devices|", NULL, "threads", "vitrine runs on CPUs; --threads N says on how many cores"},
    {"|gpu|gpus|cuda|device|devices|", NULL, NULL, "vitrine runs on CPUs"},
    {"|batch-size|batchsize|bs|batch|", "train", NULL, "it is a key of the recipe: --set batch=N"},
    {"|batch-size|batchsize|bs|", "eval", "batch", NULL},
    {"|batch-size|batchsize|bs|", "curve", "batch", NULL},
    {"|batch-size|batchsize|bs|batch|", NULL, NULL,
     "none is needed: each thread computes one image at a time, and results do not depend on it"},
    {"|epochs|lr|learning-rate|optimizer|optimiser|weight-decay|", "train", NULL,
     "what a training does are keys of the recipe: --set epochs=N, --set lr=X (vitrine help recipe)"},
    {"|weights|model|checkpoint|ckpt|arch|", "train", NULL,
     "--init CKPT starts from a checkpoint, --set model.KEY=VALUE gives the shape"},
    {"|steps|iterations|iters|num-steps|n-iter|restarts|n-restarts|alpha|step-size|", NULL, "attack",
     "an attack's own options stand behind its name: --attack pgd:steps=20,restarts=5 (vitrine list attacks)"},
    {"|attacks|method|version|", NULL, "attack", NULL},
    {"|weights|model|checkpoint|ckpt|model-path|checkpoint-path|path|", NULL, NULL,
     "the checkpoint stands without an option"},
    {"|normalize|normalise|normalization|", NULL, "mean", "--mean and --std give the input's normalisation"},
};

/* Does the list "|a|b|" hold the word, in any case and with _ for -? */
static bool list_contains_word(const char *list, const char *word) {
    char key[80];
    snprintf(key, sizeof key, "|%s|", word);
    for (char *p = key; *p; p++)
        if (*p == '_') *p = '-';
    return strcasestr(list, key) != NULL;
}

/* Does row i of the answers fit this word, given to this command? */
static bool suggestion_applies(const vt_command *c, size_t i, const char *word) {
    bool operand = answers[i].command || answers[i].option || !list_contains_word(answers[i].words, "weights") ||
                   (c->operands && strstr(c->operands, "WEIGHTS")); /* a command that takes one */
    return operand && (!answers[i].command || !strcmp(answers[i].command, c->name)) &&
           (!answers[i].option || vt_arg_find(c->args, answers[i].option)) &&
           list_contains_word(answers[i].words, word);
}

vt_status vt_cli_unknown_option(const vt_command *c, const char *given, vt_err *e) {
    const char *names[64], *near = NULL;
    char word[64];
    size_t n = 0, len = strcspn(given, "=");
    snprintf(word, sizeof word, "%.*s", (int)(len < 63 ? len : 63), given);
    for (size_t i = 0; i < sizeof answers / sizeof *answers && !near && *word; i++) {
        if (!suggestion_applies(c, i, word)) continue;
        if (answers[i].answer)
            return vt_fail(e, VT_E_UNKNOWN, "vitrine %s has no option '--%s': %s", c->name, word, answers[i].answer);
        near = answers[i].option;
    }
    for (const vt_arg *a = c->args; a && a->name && n < 64; a++) names[n++] = a->name;
    if (!near) near = vt_nearest(word, names, n);
    return vt_fail(e, VT_E_UNKNOWN, "vitrine %s has no option '--%s'%s%s%s", c->name, word,
                   near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}
