/* SPDX-License-Identifier: MIT */
/* Runs ONNX's own cases (folders with model.onnx and test_data_set_N/input_K.pb, output_K.pb) in float and in double:
 *
 *     onnx_case DIR...       a line each: passed, failed or refused, and why; then how many
 *     onnx_case --operators  the table of docs/models.md
 *
 * Real inputs are values of the graph if every operator allows it; else the first alone; else all are constants, as
 * integers always are. The vjp is compared with central differences in double, and in float with that. */
#include <dirent.h>
#include <sys/stat.h>
#include "graph/fuse.h"
#include "graph/import.c"
#include "tools/onnx_case_run.h"

typedef enum mode { ALL_FOLLOW, FIRST_FOLLOWS, NONE_FOLLOWS, MODES } mode;
enum { MOST_INPUTS = 64, MOST_PROBES = 24 };

typedef struct onnx_case {
    vt_onnx *file;
    vt_mapped data[2 * MOST_INPUTS];
    vt_onnx_tensor in[MOST_INPUTS], out[MOST_INPUTS];
    int n_in, n_out, n_data;
    double *x; /* the inputs that are values, one after another */
    size_t n;
    int result[MOST_INPUTS]; /* values of the outputs */
    size_t at[MOST_INPUTS];  /* of output k in the graph's output, if it is no constant */
    size_t n_results;
} onnx_case;

typedef struct counts {
    int passed, failed, refused, mistaken, follow[MODES], gradients;
} counts;

/* bfloat16 lies in the files as the 16-bit integers that numpy has. */
static void name_type(vt_onnx_tensor *t, const vt_onnx_value *v) {
    if (v->type == VT_ONNX_BFLOAT16 && t->type == VT_ONNX_UINT16) t->type = VT_ONNX_BFLOAT16;
}

/* ---- a case as a graph: one input, of which the file's inputs are slices; one output, all of them in a row ---- */

static bool holds_quantised(const vt_onnx *f) {
    bool holds = false;
    for (int i = 0; i < f->n_nodes; i++)
        holds = holds || strstr(f->nodes[i].op, "Integer") || strstr(f->nodes[i].op, "QLinear") ||
                strstr(f->nodes[i].op, "DequantizeLinear");
    return holds;
}

static bool rounds(const vt_onnx *f) {
    bool holds = false;
    for (int i = 0; i < f->n_nodes; i++)
        holds = holds || !strcmp(f->nodes[i].op, "Round") || strstr(f->nodes[i].op, "Quantize");
    return holds || holds_quantised(f);
}

static bool follows(const onnx_case *c, int k, mode m) {
    const vt_onnx_tensor *t = &c->in[k];
    const bool narrow = t->type == VT_ONNX_UINT8 || t->type == VT_ONNX_INT8;
    if (!t->n || m == NONE_FOLLOWS) return false;
    if (narrow && k == 0) return holds_quantised(c->file);
    return vt_onnx_is_real(t->type) && (m == ALL_FOLLOW || k == 0);
}

static vt_status read_numbers(vt_onnx *f, const vt_onnx_tensor *t, double *out, vt_err *e) {
    if (vt_onnx_is_real(t->type)) return vt_onnx_reals(f, t, out, e);
    int64_t *v = calloc(t->n + 1, sizeof *v);
    vt_status s = vt_onnx_integers(f, t, v, e);
    for (size_t i = 0; s == VT_OK && i < t->n; i++) out[i] = (double)v[i];
    free(v);
    return s;
}

static vt_status name_inputs(vt_import *im, onnx_case *c, mode m, vt_err *e) {
    c->n = 0;
    for (int k = 0; k < c->n_in; k++) c->n += follows(c, k, m) ? c->in[k].n : 0;
    free(c->x);
    c->x = calloc(c->n + 1, sizeof *c->x);
    vt_value v;
    int whole;
    VT_TRY(vt_import_new_value(im, &(vt_dims){4, {1, (int64_t)(c->n ? c->n : 1), 1, 1}}, false, &v, e));
    VT_TRY(vt_import_add_value(im, &v, &im->g->input, e));
    VT_TRY(vt_emit_reshape(im, im->g->input, &(vt_dims){1, {(int64_t)v.n}}, &whole, e));
    int k = 0;
    size_t at = 0;
    for (int i = 0, x; i < im->file->n_inputs; i++) {
        const char *name = im->file->inputs[i].name;
        if (json_object_get(im->names, name)) continue; /* an initializer */
        if (k == c->n_in) return vt_import_fail(im, e, "input %s has no numbers", name);
        const vt_onnx_tensor *t = &c->in[k];
        if (follows(c, k, m)) {
            VT_TRY(read_numbers(c->file, t, c->x + at, e));
            VT_TRY(vt_emit_slice(im, whole, 0, (int64_t)at, (int64_t)t->n, 1, &x, e));
            VT_TRY(vt_emit_reshape(im, x, &t->dims, &x, e));
            at += t->n;
        } else
            VT_TRY(tensor_value(im, t, &x, e));
        VT_TRY(vt_import_name(im, name, x, e));
        k++;
    }
    return VT_OK;
}

static vt_status join_outputs(vt_import *im, onnx_case *c, vt_err *e) {
    int parts[MOST_INPUTS], n = 0;
    c->n_results = 0;
    for (int k = 0; k < c->n_out; k++) {
        if (k >= im->file->n_outputs) return vt_import_fail(im, e, "has %d outputs of %d", im->file->n_outputs, k + 1);
        int y = vt_import_find(im, im->file->outputs[k].name);
        if (y < 0) return vt_import_fail(im, e, "output %s is written by no node", im->file->outputs[k].name);
        const vt_value v = im->g->values[y];
        c->result[k] = y;
        if (vt_value_is_constant(&v) || !v.n) continue;
        c->at[k] = c->n_results, c->n_results += v.n;
        VT_TRY(vt_emit_reshape(im, y, &(vt_dims){1, {(int64_t)v.n}}, &parts[n++], e));
    }
    im->g->output = im->g->input;
    return n ? vt_emit_concat(im, parts, n, 0, &im->g->output, e) : VT_OK;
}

static vt_status import_case(vt_import *im, onnx_case *c, mode m, vt_err *e) {
    VT_TRY(read_initializers(im, e));
    VT_TRY(name_inputs(im, c, m, e));
    for (int i = 0; i < im->file->n_nodes; i++) VT_TRY(read_node(im, &im->file->nodes[i], e));
    im->node = NULL;
    VT_TRY(join_outputs(im, c, e));
    vt_graph_prune(im->g);
    return vt_graph_fuse(im->g, true, e);
}

/* ---- gradients ---- */

static double dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += b[i] == 0 ? 0 : a[i] * b[i];
    return sum;
}

/* Outputs that are not finite have no cotangent. */
static void draw_cotangent(double *dz, const double *z, size_t n) {
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        dz[i] = isfinite(z[i]) ? (double)(s >> 8) / 16777216.0 - 0.5 : 0;
    }
}

/* Central differences at some inputs; where those of both sides differ there is a kink or a jump. NULL: all right. */
static const char *check_gradient(const vt_graph *g, const vt_plan *p, onnx_case *c, const double *dx, const double *dz,
                                  double *z, char *text, size_t size) {
    const size_t step = c->n / MOST_PROBES + 1;
    compute_case_f64(g, p, c->x, z, NULL, NULL);
    const double here = dot(z, dz, c->n_results);
    bool finite = true;
    for (size_t i = 0; i < c->n_results; i++) finite = finite && isfinite(z[i]);
    for (size_t i = 0; i < c->n; i += step) {
        const double x = c->x[i], h = 1e-6 * fmax(1, sqrt(fabs(x)));
        double side[2];
        for (int k = 0; k < 2; k++) {
            c->x[i] = k ? x + h : x - h;
            compute_case_f64(g, p, c->x, z, NULL, NULL);
            side[k] = dot(z, dz, c->n_results);
        }
        c->x[i] = x;
        const double up = (side[1] - here) / h, down = (here - side[0]) / h, mean = (up + down) / 2;
        const bool jumps = fabs(mean) > 3e3 * fmax(1, fabs(here));
        if (!isfinite(up) || !isfinite(down) || jumps || fabs(up - down) > 1e-2 * fmax(0.01, fabs(mean))) continue;
        if (!finite && !isfinite(dx[i])) continue;
        if (fabs(mean - dx[i]) <= 1e-6 * fmax(fmax(1, fabs(here)), fabs(mean))) continue;
        snprintf(text, size, "gradient %zu is %g, by differences %g", i, dx[i], mean);
        return text;
    }
    return NULL;
}

/* ---- comparing ---- */

/* A quantised result in double (wide) may be a level beside the reference's, which float32 rounded to between two. */
static const char *compare(const double *got, const vt_dims *dims, const vt_onnx_tensor *want, vt_onnx *file, bool wide,
                           char *text, size_t size) {
    char a[200], b[200];
    vt_err e = {0};
    if (!vt_dims_equal(dims, &want->dims)) {
        snprintf(text, size, "has sides %s, must be %s", vt_dims_text(dims, a, sizeof a),
                 vt_dims_text(&want->dims, b, sizeof b));
        return text;
    }
    double *w = calloc(want->n + 1, sizeof *w), top = 0;
    const double tol = want->type == VT_ONNX_BFLOAT16 ? 8e-3 : want->type == VT_ONNX_FLOAT16 ? 2e-3 : 1e-3;
    const double level = wide && (want->type == VT_ONNX_UINT8 || want->type == VT_ONNX_INT8) ? 1 : 0;
    bool same = read_numbers(file, want, w, &e) == VT_OK;
    for (size_t i = 0; i < want->n; i++) top = isfinite(w[i]) ? fmax(top, fabs(w[i])) : top;
    if (!same) snprintf(text, size, "%.300s", e.text);
    for (size_t i = 0; same && i < want->n; i++) {
        const double far = fabs(log10(fabs(w[i])));
        if (!wide && want->type == VT_ONNX_DOUBLE && isfinite(far) && far > 37) continue; /* no float */
        same = got[i] == w[i] || (isnan(got[i]) && isnan(w[i])) ||
               fabs(got[i] - w[i]) <= level + tol * fabs(w[i]) + 2e-5 * top;
        if (!same) snprintf(text, size, "number %zu is %.9g, must be %.9g", i, got[i], w[i]);
    }
    free(w);
    return same ? NULL : text;
}

static const char *compare_outputs(const vt_graph *g, const onnx_case *c, const double *z, bool wide, char *text,
                                   size_t size) {
    const char *wrong = NULL;
    for (int k = 0; !wrong && k < c->n_out; k++) {
        const vt_value *v = &g->values[c->result[k]];
        double *p = calloc(v->n + 1, sizeof *p);
        for (size_t i = 0; i < v->n; i++) p[i] = vt_value_is_constant(v) ? vt_value_real(v, i) : z[c->at[k] + i];
        wrong =
            compare(p, &v->dims, &c->out[k], c->file, (wide || vt_value_is_constant(v)) && rounds(c->file), text, size);
        free(p);
    }
    return wrong;
}

static const char *check_results(vt_graph *g, onnx_case *c, counts *n, char *text, size_t size) {
    if (!c->n_results) return compare_outputs(g, c, NULL, false, text, size);
    vt_plan plan;
    vt_err e = {0};
    const size_t n_x = g->values[g->input].n, n_z = c->n_results;
    double *b = calloc(3 * (n_x + n_z), sizeof *b), *dx = b, *dx32 = dx + n_x, *z = dx32 + n_x, *z32 = z + n_z;
    double *dz = z32 + n_z, top = 0;
    const char *wrong = vt_graph_plan(&plan, g, true, &e) == VT_OK ? NULL : "no memory";
    if (!wrong) {
        compute_case_f64(g, &plan, c->x, z, NULL, NULL), draw_cotangent(dz, z, n_z);
        compute_case_f64(g, &plan, c->x, z, dx, dz), compute_case_f32(g, &plan, c->x, z32, dx32, dz);
        wrong = compare_outputs(g, c, z, true, text, size);
    }
    if (!wrong) wrong = compare_outputs(g, c, z32, false, text, size);
    for (size_t i = 0; i < n_x; i++) top = isfinite(dx[i]) ? fmax(top, fabs(dx[i])) : top;
    for (size_t i = 0; !wrong && i < n_x; i++)
        if (isfinite(dx[i]) && fabs(dx32[i] - dx[i]) > 1e-3 * fmax(top, 1e-3)) {
            snprintf(text, size, "gradient %zu is %g in float, %g in double", i, dx32[i], dx[i]);
            wrong = text;
        }
    if (!wrong && !vt_graph_straight_through(g)) wrong = check_gradient(g, &plan, c, dx, dz, z, text, size);
    n->gradients += !wrong && !vt_graph_straight_through(g);
    free(b);
    return wrong;
}

/* ---- files ---- */

static vt_status open_tensors(onnx_case *c, const char *set, const char *kind, vt_onnx_tensor *t, int *n, vt_err *e) {
    for (*n = 0; *n < MOST_INPUTS; (*n)++) {
        char path[600];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s_%d.pb", set, kind, *n);
        if (stat(path, &st)) break;
        vt_mapped *m = &c->data[c->n_data];
        VT_TRY(vt_mapped_open(m, path, e));
        c->n_data++;
        VT_TRY(vt_onnx_read_tensor(c->file, (vt_slice){m->bytes, m->n}, &t[*n], e));
    }
    return VT_OK;
}

/* Returns why a case of ONNX 1.17's data expects numbers that its own specification contradicts; NULL: it does not. Its
 * reference let results of QLinearMatMul outside int8 wrap around, where the specification saturates (-236 became 20,
 * 139 became -117), and divided a window that reaches beyond the padding by the cells out there too (corrected
 * in 1.18). */
static const char *mistake_of(const char *name) {
    if (!strncmp(name, "test_qlinearmatmul_", 19) && strstr(name, "_int8_float"))
        return "ONNX 1.17 expects values outside int8 to wrap around; its specification saturates";
    if (!strcmp(name, "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True"))
        return "ONNX up to 1.17 divides by cells beyond the padding; corrected in 1.18";
    return NULL;
}

static void run_set(onnx_case *c, const char *name, counts *n) {
    char text[400];
    vt_err e = {0};
    for (mode m = ALL_FOLLOW; m < MODES; m++) {
        static const vt_import_options none;
        vt_import im = {.file = c->file, .o = &none, .g = calloc(1, sizeof *im.g), .names = json_object()};
        vt_err tried = {0};
        im.g->path = strdup(c->file->path);
        vt_status s = import_case(&im, c, m, &tried);
        const char *wrong = s == VT_OK ? check_results(im.g, c, n, text, sizeof text) : NULL;
        if (m == ALL_FOLLOW || m == NONE_FOLLOWS) e = tried;
        json_decref(im.names), vt_graph_free(im.g);
        if (s != VT_OK) continue;
        const char *mistake = wrong ? mistake_of(name) : NULL;
        n->follow[m] += !wrong, n->passed += !wrong, n->failed += wrong && !mistake, n->mistaken += wrong && mistake;
        printf("%s %s%s%s%s%s\n", wrong ? mistake ? "mistaken" : "failed" : "passed", name, wrong ? ": " : "",
               wrong ? wrong : "", mistake ? "; " : "", mistake ? mistake : "");
        return;
    }
    n->refused++;
    printf("refused %s: %s\n", name, strrchr(e.text, '/') ? strrchr(e.text, '/') + 1 : e.text);
}

static void run_case(const char *dir, counts *n) {
    char path[600], set[600];
    onnx_case c = {0};
    vt_err e = {0};
    const char *name = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;
    struct stat st;
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    for (int i = 0; snprintf(set, sizeof set, "%s/test_data_set_%d", dir, i) && !stat(set, &st); i++) {
        vt_status s = vt_onnx_open(&c.file, path, &e);
        if (s == VT_OK) s = open_tensors(&c, set, "input", c.in, &c.n_in, &e);
        if (s == VT_OK) s = open_tensors(&c, set, "output", c.out, &c.n_out, &e);
        for (int k = 0; s == VT_OK && k < c.n_in && k < c.file->n_inputs; k++) name_type(&c.in[k], &c.file->inputs[k]);
        for (int k = 0; s == VT_OK && k < c.n_out && k < c.file->n_outputs; k++)
            name_type(&c.out[k], &c.file->outputs[k]);
        if (s == VT_OK)
            run_set(&c, name, n);
        else
            n->refused++, printf("refused %s: %s\n", name, strrchr(e.text, '/') ? strrchr(e.text, '/') + 1 : e.text);
        for (int k = 0; k < c.n_data; k++) vt_mapped_close(&c.data[k]);
        vt_onnx_close(c.file), free(c.x);
        c = (onnx_case){0};
    }
}

/* Operators that are read whole as a paragraph of lines of 100 characters, then a table of the others. */
static void print_operators(void) {
    size_t column = 0;
    for (int i = 0; vt_op_at_f32(i); i++) {
        char word[80];
        const vt_op_f32 *op = vt_op_at_f32(i);
        if (!op->import || op->summary) continue;
        size_t n = (size_t)snprintf(word, sizeof word, "%s%s", column ? ", " : "", op->name);
        if (op->since > VT_ONNX_OPSET_LEAST) n += (size_t)snprintf(word + n, sizeof word - n, " (%d)", op->since);
        if (column + n > 98)
            printf(",\n%s", word + 2), column = n - 2;
        else
            printf("%s", word), column += n;
    }
    puts(".\n\n| operator | from opset | what is read |\n|---|---|---|");
    for (int i = 0; vt_op_at_f32(i); i++) {
        const vt_op_f32 *op = vt_op_at_f32(i);
        if (!op->import || !op->summary) continue;
        printf("| %s | %d | %s |\n", op->name, op->since > VT_ONNX_OPSET_LEAST ? op->since : VT_ONNX_OPSET_LEAST,
               op->summary);
    }
}

int main(int argc, char **argv) {
    counts n = {0};
    if (argc == 2 && !strcmp(argv[1], "--operators")) {
        print_operators();
        return 0;
    }
    for (int i = 1; i < argc; i++) run_case(argv[i], &n), fflush(stdout);
    printf("%d with all real inputs as values, %d with the first, %d as constants; %d gradients by differences\n",
           n.follow[ALL_FOLLOW], n.follow[FIRST_FOLLOWS], n.follow[NONE_FOLLOWS], n.gradients);
    if (n.mistaken) printf("%d whose expected numbers contradict ONNX's specification (named above)\n", n.mistaken);
    printf("passed %d, failed %d, refused %d\n", n.passed, n.failed, n.refused);
    return n.failed > 0;
}
