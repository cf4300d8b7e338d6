/* SPDX-License-Identifier: MIT */
/* cli/ranks.h of the program that MPI=1 makes. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "cli/ranks.h"
#include "base/hash.h"
#include "mpi/team_mpi.h"

/* The others' failures reach the terminal through rank 0 (vt_team_agree), in words of their own. */
static void be_silent(void) {
    int nothing = open("/dev/null", O_WRONLY);
    fflush(NULL);
    if (nothing < 0) return;
    dup2(nothing, STDOUT_FILENO), dup2(nothing, STDERR_FILENO);
    close(nothing);
}

static vt_status other_program(const void *ctx, const char *first, const char *mine, vt_err *e) {
    (void)ctx;
    return vt_fail(e, VT_E_USAGE, "runs another vitrine (SHA-256 %.12s...) than rank 0 (%.12s...)", mine, first);
}

/* Is this the program that rank 0 is? Of two builds nobody knows whether they agree to the last bit. */
static vt_status one_program(vt_team *t, vt_err *e) {
    char mine[65];
    VT_TRY(vt_team_agree(t, vt_sha_file("/proc/self/exe", mine, e), e));
    return vt_team_same(t, mine, other_program, NULL, e);
}

bool vt_ranks_launched(void) { return vt_mpi_launched(); }

vt_status vt_ranks_begin(vt_team **out, vt_err *e) {
    VT_TRY(vt_mpi_open(out, e));
    if (vt_team_rank(*out)) be_silent();
    return *out ? one_program(*out, e) : VT_OK;
}

void vt_ranks_end(vt_team *t) { vt_mpi_close(t); }
