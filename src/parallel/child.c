/* SPDX-License-Identifier: MIT */
#include "parallel/child.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/opt.h"
#include "base/progress.h"

/* ---- the keeper: between fork and exec, so only what a signal handler might do ---- */

static void empty_signal_handler(int signal) { (void)signal; }

/* Kills the keeper's own children: the command, and what became orphaned of it (the keeper is their subreaper). */
static void kill_children(void) {
    char text[4096] = "", *at = text;
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) text[0] = 0;
    if (fd >= 0) close(fd);
    for (pid_t pid; (pid = (pid_t)strtol(at, &at, 10)) > 0 && *at == ' ';) kill(pid, SIGKILL);
}

/* Ends everything that came of the command, whatever group or session it has gone to. */
static void end_all(pid_t pid) {
    if (pid > 0) kill(-pid, SIGKILL);
    for (int tries = 0; tries < 1000; tries++) { /* a child's children become ours when it has ended */
        kill_children();
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD) return;
    }
}

/* Becomes the command, with the socket as its standard input and output and the mask of signals; never returns. */
static void run_command(int socket, const char *command, const sigset_t *mask) {
    if (setpgid(0, 0) || dup2(socket, 0) < 0 || dup2(socket, 1) < 0) _exit(127);
    close_range(3, ~0u, 0);
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL), signal(SIGPIPE, SIG_DFL), signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execl("/usr/bin/env", "env", "VITRINE_ORACLE=1", "/bin/sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* Runs the command and ends with it, or ends it when the lifeline closes; never returns. Descriptors 3 (lifeline) and
 * 4 (socket) are all it has beside the standard ones. */
static void supervise_command(const char *command, const sigset_t *before) {
    sigset_t mask, none;
    struct pollfd life = {.fd = 3, .events = POLLIN};
    int status = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setpgid(0, 0);
    sigemptyset(&none), sigemptyset(&mask), sigaddset(&mask, SIGCHLD);
    signal(SIGCHLD, empty_signal_handler), signal(SIGINT, SIG_IGN), signal(SIGTERM, SIG_IGN), signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    pid_t pid = fork();
    if (pid == 0) run_command(4, command, before);
    if (pid < 0) _exit(127);
    setpgid(pid, pid);
    close(4), close(0), close(1);
    for (;;) {
        pid_t gone = waitpid(-1, &status, WNOHANG);
        if (gone == pid) {
            end_all(pid);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        }
        if (gone > 0) continue;
        ppoll(&life, 1, NULL, &none);
        if (life.revents) {
            end_all(pid);
            _exit(0);
        }
    }
}

/* Moves the two descriptors to 3 and 4, whatever numbers they have, and supervises the command. */
static void become_keeper(int lifeline, int socket, const char *command, const sigset_t *before) {
    int a = fcntl(lifeline, F_DUPFD, 5), b = fcntl(socket, F_DUPFD, 5);
    if (a < 0 || b < 0 || dup2(a, 3) < 0 || dup2(b, 4) < 0) _exit(127);
    close_range(5, ~0u, 0);
    supervise_command(command, before);
}

vt_status vt_child_start(vt_child *c, const char *command, vt_err *e) {
    int life[2] = {-1, -1}, pair[2] = {-1, -1};
    sigset_t all, before;
    pid_t pid = -1;
    if (pipe2(life, O_CLOEXEC) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours runs in the keeper */
        fflush(NULL);
        pid = fork();
        if (pid == 0) become_keeper(life[0], pair[1], command, &before);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    int why = errno;
    close(life[0]), close(pair[1]);
    *c = (vt_child){.fd = pair[0], .lifeline = life[1], .keeper = pid};
    if (pid > 0) return VT_OK;
    close(pair[0]), close(life[1]);
    *c = (vt_child){.fd = -1, .lifeline = -1};
    return vt_fail(e, VT_E_IO, "%.300s cannot be started: %s", command, strerror(why));
}

void vt_child_wait(vt_child *c, double seconds) {
    double until = vt_now() + seconds;
    int status;
    while (c->keeper > 0 && !c->ended) {
        pid_t gone = waitpid(c->keeper, &status, WNOHANG);
        if (gone == c->keeper) c->ended = true, c->how = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
        if (gone < 0 && errno != EINTR) c->ended = true;
        if (c->ended || vt_now() >= until) return;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

void vt_child_end(vt_child *c, double seconds) {
    if (c->fd >= 0) close(c->fd);
    vt_child_wait(c, seconds);
    if (c->lifeline >= 0) close(c->lifeline);
    if (c->keeper > 0 && !c->ended) waitpid(c->keeper, NULL, 0);
    *c = (vt_child){.fd = -1, .lifeline = -1};
}

/* ---- addresses ---- */

bool vt_child_is_address(const char *text) { return !strncmp(text, "unix:", 5) || !strncmp(text, "tcp:", 4); }

typedef struct address {
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_in in;
    } at;
    socklen_t size;
} address;

/* Parses "unix:PATH" or "tcp:PORT" (of the loopback); VT_E_USAGE if path or port are out of range. */
static vt_status parse_address(address *a, const char *text, vt_err *e) {
    long long port;
    memset(a, 0, sizeof *a);
    if (!strncmp(text, "unix:", 5)) {
        a->at.un.sun_family = AF_UNIX, a->size = sizeof a->at.un;
        if (!text[5] || strlen(text + 5) >= sizeof a->at.un.sun_path)
            return vt_fail(e, VT_E_USAGE, "%.150s: a socket's path has 1 to %zu characters", text,
                           sizeof a->at.un.sun_path - 1);
        memcpy(a->at.un.sun_path, text + 5, strlen(text + 5));
        return VT_OK;
    }
    if (!vt_parse_int(text + 4, &port) || port < 1 || port > 65535)
        return vt_fail(e, VT_E_USAGE, "%.150s: must be tcp:PORT of this machine, PORT from 1 to 65535", text);
    a->at.in.sin_family = AF_INET, a->size = sizeof a->at.in;
    a->at.in.sin_port = htons((uint16_t)port), a->at.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return VT_OK;
}

/* Opens a stream socket of the address's family; -1: errno says why not. */
static int open_socket(const address *a) {
    int fd = socket(a->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0 && a->at.any.sa_family == AF_INET) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    return fd;
}

vt_status vt_child_connect(vt_child *c, const char *text, vt_err *e) {
    address a;
    *c = (vt_child){.fd = -1, .lifeline = -1};
    VT_TRY(parse_address(&a, text, e));
    int fd = open_socket(&a);
    if (fd >= 0 && connect(fd, &a.at.any, a.size) == 0) {
        c->fd = fd;
        return VT_OK;
    }
    vt_fail(e, VT_E_IO, "%.150s: nobody answers there (%s)", text, strerror(errno));
    if (fd >= 0) close(fd);
    return VT_E_IO;
}

vt_status vt_child_listen(int *out, const char *text, vt_err *e) {
    address a;
    struct stat st;
    *out = -1;
    VT_TRY(parse_address(&a, text, e));
    int fd = open_socket(&a), old = -1;
    /* a socket that a killed listener left is replaced; one that answers, or any other file, is not */
    if (a.at.any.sa_family == AF_UNIX && lstat(text + 5, &st) == 0 && S_ISSOCK(st.st_mode)) {
        old = open_socket(&a);
        if (old >= 0 && connect(old, &a.at.any, a.size) != 0 && errno == ECONNREFUSED) unlink(text + 5);
        if (old >= 0) close(old);
    }
    mode_t mask = umask(0177); /* no other user may connect */
    bool bound = fd >= 0 && bind(fd, &a.at.any, a.size) == 0;
    int why = errno;
    umask(mask);
    if (bound && listen(fd, 8) == 0) {
        *out = fd;
        return VT_OK;
    }
    vt_fail(e, VT_E_IO, "%.150s: cannot listen there: %s", text, strerror(bound ? errno : why));
    if (fd >= 0) close(fd);
    return VT_E_IO;
}

/* ---- bytes ---- */

/* Returns VT_IO_DONE once `what` (POLLIN or POLLOUT) can be done, VT_IO_LATE after `until`; looks at *interrupt (may be
 * NULL) ten times a second. */
static vt_io wait_for(int fd, short what, double until, const volatile sig_atomic_t *interrupt) {
    for (;;) {
        if (interrupt && *interrupt) return VT_IO_INTERRUPTED;
        double left = until - vt_now();
        if (left <= 0) return VT_IO_LATE;
        struct pollfd p = {.fd = fd, .events = what};
        int n = poll(&p, 1, left < 0.1 ? 1 + (int)(1000 * left) : 100);
        if (n > 0) return VT_IO_DONE;
        if (n < 0 && errno != EINTR) return VT_IO_FAILED;
    }
}

/* A message that carries one descriptor. */
typedef union envelope {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
} envelope;

/* Puts the descriptor that came with a message into *out, if that is -1; closes it and all others otherwise. */
static void take_descriptor(struct msghdr *m, int *out) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (out && *out < 0)
                *out = fd;
            else
                close(fd);
        }
    }
}

/* Receives bytes by recv of a socket, read of a pipe (vitrine serve under ssh); returns as these do. *fd_in: as in
 * vt_child_read. */
static ssize_t receive_bytes(int fd, void *to, size_t n, int *fd_in) {
    envelope room;
    struct iovec part = {to, n};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room.room, .msg_controllen = sizeof room.room};
    ssize_t k = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (k < 0 && errno == ENOTSOCK) return read(fd, to, n);
    if (k >= 0) take_descriptor(&m, fd_in);
    return k;
}

/* Sends bytes by send of a socket, write of a pipe; returns as these do. pass: a descriptor that goes along, or -1. */
static ssize_t send_bytes(int fd, const void *from, size_t n, int pass) {
    envelope room = {.header = {.cmsg_len = CMSG_LEN(sizeof pass), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {(void *)(uintptr_t)from, n};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (pass >= 0) {
        m.msg_control = room.room, m.msg_controllen = sizeof room.room;
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &pass, sizeof pass);
    }
    ssize_t k = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    return k < 0 && errno == ENOTSOCK ? write(fd, from, n) : k;
}

/* Reads or (out) writes n bytes; *moved: how many it were. descriptor: *descriptor goes along if not -1, or is set
 * (take_descriptor), which may be NULL to read. */
static vt_io move_bytes(int fd, bool out, char *data, size_t n, double until, const volatile sig_atomic_t *interrupt,
                        int *descriptor, size_t *moved) {
    for (*moved = 0; *moved < n;) {
        vt_io how = wait_for(fd, out ? POLLOUT : POLLIN, until, interrupt);
        if (how != VT_IO_DONE) return how;
        ssize_t k = out ? send_bytes(fd, data + *moved, n - *moved, *moved ? -1 : *descriptor)
                        : receive_bytes(fd, data + *moved, n - *moved, descriptor);
        if (k > 0)
            *moved += (size_t)k;
        else if (k == 0 || errno == EPIPE || errno == ECONNRESET)
            return VT_IO_CLOSED;
        else if (errno != EINTR && errno != EAGAIN)
            return VT_IO_FAILED;
    }
    return VT_IO_DONE;
}

vt_io vt_child_read(int fd, void *to, size_t n, double until, const volatile sig_atomic_t *interrupt, int *fd_in,
                    size_t *got) {
    size_t unused;
    return move_bytes(fd, false, to, n, until, interrupt, fd_in, got ? got : &unused);
}

vt_io vt_child_write(int fd, const void *from, size_t n, double until, const volatile sig_atomic_t *interrupt,
                     int pass) {
    size_t unused;
    return move_bytes(fd, true, (char *)(uintptr_t)from, n, until, interrupt, &pass, &unused);
}

/* ---- shared memory ---- */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

vt_status vt_shared_make(int *out, void **at, size_t bytes, vt_err *e) {
    int fd = memfd_create("vitrine", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    *out = -1, *at = NULL;
    bool good = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0;
    void *p = good ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (p == MAP_FAILED) {
        vt_fail(e, VT_E_MEMORY, "no memory of %zu bytes to share: %s", bytes, strerror(errno));
        if (fd >= 0) close(fd);
        return VT_E_MEMORY;
    }
    *out = fd, *at = p;
    return VT_OK;
}

void *vt_shared_map(int fd, size_t bytes) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) || (size_t)st.st_size != bytes) return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void vt_shared_close(void *at, size_t bytes) {
    if (at) munmap(at, bytes);
}
