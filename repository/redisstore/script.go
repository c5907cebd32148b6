package redisstore

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

//go:embed *.lua
var sources embed.FS

// errNoReply reports a command that go-redis ended with neither reply nor error.
var errNoReply = errors.New("no reply")

// script is a Lua script. One whose replies runAll reads returns a string that is not empty. It is sent by its hash,
// and its text only when the server does not know the hash: NOSCRIPT says for sure that nothing was executed. Its
// runs are the calls of the store that are observed, under the name of its last file.
type script struct {
	*redis.Script
	name    string
	observe model.Observe
}

// luaFile is the name of a script's file, without its ending.
type luaFile string

func newScript(observe model.Observe, files ...luaFile) script {
	return script{redis.NewScript(joinFiles(files)), string(files[len(files)-1]), observe}
}

func joinFiles(files []luaFile) string {
	var text strings.Builder
	for _, name := range files {
		source, err := sources.ReadFile(string(name) + ".lua")
		if err != nil {
			panic(err) // it is not embedded: no program with this error passes a test
		}
		text.Write(source)
	}
	return text.String()
}

// call is one run of a script.
type call struct {
	keys []string
	args []any
}

// result of one call.
type result struct {
	reply string
	err   error
}

// run runs the script once.
func (s script) run(ctx context.Context, c redis.UniversalClient, keys []string, args ...any) *redis.Cmd {
	ctx, end := s.observe.Begin(ctx, "redis", s.name)
	reply := s.Run(ctx, c, keys, args...)
	end(reply.Err())
	return reply
}

// runAll runs the script for many calls in one pipeline and answers in order.
func (s script) runAll(ctx context.Context, c redis.UniversalClient, calls []call) []result {
	ctx, end := s.observe.Begin(ctx, "redis", s.name)
	results := execScripts(ctx, c, calls, s.EvalSha)
	var unknown []int
	var again []call
	for i, r := range results {
		if redis.HasErrorPrefix(r.err, "NOSCRIPT") {
			unknown = append(unknown, i)
			again = append(again, calls[i])
		}
	}
	if len(again) > 0 {
		for i, r := range execScripts(ctx, c, again, s.Eval) {
			results[unknown[i]] = r
		}
	}
	end(firstError(results))
	return results
}

// runParts is runAll for any number of calls, so many at once. Once no server answers, the rest is not sent:
// each pipeline would wait for a timeout of its own.
func (s script) runParts(ctx context.Context, c redis.UniversalClient, calls []call, atOnce int) []result {
	results := make([]result, 0, len(calls))
	for part := range slices.Chunk(calls, atOnce) {
		answers := s.runAll(ctx, c, part)
		results = append(results, answers...)
		if err := silence(answers); err != nil {
			return append(results, slices.Repeat([]result{{err: err}}, len(calls)-len(results))...)
		}
	}
	return results
}

// silence is an error when no server answered any of the calls, not even with an error.
func silence(results []result) error {
	var last error
	for _, r := range results {
		if _, answered := errors.AsType[redis.Error](r.err); r.err == nil || answered {
			return nil
		}
		last = r.err
	}
	return last
}

// eval is EvalSha or Eval of a script.
type eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd

func execScripts(ctx context.Context, c redis.UniversalClient, calls []call, run eval) []result {
	pipe := c.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, in := range calls {
		cmds[i] = run(ctx, pipe, in.keys, in.args...) // only queues; each command has its own error
	}
	_, execErr := pipe.Exec(ctx)
	results := make([]result, len(calls))
	for i, cmd := range cmds {
		results[i].reply, _ = cmd.Val().(string) // else a number, which nobody reads
		// go-redis v9.23 gives the error of a context that ends, while it tries one server of a cluster again, to the
		// commands that others have answered, too. It leaves commands with neither reply nor error when the server
		// refuses the connection itself, for example with WRONGPASS: then only Exec tells why.
		if cmd.Val() == nil {
			results[i].err = cmp.Or(cmd.Err(), execErr, errNoReply)
		}
	}
	return results
}
