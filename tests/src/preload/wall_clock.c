// Shifts the time of day for the process that loads this before all other libraries, or has it run fast, and no other clock.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// In a file that the test writes to at any time.
static const volatile struct {
  int64_t shift;    // in seconds
  int64_t permille; // by which it runs fast, since the start
} *change;

static struct timespec start;

__attribute__((constructor)) static void open_change(void) {
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &start);
  int file = open(getenv("LOCK_TESTS_WALL_CLOCK"), O_RDONLY);
  change = mmap(NULL, sizeof *change, PROT_READ, MAP_SHARED, file, 0);
  if (change == MAP_FAILED) abort();
  close(file);
}

// A system call: to look for the function behind this one allocates memory, and allocators ask for the time.
int clock_gettime(clockid_t which, struct timespec *at) {
  int failed = (int)syscall(SYS_clock_gettime, which, at);
  int is_wall_clock = which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE;
  if (!failed && is_wall_clock && change) {
    int64_t second = 1000000000;
    int64_t passed = (at->tv_sec - start.tv_sec) * second + at->tv_nsec - start.tv_nsec;
    int64_t nanos = at->tv_nsec + passed / 1000 * change->permille;
    at->tv_sec += change->shift + nanos / second;
    at->tv_nsec = nanos % second;
  }
  return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  (void)zone;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  *at = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return failed;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
