package redisstore

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
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
	name string
}

var (
	popScript         = newScript("prelude", "pop")
	stateScript       = newScript("prelude", "state")
	pushScript        = newScript("prelude", "push")
	deleteScript      = newScript("prelude", "delete")
	marksScript       = newScript("prelude", "marks")
	checkScript       = newScript("prelude", "check")
	lockScript        = newScript("lock")
	unlockScript      = newScript("unlock")
	sectionsScript    = newScript("prelude", "sequence_state")
	numbersScript     = newScript("prelude", "sequence_next")
	pushNumbersScript = newScript("prelude", "sequence_push")
	forgetScript      = newScript("prelude", "sequence_forget")
	replicasScript    = newScript("replicas")
)

// luaFile is the name of a script's file, without its ending.
type luaFile string

func newScript(files ...luaFile) script {
	return script{redis.NewScript(joinFiles(files)), string(files[len(files)-1])}
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

// run runs a script once, on the servers of a client.
func (s *Store) run(
	ctx context.Context, c redis.UniversalClient, what script, keys []string, args ...any,
) *redis.Cmd {
	ctx, end := s.opts.Observe.Begin(ctx, "redis", what.name)
	reply := what.Run(ctx, c, keys, args...)
	end(reply.Err())
	return reply
}

// runAll runs a script for many calls in one pipeline and answers in order.
func (s *Store) runAll(ctx context.Context, what script, calls []call) []result {
	ctx, end := s.opts.Observe.Begin(ctx, "redis", what.name)
	results := execScripts(ctx, s.client, calls, what.EvalSha)
	var unknown []int
	var again []call
	for i, r := range results {
		if redis.HasErrorPrefix(r.err, "NOSCRIPT") {
			unknown = append(unknown, i)
			again = append(again, calls[i])
		}
	}
	if len(again) > 0 {
		for i, r := range execScripts(ctx, s.client, again, what.Eval) {
			results[unknown[i]] = r
		}
	}
	end(firstError(results))
	return results
}

// callsFor are calls of a script for many keys, for so many of them each, all with the same arguments.
func callsFor[K any](keys []K, each int, name func(K) string, args ...any) []call {
	var calls []call
	for part := range slices.Chunk(keys, each) {
		c := call{args: args}
		for _, key := range part {
			c.keys = append(c.keys, name(key))
		}
		calls = append(calls, c)
	}
	return calls
}

// readAnswers gives an answer for each key of calls, in order: read makes it of a line of the reply, for the key at
// that place among all, and failed of the error of its call.
func readAnswers[T any](
	op string, calls []call, results []result, read func(at int, line *fields) T, failed func(error) T,
) []T {
	var all []T
	for i, r := range results {
		own, err := make([]T, len(calls[i].keys)), r.err
		if err == nil {
			err = readLines(r.reply, len(own), func(j int, line *fields) { own[j] = read(len(all)+j, line) })
		}
		if err = explain(op, err); err != nil {
			own = slices.Repeat([]T{failed(err)}, len(own))
		}
		all = append(all, own...)
	}
	return all
}

// runParts is runAll for any number of calls, so many at once. Once no server answers, the rest is not sent:
// each pipeline would wait for a timeout of its own.
func (s *Store) runParts(ctx context.Context, what script, calls []call, atOnce int) []result {
	results := make([]result, 0, len(calls))
	for part := range slices.Chunk(calls, atOnce) {
		answers := s.runAll(ctx, what, part)
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
