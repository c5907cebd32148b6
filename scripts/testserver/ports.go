//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// startTries is how often a start is tried on other ports.
const startTries = 4

// Ports of servers lie below those that Linux gives to connections, 32768 and up: a
// server that is stopped and started again would find its port taken by one.
const firstPort, lastPort = 12000, 32000

// freePorts names n different ports of 127.0.0.1 without a listener. They
// are not reserved: another process may take one before the server does.
func freePorts(n int) (ports []int, err error) {
	for tries := 0; len(ports) < n; tries++ {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			defer l.Close() // held until all are chosen, so that they differ
			ports = append(ports, port)
		} else if tries > 1000 {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
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
