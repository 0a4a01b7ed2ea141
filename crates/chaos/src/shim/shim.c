/* Between a daemon and the C library: moves the wall's clock, lets reads and writes of files of blocks fail, takes permissions
 * away. What it does stands in a file that is mapped, as numbers (`shim.rs`); all zero, it does nothing. What a program asks the
 * system for itself, without the library (syncs, locks), is not seen here. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ID_DIGITS 32
#define SUFFIX ".meta"
#define DATA 1
#define SIDECARS 2

/* As in shim.rs. */
struct control {
    int64_t clock_ms;
    int64_t read_permille, read_draw, read_files;
    int64_t write_permille, write_draw;
    int64_t no_permission;
    int64_t folder_permille, folder_draw, folder_errno;
    int64_t open_permille, open_draw, open_errno;
};

static const struct control nothing;
static const volatile struct control *control = &nothing;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("STRIPELINE_CHAOS_CONTROL");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (mapped != MAP_FAILED)
        control = mapped;
}

#define REAL(name)                                                                                                     \
    static __typeof__(name) *real;                                                                                     \
    if (!real)                                                                                                         \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* FNV-1a. */
static int is_drawn(const char *name, size_t length, int64_t draw, int64_t permille)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t at = 0; at < length; at++)
        hash = (hash ^ (unsigned char)name[at]) * 1099511628211u;
    for (int at = 0; at < 64; at += 8)
        hash = (hash ^ ((uint64_t)draw >> at & 255)) * 1099511628211u;
    return (int64_t)(hash >> 16) % 1000 < permille;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int is_under_blocks(const char *path)
{
    const char *at = strstr(path, "/blocks");
    return at && (at[7] == 0 || at[7] == '/');
}

/* A file in a folder tmp: what is being written. */
static int is_temporary(const char *path)
{
    const char *name = name_of(path);
    return name - path > 5 && memcmp(name - 5, "/tmp/", 5) == 0;
}

static int path_of(int fd, char *path)
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return length > 0 && path[0] == '/';
}

static int read_fails(int fd)
{
    char path[PATH_MAX];
    int64_t permille = control->read_permille;
    if (!permille)
        return 0;
    int before = errno;
    int fails = 0;
    if (path_of(fd, path) && is_under_blocks(path)) {
        const char *name = name_of(path);
        size_t length = strlen(name);
        int files = length > sizeof SUFFIX - 1 && !strcmp(name + length - (sizeof SUFFIX - 1), SUFFIX) ? SIDECARS : DATA;
        fails = length >= ID_DIGITS && (control->read_files & files) &&
                is_drawn(name, ID_DIGITS, control->read_draw, permille);
    }
    errno = fails ? EIO : before;
    return fails;
}

static int write_fails(int fd)
{
    char path[PATH_MAX];
    int64_t permille = control->write_permille;
    if (!permille)
        return 0;
    int before = errno;
    int fails = path_of(fd, path) && (is_under_blocks(path) || is_temporary(path)) &&
                is_drawn(name_of(path), strlen(name_of(path)), control->write_draw, permille);
    errno = fails ? EIO : before;
    return fails;
}

/* A drawn folder of blocks, or what is in it. With all of a thousand the folder of these folders is one, too. */
static int is_in_drawn_folder(const char *path)
{
    int64_t permille = control->folder_permille;
    const char *at = permille ? strstr(path, "/blocks") : NULL;
    if (!at || (at[7] != 0 && at[7] != '/'))
        return 0;
    const char *name = at[7] ? at + 8 : at + 7;
    size_t length = strcspn(name, "/");
    return length ? is_drawn(name, length, control->folder_draw, permille) : permille >= 1000;
}

static int is_refused(const char *path)
{
    if (!path || path[0] != '/')
        return 0;
    if (control->no_permission && (is_under_blocks(path) || is_temporary(path)))
        errno = EACCES;
    else if (is_in_drawn_folder(path))
        errno = (int)control->folder_errno;
    else
        return 0;
    return 1;
}

/* Files of drawn blocks cannot be opened, but listed, renamed and removed. */
static int is_closed(const char *path)
{
    int64_t permille = control->open_permille;
    if (!permille || !path || path[0] != '/' || !is_under_blocks(path))
        return 0;
    const char *name = name_of(path);
    if (strlen(name) < ID_DIGITS || !is_drawn(name, ID_DIGITS, control->open_draw, permille))
        return 0;
    errno = (int)control->open_errno;
    return 1;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    REAL(clock_gettime);
    int result = real(clock, now);
    int64_t by_ms = control->clock_ms;
    if (result == 0 && by_ms && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) {
        int64_t ns = now->tv_nsec + by_ms % 1000 * 1000000;
        now->tv_sec += by_ms / 1000 + (ns >= 1000000000) - (ns < 0);
        now->tv_nsec = ns + (ns < 0 ? 1000000000 : 0) - (ns >= 1000000000 ? 1000000000 : 0);
    }
    return result;
}

#define READS(name, parameters, arguments)                                                                             \
    ssize_t name parameters                                                                                            \
    {                                                                                                                  \
        REAL(name);                                                                                                    \
        return read_fails(fd) ? -1 : real arguments;                                                                   \
    }
#define WRITES(name, parameters, arguments)                                                                            \
    ssize_t name parameters                                                                                            \
    {                                                                                                                  \
        REAL(name);                                                                                                    \
        return write_fails(fd) ? -1 : real arguments;                                                                  \
    }

READS(read, (int fd, void *to, size_t bytes), (fd, to, bytes))
READS(readv, (int fd, const struct iovec *to, int count), (fd, to, count))
READS(pread, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at))
READS(pread64, (int fd, void *to, size_t bytes, off64_t at), (fd, to, bytes, at))
WRITES(write, (int fd, const void *from, size_t bytes), (fd, from, bytes))
WRITES(writev, (int fd, const struct iovec *from, int count), (fd, from, count))
WRITES(pwrite, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))
WRITES(pwrite64, (int fd, const void *from, size_t bytes, off64_t at), (fd, from, bytes, at))

#define MODE                                                                                                           \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }
#define OPENS(name)                                                                                                    \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        REAL(name);                                                                                                    \
        MODE                                                                                                           \
        return is_refused(path) || is_closed(path) ? -1 : real(path, flags, mode);                                     \
    }
#define OPENS_AT(name)                                                                                                 \
    int name(int folder, const char *path, int flags, ...)                                                             \
    {                                                                                                                  \
        REAL(name);                                                                                                    \
        MODE                                                                                                           \
        return is_refused(path) || is_closed(path) ? -1 : real(folder, path, flags, mode);                             \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

DIR *opendir(const char *path)
{
    REAL(opendir);
    return is_refused(path) ? NULL : real(path);
}

int unlink(const char *path)
{
    REAL(unlink);
    return is_refused(path) ? -1 : real(path);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    return is_refused(from) || is_refused(to) ? -1 : real(from, to);
}

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *to)
{
    REAL(statx);
    return is_refused(path) ? -1 : real(folder, path, flags, mask, to);
}
