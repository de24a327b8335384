// Package driver lets the benchmarks drive a Go lock library over stdin and stdout, as ../README.md says.
package driver

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// grace is how long a task may wait for the lock after the end of its turn.
const grace = 2 * time.Second

// Acquire acquires a lock, and waits while it is busy, or until the context ends. It returns what releases the lock.
type Acquire func(ctx context.Context) (release func() error, err error)

// Peer is a lock library that is connected to a server.
type Peer struct {
	// Module is the path of the library's module, whose version the driver reports.
	Module string
	// Settings says how the library is used, for the report.
	Settings string
	// Lock makes one task's handle on the lock of a key.
	Lock func(key string) Acquire
}

// pair has the nanoseconds at which a task asked for the lock, had it, began to release it, and had released it.
type pair [4]uint64

type task struct {
	pairs    []pair
	failures uint64
}

// Main connects to the server that the command line names and obeys the lines of stdin until it ends.
func Main(connect func(address string) (Peer, error)) {
	peer, err := connect(os.Args[1])
	if err != nil {
		fail(err)
	}
	fmt.Printf("peer\t%s, %s\t%s\n", version(peer.Module), runtime.Version(), peer.Settings)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if words[1] == "fair" {
			fmt.Println("no")
			continue
		}
		tasks, err := strconv.Atoi(words[2])
		if err != nil {
			fail(err)
		}
		millis, err := strconv.Atoi(words[3])
		if err != nil {
			fail(err)
		}
		hold, err := time.ParseDuration(words[4] + "ms")
		if err != nil {
			fail(err)
		}
		locks := make([]Acquire, tasks)
		for i := range locks {
			key := words[5]
			if words[1] == "own" {
				key = fmt.Sprintf("%s:%d", key, i)
			}
			locks[i] = peer.Lock(key)
		}
		fmt.Println("ready")
		if !lines.Scan() {
			return
		}
		if err := write(words[6], run(locks, time.Duration(millis)*time.Millisecond, hold)); err != nil {
			fail(err)
		}
		fmt.Println("done")
	}
}

func run(locks []Acquire, length, hold time.Duration) []task {
	// A library can leave a waiter asleep although the lock is free. That counts as a failure.
	ctx, cancel := context.WithCancel(context.Background())
	defer time.AfterFunc(length+grace, cancel).Stop()
	tasks := make([]task, len(locks))
	end := now() + uint64(length)
	var all sync.WaitGroup
	for i := range locks {
		all.Add(1)
		go func() {
			defer all.Done()
			tasks[i] = repeat(ctx, locks[i], end, hold)
		}()
	}
	all.Wait()
	return tasks
}

func repeat(ctx context.Context, acquire Acquire, end uint64, hold time.Duration) (done task) {
	for asked := now(); asked < end; asked = now() {
		release, err := acquire(ctx)
		held := now()
		if err != nil {
			done.failures++
			continue
		}
		if hold > 0 {
			time.Sleep(hold)
		}
		releasing := now()
		if err := release(); err != nil {
			done.failures++
		}
		done.pairs = append(done.pairs, pair{asked, held, releasing, now()})
	}
	return done
}

func write(path string, tasks []task) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	for _, task := range tasks {
		binary.Write(out, binary.LittleEndian, []uint64{uint64(len(task.pairs)), task.failures})
		binary.Write(out, binary.LittleEndian, task.pairs)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "unknown version"
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
