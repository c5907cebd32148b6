package workerfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("it is locked")

// tryLock takes the lock on the file at path, which it makes when it is missing and never removes: two
// processes could lock a removed and a new one. Closing it, or the end of the process, frees it.
// Errors: ErrLocked, that of the system.
func tryLock(path string) (io.Closer, error) {
	lock := flock.New(path)
	switch held, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case !held:
		return nil, ErrLocked
	}
	return lock, nil
}

// replaceFile puts text in the place of the worker file, durably and whole.
func replaceFile(dir string, text []byte) error {
	temp := filepath.Join(dir, tempName)
	//nolint:gosec // the operator's own data_dir
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp, filepath.Join(dir, fileName)); err != nil {
		return err
	}
	return syncFolder(dir) // the name is the folder's content
}

// makeFolder makes dir and its parents. Each is synced into its own parent, or a power cut could take the
// folder with all that is in it.
func makeFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { // another process may have been faster
		return err
	}
	return syncFolder(parent)
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir) //nolint:gosec // the operator's own data_dir
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
