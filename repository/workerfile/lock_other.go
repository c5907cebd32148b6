//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package workerfile

import (
	"fmt"
	"io"
	"runtime"
)

// lockFile refuses: without a lock that ends with its process two instances
// could use one identity.
func lockFile(path string) (io.Closer, error) {
	return nil, fmt.Errorf("lock %s: not supported on %s: switch snowflakes off there (snowflake.enabled: false)", path, runtime.GOOS)
}
