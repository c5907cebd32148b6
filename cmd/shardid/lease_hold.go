package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// leaseEdge is what a command keeps from both ends of its lease: a program may count in
	// seconds.
	leaseEdge = time.Second
	// killLead is how long before the kernel ends this process its command is killed, so that
	// this process can say so.
	killLead = 250 * time.Millisecond
	// mostGrace is how long a command has from SIGTERM to SIGKILL, at most.
	mostGrace = 5 * time.Second
	// mostPause is the longest pause before a worker ID is asked for again.
	mostPause = 5 * time.Second
	// holdTick is how often a holder looks at the clocks.
	holdTick = 100 * time.Millisecond
	// clockSlack is how far the clock may differ from the database's without an end.
	clockSlack = 5 * time.Second
)

// holder runs a command under a lease.
//
// The time of the command is the latest that it may put in an ID. A program may read the wall
// clock once and count by the monotonic clock from then on; so the time is the monotonic clock,
// and the most that the wall clock was seen ahead of it since the command was started.
type holder struct {
	lessor  *lessor
	command *exec.Cmd
	signals <-chan os.Signal

	lease   leased
	renewed <-chan renewal
	alarm   alarm           // ends this process, and with it the command, at the end of the lease
	ahead   time.Duration   // see above
	ended   <-chan struct{} // nil before the command was started
	killAt  time.Duration   // by the monotonic clock: after SIGTERM; 0: the command may run
	failing bool            // the last renewal failed
}

// renewal is how a renewal ended.
type renewal struct {
	lease leased
	err   error
}

// end is the last instant, in Unix time, that the command may use.
func (h *holder) end() time.Duration {
	return time.Duration(h.lease.Until)*time.Millisecond - leaseEdge
}

// begin is the first.
func (h *holder) begin() time.Duration {
	return time.Duration(h.lease.After)*time.Millisecond + leaseEdge
}

// grace is how long the command has from SIGTERM to SIGKILL. The hold is three times the time
// between renewals.
func (h *holder) grace() time.Duration { return min(mostGrace, 3*h.lease.renew()/4) }

// run takes a lease, runs the command and gives the lease back. The error has the exit status.
func (h *holder) run(ctx context.Context, wait time.Duration) error {
	if err := h.acquire(ctx, wait); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.renewed = h.renew(ctx, h.lease)
	err := h.wait(ctx)
	if err == nil {
		err = h.supervise()
	}
	h.alarm.disarm()
	cancel()
	for range h.renewed { // until the renewals have ended
	}
	h.release()
	return err
}

// acquire leases a worker ID, for as long as wait allows, unless a signal comes.
func (h *holder) acquire(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	granted := make(chan error, 1)
	go func() { granted <- h.keepAsking(ctx, wait) }()
	for {
		select {
		case err := <-granted:
			return err
		case s := <-h.signals:
			if !isEnd(s) {
				continue
			}
			cancel()
			if err := <-granted; err == nil {
				h.release()
			}
			return bySignal(s)
		}
	}
}

func (h *holder) keepAsking(ctx context.Context, wait time.Duration) (err error) {
	said := ""
	for {
		if h.lease, err = h.lessor.acquire(ctx); err == nil {
			return nil
		}
		if isFinal(err) {
			return fmt.Errorf("lease a worker ID: %w", err)
		}
		pause := time.Second
		var refused *refusedError
		if errors.As(err, &refused) { // another holder may come back earlier
			pause = min(max(pause, refused.after), mostPause)
		}
		if text := oneLine(err); ctx.Err() == nil && text != said {
			said = text
			say("no worker ID yet, trying again for up to %v: %s", wait, text)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("no worker ID within --wait %v: %w", wait, err)
		}
	}
}

// release gives the lease back above what the command may have used.
func (h *holder) release() {
	lastUsed := h.lease.After
	if h.ahead > 0 { // the command was started
		_, mono := clocks()
		lastUsed = (mono + h.ahead + leaseEdge).Milliseconds()
	}
	// Before the first renewal until may not be above after; at the end it may have passed.
	lastUsed = max(min(lastUsed, h.lease.Until), 1)
	if err := h.lessor.release(context.Background(), h.lease, lastUsed); err != nil {
		say("%v was not released and stays leased until it ends: %s", h.lease, oneLine(err))
	}
}

// renew renews a lease until the context ends or the lease is lost; each try is told.
func (h *holder) renew(ctx context.Context, l leased) <-chan renewal {
	tries := make(chan renewal)
	go func() {
		defer close(tries)
		for wait := l.renew(); ; {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			next, err := h.lessor.renew(ctx, l)
			wait = min(time.Second, l.renew()/4)
			if err == nil {
				l, wait = next, next.renew()
			}
			select {
			case tries <- renewal{next, err}:
			case <-ctx.Done():
				return
			}
			if isLost(err) {
				return
			}
		}
	}()
	return tries
}

// wait waits until the clock is where the command may begin, and starts it.
func (h *holder) wait(ctx context.Context) error {
	tick := time.NewTicker(holdTick)
	defer tick.Stop()
	longest := max(time.Duration(h.lease.After-h.lease.Now)*time.Millisecond, 0) + leaseEdge + clockSlack
	told := false
	for {
		wall, _ := clocks()
		switch left := h.begin() - wall; {
		case left > longest:
			return fmt.Errorf("the clock of this machine is behind: %v has times that may be used from %v on: set the clock", h.lease, unixTime(h.begin()))
		case left <= 0 && wall < h.end()-killLead-h.grace():
			return h.start()
		case left <= 0 && h.lease.Until > h.lease.After+leaseEdge.Milliseconds() && wall-time.Duration(h.lease.Now)*time.Millisecond > clockSlack:
			return fmt.Errorf("the clock of this machine is past the time of %v, which ends at %v: set the clock", h.lease, unixTime(h.end()))
		case left > 2*leaseEdge && !told:
			told = true
			say("waiting for %v: earlier holders of %v may have used the time until then", left.Round(time.Second), h.lease)
		}
		select {
		case r, ok := <-h.renewed:
			if !ok {
				return ctx.Err()
			}
			if isLost(r.err) {
				return fmt.Errorf("%v was lost before the command was started: %w", h.lease, r.err)
			}
			h.note(r)
		case s := <-h.signals:
			if isEnd(s) {
				return bySignal(s)
			}
		case <-tick.C:
		}
	}
}

func unixTime(at time.Duration) string {
	return time.Unix(0, int64(at)).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// start starts the command, after the alarm that ends it.
func (h *holder) start() error {
	wall, mono := clocks()
	h.ahead = wall - mono
	if err := h.alarm.set(h.end(), h.end()-h.ahead); err != nil {
		return err
	}
	h.command.Env = append(os.Environ(), h.lease.environ()...)
	ended, err := start(h.command)
	if err != nil {
		h.ahead = 0
		return notRunnable(h.command.Args[0], err)
	}
	h.ended = ended
	return nil
}

// note takes a renewal up.
func (h *holder) note(r renewal) {
	switch {
	case r.err == nil:
		if h.failing {
			say("%v is renewed again", h.lease)
		}
		h.lease, h.failing = r.lease, false
	case !h.failing:
		h.failing = true
		say("%v was not renewed, trying again until %v: %s", h.lease, unixTime(h.end()), oneLine(r.err))
	}
}

// supervise gives the command its signals, and ends it when its time does. The error is its exit
// status.
func (h *holder) supervise() error {
	tick := time.NewTicker(holdTick)
	defer tick.Stop()
	renewed := h.renewed
	for {
		select {
		case <-h.ended:
			return ending(h.command.ProcessState)
		case s := <-h.signals:
			pass(h.command, s)
		case r, ok := <-renewed:
			if !ok {
				renewed = nil // the loss was told before
				continue
			}
			if isLost(r.err) {
				h.stop("%v was lost: %s", h.lease, oneLine(r.err))
				continue
			}
			h.note(r)
			if err := h.alarm.set(h.end(), h.end()-h.ahead); err != nil {
				h.stop("%v", err)
			}
		case <-tick.C:
			h.look()
		}
	}
}

// look holds the clocks against the lease.
func (h *holder) look() {
	wall, mono := clocks()
	if ahead := wall - mono; ahead > h.ahead { // the clock was set
		h.ahead = ahead
		if err := h.alarm.set(h.end(), h.end()-h.ahead); err != nil {
			h.stop("%v", err)
		}
	}
	last := h.end() - killLead - h.ahead // by the monotonic clock
	switch {
	case mono >= last || h.killAt > 0 && mono >= h.killAt:
		h.stop("%v ends", h.lease)
		_ = h.command.Process.Kill()
	case mono >= last-h.grace():
		h.stop("%v was not renewed in time", h.lease)
	case wall <= h.begin():
		h.stop("the clock was set back to the times of earlier holders of %v", h.lease)
	}
}

// stop asks the command to end, once, and says why.
func (h *holder) stop(format string, args ...any) {
	if h.killAt > 0 {
		return
	}
	_, mono := clocks()
	h.killAt = mono + h.grace()
	say("ending the command: "+format, args...)
	_ = h.command.Process.Signal(syscall.SIGTERM)
}
