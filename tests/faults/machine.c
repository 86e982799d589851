/* Preloaded library that makes a machine misbehave for the processes that load it: a wall clock that was stepped, and a slow disk.
 *
 * The file that TOOLGEN_MACHINE_FAULTS names holds two signed 64-bit integers of this machine: nanoseconds that are added to the wall clock,
 * and microseconds by which each fsync(2) and fdatasync(2) takes longer. It is mapped, so a change holds at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int64_t clock_step_ns;
    int64_t sync_delay_us;
};

static const struct faults none;
static const struct faults *volatile faults = &none;
static int (*next_gettime)(clockid_t, struct timespec *);
static int (*next_sync)(int);
static int (*next_datasync)(int);

__attribute__((constructor)) static void start(void)
{
    next_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    next_sync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    next_datasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *path = getenv("TOOLGEN_MACHINE_FAULTS");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct faults), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        faults = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (next_gettime == NULL)
        start();
    int result = next_gettime(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + faults->clock_step_ns;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec read;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &read) != 0)
        return -1;
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place)
{
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (place != NULL)
        *place = read.tv_sec;
    return read.tv_sec;
}

static void wait_for_disk(void)
{
    int64_t us = faults->sync_delay_us;
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        nanosleep(&left, NULL);
}

int fsync(int file)
{
    wait_for_disk();
    return next_sync(file);
}

int fdatasync(int file)
{
    wait_for_disk();
    return next_datasync(file);
}
