/* SPDX-License-Identifier: MIT */
/* t-SNE (van der Maaten and Hinton 2008) into the plane, exact: every pair counts, n^2 numbers are kept. In double, and
 * the same bits for any number of threads. */
#pragma once

#include <signal.h>
#include <stddef.h>
#include "base/progress.h"
#include "base/status.h"

typedef struct vt_tsne {
    double perplexity;
    double exaggeration; /* of the first VT_TSNE_EARLY steps */
    double rate;         /* learning rate; 0: max(n / exaggeration / 4, 50) (Belkina et al. 2019) */
    int steps, threads;
    const volatile sig_atomic_t *interrupt; /* or NULL */
    vt_progress *progress;                  /* or NULL */
} vt_tsne;

enum { VT_TSNE_EARLY = 250 };

typedef struct vt_tsne_result {
    double kl;       /* Kullback-Leibler divergence of the last positions, nats */
    double gradient; /* its largest partial derivative there */
    double rate;     /* learning rate that was used */
    size_t apart;    /* points whose perplexity cannot be had: too many others are equally near */
} vt_tsne_result;

/* Returns the bytes that vt_tsne_run allocates for n points. */
size_t vt_tsne_bytes(size_t n);

/* Embeds x [n, d] as y [2, n], which holds where points start (their spread there should be small) and receives where
 * they end. VT_E_RANGE unless perplexity < n - 1, VT_E_MEMORY, VT_E_NUMERIC if it diverges; stops on an interrupt. */
vt_status vt_tsne_run(double *y, vt_tsne_result *r, const double *x, size_t n, size_t d, const vt_tsne *o, vt_err *e);

/* ---- its parts ---- */

/* p [n, n], row i: p_j|i = exp(-b_i |x_i - x_j|^2) over its sum, p_i|i = 0, with the b_i that gives the row its
 * perplexity exp(entropy), by bisection. *apart: rows that miss it. VT_E_RANGE unless perplexity < n - 1. */
vt_status vt_tsne_conditional(double *p, size_t *apart, const double *x, size_t n, size_t d, double perplexity,
                              int threads, vt_err *e);
/* p_ij = (p_j|i + p_i|j) / 2n, in place, p [n, n]. */
void vt_tsne_joint(double *p, size_t n);
/* g [2, n] = the gradient by y of factor sum_ij p_ij log(1 + |y_i - y_j|^2) + log Z, Z = sum_ij 1 / (1 + |y_i -
 * y_j|^2): of vt_tsne_kl's divergence for factor 1, of early exaggeration above it. work [3, n]. */
void vt_tsne_gradient(double *g, const double *p, const double *y, size_t n, double factor, int threads, double *work);
/* Returns the divergence sum_ij p_ij log(p_ij / q_ij) in nats, q_ij = 1 / (1 + |y_i - y_j|^2) / Z. work [3, n]. */
double vt_tsne_kl(const double *p, const double *y, size_t n, int threads, double *work);
