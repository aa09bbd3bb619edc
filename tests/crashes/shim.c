// A library for LD_PRELOAD that sees the file-system operations of a process below one folder, and can stop it at any of them.
//
// `shim_arm` starts it in a (forked) process. Operation k is numbered from 1. What happens at it:
//     COUNT   nothing                         KILL   the process is killed before the operation
//     HALF    it is killed after half of the bytes of a write          FAIL   the operation fails with `error`, once
//     CUT     like KILL, with all processes of its group: the power goes
//
// Each operation is a line of the log: number, kind, path, second path or size, and the name of a backup. Before a file is
// replaced or removed, the backup is a hard link to it, so that a power cut that loses the operation can be imitated.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, HALF, FAIL, CUT };
enum { FILES = 4096 };

static char folder[PATH_MAX], backups[PATH_MAX - 64];
static int armed, mode, error_code, log_file = -1;
static long count, target;
static char paths[FILES][PATH_MAX];  // of the descriptors that are below the folder
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void shim_arm(const char *below, const char *log_path, const char *backup_folder, long k, int how, int error) {
  snprintf(folder, sizeof folder, "%s/", below);
  snprintf(backups, sizeof backups, "%s", backup_folder);
  log_file = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  log_file = fcntl(log_file, F_DUPFD_CLOEXEC, FILES);  // out of the way of numbers that a program expects
  count = 0, target = k, mode = how, error_code = error, armed = 1;
  memset(paths, 0, sizeof paths);
}

// For a forked process that must not inherit the counter of its parent.
void shim_disarm(void) { armed = 0; }

static void full_path(char *out, int at, const char *path) {
  char base[PATH_MAX] = "";
  if (path[0] != '/') {
    if (at == AT_FDCWD) {
      if (syscall(SYS_getcwd, base, sizeof base) < 0) base[0] = 0;
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", at);
      ssize_t size = readlink(link, base, sizeof base - 1);
      base[size < 0 ? 0 : size] = 0;
    }
    strncat(base, "/", sizeof base - strlen(base) - 1);
  }
  snprintf(out, PATH_MAX, "%s%s", base, path);
}

static int is_below(const char *path) { return armed && strncmp(path, folder, strlen(folder)) == 0; }

static int is_folder(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static void note(const char *kind, const char *path, const char *second, const char *backup) {
  char line[3 * PATH_MAX];
  int size = snprintf(line, sizeof line, "%ld\t%s\t%s\t%s\t%s\n", count, kind, path, second, backup);
  syscall(SYS_write, log_file, line, size);
}

static void die(void) {
  syscall(SYS_kill, mode == CUT ? 0 : getpid(), SIGKILL);
  for (;;) pause();
}

// Counts an operation. Returns whether it must fail, or at HALF 2: the caller then does half of it and dies.
static int reached(const char *kind, const char *path) {
  pthread_mutex_lock(&lock);
  int here = ++count == target && mode != COUNT;
  pthread_mutex_unlock(&lock);
  if (!here) return 0;
  note("hit", path, kind, "");
  if (mode == KILL || mode == CUT) die();
  if (mode == HALF) return 2;
  errno = error_code;
  return 1;
}

static void back_up(char *name, const char *path) {
  struct stat about;
  name[0] = 0;
  if (lstat(path, &about) != 0 || S_ISDIR(about.st_mode)) return;
  snprintf(name, PATH_MAX, "%s/%d-%ld", backups, getpid(), count);
  if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, name, 0) != 0) name[0] = 0;
}

static int opened(int at, const char *path, int flags, mode_t rights) {
  char full[PATH_MAX];
  if (!armed) return (int)syscall(SYS_openat, at, path, flags, rights);
  full_path(full, at, path);
  int writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
  int seen = is_below(full) || (writes && strncmp(full, folder, strlen(folder) - 1) == 0 && !full[strlen(folder) - 1]);
  if (seen && writes && reached("open", full)) return -1;
  int is_new = seen && (flags & O_CREAT) && syscall(SYS_faccessat, AT_FDCWD, full, F_OK) != 0;
  int file = (int)syscall(SYS_openat, at, path, flags, rights);
  if (file < 0 || file >= FILES) return file;
  int is_root = strncmp(full, folder, strlen(folder) - 1) == 0 && (!full[strlen(folder) - 1] || !full[strlen(folder)]);
  paths[file][0] = 0;
  if ((seen && writes) || ((is_below(full) || is_root) && is_folder(full))) {
    snprintf(paths[file], sizeof paths[file], "%s", full);
    if (writes) note("open", full, flags & O_TRUNC ? "new" : "", is_new ? "created" : "");
  }
  return file;
}

#define RIGHTS                                   \
  mode_t rights = 0;                             \
  if (flags & (O_CREAT | O_TMPFILE)) {           \
    va_list rest;                                \
    va_start(rest, flags);                       \
    rights = va_arg(rest, mode_t);               \
    va_end(rest);                                \
  }
int open(const char *path, int flags, ...) { RIGHTS return opened(AT_FDCWD, path, flags, rights); }
int open64(const char *path, int flags, ...) { RIGHTS return opened(AT_FDCWD, path, flags | O_LARGEFILE, rights); }
int openat(int at, const char *path, int flags, ...) { RIGHTS return opened(at, path, flags, rights); }
int openat64(int at, const char *path, int flags, ...) { RIGHTS return opened(at, path, flags | O_LARGEFILE, rights); }
int creat(const char *path, mode_t rights) { return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, rights); }
int creat64(const char *path, mode_t rights) { return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, rights); }

static const char *path_of(int file) { return armed && file >= 0 && file < FILES && paths[file][0] ? paths[file] : NULL; }

int close(int file) {
  if (file >= 0 && file < FILES) paths[file][0] = 0;
  return (int)syscall(SYS_close, file);
}

// Writes from `offset`, or where the file is if it is negative.
static ssize_t written(int file, const void *bytes, size_t size, off_t offset) {
  const char *path = path_of(file);
  int how = path ? reached("write", path) : 0;
  if (how == 1) return -1;
  if (how == 2) size /= 2;
  ssize_t done = offset < 0 ? syscall(SYS_write, file, bytes, size) : syscall(SYS_pwrite64, file, bytes, size, offset);
  if (how == 2) die();
  if (path) note("write", path, "", "");
  return done;
}
ssize_t write(int file, const void *bytes, size_t size) { return written(file, bytes, size, -1); }
ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) { return written(file, bytes, size, offset); }
ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset) { return written(file, bytes, size, offset); }
ssize_t writev(int file, const struct iovec *parts, int number) {
  if (!path_of(file)) return syscall(SYS_writev, file, parts, number);
  for (int k = 0; k < number; k++)  // a short write is allowed: the caller continues
    if (parts[k].iov_len) return written(file, parts[k].iov_base, parts[k].iov_len, -1);
  return 0;
}

static int synced(int file, long number) {
  const char *path = path_of(file);
  if (path && reached("fsync", path)) return -1;
  int done = (int)syscall(number, file);
  if (path && done == 0) {
    struct stat about;
    char size[32] = "";
    if (fstat(file, &about) == 0) snprintf(size, sizeof size, "%ld", (long)about.st_size);
    note("fsync", path, size, "");
  }
  return done;
}
int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }

static int renamed(int at, const char *old, int to, const char *new, unsigned flags) {
  char from[PATH_MAX], full[PATH_MAX], backup[PATH_MAX];
  full_path(from, at, old), full_path(full, to, new);
  int seen = is_below(full) || is_below(from);
  if (seen && reached("rename", full)) return -1;
  if (seen) back_up(backup, full);
  int done = (int)syscall(SYS_renameat2, at, old, to, new, flags);
  if (seen && done == 0) note("rename", from, full, backup);
  return done;
}
int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int at, const char *old, int to, const char *new) { return renamed(at, old, to, new, 0); }
int renameat2(int at, const char *old, int to, const char *new, unsigned flags) { return renamed(at, old, to, new, flags); }

static int removed(int at, const char *path, int flags) {
  char full[PATH_MAX], backup[PATH_MAX];
  full_path(full, at, path);
  int seen = is_below(full);
  const char *kind = flags & AT_REMOVEDIR ? "rmdir" : "unlink";
  if (seen && reached(kind, full)) return -1;
  if (seen) back_up(backup, full);
  int done = (int)syscall(SYS_unlinkat, at, path, flags);
  if (seen && done == 0) note(kind, full, "", backup);
  return done;
}
int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int at, const char *path, int flags) { return removed(at, path, flags); }
int remove(const char *path) { return removed(AT_FDCWD, path, is_folder(path) ? AT_REMOVEDIR : 0); }

// An operation of which only its name and path matter.
#define PLAIN(kind, at, path, call)              \
  char full[PATH_MAX];                           \
  full_path(full, at, path);                     \
  int seen = is_below(full);                     \
  if (seen && reached(kind, full)) return -1;    \
  int done = (int)(call);                        \
  if (seen && done == 0) note(kind, full, "", ""); \
  return done;
int mkdir(const char *path, mode_t rights) { PLAIN("mkdir", AT_FDCWD, path, syscall(SYS_mkdirat, AT_FDCWD, path, rights)) }
int mkdirat(int at, const char *path, mode_t rights) { PLAIN("mkdir", at, path, syscall(SYS_mkdirat, at, path, rights)) }
int link(const char *old, const char *new) { PLAIN("link", AT_FDCWD, new, syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0)) }
int symlink(const char *old, const char *new) { PLAIN("symlink", AT_FDCWD, new, syscall(SYS_symlinkat, old, AT_FDCWD, new)) }
int truncate(const char *path, off_t size) { PLAIN("truncate", AT_FDCWD, path, syscall(SYS_truncate, path, size)) }
int truncate64(const char *path, off64_t size) { PLAIN("truncate", AT_FDCWD, path, syscall(SYS_truncate, path, size)) }

static int cut(int file, off64_t size) {
  const char *path = path_of(file);
  if (path && reached("truncate", path)) return -1;
  int done = (int)syscall(SYS_ftruncate, file, size);
  if (path && done == 0) note("truncate", path, "", "");
  return done;
}
int ftruncate(int file, off_t size) { return cut(file, size); }
int ftruncate64(int file, off64_t size) { return cut(file, size); }

int flock(int file, int how) {
  const char *path = path_of(file);
  if (path && !(how & LOCK_UN) && reached("lock", path)) return -1;
  int done = (int)syscall(SYS_flock, file, how);
  if (path && done == 0 && !(how & LOCK_UN)) note("lock", path, "", "");
  return done;
}

static int controlled(int file, int command, void *argument) {
  const char *path = path_of(file);
  int locks = command == F_SETLK || command == F_SETLKW;
  if (path && locks && reached("lock", path)) return -1;
  int done = (int)syscall(SYS_fcntl, file, command, argument);
  if (path && locks && done == 0) note("lock", path, "", "");
  if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && path && done >= 0 && done < FILES) strcpy(paths[done], path);
  return done;
}
#define ARGUMENT                                 \
  va_list rest;                                  \
  va_start(rest, command);                       \
  void *argument = va_arg(rest, void *);         \
  va_end(rest);
int fcntl(int file, int command, ...) { ARGUMENT return controlled(file, command, argument); }
int fcntl64(int file, int command, ...) { ARGUMENT return controlled(file, command, argument); }
