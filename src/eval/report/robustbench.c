/* SPDX-License-Identifier: MIT */
/* What RobustBench asks of an external evaluation: its README, "Adding a new evaluation", and the template of that
 * issue (github.com/RobustBench/robustbench, .github/ISSUE_TEMPLATE). */
#include <string.h>
#include "base/files.h"
#include "base/hash.h"
#include "eval/header.h"
#include "eval/report/export.h"
#include "tensors/tensors.h"

/* Returns the leaderboard's name of the data; NULL: it has none for them. */
static const char *leaderboard_name(const vt_header *h) {
    if (!strcmp(h->data.format, "cifar")) return h->data.classes == 100 ? "cifar100" : "cifar10";
    return h->data.classes == 1000 ? "imagenet" : NULL;
}

/* Writes the issue's text. sha: of adversarial.pt. */
static void write_issue(FILE *f, const vt_export *x, const char *model, const char *sha) {
    const vt_header *h = x->ledger->header;
    const char *board = leaderboard_name(h);
    long long n = (long long)x->n, robust = 0, right = 0;
    for (int64_t i = 0; i < x->n; i++) robust += !x->status[i] && x->preds[i] == x->labels[i];
    right = robust + x->broken;
    fprintf(f, "# [New evaluation] %s\n\n## Target model\n", *model ? model : "<model>");
    fprintf(f, "+ **Model identifier(s):** <its name in the Model Zoo>; evaluated from %s, SHA-256 %s\n",
            *model ? model : "a checkpoint", h->weights);
    fprintf(f, "+ **Leaderboard(s):** %s, %s, eps %s\n\n## New evaluation\n", board ? board : "<data set>",
            h->norm == VT_L2 ? "L2" : "Linf", h->eps_text);
    fprintf(f, "+ **Link to adversarial images:** <link to adversarial.pt>, float32 [%lld, %d, %d, %d], SHA-256 %s\n",
            n, VT_CHW_OF(x->shape), sha);
    fprintf(f, "+ **Robust accuracy:** %.2f %% (%lld of %lld; clean %.2f %%)\n", 100.0 * (double)robust / (double)n,
            robust, n, 100.0 * (double)right / (double)n);
    fprintf(f, "+ **Author(s):** <names>\n+ **Description of the method used:** vitrine %s, seed %llu:", h->version,
            (unsigned long long)h->seed);
    for (int k = 0; k < h->n_attacks; k++)
        if (x->entry ? k + 1 == x->entry : h->attacks[k].scoring == x->scoring)
            fprintf(f, "%s %s", k ? ";" : "", h->attacks[k].id);
    fprintf(f, ". Each broken image was judged again by separate code, norm and box in double on the stored float32 "
               "values.\n");
    if ((uint64_t)n != h->data.count)
        fprintf(f,
                "\nThe run covers %lld of the %llu images of the %s split; the leaderboard asks for its whole test "
                "set.\n",
                n, (unsigned long long)h->data.count, h->data.split);
}

vt_status vt_robustbench_write(const vt_export *x, const char *model, const char *dir, vt_err *e) {
    const vt_header *h = x->ledger->header;
    char path[VT_PATH_MAX], hex[65];
    vt_mapped map;
    vt_sha sha;
    vt_file f;
    if (vt_header_is_threat(h) || h->curve || (h->norm != VT_LINF && h->norm != VT_L2))
        return vt_fail(e, VT_E_USAGE, "%s: RobustBench has leaderboards of linf and l2 at one eps, not of %s",
                       x->ledger->dir, h->curve ? "curves" : h->norm_name);
    VT_TRY(vt_make_dir(dir, e));
    VT_TRY(vt_path_in(path, dir, "adversarial.pt", e));
    const vt_tensor t = {.name = "x_adv",
                         .dtype = VT_F32,
                         .ndim = 4,
                         .shape = {x->n, VT_CHW_OF(x->shape)},
                         .numel = (size_t)x->n * x->pixels,
                         .data = x->x_adv};
    VT_TRY(vt_pth_write(path, &t, e));
    VT_TRY(vt_mapped_open(&map, path, e));
    vt_sha_begin(&sha);
    vt_mapped_hash(&map, 0, &sha);
    vt_sha_end(&sha, hex);
    vt_mapped_close(&map);
    VT_TRY(vt_file_begin(&f, dir, "issue.md", e));
    write_issue(f.stream, x, model, hex);
    return vt_file_commit(&f, e);
}
