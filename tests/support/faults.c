/* Faults at the n-th change of a workspace: a library for LD_PRELOAD that counts the calls of libc through which
 * files below one folder change, and kills or fails at one of them.
 *
 * Belongs here: what has to happen inside the process. Does not: starting processes, choosing points, comparing
 * what came out (``faults.py``).
 *
 * Environment, read when the library is loaded:
 *   FAULTS_ROOT   folder whose changes count, as a real path; nothing counts without it
 *   FAULTS_STATE  file of two 64-bit numbers shared by all processes: calls so far, and the call that is meant (0: none)
 *   FAULTS_LOG    file outside the root that gets a line a call: number, call, path below the root, by tabs
 *   FAULTS_MODE   count | kill | fail | readonly (every change, and opening for writing, fails with EROFS)
 *   FAULTS_WHEN   before | after: where a kill lies relative to the call
 *   FAULTS_ERRNO  ENOSPC | EIO: what a failing call says
 *   FAULTS_HALF   1: of a write half is written first, then it fails or the process is killed (other calls are whole)
 *   FAULTS_ON     1: every call from the n-th on fails, as on a disk that stays full
 *   FAULTS_CLOCK  seconds that are added to what the clock says, root or no root
 *
 * A call counts where it would change something: making a folder that is there does not. What is written through
 * a memory mapping is not seen (SQLite's -shm is the one such file; it is made anew from the log), nor is what a
 * library does by system calls of its own. Paths are compared as they were given, and /proc tells those of
 * descriptors, so that dup, fork and exec need no table.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum mode { COUNT, KILL, FAIL, READONLY };
enum verdict { GO, GO_THEN_ACT, HALF, REFUSE };

struct shared {
    _Atomic uint64_t count, at;
};

static struct shared own, *shared = &own;
static char root[PATH_MAX];
static size_t root_length;
static int log_file = -1, mode, after, half, from_on, error_number = ENOSPC;
static time_t clock_offset;

static int is(const char *name, const char *value) {
    const char *found = getenv(name);
    return found && !strcmp(found, value);
}

/* The log must survive what closes all descriptors from 3 on in a child, and must not get in the way of low ones. */
static void open_log(const char *path) {
    int low = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    log_file = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 700);
    if (low >= 0) syscall(SYS_close, low);
}

static void share(const char *path) {
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (file < 0) _exit(99); /* a count that is not shared would say something else than was asked */
    void *map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (map == MAP_FAILED) _exit(99);
    shared = map;
}

static int mode_of(const char *name) {
    static const char *const names[] = {"count", "kill", "fail", "readonly"};
    for (int k = KILL; name && k <= READONLY; k++)
        if (!strcmp(name, names[k])) return k;
    return COUNT;
}

__attribute__((constructor)) void faults_arm(void) {
    const char *folder = getenv("FAULTS_ROOT"), *state = getenv("FAULTS_STATE"), *log = getenv("FAULTS_LOG");
    const char *offset = getenv("FAULTS_CLOCK");
    clock_offset = offset ? (time_t)strtoll(offset, NULL, 10) : 0;
    root_length = 0;
    if (!folder || strlen(folder) >= sizeof root) return;
    mode = mode_of(getenv("FAULTS_MODE"));
    after = is("FAULTS_WHEN", "after");
    half = is("FAULTS_HALF", "1");
    from_on = is("FAULTS_ON", "1");
    error_number = is("FAULTS_ERRNO", "EIO") ? EIO : ENOSPC;
    if (state) share(state);
    if (log) open_log(log);
    strcpy(root, folder);
    root_length = strlen(root);
}

/* The path below the root, or NULL. */
static const char *below(const char *path) {
    if (!root_length || strncmp(path, root, root_length) || path[root_length] != '/') return NULL;
    return path + root_length + 1;
}

static const char *path_of(int descriptor, char *buffer) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1);
    if (length <= 0) return NULL;
    buffer[length] = 0;
    return buffer;
}

/* What a path means that was given relative to a folder's descriptor. */
static const char *full(int folder, const char *path, char *buffer) {
    char base[PATH_MAX];
    if (!path) return NULL;
    if (path[0] == '/') return path;
    if (folder == AT_FDCWD) {
        if (syscall(SYS_getcwd, base, sizeof base) < 0) return NULL;
    } else if (!path_of(folder, base)) {
        return NULL;
    }
    return snprintf(buffer, PATH_MAX, "%s/%s", base, path) < PATH_MAX ? buffer : NULL;
}

static void tell(uint64_t number, const char *call, const char *path) {
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%llu\t%s\t%s\n", (unsigned long long)number, call, path);
    if (log_file >= 0 && length > 0) syscall(SYS_write, log_file, line, (size_t)length);
}

static void act(void) { kill(0, SIGKILL); }

/* Count a call; what is to become of it. */
static enum verdict point(const char *call, const char *path) {
    int saved = errno;
    uint64_t number = atomic_fetch_add(&shared->count, 1) + 1, at = atomic_load(&shared->at);
    tell(number, call, path);
    errno = saved;
    if (mode == READONLY) {
        errno = EROFS;
        return REFUSE;
    }
    int later = mode == FAIL && from_on;
    if (mode == COUNT || !at || !(number == at || (later && number > at))) return GO;
    if (mode == FAIL) {
        errno = error_number;
        return half && number == at ? HALF : REFUSE;
    }
    if (half) return HALF;
    if (after) return GO_THEN_ACT;
    act();
    return GO;
}

static enum verdict at_descriptor(const char *call, int descriptor) {
    char buffer[PATH_MAX];
    int saved = errno;
    const char *path = root_length ? path_of(descriptor, buffer) : NULL;
    errno = saved;
    path = path ? below(path) : NULL;
    return path ? point(call, path) : GO;
}

/* Whether a path is there: a link counts as itself. */
static int there(const char *path) {
    struct stat found;
    int saved = errno;
    int answer = !syscall(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW);
    errno = saved;
    return answer;
}

/* A call on a path that changes something where the path is there (or, ``wanted`` 0, is not). */
static enum verdict at_path(const char *call, int folder, const char *path, int wanted) {
    char buffer[PATH_MAX];
    int saved = errno;
    const char *whole = root_length ? full(folder, path, buffer) : NULL;
    const char *inside = whole ? below(whole) : NULL;
    errno = saved;
    return inside && there(whole) == wanted ? point(call, inside) : GO;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALL(name, failed, judged, ...)                                                                              \
    do {                                                                                                             \
        static __typeof__(&name) real;                                                                               \
        if (!real) real = REAL(name);                                                                                \
        enum verdict decided = (judged);                                                                             \
        if (decided == REFUSE || (decided == HALF && mode == FAIL)) return failed;                                   \
        __typeof__(real(__VA_ARGS__)) result = real(__VA_ARGS__);                                                    \
        if (decided == GO_THEN_ACT || decided == HALF) act();                                                        \
        return result;                                                                                               \
    } while (0)

/* Of a write half may be done: then it fails all the same, or nobody is left to hear of it. */
#define WRITE(name, descriptor, count, ...)                                                                          \
    do {                                                                                                             \
        static __typeof__(&name) real;                                                                               \
        if (!real) real = REAL(name);                                                                                \
        enum verdict decided = at_descriptor(#name, descriptor);                                                     \
        if (decided == REFUSE) return -1;                                                                            \
        if (decided == HALF) count /= 2;                                                                             \
        ssize_t result = real(__VA_ARGS__);                                                                          \
        if (decided == GO_THEN_ACT || (decided == HALF && mode != FAIL)) act();                                      \
        if (decided == HALF && mode == FAIL) {                                                                       \
            errno = error_number;                                                                                    \
            return -1;                                                                                               \
        }                                                                                                            \
        return result;                                                                                               \
    } while (0)

ssize_t write(int fd, const void *data, size_t n) { WRITE(write, fd, n, fd, data, n); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { WRITE(pwrite, fd, n, fd, data, n, at); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) { WRITE(pwrite64, fd, n, fd, data, n, at); }
ssize_t sendfile(int fd, int in, off_t *at, size_t n) { WRITE(sendfile, fd, n, fd, in, at, n); }
ssize_t sendfile64(int fd, int in, off64_t *at, size_t n) { WRITE(sendfile64, fd, n, fd, in, at, n); }
ssize_t copy_file_range(int in, off64_t *from, int fd, off64_t *to, size_t n, unsigned flags) {
    WRITE(copy_file_range, fd, n, in, from, fd, to, n, flags);
}
/* Half of several buffers is the first half of the buffers. */
ssize_t writev(int fd, const struct iovec *parts, int n) { WRITE(writev, fd, n, fd, parts, n); }
ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at) { WRITE(pwritev, fd, n, fd, parts, n, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int n, off64_t at) { WRITE(pwritev64, fd, n, fd, parts, n, at); }
ssize_t pwritev2(int fd, const struct iovec *parts, int n, off_t at, int flags) {
    WRITE(pwritev2, fd, n, fd, parts, n, at, flags);
}

int fsync(int fd) { CALL(fsync, -1, at_descriptor("fsync", fd), fd); }
int fdatasync(int fd) { CALL(fdatasync, -1, at_descriptor("fdatasync", fd), fd); }
int ftruncate(int fd, off_t n) { CALL(ftruncate, -1, at_descriptor("ftruncate", fd), fd, n); }
int ftruncate64(int fd, off64_t n) { CALL(ftruncate64, -1, at_descriptor("ftruncate64", fd), fd, n); }
int fallocate(int fd, int how, off_t at, off_t n) {
    CALL(fallocate, -1, at_descriptor("fallocate", fd), fd, how, at, n);
}
int posix_fallocate(int fd, off_t at, off_t n) {
    CALL(posix_fallocate, error_number, at_descriptor("posix_fallocate", fd), fd, at, n);
}
int posix_fallocate64(int fd, off64_t at, off64_t n) {
    CALL(posix_fallocate64, error_number, at_descriptor("posix_fallocate64", fd), fd, at, n);
}

int truncate(const char *path, off_t n) { CALL(truncate, -1, at_path("truncate", AT_FDCWD, path, 1), path, n); }
int truncate64(const char *path, off64_t n) { CALL(truncate64, -1, at_path("truncate64", AT_FDCWD, path, 1), path, n); }
int unlink(const char *path) { CALL(unlink, -1, at_path("unlink", AT_FDCWD, path, 1), path); }
int unlinkat(int folder, const char *path, int flags) {
    CALL(unlinkat, -1, at_path("unlinkat", folder, path, 1), folder, path, flags);
}
int remove(const char *path) { CALL(remove, -1, at_path("remove", AT_FDCWD, path, 1), path); }
int rmdir(const char *path) { CALL(rmdir, -1, at_path("rmdir", AT_FDCWD, path, 1), path); }
int mkdir(const char *path, mode_t bits) { CALL(mkdir, -1, at_path("mkdir", AT_FDCWD, path, 0), path, bits); }
int mkdirat(int folder, const char *path, mode_t bits) {
    CALL(mkdirat, -1, at_path("mkdirat", folder, path, 0), folder, path, bits);
}
int link(const char *old, const char *new) { CALL(link, -1, at_path("link", AT_FDCWD, new, 0), old, new); }
int linkat(int from, const char *old, int to, const char *new, int flags) {
    CALL(linkat, -1, at_path("linkat", to, new, 0), from, old, to, new, flags);
}
int symlink(const char *target, const char *path) {
    CALL(symlink, -1, at_path("symlink", AT_FDCWD, path, 0), target, path);
}
int symlinkat(const char *target, int folder, const char *path) {
    CALL(symlinkat, -1, at_path("symlinkat", folder, path, 0), target, folder, path);
}

/* A rename counts by where it leads to, which is what changes for readers; out of the root by where it came from. */
static enum verdict at_rename(const char *call, int from, const char *old, int to, const char *new) {
    char first[PATH_MAX], second[PATH_MAX];
    int saved = errno;
    const char *source = root_length ? full(from, old, first) : NULL;
    const char *target = source ? full(to, new, second) : NULL;
    errno = saved;
    if (!target || !there(source)) return GO;
    const char *inside = below(target) ? below(target) : below(source);
    return inside ? point(call, inside) : GO;
}
int rename(const char *old, const char *new) {
    CALL(rename, -1, at_rename("rename", AT_FDCWD, old, AT_FDCWD, new), old, new);
}
int renameat(int from, const char *old, int to, const char *new) {
    CALL(renameat, -1, at_rename("renameat", from, old, to, new), from, old, to, new);
}
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    CALL(renameat2, -1, at_rename("renameat2", from, old, to, new), from, old, to, new, flags);
}

/* Opening changes something where it empties a file or makes one; read-only, opening for writing is refused too. */
static enum verdict at_open(const char *call, int folder, const char *path, int flags) {
    if (mode == READONLY && (flags & O_ACCMODE) != O_RDONLY) {
        enum verdict writes = at_path(call, folder, path, 1);
        if (writes != GO) return writes;
    }
    if (flags & O_TRUNC && (flags & O_ACCMODE) != O_RDONLY) {
        enum verdict empties = at_path(call, folder, path, 1);
        if (empties != GO) return empties;
    }
    return flags & O_CREAT ? at_path(call, folder, path, 0) : GO;
}
#define BITS(flags)                                                                                                  \
    mode_t bits = 0;                                                                                                 \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) {                                                   \
        va_list more;                                                                                                \
        va_start(more, flags);                                                                                       \
        bits = va_arg(more, mode_t);                                                                                 \
        va_end(more);                                                                                                \
    }
int open(const char *path, int flags, ...) {
    BITS(flags)
    CALL(open, -1, at_open("open", AT_FDCWD, path, flags), path, flags, bits);
}
int open64(const char *path, int flags, ...) {
    BITS(flags)
    CALL(open64, -1, at_open("open64", AT_FDCWD, path, flags), path, flags, bits);
}
int openat(int folder, const char *path, int flags, ...) {
    BITS(flags)
    CALL(openat, -1, at_open("openat", folder, path, flags), folder, path, flags, bits);
}
int openat64(int folder, const char *path, int flags, ...) {
    BITS(flags)
    CALL(openat64, -1, at_open("openat64", folder, path, flags), folder, path, flags, bits);
}
int creat(const char *path, mode_t bits) {
    CALL(creat, -1, at_open("creat", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC), path, bits);
}
int creat64(const char *path, mode_t bits) {
    CALL(creat64, -1, at_open("creat64", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC), path, bits);
}

/* stdio opens and writes inside libc, where nothing can be put between: of its files only the opening is seen. */
static int flags_of(const char *how) {
    return how[0] == 'w' ? O_CREAT | O_WRONLY | O_TRUNC : how[0] == 'a' ? O_CREAT | O_WRONLY : O_RDONLY;
}
FILE *fopen(const char *path, const char *how) {
    CALL(fopen, NULL, at_open("fopen", AT_FDCWD, path, flags_of(how)), path, how);
}
FILE *fopen64(const char *path, const char *how) {
    CALL(fopen64, NULL, at_open("fopen64", AT_FDCWD, path, flags_of(how)), path, how);
}

/* The clock. What the kernel itself notes, such as when a file was changed, stays as it is. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += clock_offset;
    return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static __typeof__(&gettimeofday) real;
    if (!real) real = REAL(gettimeofday);
    int result = real(now, zone);
    if (!result) now->tv_sec += clock_offset;
    return result;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
