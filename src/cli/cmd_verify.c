/* SPDX-License-Identifier: MIT */
/* vitrine verify: a run's proof, or adversarial images of another tool, judged again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cli/run_args.h"
#include "eval/run_folder.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/text.h"
#include "eval/external.h"
#include "eval/verify.h"
#include "eval/verify_run.h"
#include "eval/report/checksums.h"
#include "eval/report/proof.h"
#include "eval/report/summary.h"
#include "eval/header.h"
#include "data/dataset.h"

enum { SHOWN = 100, LIST_MOST = 1 << 26 }; /* points or findings on the terminal; bytes of --indices FILE */

/* ---- a run of ours ---- */

/* Prints the findings from number `from` on. */
static void show_findings(const vt_findings *f, size_t from) {
    for (size_t i = from; i < f->n && i < VT_FINDINGS_KEPT && f->text[i]; i++)
        printf("not as it was: %s\n", f->text[i]);
    if (f->n > VT_FINDINGS_KEPT && from < f->n) printf("... and %zu more\n", f->n - VT_FINDINGS_KEPT);
}

/* Writes why an external model answers with other bits than at the run: what it says of itself that has changed. */
static const char *why_moved(const vt_run_verifier *r, char text[300]) {
    const vt_handshake *now = vt_remote_handshake(r->subject->remote);
    const vt_header *then = r->ledger->header;
    if (*then->library && strcmp(then->library, now->library))
        snprintf(text, 300, "within float noise (another library: %s, then %.60s)", now->library, then->library);
    else if (*then->device && strcmp(then->device, now->device))
        snprintf(text, 300, "within float noise (another device: %s, then %.60s)", now->device, then->device);
    else if (then->takes && then->takes != now->batch)
        snprintf(text, 300, "within float noise (another batch: %d images at most, then %d)", now->batch, then->takes);
    else
        snprintf(text, 300, "within float noise (the model answers with other last bits than then)");
    vt_text_plain(text, strlen(text), "", NULL); /* a ledger is untrusted */
    return text;
}

/* Returns how closely margins were compared with the ledger's, and why; text: room for it. */
static const char *describe_margins(const vt_run_verifier *r, char text[300]) {
    if (r->exact) return "to the last bit (the same build and product kernels)";
    if (!r->subject->remote) return "within float noise (another build or other product kernels)";
    if (r->ledger->header->random) return "not compared (the model draws at random)";
    return r->moved ? why_moved(r, text) : "to the last bit (the model answers as it did then)";
}

/* Prints what was judged again: threat, hashes, counts of predictions and points. */
static void show_checked(const vt_run_verifier *r) {
    const vt_header *h = r->ledger->header;
    char threat[120], text[300];
    printf("%s, weights %.12s..., data %.12s...\n", vt_header_threat(h, threat, sizeof threat), h->weights,
           h->data.sha256);
    if (r->subject->wrap.def) printf("WRAPPED: judged under the same wrap (%s)\n", r->subject->wrap.id);
    printf("clean predictions made again   %lld\n", (long long)r->clean);
    printf("stored points judged again     %lld: %lld broken (%lld borderline)\n", (long long)r->points,
           (long long)r->broken, (long long)r->borderline);
    if (r->ledger->header->certify.method)
        printf("certificates proved again       %lld (%s)\n", (long long)r->certificates,
               r->ledger->header->certify.method);
    if (r->open)
        printf("left open by the model         %lld of these lines: it does not say the same when it is asked again\n",
               (long long)r->open);
    printf("margins                        %s\n", describe_margins(r, text));
}

/* Checks a run's hashes, judges all its points again and prints the findings. VT_E_FORMAT: there are some. */
static vt_status verify_run(const vt_cli *c, vt_run_folder *run, vt_findings *found, vt_err *e) {
    static const char *const foreign[] = {"tensor",  "eps",       "norm", "threat", "images",
                                          "indices", "allowance", "csv",  "json"};
    const char *dir = c->positional[0];
    vt_run_verifier r = {.progress = vt_cli_progress()};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (vt_cli_has(c, foreign[i]))
            return vt_fail(e, VT_E_USAGE, "--%s goes with --adv FILE; of a run, %s says it", foreign[i], dir);
    VT_TRY(vt_run_has_tensors(dir, e));
    VT_TRY(vt_ledger_open_altered(&run->ledger, dir, e));
    vt_status s = vt_checksums_check(run->ledger, found, e);
    show_findings(found, 0); /* the next step may fail by what was found here */
    size_t before = found->n;
    if (s == VT_OK) s = vt_run_folder_open(run, dir, &c->given, e);
    VT_TRY(s);
    r.ledger = run->ledger, r.subject = &run->subject, r.box = vt_chosen(&run->choices, "box");
    VT_TRY(vt_threads_parse(&c->given, r.subject, &r.threads, e));
    if (r.subject->remote) vt_remote_interruptible(r.subject->remote, vt_cli_interruptible());
    r.interrupt = vt_cli_interruptible();
    VT_TRY(vt_verify_run(&r, found, e));
    vt_err altered, contradiction;
    size_t skipped = 0;
    if (vt_cli_has(c, "attack-skipped")) VT_TRY(vt_attack_skipped(&r, &skipped, found, e));
    if (vt_expect_no_contradiction(run->ledger, &contradiction) != VT_OK)
        vt_findings_add(found, "%s", contradiction.text);
    if (vt_ledger_check(run->ledger, &altered) != VT_OK) vt_findings_add(found, "%s", altered.text);
    show_findings(found, before);
    show_checked(&r);
    if (vt_cli_has(c, "attack-skipped")) printf("certified images attacked      %zu\n", skipped);
    if (found->lost) return vt_fail(e, VT_E_MEMORY, "%s: no memory for all that is not as it was", dir);
    if (found->n)
        return vt_fail(e, VT_E_FORMAT, "%s: %zu thing%s not as %s, the first: %.300s", dir, found->n,
                       found->n == 1 ? " is" : "s are", found->n == 1 ? "it was" : "they were", found->text[0]);
    printf("everything%s is as the ledger, the results and the hashes say\n", r.open ? " else" : "");
    return VT_OK;
}

/* ---- tensors of any tool ---- */

/* Appends v to the list *out of *n numbers. */
static vt_status add_number(int64_t **out, int64_t *n, int64_t v, vt_err *e) {
    if (!vt_grow(out, (size_t)*n, sizeof **out))
        return vt_fail(e, VT_E_MEMORY, "no memory for more than %lld image numbers", (long long)*n);
    (*out)[(*n)++] = v;
    return VT_OK;
}

/* Reads an image's number, or finds it by the image's path. */
static vt_status parse_index(vt_image_paths *paths, const char *word, int64_t *image, vt_err *e) {
    long long number;
    bool whole = vt_parse_int(word, &number);
    if (whole)
        *image = number;
    else
        VT_TRY(vt_image_find(paths, word, image, e));
    if (whole || *image >= 0) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "--indices: '%.200s' is not an image number, nor an image of %s", word,
                   paths->d->path);
}

/* Reads --indices into *out [*n], in the order given: A:B, "3,1,4", or a file with a number or path a line. */
static vt_status parse_indices(const char *text, const vt_dataset *d, int64_t **out, int64_t *n, vt_err *e) {
    char *words = NULL, *rest, *word;
    vt_image_paths paths = {.d = d};
    long long a, b;
    vt_status s = VT_OK;
    if (vt_image_range(text, &a, &b)) {
        if (a < 0 || b <= a || b - a > INT32_MAX)
            return vt_fail(e, VT_E_USAGE, "--indices is '%s': A must be at least 0 and below B (images A to B-1)",
                           text);
        for (; a < b; a++) VT_TRY(add_number(out, n, a, e));
        return VT_OK;
    }
    bool list = strspn(text, "0123456789,") == strlen(text) && *text;
    vt_err why = {0};
    if (list)
        words = strdup(text);
    else if ((s = vt_file_text(text, LIST_MOST, &words, &why)) == VT_E_FORMAT)
        return vt_fail(e, s, "--indices: %s", why.text);
    else if (s != VT_OK)
        return vt_fail(e, VT_E_USAGE,
                       "--indices is '%s', must be A:B, numbers with commas, or a file with one a line (%s)", text,
                       why.text);
    if (!words) return vt_fail(e, VT_E_MEMORY, "no memory for --indices");
    for (word = strtok_r(words, ",\n\r\t ", &rest); word && s == VT_OK; word = strtok_r(NULL, ",\n\r\t ", &rest)) {
        int64_t image;
        s = parse_index(&paths, word, &image, e);
        if (s == VT_OK) s = add_number(out, n, image, e);
    }
    free(words), vt_image_paths_free(&paths);
    return s;
}

/* Finds which image each point belongs to, *out [points]; *from: the option or file that said so. */
static vt_status read_image_numbers(const vt_cli *c, const vt_dataset *d, vt_adv_file *p, int64_t **out,
                                    const char **from, vt_err *e) {
    const char *indices = vt_cli_get(c, "indices"), *file = vt_cli_get(c, "adv");
    int64_t n = 0;
    if (indices && vt_cli_has(c, "images")) return vt_fail(e, VT_E_USAGE, "give --indices or --images, not both");
    if (indices) {
        *from = "--indices";
        VT_TRY(parse_indices(indices, d, out, &n, e));
    } else if (vt_cli_has(c, "images") || (!p->index && p->n == d->count)) {
        int32_t *list;
        size_t count;
        *from = vt_cli_has(c, "images") ? "--images" : "the whole split";
        VT_TRY(vt_cli_images(c, d, &list, &count, e));
        vt_status s = VT_OK;
        for (size_t i = 0; i < count && s == VT_OK; i++) s = add_number(out, &n, list[i], e);
        free(list);
        VT_TRY(s);
    } else if (p->index) {
        *from = "the file's own numbers";
        *out = p->index, n = p->n_index, p->index = NULL;
    } else {
        return vt_fail(e, VT_E_USAGE,
                       "%s has %lld images and no tensor adv_index that says which: give --indices A:B (of %lld)", file,
                       (long long)p->n, (long long)d->count);
    }
    if (n < p->n)
        return vt_fail(e, VT_E_USAGE, "%s has %lld images, but %s names %lld", file, (long long)p->n, *from,
                       (long long)n);
    for (int64_t i = 0; i < p->n; i++)
        if ((*out)[i] < 0 || (*out)[i] >= d->count)
            return vt_fail(e, VT_E_USAGE, "%s: point %lld belongs to image %lld by %s, but %s has images 0 to %lld",
                           file, (long long)i, (long long)(*out)[i], *from, d->path, (long long)d->count - 1);
    if (n > p->n) printf("the first %lld of %lld numbers of %s count\n", (long long)p->n, (long long)n, *from);
    return VT_OK;
}

/* Orders numbers for qsort. */
static int compare_int64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Refuses two points of one image. */
static vt_status check_distinct(const int64_t *images, int64_t n, const char *file, vt_err *e) {
    int64_t twice = -1, *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its image numbers", file);
    memcpy(sorted, images, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_int64);
    for (int64_t i = 1; i < n; i++)
        if (sorted[i] == sorted[i - 1]) twice = sorted[i];
    free(sorted);
    return twice < 0 ? VT_OK : vt_fail(e, VT_E_USAGE, "%s: image %lld has two points", file, (long long)twice);
}

/* Reads --allowance, rounding of another tool in units of a pixel value; 2^-24 by default. */
static vt_status parse_allowance(const vt_cli *c, double *out, vt_err *e) {
    const char *text = vt_cli_get(c, "allowance");
    *out = VT_ALLOWANCE;
    if (!text || !strcmp(text, "2^-24")) return VT_OK;
    if (!vt_parse_real(text, out) || !(*out >= 0) || !(*out <= VT_ALLOWANCE_MOST))
        return vt_fail(e, VT_E_USAGE, "--allowance is '%s', must be a number from 0 to 1e-5, or 2^-24", text);
    return VT_OK;
}

/* Writes the judged points to --csv and --json, if given. */
static vt_status write_files(const vt_cli *c, const vt_external *f, vt_err *e) {
    const char *csv = vt_cli_get(c, "csv"), *path = vt_cli_get(c, "json");
    vt_file out;
    if (csv) {
        VT_TRY(vt_file_may_replace(csv, "image,label,", e));
        VT_TRY(vt_file_begin_path(&out, csv, e));
        vt_external_csv(out.stream, f);
        VT_TRY(vt_file_commit(&out, e));
    }
    if (vt_script_stream()) return vt_script_print(vt_external_json(f), e);
    if (!path) return VT_OK;
    VT_TRY(vt_file_may_replace(path, "{", e));
    VT_TRY(vt_file_begin_path(&out, path, e));
    json_t *o = vt_external_json(f);
    vt_status s = vt_json_commit(&out, o, JSON_INDENT(1), e);
    json_decref(o);
    return s;
}

typedef struct job {
    vt_subject subject;
    vt_adv_file points;
    int64_t *images;
    vt_external f;
    vt_proof proof; /* of FILE.npz; else empty */
} job;

/* Reads the options, opens data, points and model, and fits the points to the model's input. */
static vt_status open_job(job *j, vt_cli *c, const char **from, vt_err *e) {
    const char *file = vt_cli_get(c, "adv");
    vt_external *f = &j->f;
    const char *threat = vt_cli_get(c, "threat"), *csv = vt_cli_get(c, "csv"), *json = vt_cli_get(c, "json");
    if (csv) VT_TRY(vt_file_writable(csv, e));
    if (json && !vt_script_stream()) VT_TRY(vt_file_writable(json, e));
    if (threat && (vt_cli_has(c, "norm") || vt_cli_has(c, "eps")))
        return vt_fail(e, VT_E_USAGE, "--threat %.60s stands in place of --norm and --eps: give one or the other",
                       threat);
    if (threat) VT_TRY(vt_patch_parse(&f->patch, threat, e));
    VT_TRY(vt_cli_norm(c, &f->norm, e));
    f->eps_text = threat ? "1" : vt_cli_get(c, "eps");
    VT_TRY(vt_eps_parse(f->eps_text, f->norm, &f->eps, e));
    VT_TRY(parse_allowance(c, &f->allowance, e));
    c->positional[0] = vt_cli_get(c, "weights"), c->n_positional = c->positional[0] != NULL;
    if (!c->n_positional && !vt_cli_has(c, "oracle"))
        return vt_fail(e, VT_E_USAGE, "vitrine verify --adv needs --weights FILE");
    VT_TRY(vt_cli_data(c, &j->subject.data, e));
    VT_TRY(vt_adv_file_open(&j->points, file, vt_cli_get(c, "tensor"), e));
    VT_TRY(read_image_numbers(c, j->subject.data, &j->points, &j->images, from, e));
    VT_TRY(check_distinct(j->images, j->points.n, file, e));
    VT_TRY(vt_cli_subject(c, &j->subject, (int32_t)j->images[0], e));
    vt_cli_say_data(c, j->subject.data, NULL, 0);
    VT_TRY(vt_threads_parse(&c->given, &j->subject, &f->threads, e));
    const vt_config *m = &j->subject.model->config;
    if (f->patch.size) VT_TRY(vt_patch_fit(&f->patch, m, j->subject.model->path, e));
    return vt_adv_file_fit(&j->points, file, vt_config_shape(m), m->mean, m->std, e);
}

/* Checks that weights and data are those of the proof; data that are the proof itself are. */
static vt_status same_files(const job *j, const char *file, vt_err *e) {
    const char *w = j->subject.model->sha256, *d = j->subject.data->hash;
    if (strcmp(w, j->proof.weights))
        return vt_fail(e, VT_E_FORMAT,
                       "%s is not the checkpoint of %s: its SHA-256 is %.16s..., the proof says %.16s...",
                       j->subject.model->path, file, w, j->proof.weights);
    if (!strcmp(j->subject.data->path, file) || !strcmp(d, j->proof.data)) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s are not the data of %s: their SHA-256 is %.16s..., the proof says %.16s...",
                   j->subject.data->path, file, d, j->proof.data);
}

/* Opens the job, judges the points of --adv, writes --csv and --json, prints. VT_E_RANGE: some violate the threat. */
static vt_status verify_adv(job *j, vt_cli *c, vt_err *e) {
    const char *from = "", *file = vt_cli_get(c, "adv");
    vt_external *f = &j->f;
    VT_TRY(open_job(j, c, &from, e));
    if (j->proof.manifest) VT_TRY(same_files(j, file, e));
    f->subject = &j->subject, f->points = &j->points, f->images = j->images;
    f->progress = vt_cli_progress(), f->interrupt = vt_cli_interruptible();
    VT_TRY(vt_external_run(f, e));
    VT_TRY(write_files(c, f, e));
    printf("%s%s%s, %s, values %.6g to %.6g; images by %s\n\n", file, *j->points.name ? ": " : "", j->points.name,
           vt_dtype_name(j->points.dtype), j->points.low, j->points.high, from);
    vt_external_table(stdout, f, SHOWN);
    long long bad = (long long)f->count[VT_EXTERNAL_VIOLATION], first = -1;
    for (int64_t i = 0; i < j->points.n && first < 0; i++)
        if (f->result[i].status == VT_EXTERNAL_VIOLATION) first = (long long)f->result[i].image;
    if (!bad) return VT_OK;
    return vt_fail(e, VT_E_RANGE, "%s: %lld of %lld points violate the threat model, the first that of image %lld",
                   file, bad, (long long)j->points.n, first);
}

/* ---- a proof (vitrine export --proof) ---- */

/* Compares weights, statuses and margins with what the proof says. VT_E_FORMAT: one differs. */
static vt_status check_proof(const job *j, const char *file, vt_err *e) {
    const vt_proof *p = &j->proof;
    for (int64_t i = 0; i < p->images; i++) {
        const vt_external_point *r = &j->f.result[i];
        bool broken = vt_npy_whole(&p->status, (size_t)i) == 1;
        double margin = vt_proof_margin(p, i, r->label), off = fabs(margin - r->v.margin64);
        if (broken != (r->status == VT_EXTERNAL_BROKEN))
            return vt_fail(e, VT_E_FORMAT, "%s: row %lld %s broken, it says %s", file, (long long)i,
                           broken ? "is not" : "is", broken ? "that it is" : "that it is not");
        /* in double, another order of sums changes 1e-12 of a logit at most */
        if (!(off <= 1e-6 * (1 + fabs(margin))))
            return vt_fail(e, VT_E_FORMAT, "%s: row %lld has logits of margin %.9g, the model's margin there is %.9g",
                           file, (long long)i, margin, r->v.margin64);
    }
    printf("arrays, weights%s, statuses and logits are as the proof says\n",
           strcmp(j->subject.data->path, file) ? ", data" : "");
    if (!strcmp(j->subject.data->path, file)) printf("its images are its own: --data D compares them with the data\n");
    return VT_OK;
}

/* Judges a proof's points again, against its own images or, with --data, the data's. */
static vt_status verify_proof(job *j, vt_cli *c, const char *file, vt_err *e) {
    static const char *const foreign[] = {"tensor", "eps", "norm", "threat", "images", "indices", "allowance"};
    static char rows[40];
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (vt_cli_has(c, foreign[i]))
            return vt_fail(e, VT_E_USAGE, "--%s goes with --adv FILE; of a proof, %s says it", foreign[i], file);
    VT_TRY(vt_proof_open(&j->proof, file, e));
    snprintf(rows, sizeof rows, "0:%lld", (long long)j->proof.images);
    vt_cli_set(c, "adv", file), vt_cli_set(c, "allowance", "0");
    vt_cli_set(c, "norm", j->proof.norm), vt_cli_set(c, "eps", j->proof.eps);
    if (!vt_cli_has(c, "data")) vt_cli_set(c, "data", file), vt_cli_set(c, "indices", rows);
    VT_TRY(verify_adv(j, c, e));
    return check_proof(j, file, e);
}

/* Runs vitrine verify: of a run, or of another tool's points. */
static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    static vt_run_folder again;
    static vt_cli copy;
    vt_findings found = {0};
    bool adv = vt_cli_has(c, "adv");
    if (adv == (c->n_positional == 1))
        return vt_fail(e, VT_E_USAGE,
                       adv ? "give RUNDIR or --adv FILE, not both"
                           : "vitrine verify needs RUNDIR, a proof, or --adv FILE --weights W --data D --eps E");
    if (adv && vt_cli_has(c, "box")) return vt_fail(e, VT_E_USAGE, "--box goes with RUNDIR, not with --adv FILE");
    copy = *c;
    struct stat about;
    bool proof = !adv && stat(c->positional[0], &about) == 0 && S_ISREG(about.st_mode);
    vt_status s = adv     ? verify_adv(&j, &copy, e)
                  : proof ? verify_proof(&j, &copy, c->positional[0], e)
                          : verify_run(c, &again, &found, e);
    vt_proof_close(&j.proof);
    vt_external_free(&j.f);
    free(j.images);
    vt_adv_file_close(&j.points);
    vt_subject_close(&j.subject);
    vt_run_folder_close(&again);
    vt_findings_free(&found);
    return s;
}

static const vt_arg args[] = {
    {"adv", "FILE|DIR",
     "adversarial images of any tool: .safetensors, .npy, .npz or .pth, [N,C,H,W] in [0,1] or uint8; or a folder of "
     "PNGs",
     VT_OF_DATA},
    {"tensor", "NAME",
     "which tensor of FILE (default x_adv, adv_complete, adv_inputs, else the only one of four sides)", VT_OF_DATA},
    {"eps", "A/B", "radius in pixel units: 8/255, 0.031 (with --adv)", VT_OF_THREAT},
    {"norm", "linf|l2|l1|l0", "threat model (with --adv; default linf)", VT_OF_THREAT},
    {"threat", "patch:size=N,count=N", "instead of --norm and --eps: squares in which pixels are free (with --adv)",
     VT_OF_THREAT},
    {"box", "FILE", "of a run under " VT_OPTION "threat box: its box, where it is not as run.json says", VT_OF_THREAT},
    {"indices", "A:B|LIST|FILE", "which image each point is, in this order (default: FILE's adv_index)", VT_OF_DATA},
    {"images", "A:B|spread:N|FILE", "the same in ascending order, as in vitrine eval", VT_OF_DATA},
    {"allowance", "X", "rounding in the other tool, a pixel: added to eps (default 2^-24; 0: none)", VT_OF_THREAT},
    {"attack-skipped", NULL, "of a run with --certify-first: attack the certified images after all", VT_OF_RUN},
    {"csv", "FILE", "writes one line a point", VT_OF_OUTPUT},
    {"json", "FILE", "writes totals and points; -: to standard output, and nothing else there", VT_OF_OUTPUT},
    VT_QUIET_ARG,
    VT_THREADS_ARG,
    VT_RUN_ARGS,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_verify = {
    .name = "verify",
    .summary = "check a run's proof again, or the adversarial images of any other tool",
    .operands = "[RUNDIR|PROOF.npz]",
    .max_operands = 1,
    .args = args,
    .details =
        "vitrine verify RUNDIR: every clean prediction and every broken image is judged again from the stored tensor, "
        "with nothing but weights and data (found by run.json, or --weights and --data); hashes tell any changed byte "
        "of ledger, tensors, results, weights and data. Exit status 1 when something is not as it was. vitrine verify "
        "--adv FILE --weights W --data D --eps E: label, distance and box of every point of another tool; exit status "
        "1 when a point leaves the ball or [0,1]. The first N image numbers count for N points. vitrine verify "
        "PROOF.npz "
        "--weights W [--data D]: a file of vitrine export --proof.",
    .examples =
        {"vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:20 --eps 4/255 --attack pgd --save-npz "
         "--out run",
         "vitrine verify run", "vitrine export run --proof proof.npz",
         "vitrine verify proof.npz --weights weights/shapes10-vit",
         "vitrine verify --adv run/adv/pgd.npz --weights weights/shapes10-vit --data datasets/shapes10 --eps 4/255"},
    .run = run,
};
