/* SPDX-License-Identifier: MIT */
#include "research/cli/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/files.h"

enum { WORDS_MOST = 600 };

/* Becomes `vitrine argv`, output to log; dies with its parent. Only what is safe between fork and exec. */
static void exec_child(char *const *argv, int log, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* else a killed table's cells would go on, beside those of its next run */
    if (getppid() != parent) _exit(127);
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) _exit(127);
    execv("/proc/self/exe", argv);
    _exit(127);
}

vt_status vt_spawn(void *ctx, char *const *words, const char *log, long *id, vt_err *e) {
    char name[] = "vitrine";
    char *argv[WORDS_MOST + 2] = {name};
    int n = 0, fd;
    (void)ctx;
    for (; words[n] && n < WORDS_MOST; n++) argv[n + 1] = words[n];
    if (words[n]) return vt_fail(e, VT_E_USAGE, "a cell's command has more than %d words", WORDS_MOST);
    VT_TRY(vt_file_open(&fd, NULL, log, O_WRONLY | O_CREAT | O_APPEND, e));
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) exec_child(argv, fd, parent);
    int why = errno;
    close(fd);
    if (pid < 0) return vt_fail(e, VT_E_IO, "a process cannot be started: %s", strerror(why));
    *id = pid;
    return VT_OK;
}

vt_status vt_spawn_wait(void *ctx, long *id, int *code, vt_err *e) {
    int status;
    pid_t pid;
    (void)ctx;
    while ((pid = waitpid(-1, &status, 0)) < 0 && errno == EINTR) {
    }
    if (pid < 0) return vt_fail(e, VT_E_IO, "waiting for a process failed: %s", strerror(errno));
    *id = pid;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return VT_OK;
}
