//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package workerfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// lockFile takes the lock on the file at path, which it makes when it is missing
// and never removes: two processes could lock a removed and a new one. Closing
// it, or the end of the process, frees it. Errors: ErrLocked.
func lockFile(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator's own data_dir
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock: %w", err), file.Close())
}
