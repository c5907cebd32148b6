package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"shardid/model"

	"github.com/spf13/cobra"
)

const (
	leaseEdge  = time.Second     // kept from both ends of a lease: a program may count in seconds
	leaseGrace = 5 * time.Second // from SIGTERM to SIGKILL, at most
	leaseSlack = 5 * time.Second // by which the clock may differ from the database's
	leaseTick  = 100 * time.Millisecond
)

// exitError is an exit status of its own; err is nil where nothing is to be said.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.status, e.err) }
func (e *exitError) Unwrap() error { return e.err }

func (c *cli) lease() *cobra.Command {
	h := &holder{}
	var wait time.Duration
	host, _ := os.Hostname() // without one the instance has no name
	cmd := &cobra.Command{
		Use:   "lease --name NAME [--url URL] -- COMMAND [ARG…]",
		Short: "Run a command with a worker ID that nobody else has",
		Long: `Run a command with a worker ID that nobody else has.

Leases a worker ID of a name, waits until the clock is a second above the times that
earlier holders may have used, and runs the command with SHARDID_WORKER_ID,
SHARDID_EPOCH (Unix ms), SHARDID_WORKER_BITS and SHARDID_SEQ_BITS in its environment.
The lease is renewed while the command runs, and released when it has ended. Signals go
to the command. The exit status is the command's, 128 and the number of the signal that
ended it, 127 for a command that is not there, 126 for one that may not be run.

A command whose lease cannot be renewed in time gets SIGTERM, and SIGKILL a second
before the lease ends. On Linux both go to its whole process group, and the kernel kills
the command also when shardid is killed or stopped. What this cannot do:

- Change the user after it: the kernel then no longer kills the command, which is ended
  at once. Change the user first: gosu app shardid lease --name orders -- ./server
- Let setuid bits and file capabilities (setcap) have effect: a command with the latter is
  ended. Ambient capabilities do: setpriv --ambient-caps +net_bind_service shardid lease …
- See a command that changes its user and changes it back, or that asks the kernel to
  spare it: it outlives a shardid that is killed or stopped.
- End what the command starts and puts into another process group, or what it started
  when shardid is killed; end anything when it is killed on a system other than Linux.
- Be ended while it is stopped as the first process of a container: use docker run --init.
- Give the command a terminal to read from.

Where that matters, use a generator that looks at the end of its lease: docs/leases.md.`,
		Example: `  shardid lease --name orders -- java -jar app.jar
  shardid lease --name orders --url http://ids-0:8080,http://ids-1:8080 --token-file token -- ./server --port 9000
  gosu app shardid lease --name orders --instance shop-7 -- sh -c 'exec ./server --worker-id "$SHARDID_WORKER_ID"'`,
		Args: cobra.MinimumNArgs(1),
	}
	h.register(cmd, 3*time.Second,
		"`URL` of the server, or of several replicas, separated by commas (default that of the configured server.addr)")
	f := cmd.Flags()
	f.StringVar(&h.tokenFile, "token-file", "", "`FILE` with a bearer token to send")
	f.StringVar(&h.name, "name", "", "`name` of the worker IDs")
	f.StringVar(&h.instance, "instance", host,
		"what people see as the holder; an instance that returns gets its worker ID back where that is free")
	f.DurationVar(&wait, "wait", time.Minute, "`time` to try for while no server answers or no worker ID is free")
	required(cmd, "name")
	f.SetInterspersed(false) // what follows the command is its own
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		if err := errors.Join(model.CheckName(h.name), model.CheckInstance(h.instance), h.resolveReplicas(cfg)); err != nil {
			return err
		}
		path, err := exec.LookPath(args[0]) // as shells do
		if err != nil {
			return notRunnable(args[0], err)
		}
		h.command = &exec.Cmd{Path: path, Args: args, SysProcAttr: inOwnGroup()}
		h.command.Stdin, h.command.Stdout, h.command.Stderr = os.Stdin, os.Stdout, os.Stderr
		h.signals = make(chan os.Signal, 16)
		for _, s := range forwardedSignals() {
			if !signal.Ignored(s) { // by nohup, for example
				signal.Notify(h.signals, s)
			}
		}
		defer signal.Stop(h.signals)
		return h.run(cmd.Context(), wait)
	})
}

// notRunnable is the error of a command that cannot be started, with the exit status of shells.
func notRunnable(command string, err error) error {
	status := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		status = 127
	}
	return &exitError{status, fmt.Errorf("%s: %w", command, cmp.Or(errors.Unwrap(err), err))}
}

// holder runs a command under a lease. A program may read the wall clock once and count by the
// monotonic clock from then on, so its time is the latter, and the most that the wall clock was
// seen ahead of it since the start.
type holder struct {
	lessor
	command *exec.Cmd
	signals chan os.Signal

	lease   leased        // without a secret: none was granted
	began   time.Time     // the start of the command
	ahead   time.Duration // see above
	ended   chan struct{} // closed when the command has ended; nil before its start
	killAt  time.Time     // zero while the command may run
	refusal error         // why the command may not run, or could not be ended
	failing bool          // the last renewal failed
	immune  bool          // a signal could not be given
}

// run takes a lease, runs the command and gives the lease back. The error has the exit status.
func (h *holder) run(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	answers := h.hold(ctx, wait)
	err := h.supervise(answers)
	_ = setAlarm(0) // it is not needed any more
	cancel()
	for a := range answers { // until the requests have ended
		if a.err == nil {
			h.lease = a.lease
		}
	}
	if h.lease.Secret == "" {
		return err
	}
	lastUsed := h.lease.After
	if h.ended != nil {
		if failed := signalGroup(h.command.Process, syscall.SIGKILL); failed != nil { // to what the command left
			return fmt.Errorf("end the processes of group %d by hand, %v stays leased until it ends: %w",
				h.command.Process.Pid, h.lease, failed)
		}
		lastUsed = h.now() + leaseEdge.Milliseconds()
	}
	h.release(h.lease, max(min(lastUsed, h.lease.Until), 1)) // until may not be above after yet
	return err
}

func bySignal(s os.Signal) error {
	n, _ := s.(syscall.Signal)
	return &exitError{status: 128 + int(n)}
}

// supervise starts the command when its time has begun and ends it when its time is over.
func (h *holder) supervise(answers <-chan leaseAnswer) error {
	tick := time.NewTicker(leaseTick)
	defer tick.Stop()
	for {
		select {
		case <-h.ended:
			return h.status()
		case s := <-h.signals:
			switch {
			case h.ended != nil:
				h.signal(s)
			case s == syscall.SIGTERM || s == os.Interrupt || s == syscall.SIGHUP || s == syscall.SIGQUIT:
				return bySignal(s)
			}
		case a, ok := <-answers:
			switch {
			case !ok:
				answers = nil
			case a.final && h.ended == nil:
				return a.err
			default:
				h.take(a)
			}
		case <-tick.C:
			if h.ended != nil {
				h.look()
			} else if err := h.startInTime(); err != nil {
				return err
			}
		}
	}
}

// take takes an answer up: the lease, or why there is none.
func (h *holder) take(a leaseAnswer) {
	switch {
	case a.final:
		h.stop("%v was lost: %s", h.lease, oneLine(a.err))
	case a.err != nil && !h.failing:
		say("%v was not renewed, trying again until %v: %s", h.lease, unixTime(h.lease.Until), oneLine(a.err))
	case a.err == nil:
		h.lease = a.lease
	}
	h.failing = a.err != nil
}

// lastMs is the last time that the command may use, in Unix ms.
func (h *holder) lastMs() int64 { return h.lease.Until - leaseEdge.Milliseconds() }

// grace is how long the command has from SIGTERM to SIGKILL. The hold is three times the time
// between renewals.
func (h *holder) grace() time.Duration { return min(leaseGrace, 3*h.lease.renew()/4) }

// now is the time of the command in Unix ms.
func (h *holder) now() int64 {
	at := time.Now()
	h.ahead = max(h.ahead, time.Duration(at.UnixNano())-at.Sub(h.began))
	return (at.Sub(h.began) + h.ahead).Milliseconds()
}

// startInTime starts the command, when there is a lease and the clock is in its times. The thread
// that starts it lives as long: the kernel would end the command with it.
func (h *holder) startInTime() error {
	l, now := h.lease, time.Now().UnixMilli()
	switch {
	case l.Secret == "":
		return nil
	case now <= l.After+leaseEdge.Milliseconds() || now >= h.lastMs()-h.grace().Milliseconds():
		if time.Now().After(l.fits) {
			return fmt.Errorf("set the clock of this machine: it is not within the times of %v, %v to %v",
				l, unixTime(l.After), unixTime(l.Until))
		}
		return nil
	}
	h.began, h.command.Env = time.Now(), append(os.Environ(), l.environ()...)
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // for ever, as what the thread gave up does not come back
		err := cmp.Or(setAlarm(time.Duration(l.Until-now)*time.Millisecond-leaseEdge), giveUpPrivileges())
		if err == nil {
			err = h.command.Start()
		}
		started <- err
		if err == nil {
			_ = h.command.Wait() // ProcessState says all
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return notRunnable(h.command.Args[0], err)
	}
	h.ended = ended
	h.look()
	return nil
}

// status is the error of a command that has ended: its exit status, nil for 0.
func (h *holder) status() error {
	state := h.command.ProcessState
	switch s, ok := state.Sys().(syscall.WaitStatus); {
	case h.refusal != nil || state.Success():
		return h.refusal
	case ok && s.Signaled():
		return bySignal(s.Signal())
	}
	return &exitError{status: state.ExitCode()}
}

// look holds the clocks and the command against the lease.
func (h *holder) look() {
	if err := spared(h.command.Process.Pid); err != nil && h.refusal == nil {
		h.refusal = &exitError{126, fmt.Errorf("%s %w", h.command.Args[0], err)}
		h.killAt = time.Now()
	}
	left := time.Duration(h.lastMs()-h.now()) * time.Millisecond
	if left > 0 {
		_ = setAlarm(left) // as it could be set before
	}
	switch {
	case left <= 2*leaseTick || !h.killAt.IsZero() && !time.Now().Before(h.killAt):
		h.stop("%v ends", h.lease)
		h.signal(syscall.SIGKILL)
	case left <= h.grace():
		h.stop("%v was not renewed in time", h.lease)
	case time.Now().UnixMilli() <= h.lease.After+leaseEdge.Milliseconds():
		h.stop("the clock was set back to the times of earlier holders of %v", h.lease)
	}
}

// stop asks the command to end, once, and says why.
func (h *holder) stop(format string, args ...any) {
	if h.killAt.IsZero() {
		h.killAt = time.Now().Add(h.grace())
		say("ending the command: "+format, args...)
		h.signal(syscall.SIGTERM)
	}
}

// signal gives a signal to the command. One that cannot be given is told, and the lease is kept
// while the command runs.
func (h *holder) signal(s os.Signal) {
	if err := signalGroup(h.command.Process, s); err != nil && !h.immune {
		h.immune = true
		err = fmt.Errorf("end process %d by hand before %v, when %v ends: it got no signal: %w",
			h.command.Process.Pid, unixTime(h.lease.Until), h.lease, err)
		say("%s", oneLine(err))
		h.refusal = cmp.Or(h.refusal, err)
	}
}

func unixTime(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// say tells people what goes on; a command's own output is on the same files.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "shardid: "+format+"\n", args...) }
