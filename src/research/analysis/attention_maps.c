/* SPDX-License-Identifier: MIT */
/* Double alone, as analysis/layers.c. */
#define VT_DOUBLE
#include "research/analysis/attention_maps.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/opt.h"
#include "data/dataset.h"
#include "nn/nn.h"

/* Appends a map; VT_E_USAGE beyond VT_MAPS_COLUMNS. */
static vt_status add_column(vt_maps *m, int block, int head, vt_err *e) {
    if (m->columns == VT_MAPS_COLUMNS)
        return vt_fail(e, VT_E_USAGE,
                       "--map-blocks and --map-heads choose more than the %d maps that a sheet has room for",
                       VT_MAPS_COLUMNS);
    m->column[m->columns++] = (vt_map_column){block, head};
    return VT_OK;
}

/* Appends the numbers of a list "0,2" or "all", below count, to out; `word`: -1. VT_E_USAGE names --map-`option`. */
static vt_status read_list(const char *option, const char *text, const char *word, int count, int *out, int *n,
                           vt_err *e) {
    char copy[VT_MAPS_TEXT], *rest = copy, *item;
    long long k;
    snprintf(copy, sizeof copy, "%s", text);
    while ((item = strsep(&rest, ","))) {
        bool all = !strcmp(item, "all"), special = !strcmp(item, word);
        if (!all && !special && (!vt_parse_int(item, &k) || k < 0 || k >= count))
            return vt_fail(e, VT_E_USAGE, "--map-%s %s: '%s' must be all, %s or a number from 0 to %d", option, text,
                           item, word, count - 1);
        for (int i = all       ? 0
                     : special ? -1
                               : (int)k,
                 to = all ? count - 1 : i;
             i <= to && *n < VT_MAPS_COLUMNS + 1; i++)
            out[(*n)++] = i;
    }
    return VT_OK;
}

vt_status vt_maps_choose(vt_maps *m, const vt_config *c, const char *blocks, const char *heads, vt_err *e) {
    int block[VT_MAPS_COLUMNS + 1], head[VT_MAPS_COLUMNS + 1], n_blocks = 0, n_heads = 0, last = c->depth - 1;
    char usual[60];
    snprintf(usual, sizeof usual,
             last > 1 ? "0,%d,%d,rollout"
             : last   ? "0,%d,rollout"
                      : "0,rollout",
             last > 1 ? last / 2 : last, last);
    VT_TRY(read_list("blocks", *blocks ? blocks : usual, "rollout", c->depth, block, &n_blocks, e));
    VT_TRY(read_list("heads", heads, "mean", c->heads, head, &n_heads, e));
    m->columns = 0, m->heads = c->heads;
    for (int i = 0; i < n_blocks; i++)
        for (int k = 0; k < (block[i] < 0 ? 1 : n_heads); k++)
            VT_TRY(add_column(m, block[i], block[i] < 0 ? -1 : head[k], e));
    return VT_OK;
}

void vt_maps_name(char out[64], const vt_maps *m, int column) {
    const vt_map_column *c = &m->column[column];
    if (c->block < 0)
        snprintf(out, 64, "rollout");
    else if (c->head >= 0)
        snprintf(out, 64, "block %d, head %d", c->block, c->head);
    else
        snprintf(out, 64, "block %d, mean of %d head%s", c->block, m->heads, m->heads == 1 ? "" : "s");
}

vt_status vt_maps_open(vt_maps *m, const vt_analyze *a, const vt_config *c, int images, vt_err *e) {
    size_t n = (size_t)images < a->n_images ? (size_t)images : a->n_images, pixels = vt_config_input_pixels(c);
    m->images = (int)n, m->passes = a->attack ? 2 : 1;
    m->side = vt_config_input(c), m->grid = vt_config_side(c), m->tokens = vt_config_tokens(c);
    m->class_query = c->pool == VT_POOL_TOKEN && !c->no_cls;
    size_t values = n * (size_t)(m->passes * m->columns) * (size_t)(m->grid * m->grid);
    m->image = calloc(n, sizeof *m->image), m->values = vt_alloc(values * sizeof *m->values);
    bool room = m->image && m->values;
    for (size_t i = 0; room && i < n; i++)
        for (int k = 0; k < m->passes; k++) room = room && (m->image[i].rgb[k] = malloc(pixels));
    if (room) return VT_OK;
    vt_maps_close(m);
    return vt_fail(e, VT_E_MEMORY, "no memory for the attention maps of %zu images", n);
}

void vt_maps_close(vt_maps *m) {
    for (int i = 0; m->image && i < m->images; i++) free(m->image[i].rgb[0]), free(m->image[i].rgb[1]);
    free(m->image), free(m->values);
    m->image = NULL, m->values = NULL;
}

double *vt_maps_at(const vt_maps *m, int image, int pass, int column) {
    size_t at = ((size_t)image * (size_t)m->passes + (size_t)pass) * (size_t)m->columns + (size_t)column;
    return m->values + at * (size_t)(m->grid * m->grid);
}

vt_status vt_map_begin(vt_map_pass *p, vt_maps *m, int image, int pass, vt_err *e) {
    *p = (vt_map_pass){.maps = m, .image = image, .pass = pass};
    p->rollout = vt_alloc(3 * (size_t)m->tokens * (size_t)m->tokens * sizeof *p->rollout);
    return p->rollout ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the attention of %d tokens", m->tokens);
}

/* to [patches] += weight times the attention p [t, ld] of patches from the class token, or mean over patches. */
static void add_patch_shares(double *to, const vt_maps *m, const double *p, int t, int ld, double weight) {
    int patches = m->grid * m->grid, prefix = t - patches;
    bool one = prefix > 0 && m->class_query;
    int from = one ? 0 : prefix, queries = one ? 1 : patches;
    for (int i = from; i < from + queries; i++)
        for (int k = 0; k < patches; k++) to[k] += weight / queries * p[(size_t)i * (size_t)ld + (size_t)(prefix + k)];
}

/* Fills the maps of the layer's block, of one head or the mean over heads. */
static void fill_layer_maps(vt_map_pass *p, const vt_layer *l) {
    const vt_maps *m = p->maps;
    size_t step = (size_t)l->t * (size_t)l->ldp;
    for (int c = 0; c < m->columns; c++) {
        if (m->column[c].block != l->block) continue;
        double *to = vt_maps_at(m, p->image, p->pass, c);
        int head = m->column[c].head, from = head < 0 ? 0 : head, heads = head < 0 ? l->heads : 1;
        memset(to, 0, (size_t)(m->grid * m->grid) * sizeof *to);
        for (int h = from; h < from + heads; h++)
            add_patch_shares(to, m, l->p + (size_t)h * step, l->t, l->ldp, 1.0 / heads);
    }
}

/* Grows the rollout to t tokens: the new ones come first (ConViT's class token) and attend to themselves alone. */
static void extend_rollout(vt_map_pass *p, int t) {
    int new = t - p->t;
    double *from = p->rollout, *to = p->rollout + (size_t)p->maps->tokens * (size_t)p->maps->tokens;
    for (int i = 0; i < t; i++)
        for (int k = 0; k < t; k++) {
            bool old = i >= new &&k >= new;
            to[i * t + k] = old && p->t ? from[(i - new) * p->t + k - new] : i == k;
        }
    memcpy(from, to, (size_t)t * (size_t)t * sizeof *to);
    p->t = t;
}

/* Rollout R becomes (I + mean over heads of P) / 2 R. */
static void update_rollout(vt_map_pass *p, const vt_layer *l) {
    size_t n = (size_t)p->maps->tokens * (size_t)p->maps->tokens, step = (size_t)l->t * (size_t)l->ldp;
    double *r = p->rollout, *next = r + n, *mean = next + n;
    if (p->t != l->t) extend_rollout(p, l->t);
    int t = l->t;
    for (int i = 0; i < t; i++)
        for (int k = 0; k < t; k++) {
            double sum = 0;
            for (int h = 0; h < l->heads; h++) sum += l->p[(size_t)h * step + (size_t)i * (size_t)l->ldp + (size_t)k];
            mean[i * t + k] = 0.5 * sum / l->heads + 0.5 * (i == k);
        }
    vt_gemm_f64(false, false, t, t, t, 1, mean, t, r, t, 0, next, t);
    memcpy(r, next, (size_t)t * (size_t)t * sizeof *r);
}

void vt_map_layer(vt_map_pass *p, const vt_layer *l) {
    fill_layer_maps(p, l);
    update_rollout(p, l);
}

void vt_map_end(vt_map_pass *p) {
    const vt_maps *m = p->maps;
    for (int c = 0; p->rollout && p->t && c < m->columns; c++) {
        if (m->column[c].block >= 0) continue;
        double *to = vt_maps_at(m, p->image, p->pass, c);
        memset(to, 0, (size_t)(m->grid * m->grid) * sizeof *to);
        add_patch_shares(to, m, p->rollout, p->t, p->t, 1);
    }
    free(p->rollout);
    p->rollout = NULL;
}

/* JSON of map image i: its index, label and predictions, with class names. */
static json_t *image_json(const vt_maps *m, int i, const vt_dataset *data) {
    static const char *const keys[2][2] = {{"predicted", "predicted_name"},
                                           {"attacked_predicted", "attacked_predicted_name"}};
    const vt_map_image *im = &m->image[i];
    char name[64];
    vt_dataset_class_name(data, im->label, name, sizeof name);
    json_t *o = json_pack("{s:i,s:i,s:s%}", "image", im->image, "label", im->label, "label_name", name, strlen(name));
    for (int k = 0; o && k < m->passes; k++) {
        vt_dataset_class_name(data, im->predicted[k], name, sizeof name);
        json_object_set_new(o, keys[k][0], json_integer(im->predicted[k]));
        json_object_set_new(o, keys[k][1], json_string(name));
    }
    return o;
}

json_t *vt_maps_json(const vt_maps *m, const vt_dataset *data) {
    json_t *columns = json_array(), *images = json_array();
    char name[64];
    for (int c = 0; c < m->columns; c++) {
        vt_maps_name(name, m, c);
        json_array_append_new(columns, json_string(name));
    }
    for (int i = 0; i < m->images; i++) json_array_append_new(images, image_json(m, i, data));
    return json_pack("{s:s,s:i,s:o,s:o}", "query", m->class_query ? "class token" : "mean over patches", "grid",
                     m->grid, "maps", columns, "images", images);
}
