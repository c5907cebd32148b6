//go:build unix

package zkstore_test

import (
	"io"
	"net"
	"testing"

	"shardid/repository/zkstore"
	"shardid/scripts/testserver"
)

// TestAnotherServer: another kind of server at the address of ZooKeeper is an error that says what
// to correct. The library would allocate a gigabyte, as it reads the text as a length.
func TestAnotherServer(t *testing.T) {
	for name, greeting := range map[string]string{
		"SSH":                "SSH-2.0-OpenSSH_9.9\r\n",
		"a refusal in HTTP":  "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"a refusal of Redis": "-ERR unknown command\r\n",
		"MariaDB":            "\x52\x00\x00\x00\x0a11.8.2-MariaDB\x00\x05\x00\x00\x00abcdefgh\x00",
		"all ones":           "\xff\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := testserver.Fake(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, greeting)
				_, _ = io.Copy(io.Discard, conn)
			})
			s := world{t: t}.plain(zkstore.Options{Addrs: []string{addr}})
			wantAll(t, s, "does not speak as ZooKeeper does", "correct zookeeper.addrs", addr)
		})
	}
}
