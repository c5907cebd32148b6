//go:build unix

package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/repository/framing"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// answering is a server that answers each command, in RESP, as answer says; it ends a connection
// for which answer gives "".
func answering(t *testing.T, answer func(command []string) string) string {
	return testserver.Hostile(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			command, err := readCommand(in)
			if err != nil {
				return
			}
			reply := answer(command)
			for range 400 { // of endless ones 25 MB
				if _, err := conn.Write([]byte(reply)); err != nil || reply == "" {
					return
				}
				if len(reply) < 1<<16 {
					break
				}
			}
		}
	})
}

// readCommand reads one command in the Redis protocol: *2 $3 GET $1 x.
func readCommand(r *bufio.Reader) (words []string, err error) {
	n, err := readNumber(r, '*')
	for range n {
		var size int
		if size, err = readNumber(r, '$'); err != nil {
			break
		}
		word := make([]byte, size+2)
		if _, err = io.ReadFull(r, word); err != nil {
			break
		}
		words = append(words, string(word[:size]))
	}
	return words, err
}

func readNumber(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("not a command: %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// allocated gives the MB that work allocated.
func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// In each mode, the connections of Confirm too, answers that announce or send gigabytes cost
// little, and the error says what they announced.
func TestHostileAnswers(t *testing.T) {
	list := func(command ...string) string {
		answer := "*" + strconv.Itoa(len(command)) + "\r\n"
		for _, word := range command {
			answer += "$" + strconv.Itoa(len(word)) + "\r\n" + word + "\r\n"
		}
		return answer
	}
	for name, answer := range map[string]string{
		"a list":            "*2000000000\r\n",
		"a map":             "%1000000000\r\n",
		"lists in lists":    strings.Repeat("*100000\r\n", 100),
		"depth":             "*2\r\n+a\r\n" + strings.Repeat("*1\r\n", 1<<18),
		"a text":            "$2147483647\r\n",
		"texts":             "*100000\r\n" + strings.Repeat("$60000\r\n"+strings.Repeat("x", 60000)+"\r\n", 20),
		"a line":            strings.Repeat("x", 1<<17),
		"a number":          "(" + strings.Repeat("1", 1<<17),
		"no number at all":  "*99999999999999999999\r\n",
		"a verbatim text":   "=2147483647\r\n",
		"attributes":        "|1000000000\r\n",
		"lists after lists": strings.Repeat("*4\r\n:1\r\n:1\r\n:1\r\n", 10000),
	} {
		t.Run(name, func(t *testing.T) {
			bad := answering(t, func([]string) string { return answer })
			// These name the hostile one as the master, and as the owner of each slot.
			guide := answering(t, func(command []string) string {
				switch strings.ToLower(strings.Join(command[:min(len(command), 2)], " ")) {
				case "sentinel get-master-addr-by-name":
					host, port, _ := net.SplitHostPort(bad)
					return list(host, port)
				case "sentinel sentinels":
					return "*0\r\n"
				case "cluster slots":
					host, port, _ := net.SplitHostPort(bad)
					return "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n" + host + "\r\n:" + port + "\r\n$2\r\nid\r\n"
				}
				return "-ERR unknown command\r\n"
			})
			for mode, o := range map[string]redisstore.Options{
				"single":            {Mode: "single", Addrs: []string{bad}},
				"hostile sentinels": {Mode: "sentinel", Addrs: []string{bad}, MasterName: "main"},
				"hostile master":    {Mode: "sentinel", Addrs: []string{guide}, MasterName: "main"},
				"hostile cluster":   {Mode: "cluster", Addrs: []string{bad}},
				"hostile node":      {Mode: "cluster", Addrs: []string{guide}},
			} {
				o.DialTimeout, o.ReadTimeout = time.Minute, time.Minute // a busy machine answers late
				s := open(t, o)
				for what, call := range map[string]func(context.Context) error{
					"check": s.Check,
					"pop":   func(ctx context.Context) error { _, err := s.Pop(ctx, key(), 1); return err },
					"life":  func(ctx context.Context) error { _, err := s.Marks().Confirm(ctx); return err },
				} {
					var err error
					cost := allocated(func() { err = call(t.Context()) })
					if cost > 64 {
						t.Errorf("%s: %s cost %d MB", mode, what, cost)
					}
					var refused *framing.RefusedError
					switch {
					case err == nil:
						t.Errorf("%s: %s did not fail", mode, what)
					case mode == "hostile sentinels" && what == "life": // it says only that there is no majority
					case !errors.As(err, &refused) || refused.Addr != bad:
						t.Errorf("%s: %s: %v", mode, what, err)
					default:
						wantAdvice(t, err, "what listens at "+bad, "correct redis.addrs")
					}
				}
			}
		})
	}
}

// A Sentinel whose answers lack a part does not end the process: the library reads them in
// goroutines of its own.
func TestHostileSentinel(t *testing.T) {
	server := emptied(t)
	host, port, _ := net.SplitHostPort(server.Addr)
	master := "*2\r\n$" + strconv.Itoa(len(host)) + "\r\n" + host + "\r\n$" + strconv.Itoa(len(port)) + "\r\n" + port + "\r\n"
	subscribed := "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$20\r\n+replica-reconf-done\r\n:2\r\n"
	for name, answers := range map[string]struct{ master, messages string }{
		"a list of nothing":    {master: "*0\r\n"},
		"half an address":      {master: "*1\r\n$1\r\na\r\n"},
		"a message of nothing": {master, subscribed + "*0\r\n"},
		"a message of numbers": {master, subscribed + "*3\r\n:1\r\n:2\r\n:3\r\n"},
		"half a message":       {master, subscribed + "*2\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n"},
		"half a new master":    {master, subscribed + "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$4\r\nmain\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			subscriptions := make(chan struct{}, 2)
			addr := answering(t, func(command []string) string {
				switch strings.ToLower(command[0]) {
				case "sentinel":
					if command[1] == "get-master-addr-by-name" {
						return answers.master
					}
					return "*0\r\n"
				case "subscribe":
					select {
					case subscriptions <- struct{}{}:
					default:
					}
					return answers.messages
				}
				return "-ERR unknown command\r\n"
			})
			s := open(t, redisstore.Options{Mode: "sentinel", Addrs: []string{addr}, MasterName: "main"})
			err := s.Check(t.Context())
			if answers.messages == "" {
				var refused *framing.RefusedError
				if !errors.As(err, &refused) || refused.Server != "Redis Sentinel" {
					t.Error(err)
				}
				return
			}
			check.OK(t, err)
			<-subscriptions
			select { // again, as the connection was closed
			case <-subscriptions:
			case <-time.After(10 * time.Second):
				t.Error("the connection with the message was kept")
			}
			check.OK(t, s.Check(t.Context()))
		})
	}
}
