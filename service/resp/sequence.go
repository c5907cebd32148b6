package resp

import (
	"bytes"
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
	token    *access.Token        // of all: another one would have come by another command
	began    time.Duration        // since the server's begun
}

// sequenceCommand is INCR, INCRBY or GET.
type sequenceCommand struct {
	name string
	ask  model.SequenceAsk
}

// forget empties it, and keeps the room.
func (g *gathered) forget() {
	clear(g.commands)
	clear(g.asks)
	g.commands, g.asks, g.token = g.commands[:0], g.asks[:0], nil
}

// gather keeps a command for a sequence until flushSequences answers it; false for any other command.
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
	g := &c.work.gathered
	if len(g.commands) == 0 {
		g.began = c.began()
	}
	one.ask.Err = c.readSequence(&one.ask, args)
	if g.commands = append(g.commands, one); len(g.commands) == maxGathered {
		c.flushSequences()
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
		return fmt.Errorf("%w: write sequence:<space>:<key>, not %.64q", model.ErrInvalidArgument, args[0])
	}
	if len(args) == 2 {
		count, err := model.ParseRange("INCRBY of a sequence takes", args[1], 1, model.MaxBatch)
		if err != nil {
			return err
		}
		ask.Count = int64(count)
	}
	return nil
}

// flushSequences answers what was gathered. Call it before anything else is answered.
func (c *conn) flushSequences() {
	g := &c.work.gathered
	if len(g.commands) == 0 {
		return
	}
	for i := range g.commands {
		if ask := &g.commands[i].ask; ask.Err == nil {
			g.asks = append(g.asks, ask)
		}
	}
	if len(g.asks) > 0 {
		c.server.opts.Issuer.AskSequence(c.server.base, g.token, g.asks)
	}
	c.work.ended = time.Since(c.server.begun)
	took, out := c.work.ended-g.began, &c.work.out
	for i := range g.commands {
		one, code := &g.commands[i], 0
		switch ask := &one.ask; {
		case ask.Err != nil:
			code = c.failed(ask.Err)
		case one.name == "GET": // a string, as Redis has it
			var digits [20]byte
			*out = appendBulk(*out, strconv.AppendInt(digits[:0], ask.Last, 10))
		default: // the last number that was taken
			*out = appendInteger(*out, ask.Last)
		}
		c.server.opts.Issuer.Traffic.Observe(model.ModeSequence, code, took)
	}
	g.forget()
}

// get answers GET of what is no sequence: all else is issued once.
func (c *conn) get([][]byte) {
	c.fail(issuer.CodeInvalid,
		"send INCR, LPOP or RPOP for IDs: GET says how far a sequence has come, by sequence:<space>:<key>")
}
