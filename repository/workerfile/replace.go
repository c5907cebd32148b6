package workerfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// replace puts text in the place of the file, durably and whole.
func replace(dir string, text []byte) error {
	temp := filepath.Join(dir, tempName)
	if err := writeSynced(temp, text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(dir, fileName)); err != nil { //nolint:gosec // the operator's own data_dir
		return fmt.Errorf("rename: %w", err)
	}
	return syncFolder(dir) // the name is the folder's content
}

func writeSynced(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) //nolint:gosec // the operator's own data_dir
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir) //nolint:gosec // the operator's own data_dir
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}

// makeFolder makes dir and its parents. Each is synced into its own parent, or a
// power cut could take the folder with all that is in it.
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
	if err := os.Mkdir(dir, 0o700); err != nil {
		if info, statErr := os.Stat(dir); statErr == nil && info.IsDir() {
			return nil // another process was faster
		}
		return err
	}
	return syncFolder(parent)
}
