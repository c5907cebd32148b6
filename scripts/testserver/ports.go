//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"net"
)

// startTries is how often a start is tried on other ports.
const startTries = 4

// freePorts names n different ports of 127.0.0.1 without a listener. They
// are not reserved: another process may take one before the server does.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // held until all are chosen, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// onPorts calls start with n picked ports, and again with others when the
// server exited, which is what servers do when their port is taken.
func onPorts(n int, pick func(n int) ([]int, error), start func(ports []int) error) error {
	var last error
	for range startTries {
		ports, err := pick(n)
		if err != nil {
			return err
		}
		if last = start(ports); !errors.Is(last, errExited) {
			return last
		}
	}
	return fmt.Errorf("tried %d times: %w", startTries, last)
}
