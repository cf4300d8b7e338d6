/* SPDX-License-Identifier: MIT */
/* Runs an `at` (attention_fixture.h) in one precision; included once for float and once for double. Every buffer has
 * the planned length and guard bytes; gaps between strided rows hold NaN before and must be untouched after. */

static real *VT_R(at_take)(size_t n) { return t_take(n * sizeof(real)); }

/* Dense rows [rows, c] with row stride ld, gaps NaN. */
static real *VT_R(at_rows)(const double *x, int rows, int c, int ld) {
    real *y = VT_R(at_take)((size_t)rows * (size_t)ld);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < ld; j++) y[i * ld + j] = j < c ? (real)x[i * c + j] : (real)NAN;
    t_freeze(y);
    return y;
}

static real *VT_R(at_some)(const double *x, int rows, int c, int ld) {
    return x ? VT_R(at_rows)(x, rows, c, ld) : NULL;
}

/* And back, into x [rows, c]; `untouched`: the gaps still hold t_take's pattern. */
static void VT_R(at_read)(double *x, const real *y, int rows, int c, int ld, bool untouched) {
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < c; j++) x[i * c + j] = (double)y[i * ld + j];
        for (size_t k = 0; untouched && k < (size_t)(ld - c) * sizeof(real); k++)
            assert_int_equal(((const unsigned char *)(y + i * ld + c))[k], 0xA5);
    }
}

/* What accumulates begins at AT_START. */
static real *VT_R(at_sum)(bool wanted, size_t n) {
    if (!wanted) return NULL;
    real *y = VT_R(at_take)(n);
    for (size_t i = 0; i < n; i++) y[i] = (real)AT_START;
    return y;
}

static void VT_R(at_added)(double *x, const real *y, int rows, int c, int ld) {
    if (!y) return;
    VT_R(at_read)(x, y, rows, c, ld, false);
    for (int i = 0; i < rows * c; i++) x[i] -= AT_START;
}

static void VT_R(at_backward)(at *a, const VT_R(vt_attn_in) *in, const real *p, const real *saved,
                              VT_R(vt_attn_shape) *s) {
    const int c = a->heads * a->d, nq = a->b * a->tq, nk = a->b * a->t, ldp = vt_attn_ldp(a->t),
              maps = a->heads * a->tq;
    VT_R(vt_attn_grad) g = {.ldq = c + 2, .ldk = c + (a->tied ? 2 : 7), .ldv = c + 4};
    g.q = VT_R(at_take)((size_t)(nq * g.ldq)), g.v = VT_R(at_take)((size_t)(nk * g.ldv));
    g.k = a->tied ? g.q : VT_R(at_take)((size_t)(nk * g.ldk));
    real *scratch = VT_R(at_take)(VT_R(vt_attn_scratch_len)(s));
    const size_t map = (size_t)(maps * ldp);
    s->dbias = VT_R(at_sum)(a->bias && !a->lean, map), s->dpos = VT_R(at_sum)(a->pos && !a->lean, map);
    s->dgate = VT_R(at_sum)(a->pos && !a->lean, (size_t)a->heads);
    s->ortho = (real)a->ortho;
    const real *d_o = VT_R(at_rows)(a->d_o, nq, c, c);
    VT_R(vt_attn_backward)(&g, scratch, d_o, p, saved, in, s);
    a->ortho_value = s->ortho_value;
    VT_R(at_read)(a->dq, g.q, nq, c, g.ldq, true), VT_R(at_read)(a->dv, g.v, nk, c, g.ldv, true);
    if (!a->tied) VT_R(at_read)(a->dk, g.k, nk, c, g.ldk, true);
    VT_R(at_added)(a->dbias, s->dbias, maps, a->t, ldp), VT_R(at_added)(a->dpos, s->dpos, maps, a->t, ldp);
    VT_R(at_added)(a->dgate, s->dgate, 1, a->heads, a->heads);
}

/* Forward, and what else is asked for: a->o, a->p, gradients, a->to. */
static void VT_R(at_run)(at *a, bool backward, bool jvp) {
    const int c = a->heads * a->d, nq = a->b * a->tq, nk = a->b * a->t, ldp = vt_attn_ldp(a->t),
              maps = a->heads * a->tq;
    vt_attn_spec spec;
    vt_err e = {0};
    if (vt_attn_parse(&spec, a->spec, &e) != VT_OK) fail_msg("%s", e.text);
    VT_R(vt_attn_in) in = {.ldq = c + 3, .ldk = c + (a->tied ? 3 : 1), .ldv = c + 5};
    in.q = VT_R(at_rows)(a->q, nq, c, in.ldq), in.v = VT_R(at_rows)(a->v, nk, c, in.ldv);
    in.k = a->tied ? in.q : VT_R(at_rows)(a->k, nk, c, in.ldk);
    VT_R(vt_attn_shape) s = {.def = VT_R(vt_attn_ops_find)(a->spec),
                             .options = spec.options,
                             .b = a->b,
                             .t = a->t,
                             .c = c,
                             .heads = a->heads,
                             .scale = (real)a->scale,
                             .tq = a->tq == a->t ? 0 : a->tq,
                             .windows = a->windows,
                             .bias = VT_R(at_some)(a->bias, maps, a->t, ldp),
                             .mask = VT_R(at_some)(a->mask, a->windows * a->tq, a->t, ldp),
                             .pos = VT_R(at_some)(a->pos, maps, a->t, ldp),
                             .gate = VT_R(at_some)(a->gate, 1, a->heads, a->heads)};
    real *p = VT_R(at_take)((size_t)a->b * VT_R(vt_attn_p_len)(&s)), *o = VT_R(at_take)((size_t)(nq * c));
    real *saved = VT_R(at_take)((size_t)a->b * VT_R(vt_attn_saved_len)(&s));
    VT_R(vt_attn_forward)(o, p, saved, &in, &s);
    t_freeze(p), t_freeze(saved);
    VT_R(at_read)(a->o, o, nq, c, c, false), VT_R(at_read)(a->p, p, a->b * maps, a->t, ldp, false);
    if (backward) VT_R(at_backward)(a, &in, p, saved, &s);
    if (jvp) {
        VT_R(vt_attn_in) t = {.ldq = c + 6, .ldk = c, .ldv = c + 2};
        t.q = VT_R(at_rows)(a->tangent[0], nq, c, t.ldq), t.k = VT_R(at_rows)(a->tangent[1], nk, c, t.ldk);
        t.v = VT_R(at_rows)(a->tangent[2], nk, c, t.ldv);
        real *to = VT_R(at_take)((size_t)(nq * c)), *scratch = VT_R(at_take)(VT_R(vt_attn_scratch_len)(&s));
        VT_R(vt_attn_jvp)(to, scratch, &t, p, saved, &in, &s);
        VT_R(at_read)(a->to, to, nq, c, c, false);
    }
    t_release(a->spec);
}
