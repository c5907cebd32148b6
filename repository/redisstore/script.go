package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name Redis gives a script, no protection
	"embed"
	"encoding/hex"
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

// script is a Lua script. Every one returns a string that is not empty. Its runs are the calls of
// the store that are observed, under the name of its last file.
type script struct {
	text, sha, name string
	observe         model.Observe
}

// luaFile is the name of a script's file, without its ending.
type luaFile string

// newScript joins files.
func newScript(observe model.Observe, files ...luaFile) script {
	var text strings.Builder
	for _, name := range files {
		source, err := sources.ReadFile(string(name) + ".lua")
		if err != nil {
			panic(err) // it is not embedded: no program with this error passes a test
		}
		text.Write(source)
	}
	sum := sha1.Sum([]byte(text.String())) //nolint:gosec // see the import
	return script{text.String(), hex.EncodeToString(sum[:]), string(files[len(files)-1]), observe}
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

// run sends the script by its hash, and its text only when the server does not
// know the hash: NOSCRIPT says for sure that nothing was executed.
func (s script) run(ctx context.Context, c redis.UniversalClient, keys []string, args ...any) (string, error) {
	ctx, end := s.observe.Begin(ctx, "redis", s.name)
	in := call{keys, args}
	cmd := s.byHash(ctx, in)
	err := c.Process(ctx, cmd)
	if isNoScript(err) {
		cmd = s.byText(ctx, in)
		err = c.Process(ctx, cmd)
	}
	end(err)
	return cmd.Val(), err
}

// runAll does the same for many calls in one pipeline and answers in order.
func (s script) runAll(ctx context.Context, c redis.UniversalClient, calls []call) []result {
	ctx, end := s.observe.Begin(ctx, "redis", s.name)
	results := exec(ctx, c, calls, s.byHash)
	var unknown []int
	var again []call
	for i, r := range results {
		if isNoScript(r.err) {
			unknown = append(unknown, i)
			again = append(again, calls[i])
		}
	}
	if len(again) > 0 {
		for i, r := range exec(ctx, c, again, s.byText) {
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

// silence is an error when no server answered any of the calls.
func silence(results []result) error {
	var last error
	for _, r := range results {
		if r.err == nil || isReply(r.err) {
			return nil
		}
		last = r.err
	}
	return last
}

func exec(ctx context.Context, c redis.UniversalClient, calls []call,
	command func(context.Context, call) *redis.StringCmd) []result {
	pipe := c.Pipeline()
	cmds := make([]*redis.StringCmd, len(calls))
	for i, in := range calls {
		cmds[i] = command(ctx, in)
		_ = pipe.Process(ctx, cmds[i]) // only queues; each command has its own error
	}
	_, execErr := pipe.Exec(ctx)
	results := make([]result, len(calls))
	for i, cmd := range cmds {
		results[i] = result{cmd.Val(), cmd.Err()}
		if results[i] == (result{}) {
			results[i].err = unanswered(execErr)
		}
	}
	return results
}

// unanswered is the error of a command that has neither reply nor error in a
// pipeline. go-redis v9.23 leaves commands so when the server refuses the
// connection itself, for example with WRONGPASS: then only Exec tells why.
func unanswered(execErr error) error {
	if execErr == nil || isNil(execErr) {
		return errNoReply
	}
	return execErr
}

// isNil tells the reply nil itself from errors that wrap it: the failure to find
// a master does so when the sentinels do not know its name.
func isNil(err error) bool { return err == redis.Nil } //nolint:errorlint // see above

func (s script) byHash(ctx context.Context, in call) *redis.StringCmd {
	return in.command(ctx, "evalsha", s.sha)
}

func (s script) byText(ctx context.Context, in call) *redis.StringCmd {
	return in.command(ctx, "eval", s.text)
}

func (in call) command(ctx context.Context, name, body string) *redis.StringCmd {
	args := make([]any, 3, 3+len(in.keys)+len(in.args))
	args[0], args[1], args[2] = name, body, len(in.keys)
	for _, key := range in.keys {
		args = append(args, key)
	}
	cmd := redis.NewStringCmd(ctx, append(args, in.args...)...)
	if len(in.keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	return cmd
}

func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// isReply tells an error the server answered with from one of the network, the
// context or the client.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
