package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"shardid/model"
	"shardid/service/issuer"

	"github.com/spf13/cobra"
)

// `shardid lease` takes a lease of a worker ID and runs a command under it: it starts the command when the lease's time
// has begun, and ends its process group a second before the lease ends. Another goroutine renews the lease meanwhile,
// so the end comes in time however long a replica takes to answer.

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
before the lease ends, on Linux with its whole process group. What this cannot do:

- End the command while shardid is stopped, as by SIGSTOP or a debugger.
- End it when shardid is killed. On Linux the kernel does, but not what the command
  started, nor a command that has changed its user or has setuid bits or file
  capabilities. Change the user first: gosu app shardid lease --name orders -- ./server
- End what the command starts and puts into another process group.
- Give the command a terminal to read from.

Where that matters, use a generator that looks at the end of its lease: docs/leases.md.`,
		Example: `  shardid lease --name orders -- java -jar app.jar
  shardid lease --name orders --url http://ids-0:8080,http://ids-1:8080 --token-file token -- ./server --port 9000
  gosu app shardid lease --name orders --instance shop-7 -- sh -c 'exec ./server --worker-id "$SHARDID_WORKER_ID"'`,
		Args: cobra.MinimumNArgs(1),
	}
	h.ask.asClient(cmd, 3*time.Second,
		"`URL` of the server, or of several replicas, separated by commas (default that of the configured server.addr)")
	f := cmd.Flags()
	f.StringVar(&h.name, "name", "", "`name` of the worker IDs")
	f.StringVar(&h.instance, "instance", host,
		"what people see as the holder; an instance that returns gets its worker ID back where that is free")
	f.DurationVar(&h.wait, "wait", time.Minute, "`time` to try for while no server answers or no worker ID is free")
	required(cmd, "name")
	f.SetInterspersed(false) // what follows the command is its own
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		h.cfg = cfg
		err := errors.Join(model.CheckName(h.name), model.CheckInstance(h.instance), h.resolveReplicas())
		if err != nil {
			return err
		}
		path, err := exec.LookPath(args[0]) // as shells do
		if err != nil {
			return notRunnable(args[0], err)
		}
		h.command = &exec.Cmd{Path: path, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
		h.command.SysProcAttr = ownGroup()
		return h.run(cmd.Context())
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

// leased is a lease, as a server answers it. Times are Unix ms.
type leased struct {
	Name       string `json:"name"`
	WorkerID   int64  `json:"workerId"`
	Secret     string `json:"secret"`
	Epoch      int64  `json:"epoch,string"`
	WorkerBits uint   `json:"workerBits"`
	SeqBits    uint   `json:"seqBits"`
	After      int64  `json:"after,string"` // IDs have a later time,
	Until      int64  `json:"until,string"` // and this one at most
	Now        int64  `json:"now,string"`   // by the database's clock
	RenewMs    int64  `json:"renewMs"`
}

// pause is the time between two renewals.
func (l leased) pause() time.Duration { return time.Duration(l.RenewMs) * time.Millisecond }

func (l leased) String() string {
	return fmt.Sprintf("worker ID %d of the name %q", l.WorkerID, l.Name)
}

// holder runs a command under a lease. A program may read the wall clock once and count by the monotonic clock from
// then on, so its time is the latter, and the most that the wall clock was seen ahead of it since the start.
type holder struct {
	ask            asking   // as the flags say
	replicas       []asking // that grant leases of the name; the first is asked first
	cfg            Config
	name, instance string
	wait           time.Duration // the flag of that name

	command *exec.Cmd
	lease   leased
	fits    time.Time     // when the clock of this machine should be in the times of the lease
	began   time.Time     // the start of the command
	ahead   time.Duration // see above
	ended   chan struct{} // closed when the command has ended; nil before its start
	killAt  time.Time     // zero while the command may run
	immune  bool          // a signal could not be given
}

// resolveReplicas reads --url and the token.
func (h *holder) resolveReplicas() error {
	_, err := h.ask.token()
	for one := range strings.SplitSeq(h.ask.url, ",") {
		ask := h.ask
		ask.url = strings.TrimRight(strings.TrimSpace(one), "/") + "/v1/leases/" + url.PathEscape(h.name)
		_, _, wrong := ask.resolve(h.cfg)
		err = errors.Join(err, wrong)
		h.replicas = append(h.replicas, ask)
	}
	return err
}

// run takes a lease, runs the command and gives the lease back. The error has the exit status.
func (h *holder) run(ctx context.Context) (err error) {
	if h.lease, err = h.acquire(ctx); err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	for _, s := range forwardedSignals() {
		if !signal.Ignored(s) { // by nohup, for example
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	renewals := h.renew(ctx, h.lease)
	err = h.supervise(renewals, signals)
	cancel()
	for r := range renewals { // until the requests have ended
		h.lease = r.lease
	}
	lastUsed := h.lease.After
	if h.ended != nil {
		if failed := signalGroup(h.command.Process, syscall.SIGKILL); failed != nil { // to what the command left
			return fmt.Errorf("end the processes of group %d by hand, %v stays leased until it ends: %w",
				h.command.Process.Pid, h.lease, failed)
		}
		lastUsed = h.now() + leaseEdge.Milliseconds()
	}
	lastUsed = max(min(lastUsed, h.lease.Until), 1) // until may not be above after yet
	given := map[string]any{"secret": h.lease.Secret, "lastUsed": strconv.FormatInt(lastUsed, 10)}
	path := fmt.Sprintf("/%d", h.lease.WorkerID)
	_, failed := h.request(context.Background(), http.MethodDelete, path, h.ask.timeout, given)
	if failed != nil && !isLost(failed) { // it may have ended by this request, whose answer was lost
		say("%v was not released and stays leased until it ends: %s", h.lease, oneLine(failed))
	}
	return err
}

// acquire leases a worker ID, for as long as --wait allows.
func (h *holder) acquire(ctx context.Context) (leased, error) {
	given := map[string]any{}
	if h.instance != "" {
		given["instance"] = h.instance
	}
	said := ""
	for last := time.Now().Add(h.wait); ; {
		l, err := h.request(ctx, http.MethodPost, "", min(h.ask.timeout, time.Until(last)), given)
		switch {
		case err == nil:
			left := time.Duration(l.After-l.Now)*time.Millisecond + leaseEdge
			if left > 2*leaseEdge {
				say("waiting for %v: earlier holders of %v may have used the time until then",
					left.Round(time.Second), l)
			}
			h.fits = time.Now().Add(left + leaseEdge + leaseSlack)
			return l, nil
		case isFinal(err):
			return l, fmt.Errorf("lease a worker ID: %w", err)
		case said != oneLine(err) && time.Now().Add(time.Second).Before(last):
			said = oneLine(err)
			say("no worker ID yet, trying again for up to %v: %s", h.wait, said)
		}
		if time.Now().Add(time.Second).After(last) || !sleep(ctx, time.Second) {
			return l, fmt.Errorf("no worker ID within --wait %v: %w", h.wait, err)
		}
	}
}

// renewal is a lease as it is after a request to renew it, and why it is not renewed.
type renewal struct {
	lease leased
	err   error
}

// renew renews a lease until the context ends or the lease is lost, and tells of each try.
func (h *holder) renew(ctx context.Context, l leased) <-chan renewal {
	tries := make(chan renewal)
	go func() {
		defer close(tries)
		path, given := fmt.Sprintf("/%d/renew", l.WorkerID), map[string]any{"secret": l.Secret}
		for pause := l.pause(); sleep(ctx, pause); {
			// All replicas together leave time for another try.
			within := min(h.ask.timeout, l.pause()/time.Duration(2*len(h.replicas)))
			next, err := h.request(ctx, http.MethodPost, path, within, given)
			if err == nil && (next.WorkerID != l.WorkerID || next.Secret != l.Secret) {
				err = fmt.Errorf("the answer to the renewal of %v is about %v with another secret", l, next)
			}
			if pause = min(time.Second, l.pause()/4); err == nil {
				l, pause = next, next.pause()
			}
			if tries <- (renewal{l, err}); isLost(err) {
				return
			}
		}
	}()
	return tries
}

// request asks one replica after the other until one has an answer that counts. That to DELETE has no lease.
func (h *holder) request(
	ctx context.Context, method, path string, within time.Duration, given map[string]any,
) (l leased, err error) {
	for range h.replicas {
		var said struct{ Lease *leased }
		ask := h.replicas[0]
		ask.timeout = within
		answer, failed := ask.send(ctx, h.cfg, method, path, given)
		switch err = failed; {
		case err != nil:
		case json.Unmarshal(answer, &said) != nil || (said.Lease == nil) != (method == http.MethodDelete) ||
			said.Lease != nil && (said.Lease.Name != h.name || said.Lease.Secret == "" || said.Lease.RenewMs < 1):
			err = fmt.Errorf("%s answers not as shardid does: check the URL", ask.url)
		case said.Lease != nil:
			return *said.Lease, nil
		}
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return l, err
		}
		h.replicas = append(h.replicas[1:], h.replicas[0])
	}
	return l, err
}

// isFinal says whether the same request gets the same answer later, and from every replica.
func isFinal(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && r.status < http.StatusInternalServerError && r.status != http.StatusTooManyRequests &&
		r.code != 0 && r.code != issuer.CodeNoRoute // a replica of a newer version may have the path
}

// isLost says whether an answer means that a lease is over: it is lost (-14), or its name gone (-2).
func isLost(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && (r.code == -14 || r.code == -2)
}

// supervise starts the command when its time has begun and ends it when its time is over.
func (h *holder) supervise(renewals <-chan renewal, signals <-chan os.Signal) error {
	runtime.LockOSThread() // for ever: Linux ends the command with the thread that started it
	tick := time.NewTicker(leaseTick)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-h.ended:
			return h.status()
		case s := <-signals:
			switch {
			case h.ended != nil:
				h.signal(s)
			case s == syscall.SIGTERM || s == os.Interrupt || s == syscall.SIGHUP || s == syscall.SIGQUIT:
				return bySignal(s)
			}
		case r, more := <-renewals:
			switch {
			case !more:
				renewals = nil
			case isLost(r.err) && h.ended == nil:
				return r.err
			case isLost(r.err):
				h.stop("%v was lost: %s", h.lease, oneLine(r.err))
			case r.err != nil && !failing:
				say("%v was not renewed, trying again until %v: %s", h.lease, unixTime(h.lease.Until), oneLine(r.err))
			case r.err == nil:
				h.lease = r.lease
			}
			failing = r.err != nil
		case <-tick.C:
			if h.ended != nil {
				h.endInTime()
			} else if err := h.startInTime(); err != nil {
				return err
			}
		}
	}
}

// now is the time of the command in Unix ms.
func (h *holder) now() int64 {
	at := time.Now()
	h.ahead = max(h.ahead, time.Duration(at.UnixNano())-at.Sub(h.began))
	return (at.Sub(h.began) + h.ahead).Milliseconds()
}

// left is how long the command may still use its worker ID.
func (h *holder) left() time.Duration {
	return time.Duration(h.lease.Until-h.now())*time.Millisecond - leaseEdge
}

// grace is how long the command has from SIGTERM to SIGKILL. A lease lasts three times the time between renewals.
func (h *holder) grace() time.Duration { return min(leaseGrace, 3*h.lease.pause()/4) }

// isEarly says whether the clock is within the times of earlier holders.
func (h *holder) isEarly() bool {
	return time.Now().UnixMilli() <= h.lease.After+leaseEdge.Milliseconds()
}

// startInTime starts the command when the clock is in the times of the lease.
func (h *holder) startInTime() error {
	l := h.lease
	h.began, h.ahead = time.Now(), 0
	if h.isEarly() || h.left() <= h.grace() {
		if h.began.After(h.fits) {
			return fmt.Errorf("set the clock of this machine: it is not within the times of %v, %v to %v",
				l, unixTime(l.After), unixTime(l.Until))
		}
		return nil
	}
	h.command.Env = append(os.Environ(),
		fmt.Sprint("SHARDID_WORKER_ID=", l.WorkerID), fmt.Sprint("SHARDID_EPOCH=", l.Epoch),
		fmt.Sprint("SHARDID_WORKER_BITS=", l.WorkerBits), fmt.Sprint("SHARDID_SEQ_BITS=", l.SeqBits))
	if err := h.command.Start(); err != nil {
		return notRunnable(h.command.Args[0], err)
	}
	h.ended = make(chan struct{})
	go func() {
		_ = h.command.Wait() // ProcessState says all
		close(h.ended)
	}()
	return nil
}

// endInTime ends the command when the lease, or the clock of this machine, leaves it no more time.
func (h *holder) endInTime() {
	left := h.left()
	switch {
	case left <= 2*leaseTick || !h.killAt.IsZero() && !time.Now().Before(h.killAt):
		h.stop("%v ends", h.lease)
		h.signal(syscall.SIGKILL)
	case left <= h.grace():
		h.stop("%v was not renewed in time", h.lease)
	case h.isEarly():
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

// signal gives a signal to the command, and says once that it cannot.
func (h *holder) signal(s os.Signal) {
	if err := signalGroup(h.command.Process, s); err != nil && !h.immune {
		h.immune = true
		say("end process %d by hand before %v, when %v ends: it got no signal: %v",
			h.command.Process.Pid, unixTime(h.lease.Until), h.lease, err)
	}
}

// status is the error of a command that has ended: its exit status, nil for 0.
func (h *holder) status() error {
	state := h.command.ProcessState
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return bySignal(s.Signal())
	}
	if state.Success() {
		return nil
	}
	return &exitError{status: state.ExitCode()}
}

func bySignal(s os.Signal) error {
	n, _ := s.(syscall.Signal)
	return &exitError{status: 128 + int(n)}
}

func unixTime(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// say tells people what goes on; a command's own output is on the same files.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "shardid: "+format+"\n", args...) }
