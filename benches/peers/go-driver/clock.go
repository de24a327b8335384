package driver

import (
	"time"

	"golang.org/x/sys/unix"
)

// Go counts its monotonic time from the start of the process. This is one moment on both clocks.
var anchor, anchorNanos = bothClocks()

// now returns the nanoseconds of the monotonic clock that all processes of the machine share.
func now() uint64 {
	return anchorNanos + uint64(time.Since(anchor))
}

// bothClocks reads the shared clock and Go's own next to each other: of many readings the closest.
func bothClocks() (time.Time, uint64) {
	var shared unix.Timespec
	var best time.Time
	var bestNanos uint64
	closest := time.Hour
	for range 1000 {
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &shared); err != nil {
			fail(err)
		}
		if took := time.Since(before); took < closest {
			closest = took
			best, bestNanos = before.Add(took/2), uint64(shared.Nano())
		}
	}
	return best, bestNanos
}
