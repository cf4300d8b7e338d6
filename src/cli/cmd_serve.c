/* SPDX-License-Identifier: MIT */
/* vitrine serve: a checkpoint as a model in another process, for --oracle. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cli/cli.h"
#include "parallel/child.h"
#include "linalg/gemm.h"
#include "base/version.h"
#include "eval/prepare.h"
#include "remote/remote.h"

/* Fills the greeting of a checkpoint; judged: it offers logits in double. VT_E_RANGE: the batch is too large. */
static vt_status fill_handshake(vt_handshake *h, const vt_model *m, int batch, bool judged, vt_err *e) {
    char kernels[80];
    vt_gemm_kernels(kernels, sizeof kernels);
    vt_shape shape = vt_config_shape(&m->config);
    *h = (vt_handshake){.classes = m->config.classes,
                        .channels = shape.channels,
                        .height = shape.height,
                        .width = shape.width,
                        .batch = batch,
                        .vjp = true,
                        .logits64 = judged,
                        .independent = true};
    char name[VT_WEIGHTS_NAME];
    vt_weights_name(name, sizeof name, m->path);
    snprintf(h->name, sizeof h->name, "%.99s", name);
    memcpy(h->sha256, m->sha256, sizeof h->sha256);
    snprintf(h->precision, sizeof h->precision, "float32");
    snprintf(h->library, sizeof h->library, "vitrine %s, %.60s", VT_VERSION, kernels);
    snprintf(h->device, sizeof h->device, "%.50s", vt_cpu_isa());
    return batch > VT_WIRE_BATCH ? vt_fail(e, VT_E_RANGE, "--batch is %d, must be at most %d", batch, VT_WIRE_BATCH)
                                 : VT_OK;
}

/* Answers questions from descriptor `in` on `out` until the caller closes the conversation. */
static vt_status one_talk(const vt_model *m, const vt_handshake *h, int in, int out, vt_err *e) {
    vt_engine n;
    VT_TRY(vt_engine_open(&n, m, h->batch, h->logits64, NULL, e));
    vt_serve s = {.handshake = h, .engine = &n, .in = in, .out = out};
    vt_status st = vt_serve_run(&s, e);
    vt_engine_close(&n);
    return st;
}

/* Serves one conversation on standard input and output; what is printed goes to standard error. */
static vt_status serve_here(const vt_model *m, const vt_handshake *h, vt_err *e) {
    int in = dup(0), out = dup(1);
    if (in < 0 || out < 0 || dup2(2, 1) < 0) return vt_fail(e, VT_E_IO, "standard output: %s", strerror(errno));
    vt_status s = one_talk(m, h, in, out, e);
    close(in), close(out);
    return s;
}

/* Listens at an address and forks a process for each conversation, until a signal. */
static vt_status serve_at(const char *address, const vt_model *m, const vt_handshake *h, vt_err *e) {
    int fd;
    vt_status s = VT_OK;
    VT_TRY(vt_child_listen(&fd, address, e));
    signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
    const volatile sig_atomic_t *interrupt = vt_cli_interruptible();
    struct sigaction now; /* accept ends when the flag is set */
    for (int i = 0; i < 2; i++) {
        int number = i ? SIGTERM : SIGINT;
        sigaction(number, NULL, &now);
        now.sa_flags &= ~SA_RESTART;
        sigaction(number, &now, NULL);
    }
    fprintf(stderr, "vitrine: %s listens at %s\n", h->name, address);
    while (!*interrupt) {
        int talk = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (talk < 0 && errno == EMFILE) {
            s = vt_fail(e, VT_E_IO, "%s: no conversation can be begun: %s (ulimit -n)", address, strerror(errno));
            break;
        }
        if (talk < 0) { /* a signal, a caller that is gone, a machine that is short of something for now */
            if (errno != EINTR && errno != ECONNABORTED) poll(NULL, 0, 100);
            continue;
        }
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            vt_err why = {0};
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(1);
            signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL);
            close(fd);
            if (one_talk(m, h, talk, talk, &why) != VT_OK) fprintf(stderr, "vitrine: %s\n", why.text);
            _exit(0);
        }
        close(talk);
    }
    close(fd);
    if (!strncmp(address, "unix:", 5)) unlink(address + 5);
    return s;
}

/* Runs vitrine serve until its client leaves or a signal ends it. */
static vt_status run(const vt_cli *c, vt_err *e) {
    vt_model *m;
    vt_handshake h;
    int batch;
    const char *address = vt_cli_get(c, "listen");
    if (address && !vt_child_is_address(address))
        return vt_fail(e, VT_E_USAGE, "--listen is '%s', must be unix:PATH or tcp:PORT", address);
    if (!address && isatty(STDIN_FILENO))
        return vt_fail(e, VT_E_USAGE,
                       "vitrine serve speaks with vitrine eval --oracle 'vitrine serve ...' over its standard input: "
                       "start it so, or give --listen");
    signal(SIGPIPE, SIG_IGN);
    VT_TRY(vt_cli_batch(c, &batch, e));
    VT_TRY(vt_cli_model(c, &m, e));
    vt_status s = vt_cli_known(c, m, e);
    if (s == VT_OK) s = fill_handshake(&h, m, batch, !vt_cli_has(c, "no-double"), e);
    if (s == VT_OK) s = address ? serve_at(address, m, &h, e) : serve_here(m, &h, e);
    vt_model_close(m);
    return s;
}

static const vt_arg args[] = {
    {"batch", "N", "images of one question at most (default 1: a processor gains nothing by more)", VT_OF_RUN},
    {"listen", "ADDRESS", "unix:PATH or tcp:PORT of this machine, for several conversations, until Ctrl-C", VT_OF_RUN},
    {"no-double", NULL, "offer no logits in double: as a model that has none", VT_OF_RUN},
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_serve = {
    .name = "serve",
    .summary = "a checkpoint as a model in another process, for eval --oracle",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "Answers the protocol of docs/oracle.md on standard input and output, or at an address: logits, "
               "vector-Jacobian products, logits in double. The same bits as in one process; also over ssh, from "
               "another machine.",
    .examples = {"vitrine eval --oracle 'vitrine serve weights/shapes10-vit' --data datasets/shapes10 --images 0:10 "
                 "--eps 4/255 --attack pgd",
                 "vitrine selftest --oracle 'vitrine serve weights/shapes10-vit --batch 4' --data datasets/shapes10 "
                 "--images 0:6 --eps 4/255 --attack pgd"},
    .run = run,
};
