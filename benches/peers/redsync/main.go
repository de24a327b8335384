// Drives redsync, as its README uses it: go-redis's own pool, default options.
package main

import (
	"context"
	"errors"

	"driver"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

func main() {
	driver.Main(func(address string) (driver.Peer, error) {
		client := goredislib.NewClient(&goredislib.Options{Addr: address})
		locks := redsync.New(goredis.NewPool(client))
		return driver.Peer{
			Module: "github.com/go-redsync/redsync/v4",
			Settings: "go-redis with its default pool; default options: expiry 8 s, 32 tries with 50 to 250 ms " +
				"between them",
			Lock: func(key string) driver.Acquire {
				return func(ctx context.Context) (func() error, error) {
					mutex := locks.NewMutex(key)
					if err := mutex.LockContext(ctx); err != nil {
						return nil, err
					}
					return func() error { return unlock(mutex) }, nil
				}
			},
		}, nil
	})
}

func unlock(mutex *redsync.Mutex) error {
	if ok, err := mutex.Unlock(); err != nil {
		return err
	} else if !ok {
		return errors.New("the lock was lost")
	}
	return nil
}
