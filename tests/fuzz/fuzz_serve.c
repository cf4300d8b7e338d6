/* SPDX-License-Identifier: MIT */
/* What is asked of vitrine serve is any bytes: it answers or refuses each message, and ends; the engine is asked about
 * whole rows alone. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "remote/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { PIXELS = 12, CLASSES = 3, ROWS = 4 };

static void hold(bool promised) {
    if (!promised) abort();
}

static vt_status forward(void *self, float *const *z, const float *const *x, bool keep, vt_err *e) {
    (void)self, (void)keep, (void)e;
    for (int i = 0; i < ROWS; i++) {
        hold(!x[i] == !z[i]);
        for (int k = 0; x[i] && k < CLASSES; k++) z[i][k] = x[i][k] + x[i][PIXELS - 1];
    }
    return VT_OK;
}

static vt_status vjp(void *self, vt_vjp *rows, vt_err *e) {
    (void)self, (void)e;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; rows[i].dx && k < PIXELS; k++) rows[i].dx[k] = rows[i].dz[k % CLASSES];
    return VT_OK;
}

static vt_status forward64(void *self, double *const *z, const float *const *x, vt_err *e) {
    (void)self, (void)e;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; x[i] && k < CLASSES; k++) z[i][k] = (double)x[i][k];
    return VT_OK;
}

/* All of it is written before it is read: no more than a socket holds. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const vt_handshake handshake = {.name = "f",
                                           .classes = CLASSES,
                                           .channels = 3,
                                           .height = 2,
                                           .width = 2,
                                           .batch = ROWS,
                                           .vjp = true,
                                           .logits64 = true};
    vt_engine engine = {.classes = CLASSES,
                        .capacity = ROWS,
                        .pixels = PIXELS,
                        .forward = forward,
                        .vjp = vjp,
                        .forward64 = forward64};
    int pair[2];
    vt_err e = {0};
    if (n > 60000 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 0;
    hold(send(pair[0], bytes, n, 0) == (ssize_t)n);
    shutdown(pair[0], SHUT_WR);
    int out = open("/dev/null", O_WRONLY);
    vt_status s = vt_serve_run(&(vt_serve){.handshake = &handshake, .engine = &engine, .in = pair[1], .out = out}, &e);
    hold(s == VT_OK || ((s == VT_E_FORMAT || s == VT_E_IO) && e.text[0]));
    close(out), close(pair[0]), close(pair[1]);
    return 0;
}
