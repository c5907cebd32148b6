package resp

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/fakes"
	"shardid/service/issuer"
)

// endless is a client that sends the same commands over and over and takes every answer.
type endless struct {
	net.Conn
	text string
	left int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.left--; e.left < 0 {
		return 0, io.EOF
	}
	return copy(b, e.text), nil
}

func (e *endless) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkCommands is what a command costs, without the network.
func BenchmarkCommands(b *testing.B) {
	for name, test := range map[string]struct {
		command []string
		times   int
	}{
		"INCR":           {[]string{"INCR", "snowflake"}, 1},
		"INCR_pipelined": {[]string{"INCR", "snowflake"}, 16},
		"LPOP_100":       {[]string{"LPOP", "snowflake", "100"}, 1},
	} {
		b.Run(name, func(b *testing.B) {
			s := New(Options{Log: slog.New(slog.DiscardHandler), Issuer: &issuer.Issuer{
				Snowflake: fakes.Generator{Mode: &fakes.Mode{}}, Traffic: issuer.NewTraffic(nil, model.ModeSnowflake),
			}})
			text := strings.Repeat(encode(test.command...), test.times)
			c := &conn{Conn: &endless{text: text, left: b.N/test.times + 1}, server: s}
			c.in.from, c.in.beforeRead = c.Conn, c.beforeRead
			b.ReportAllocs()
			b.ResetTimer()
			c.serve()
		})
	}
}
