package workerfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/gofrs/flock"
)

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("it is locked")

// Lock takes the lock on the file at path, which it makes when it is missing and never removes: two
// processes could lock a removed and a new one. Closing it, or the end of the process, frees it.
// Errors: ErrLocked, that of the system.
func Lock(path string) (io.Closer, error) {
	lock := flock.New(path)
	switch held, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case !held:
		return nil, ErrLocked
	}
	return lock, nil
}
