//go:build unix

package testserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

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
