/* SPDX-License-Identifier: MIT */
/* lab regions: linear regions of a hidden layer, with a mask and without. */
#include <math.h>
#include <stdlib.h>
#include "base/rand.h"
#include "research/lab/lab.h"
#include "research/lab/regions.h"

/* UAM, Theorem 3 and Fig. 1: the number of linear regions, by formula, and counted where it can be. */

typedef struct params {
    int p, s0, most, draws;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("p", params, p, "inputs of the network without attention", 100, 2, 1000),
    VT_OPT_I("s0", params, s0, "inputs that a mask leaves", 10, 1, 999),
    VT_OPT_I("most", params, most, "largest number of hidden units in the figure", 400, 10, 10000),
    VT_OPT_I("draws", params, draws, "random layers counted for each size", 20, 1, 10000),
    VT_OPT_END,
};

/* Adds 10^log10_x as a cell: as a number below 10^9, else as "10^x"; 0 for a negative exponent. */
static void add_power_cell(vt_columns *t, double log10_x) {
    bool short_enough = log10_x < 9;
    vt_columns_cell(t, short_enough ? "%.0f" : "10^%.1f", log10_x < 0 ? 0 : short_enough ? pow(10, log10_x) : log10_x);
}

enum { BAR = 40 };

/* Prints bounds and exact maxima over n1 hidden units, with bars (log scale); < marks the condition. */
static void print_over_units(const params *p, FILE *out) {
    double where = vt_regions_condition(p->p, p->s0), full = vt_regions_most(p->most, p->p);
    vt_columns t;
    fprintf(out, "\nlargest number of regions against n1 hidden units (Fig. 1), s0 = %d and p = %d inputs\n", p->s0,
            p->p);
    fprintf(out, "and the exact maximum, on a logarithmic scale: s with the mask, p without\n");
    vt_columns_titles(&t, "n1\tbound, s0\tbound, p\texact, s0\texact, p\t-exact");
    for (int k = 1; k <= 20; k++) {
        int n = p->most * k / 20, before = p->most * (k - 1) / 20;
        double most_s = vt_regions_most(n, p->s0), most_p = vt_regions_most(n, p->p);
        char bar[BAR + 2] = "";
        for (int i = 0; i <= BAR; i++)
            bar[i] = i == (int)lrint(BAR * most_p / full) ? 'p' : i == (int)lrint(BAR * most_s / full) ? 's' : ' ';
        vt_columns_cell(&t, "%d", n);
        add_power_cell(&t, vt_regions_lower(n, p->s0)), add_power_cell(&t, vt_regions_lower(n, p->p));
        add_power_cell(&t, most_s), add_power_cell(&t, most_p);
        vt_columns_cell(&t, "|%.*s%s", BAR + 1, bar, n >= where && before < where ? "<" : "");
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
    fprintf(out, "< the paper's condition, n1 >= exp((p ln p - s0 ln s0) / (p - s0)) = %.1f, begins to hold\n", where);
}

/* Prints bound and exact maximum over the number of inputs: floor(n1 / s)^s rises and falls, the maximum only rises. */
static void print_over_inputs(const params *p, FILE *out) {
    int n = (int)ceil(vt_regions_condition(p->p, p->s0));
    vt_columns t;
    fprintf(out, "\nthe same against the number of inputs s, at n1 = %d\n", n);
    vt_columns_titles(&t, "s\tbound\texact");
    for (int k = 1; k <= 10; k++) {
        int s = p->p * k / 10;
        if (s < 1) continue;
        vt_columns_cell(&t, "%d", s);
        add_power_cell(&t, vt_regions_lower(n, s)), add_power_cell(&t, vt_regions_most(n, s));
    }
    vt_columns_end(&t, out, VT_LOOK_PAGE);
}

/* The least n1 from which on, up to 64 p, the floored bound of p inputs is above that of s0; -1: none. */
static int floored_from(const params *p) {
    int from = -1;
    for (int n = 1; n <= 64 * p->p; n++) {
        bool above = vt_regions_lower(n, p->p) > vt_regions_lower(n, p->s0);
        if (above && from < 0) from = n;
        if (!above) from = -1;
    }
    return from;
}

typedef struct count {
    long long least, most, other; /* over the draws; other: by cutting polygons, -1 if the two ways ever differ */
} count;

/* Sets *out by counting the regions of random layers of n1 units, of whose inputs a mask leaves `kept`, keyed by (lab
 * seed, n1, draw); 2 inputs: in both ways. */
static vt_status count_layers(count *out, int n1, int inputs, int kept, const params *p, const vt_lab *lab, vt_err *e) {
    *out = (count){.least = 1LL << 62};
    for (int d = 0; d < p->draws; d++) {
        float z[6 * 5];
        double w[6 * 4], b[6];
        vt_rng key = {.seed = lab->seed,
                      .purpose = vt_rng_purpose("regions"),
                      .image = (uint32_t)n1,
                      .run = (uint32_t)d};
        vt_rng_normals(&key, z, sizeof z / sizeof *z);
        for (int i = 0; i < n1; i++) {
            for (int j = 0; j < inputs; j++) w[i * inputs + j] = j < kept ? (double)z[i * 5 + j] : 0;
            b[i] = (double)z[i * 5 + 4];
        }
        long long cells, cut;
        VT_TRY(vt_regions_count(&cells, w, b, n1, inputs, e));
        out->least = cells < out->least ? cells : out->least;
        out->most = cells > out->most ? cells : out->most;
        if (inputs != 2) continue;
        VT_TRY(vt_regions_cut(&cut, w, b, n1, e));
        if (cut != cells) out->other = -1;
    }
    return VT_OK;
}

typedef struct counted {
    int equal, below, all; /* rows whose count is the formula's; rows where the mask has fewer regions */
    bool ways;             /* both ways of counting agree */
} counted;

/* Prints and stores counts for 1 to 6 units with 2 inputs, 4 masked to 2, and 4; c sums up how they compare. */
static vt_status count_small_layers(counted *c, const params *p, vt_lab *lab, vt_err *e) {
    json_t *rows = json_array();
    *c = (counted){.ways = true};
    VT_TRY(vt_lab_put(lab->json, "counts", rows, e));
    fprintf(lab->out,
            "\nactivation patterns counted, %d random layers of n1 units: least and most of them\n%6s %10s %8s %12s "
            "%16s %14s %8s\n",
            p->draws, "n1", "bound, s0", "exact", "2 inputs", "4, mask on 2", "4 inputs", "exact");
    for (int n = 1; n <= 6; n++) {
        count plane, masked, four;
        VT_TRY(count_layers(&plane, n, 2, 2, p, lab, e));
        VT_TRY(count_layers(&masked, n, 4, 2, p, lab, e));
        VT_TRY(count_layers(&four, n, 4, 4, p, lab, e));
        double want = round(pow(10, vt_regions_most(n, 2))), want4 = round(pow(10, vt_regions_most(n, 4)));
        fprintf(lab->out, "%6d %10.0f %8.0f %6lld %5lld %10lld %5lld %8lld %5lld %8.0f\n", n,
                n < 2 ? 0 : pow(10, vt_regions_lower(n, 2)), want, plane.least, plane.most, masked.least, masked.most,
                four.least, four.most, want4);
        c->all++;
        c->equal += (double)plane.least == want && (double)plane.most == want && (double)masked.most == want &&
                    (double)four.most == want4;
        c->below += n <= 2 ? masked.most <= four.least : masked.most < four.least;
        c->ways = c->ways && plane.other == 0;
        json_array_append_new(rows,
                              json_pack("{s:i,s:I,s:I,s:I,s:f}", "n1", n, "plane", (json_int_t)plane.most, "masked",
                                        (json_int_t)masked.most, "four", (json_int_t)four.most, "exact", want));
    }
    return VT_OK;
}

/* Figure: log10 of bounds and maxima over hidden units, and the condition of Theorem 3. */
static void draw_regions(vt_figure *f, const void *data) {
    const params *p = data;
    const int width[] = {p->s0, p->p};
    double where = vt_regions_condition(p->p, p->s0);
    vt_figure_panel(f, &(vt_panel){.x = "hidden units n1", .y = "log10 of the number of regions"});
    for (int k = 0; k < 2; k++) {
        vt_figure_series(f, VT_LINE | VT_MARKS, "bound, %s = %d", k ? "p" : "s0", width[k]);
        for (int n = 1; n <= p->most; n++) {
            double low = vt_regions_lower(n, width[k]);
            vt_figure_point(f, n, low < 0 ? NAN : low);
        }
    }
    for (int k = 0; k < 2; k++) {
        vt_figure_series(f, VT_LINE | VT_MARKS, "exact maximum, %s", k ? "p" : "s0");
        for (int n = 1; n <= p->most; n++) vt_figure_point(f, n, vt_regions_most(n, width[k]));
    }
    if (where > p->most) return;
    vt_figure_series(f, VT_DASHED, "the condition of Theorem 3");
    vt_figure_point(f, where, 0), vt_figure_point(f, where, vt_regions_most(p->most, p->s0));
}

/* Judges Theorem 3, its bounds, its condition in Table 1, and the counts. */
static vt_status record_claims(const params *p, const counted *c, vt_lab *lab, vt_err *e) {
    double where = vt_regions_condition(p->p, p->s0), table1 = vt_regions_condition(256, 32);
    int first = (int)ceil(where), from = floored_from(p), rising = 0;
    for (int n = 1; n <= p->most; n++) rising += vt_regions_most(n, p->s0) <= vt_regions_most(n, p->p);
    VT_TRY(vt_lab_claim(lab, rising == p->most ? VT_SUPPORTED : VT_CONTRADICTED,
                        "Theorem 3: a network on fewer inputs has fewer regions at most", e,
                        "by the exact maximum at every n1 up to %d (n1 = %d: 10^%.1f against 10^%.1f)", p->most, first,
                        vt_regions_most(first, p->s0), vt_regions_most(first, p->p)));
    VT_TRY(vt_lab_claim(lab, from >= 0 && from <= first ? VT_SUPPORTED : VT_CONTRADICTED,
                        "Theorem 3's bounds order that way from the paper's condition on", e,
                        "condition n1 >= %.1f; with the floors the bound of p inputs is larger only from n1 = %d on "
                        "(n1 = %d: 10^%.1f for s0, 10^%.1f for p)",
                        where, from, first, vt_regions_lower(first, p->s0), vt_regions_lower(first, p->p)));
    VT_TRY(
        vt_lab_claim(lab, table1 <= 128 ? VT_SUPPORTED : VT_CONTRADICTED,
                     "the condition holds in the paper's own Table 1 (p = 256, n1 = 128; 32 relevant inputs assumed)",
                     e, "it asks for n1 >= %.0f; the exact maxima are 10^%.1f and 10^%.1f all the same", table1,
                     vt_regions_most(128, 32), vt_regions_most(128, 256)));
    return vt_lab_claim(lab, c->equal == c->all && c->below == c->all && c->ways ? VT_SUPPORTED : VT_CONTRADICTED,
                        "Theorem 3 for small networks: a mask leaves fewer activation patterns", e,
                        "%d of %d counts are the formula's, the mask has fewer (to n1 = 2: no more) in %d of %d; "
                        "polygons and recursion %s",
                        c->equal, c->all, c->below, c->all, c->ways ? "agree" : "DIFFER");
}

static vt_status run(const void *params_, vt_lab *lab, vt_err *e) {
    const params *p = params_;
    counted c;
    if (p->s0 >= p->p) return vt_fail(e, VT_E_USAGE, "s0 = %d must be below p = %d", p->s0, p->p);
    print_over_units(p, lab->out);
    print_over_inputs(p, lab->out);
    VT_TRY(count_small_layers(&c, p, lab, e));
    VT_TRY(vt_lab_put(lab->json, "condition", json_real(vt_regions_condition(p->p, p->s0)), e));
    VT_TRY(vt_lab_put(lab->json, "bounds_ordered_from", json_integer(floored_from(p)), e));
    VT_TRY(vt_lab_figure(lab, "regions", "Linear regions of a layer with and without attention", draw_regions, p, e));
    return record_claims(p, &c, lab, e);
}

const vt_lab_def vt_lab_def_regions = {
    .name = "regions",
    .summary = "linear regions of a hidden layer, with a mask and without",
    .source = "Understanding Attention Mechanisms, Theorem 3, Fig. 1",
    .opts = opts,
    .params_size = sizeof(params),
    .run = run,
};
