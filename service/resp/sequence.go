package resp

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"
)

// maxGathered is how many commands for sequences are asked for together.
const maxGathered = 256

// sequencePrefix is what the key of a sequence begins with: sequence:<space>:<key>, whose last
// part is any bytes.
const sequencePrefix = "sequence:"

// gathered are commands for sequences that have come together. They are asked for in one call
// and answered in their order.
type gathered struct {
	commands []sequenceCommand
	asks     []*model.SequenceAsk // of those that could be read
	ctx      context.Context      // of the first one's trace
	token    *access.Token        // of all: another one would have come by another command
	began    time.Duration        // since the server's begun
	shown    []byte               // the key of one, for Observe
}

// sequenceCommand is INCR, INCRBY or GET.
type sequenceCommand struct {
	name    string
	ask     model.SequenceAsk
	traceID string
	end     func(code int) // of its span; nil without tracing
}

// forget empties it, and keeps the room.
func (g *gathered) forget() {
	clear(g.commands)
	clear(g.asks)
	g.commands, g.asks, g.ctx, g.token = g.commands[:0], g.asks[:0], nil, nil
}

// gather keeps a command for a sequence until settle answers it; false for any other command.
func (c *conn) gather(name []byte, args [][]byte) bool {
	if len(args) == 0 || !bytes.HasPrefix(args[0], []byte(sequencePrefix)) {
		return false
	}
	one := sequenceCommand{}
	switch {
	case string(name) == "INCR" && len(args) == 1:
		one.name, one.ask.Count = "INCR", 1
	case string(name) == "INCRBY" && len(args) == 2:
		one.name = "INCRBY"
	case string(name) == "GET" && len(args) == 1:
		one.name = "GET"
	default:
		return false
	}
	g, ctx := &c.work.gathered, c.server.base
	if trace := c.server.opts.Trace; trace != nil {
		ctx, one.traceID, one.end = trace(ctx, one.name, access.Sequence.String())
	}
	if len(g.commands) == 0 {
		g.ctx = ctx
		if g.began = c.work.ended; g.began == 0 {
			g.began = time.Since(c.server.begun)
		}
	}
	one.ask.Err = c.readSequence(&one.ask, args)
	if g.commands = append(g.commands, one); len(g.commands) == maxGathered {
		c.settle()
	}
	return true
}

// readSequence finds the token and reads the arguments, which change when the next command is
// read. A request of the token's rate is used up.
func (c *conn) readSequence(ask *model.SequenceAsk, args [][]byte) error {
	token, err := c.admit()
	if err != nil {
		return err
	}
	c.work.gathered.token = token
	var complete bool
	ask.Space, ask.Key, complete = strings.Cut(string(args[0][len(sequencePrefix):]), ":")
	if !complete {
		return fmt.Errorf("%w: %s is not sequence:<space>:<key>", model.ErrInvalidArgument, quote(args[0]))
	}
	if len(args) == 2 {
		count, err := strconv.ParseUint(string(args[1]), 10, 31)
		if err != nil || count < 1 || count > model.MaxBatch {
			return fmt.Errorf("%w: INCRBY of a sequence takes a whole number in 1…%d, not %s", model.ErrInvalidArgument, model.MaxBatch, quote(args[1]))
		}
		ask.Count = int64(count)
	}
	return nil
}

// settle answers what was gathered. Whatever answers something else comes after it.
func (c *conn) settle() {
	if c.work == nil || len(c.work.gathered.commands) == 0 {
		return
	}
	g := &c.work.gathered
	for i := range g.commands {
		if ask := &g.commands[i].ask; ask.Err == nil {
			g.asks = append(g.asks, ask)
		}
	}
	if len(g.asks) > 0 {
		c.server.opts.Issuer.AskSequence(g.ctx, g.token, g.asks)
	}
	c.work.ended = time.Since(c.server.begun)
	took := c.work.ended - g.began
	for i := range g.commands {
		c.answerSequence(&g.commands[i], took)
		if len(c.work.out) >= flushAt {
			_ = c.send() // ends the connection when it fails
		}
	}
	g.forget()
}

// answerSequence answers one command: INCR and INCRBY with the last number, an integer as Redis
// has it, and GET with a string.
func (c *conn) answerSequence(one *sequenceCommand, took time.Duration) {
	out, ask, code := &c.work.out, &one.ask, 0
	switch {
	case ask.Err != nil:
		code = c.failed(ask.Err)
	case one.name == "GET":
		var digits [20]byte
		*out = appendBulk(*out, strconv.AppendInt(digits[:0], ask.Last, 10))
	default:
		*out = appendInteger(*out, ask.Last)
	}
	if code == 0 {
		c.server.answers.Add(0)
	}
	opts := &c.server.opts
	opts.Issuer.Traffic.Observe(access.Sequence, code, took)
	if opts.Observe != nil {
		opts.Observe(issuer.Command{Name: one.name, Key: c.shownSpace(ask.Space, code), Count: int(ask.Count), Code: code, Took: took,
			TraceID: one.traceID, Token: c.work.gathered.token.Name()})
	}
	if one.end != nil {
		one.end(code)
	}
}

// shownSpace is what the log may say of the key of a sequence: the space if it is known. What
// follows it may name a person.
func (c *conn) shownSpace(space string, code int) []byte {
	if known := c.server.opts.KnownSpace; code != 0 && (known == nil || !known(space)) {
		space = hidden
	}
	shown := &c.work.gathered.shown
	*shown = append(append((*shown)[:0], sequencePrefix...), space...)
	return *shown
}

// get answers GET of what is no sequence: all else is issued once.
func (c *conn) get([][]byte) {
	c.fail(-6, "GET says how far a sequence has come, by sequence:<space>:<key>: INCR, LPOP and RPOP issue IDs")
}
