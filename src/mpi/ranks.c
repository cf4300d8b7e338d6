/* SPDX-License-Identifier: MIT */
/* cli/ranks.h of the program that MPI=1 makes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/ranks.h"
#include "core/hash.h"
#include "mpi/team_mpi.h"

/* The others' failures reach the terminal through rank 0 (vt_team_agree), in words of their own. */
static void be_silent(void) {
    int nothing = open("/dev/null", O_WRONLY);
    fflush(NULL);
    if (nothing < 0) return;
    dup2(nothing, STDOUT_FILENO), dup2(nothing, STDERR_FILENO);
    close(nothing);
}

/* Is this the program that rank 0 is? Of two builds nobody knows whether they agree to the last bit. */
static vt_status one_program(vt_team *t, vt_err *e) {
    char mine[65], *first = NULL;
    vt_status s = vt_sha_file("/proc/self/exe", mine, e);
    s = vt_team_agree(t, s, e);
    if (s == VT_OK) s = vt_team_text(t, mine, &first, e);
    if (s == VT_OK && strcmp(first, mine))
        s = vt_fail(e, VT_E_USAGE, "runs another vitrine (SHA-256 %.12s...) than rank 0 (%.12s...)", mine, first);
    free(first);
    return vt_team_agree(t, s, e);
}

bool vt_ranks_launched(void) { return vt_mpi_launched(); }

vt_status vt_ranks_begin(vt_team **out, vt_err *e) {
    VT_TRY(vt_mpi_open(out, e));
    if (vt_team_rank(*out)) be_silent();
    return *out ? one_program(*out, e) : VT_OK;
}

void vt_ranks_end(vt_team *t) { vt_mpi_close(t); }
