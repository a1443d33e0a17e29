/* Makes a program see the same randomness, time and file times in every run.
 *
 * `cargo xtask component python` loads it into componentize-py, which keeps the memory of an
 * interpreter that has started: its hash seed, the modification times of its directories and what
 * was on its stack. With this library these are the same in every build, so the component is too.
 *
 * componentize-py makes some system calls itself and not through libc. Those that describe files
 * raise SIGSYS, and the handler makes them again and replaces what differs between two runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/stat.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>

/* Marks a call of the handler, in an argument that none of these calls has. */
#define OWN 0x5eadcafe
/* The time of everything: 2024-01-01. */
#define MOMENT 1704067200

ssize_t getrandom(void *buffer, size_t length, unsigned flags) {
    unsigned char *bytes = buffer;
    (void)flags;
    for (size_t i = 0; i < length; i++) bytes[i] = (unsigned char)(i * 167 + 13);
    return (ssize_t)length;
}

int getentropy(void *buffer, size_t length) {
    getrandom(buffer, length, 0);
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    time->tv_sec = MOMENT;
    time->tv_nsec = 0;
    return 0;
}

static long call(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = OWN;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void level_stat(struct stat *found) {
    struct timespec moment = {MOMENT, 0};
    found->st_dev = found->st_ino = 1;
    found->st_atim = found->st_mtim = found->st_ctim = moment;
}

static void level_statx(struct statx *found) {
    struct statx_timestamp moment = {.tv_sec = MOMENT};
    found->stx_dev_major = found->stx_dev_minor = 1;
    found->stx_ino = 1;
    found->stx_mnt_id = 1;
    found->stx_atime = found->stx_mtime = found->stx_ctime = found->stx_btime = moment;
}

static void describe(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)signal;
    long result = call(info->si_syscall, registers[REG_RDI], registers[REG_RSI],
                       registers[REG_RDX], registers[REG_R10], registers[REG_R8]);
    if (result == 0) {
        switch (info->si_syscall) {
        case SYS_statx: level_statx((struct statx *)registers[REG_R8]); break;
        case SYS_newfstatat: level_stat((struct stat *)registers[REG_RDX]); break;
        default: level_stat((struct stat *)registers[REG_RSI]);
        }
    }
    registers[REG_RAX] = result;
}

/* Called when every library is loaded: the dynamic linker compares inodes. */
void begin(void) {
    struct sigaction action = {.sa_sigaction = describe, .sa_flags = SA_SIGINFO | SA_NODEFER};
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN, 5, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (sigaction(SIGSYS, &action, NULL) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        abort();
    }
}
