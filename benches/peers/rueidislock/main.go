// Drives rueidislock, as its README uses it with one server.
package main

import (
	"context"

	"driver"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func main() {
	driver.Main(func(address string) (driver.Peer, error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{address}},
			KeyMajority:    1,
			NoLoopTracking: true,
		})
		return driver.Peer{
			Module: "github.com/redis/rueidis",
			Settings: "KeyMajority 1 and NoLoopTracking, as for one server; default validity 5 s; waits for " +
				"invalidations of client-side caching",
			Lock: func(key string) driver.Acquire {
				return func(ctx context.Context) (func() error, error) {
					_, release, err := locker.WithContext(ctx, key)
					return func() error { release(); return nil }, err
				}
			},
		}, err
	})
}
