/* SPDX-License-Identifier: MIT */
/* What a model in another process answers is any bytes: each question gets its answer, or the conversation is over with
 * a sentence, and stays over. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "remote/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { ROWS = 2, MOST = 4096 }; /* floats of a row that is asked for */

static void hold(bool promised) {
    if (!promised) abort();
}

static void ask(vt_remote *r) {
    static float x[ROWS][MOST], z[ROWS][MOST], dx[ROWS][MOST];
    static double z64[ROWS][VT_VOTES_MOST * MOST];
    const vt_handshake *h = vt_remote_handshake(r);
    vt_engine engine, second;
    vt_err e = {0};
    int rows = h->batch < ROWS ? h->batch : ROWS;
    if (vt_handshake_pixels(h) > MOST || h->classes > MOST) return;
    vt_status s = vt_remote_engine(&engine, r, rows, &e);
    if (s != VT_OK) return;
    const float *in[ROWS] = {x[0], rows > 1 ? x[1] : NULL}, *one[ROWS] = {x[0], NULL};
    float *out[ROWS] = {z[0], rows > 1 ? z[1] : NULL};
    double *wide[ROWS] = {z64[0], NULL};
    vt_vjp v[ROWS] = {{.dx = dx[0], .dz = z[0]}, {0}};
    s = vt_engine_forward(&engine, out, in, true, &e);
    if (s == VT_OK && h->vjp) s = vt_engine_vjp(&engine, v, &e);
    if (s == VT_OK) s = vt_engine_alone(&engine, out, one, &e);
    if (s == VT_OK) s = vt_engine_forward64(&engine, wide, one, &e);
    hold(s == VT_OK || (s == VT_E_MODEL && e.text[0]));
    if (s != VT_OK) hold(vt_engine_forward(&engine, out, in, false, NULL) == VT_E_MODEL);
    hold(vt_remote_engine(&second, r, 1, NULL) == VT_E_MODEL); /* one conversation at a time */
    vt_engine_close(&engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    int pair[2];
    vt_remote *r;
    vt_err e = {0};
    if (n > 60000 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 0;
    hold(send(pair[0], bytes, n, 0) == (ssize_t)n);
    shutdown(pair[0], SHUT_WR); /* every answer is there, before the questions */
    vt_status s = vt_remote_over(&r, pair[1], 1, &e);
    hold((s == VT_OK) == (r != NULL) && (s == VT_OK || (s == VT_E_MODEL && e.text[0])));
    if (r) ask(r);
    vt_remote_close(r);
    close(pair[0]);
    return 0;
}
