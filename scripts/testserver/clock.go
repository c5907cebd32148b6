//go:build unix

package testserver

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clockSource moves the wall clock of a program that loads it first, by as many
// microseconds as the file SHARDID_CLOCK says at that moment. It calls no allocator:
// that of Redis asks for the time before anything else is ready.
const clockSource = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *ahead;

__attribute__((constructor)) static void map_file(void) {
	const char *name = getenv("SHARDID_CLOCK");
	int file = name ? open(name, O_RDONLY) : -1;
	void *page = file < 0 ? MAP_FAILED : mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
	if (page != MAP_FAILED) ahead = page;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, clock, t);
	if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		long long us = t->tv_sec * 1000000LL + t->tv_nsec / 1000 + *ahead;
		t->tv_sec = us / 1000000;
		t->tv_nsec = us % 1000000 * 1000 + t->tv_nsec % 1000;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	int failed = clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return failed;
}

time_t time(time_t *into) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (into) *into = now.tv_sec;
	return now.tv_sec;
}
`

// RedisWithClock is Redis with a clock that set moves: from then on it is ahead of the
// machine's, or behind it. Where there is no C compiler, which go test -race needs too,
// set is nil.
func RedisWithClock(t testing.TB, args ...string) (s *RedisServer, set func(ahead time.Duration)) {
	t.Helper()
	skipShort(t)
	cc, err := exec.LookPath("cc")
	if err != nil {
		return Redis(t, args...), nil
	}
	dir := t.TempDir()
	source, library, clock := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so"), filepath.Join(dir, "ahead")
	must(t, os.WriteFile(source, []byte(clockSource), 0o600))
	if out, err := exec.Command(cc, "-O1", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("testserver: %v\n%s", err, out)
	}
	set = func(ahead time.Duration) {
		t.Helper()
		file, err := os.OpenFile(clock, os.O_CREATE|os.O_WRONLY, 0o600) // never truncated: it is mapped
		must(t, err)
		_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds())), 0)
		must(t, err)
		must(t, file.Close())
	}
	set(0)
	return private(t, func() (*RedisServer, error) {
		return startRedisOn(1, redisArgs(args), "env", "LD_PRELOAD="+library, "SHARDID_CLOCK="+clock)
	}), set
}
