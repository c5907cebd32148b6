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
	"shardid/service/background"
	"shardid/service/httpapi"
	"shardid/service/issuer"

	"github.com/spf13/cobra"
)

// `shardid lease` takes a lease of a worker ID and runs a command under it. Ten times a second it compares the clock
// with the lease: it starts the command when the lease's time has begun, and ends its process group a second before
// the lease ends. Another goroutine asks for renewals and hands the answers over, so the end comes in time however
// long a replica takes to answer.

const (
	leaseEdge  = time.Second     // kept from both ends of a lease: a program may count in seconds
	leaseGrace = 5 * time.Second // from SIGTERM to SIGKILL, at most
	leaseSlack = 5 * time.Second // by which the clock may differ from the database's
	leaseTick  = 100 * time.Millisecond
)

func (c *cli) lease() *cobra.Command {
	h := &holder{}
	ask := asking{}
	host, _ := os.Hostname() // without one the instance has no name
	cmd := &cobra.Command{
		Use:   "lease --name NAME [--url URL] -- COMMAND [ARG…]",
		Short: "Run a command with a worker ID that nobody else has",
		Long: `Run a command with a worker ID that nobody else has, in SHARDID_WORKER_ID. The layout of the name is in
SHARDID_EPOCH (Unix ms), SHARDID_WORKER_BITS, SHARDID_SEQ_BITS and SHARDID_SHARD_BITS.

shardid renews the lease while the command runs, and then releases it. Signals that
end a program, and SIGUSR1 and SIGUSR2, go to the command. The exit status is the command's,
128 and the number of the signal that ended it, or 127 for a command that cannot be run.

A command whose lease cannot be renewed in time gets SIGTERM, and SIGKILL a second
before the lease ends, with its whole process group. shardid cannot

- end the command while shardid itself is stopped, as by SIGSTOP or a debugger;
- end it when shardid is killed. On Linux the kernel does, but not what the command
  started, nor a command that has changed its user or has setuid bits or file
  capabilities. Change the user first: gosu app shardid lease --name orders -- ./server
- end what the command starts and puts into another process group;
- give the command a terminal to read from.

Where that matters, use a generator that checks the end of its lease: docs/leases.md.`,
		Example: `  shardid lease --name orders -- java -jar app.jar
  shardid lease --name orders --url http://ids-0:8080,http://ids-1:8080 --token-file token -- ./server --port 9000
  gosu app shardid lease --name orders --instance shop-7 -- sh -c 'exec ./server --worker-id "$SHARDID_WORKER_ID"'`,
		Args: cobra.MinimumNArgs(1),
	}
	ask.register(cmd, 3*time.Second,
		"`URL` of the server, or of several replicas, separated by commas (default that of the configured server.addr)")
	f := cmd.Flags()
	f.StringVar(&h.name, "name", "", "`name` of the worker IDs")
	f.StringVar(&h.instance, "instance", host,
		"what people see as the holder; a returning instance gets its worker ID back if that is free")
	f.DurationVar(&h.wait, "wait", time.Minute, "`time` to keep trying while no server answers or no worker ID is free")
	_ = cmd.MarkFlagRequired("name") // it is a flag
	f.SetInterspersed(false)         // what follows the command is its own
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		h.cfg = cfg
		_, err := ask.token()
		err = errors.Join(model.CheckName(h.name), model.CheckInstance(h.instance), err)
		for one := range strings.SplitSeq(ask.url, ",") {
			ask.url = strings.TrimRight(strings.TrimSpace(one), "/") + "/v1/leases/" + url.PathEscape(h.name)
			_, _, wrong := ask.resolve(cfg)
			err = errors.Join(err, wrong)
			h.replicas = append(h.replicas, ask)
		}
		if err != nil {
			return err
		}
		path, err := exec.LookPath(args[0]) // as shells do
		if err != nil {
			return &exitError{127, fmt.Errorf("%w: %w", model.Do("install the command, or write its path"), err)}
		}
		h.command = &exec.Cmd{Path: path, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			SysProcAttr: ownGroup()}
		if err := h.acquire(cmd.Context()); err != nil {
			return fmt.Errorf("%w: no worker ID was leased", err)
		}
		return h.run(cmd.Context())
	})
}

// leased is a lease, as a server answers it. Times are Unix ms.
type leased httpapi.LeaseItem

func (l leased) pause() time.Duration { return time.Duration(l.RenewMs) * time.Millisecond }

// grace is how long the command has from SIGTERM to SIGKILL.
func (l leased) grace() time.Duration { return min(leaseGrace, 3*l.pause()/4) }

func (l leased) String() string {
	return fmt.Sprintf("worker ID %d of the name %q, leased until %s", l.WorkerID, l.Name,
		instant(time.UnixMilli(l.Until)))
}

// holder runs a command under a lease. A program may read the wall clock once and count by the monotonic clock from
// then on, so its time is the latter, and the most that the wall clock was seen ahead of it since the start.
type holder struct {
	replicas       []asking // that grant leases of the name; the first is asked first
	cfg            Config
	name, instance string        // flags
	wait           time.Duration // the flag of that name

	command *exec.Cmd
	fits    time.Time     // when the clock of this machine should be in the times of the lease
	began   time.Time     // the start of the command
	ahead   time.Duration // see above
	ended   chan struct{} // closed when the command has ended; nil before its start
	killAt  time.Time     // zero while the command may run
	lease   leased
	said    string // to people, last
}

// acquire leases a worker ID, for as long as --wait allows, which is one try at 0.
func (h *holder) acquire(ctx context.Context) (err error) {
	within := cmp.Or(h.wait, h.replicas[0].timeout*time.Duration(len(h.replicas)))
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	given := map[string]any{"instance": h.instance}
	for {
		lease, failed := h.request(ctx, http.MethodPost, "", within, given)
		if failed == nil {
			h.lease = lease
			break
		}
		if err == nil || ctx.Err() == nil { // a request that was cut off says less than the one before
			err = failed
		}
		if isFinal(err) || h.wait == 0 || !background.Pause(ctx, time.Second, nil) {
			return err
		}
		h.say("%s: no worker ID yet, trying again for up to %v", model.Message(err), h.wait)
	}
	left := time.Duration(h.lease.After-h.lease.Now)*time.Millisecond + leaseEdge
	h.fits = time.Now().Add(left + leaseEdge + leaseSlack)
	if left > 2*leaseEdge {
		h.say("waiting for %v: earlier holders may have used the time until then: %v", left.Round(time.Second), h.lease)
	}
	return nil
}

// renewal is the answer to one.
type renewal struct {
	leased
	err error
}

// renew asks for renewals of a lease and hands each answer over, until the context ends or the lease is lost.
func (h *holder) renew(ctx context.Context, l leased, answers chan<- renewal) {
	defer close(answers)
	path, given := fmt.Sprintf("/%d/renew", l.WorkerID), map[string]any{"secret": l.Secret}
	for pause := l.pause(); background.Pause(ctx, pause, nil); {
		// All replicas together leave time for another try.
		next, err := h.request(ctx, http.MethodPost, path, l.pause()/time.Duration(2*len(h.replicas)), given)
		answers <- renewal{next, err}
		switch {
		case isLost(err):
			return
		case err == nil:
			pause = next.pause()
		default:
			pause = min(time.Second, l.pause()/4)
		}
	}
}

// request asks one replica after the other, each for --timeout or within, until one has an answer that counts. That to
// DELETE has no lease.
func (h *holder) request(
	ctx context.Context, method, path string, within time.Duration, given map[string]any,
) (l leased, err error) {
	for range h.replicas {
		var answer []byte
		var said struct{ Lease leased }
		ask := h.replicas[0]
		ask.timeout = min(ask.timeout, within)
		answer, err = ask.send(ctx, h.cfg, method, path, given)
		if err == nil && (json.Unmarshal(answer, &said) != nil || method != http.MethodDelete &&
			(said.Lease.Name != h.name || said.Lease.Secret == "" || said.Lease.RenewMs < 1)) {
			err = errNotShardid
		}
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return said.Lease, err
		}
		h.replicas = append(h.replicas[1:], h.replicas[0])
	}
	return l, err
}

// isFinal says whether the same request gets the same answer later, and from every replica.
func isFinal(err error) bool {
	r, ok := errors.AsType[*refusedError](err)
	return ok && r.status < http.StatusInternalServerError && r.status != http.StatusTooManyRequests && r.code != 0
}

// isLost says whether an answer means that a lease is over: it is lost (-14), or its name gone (-2).
func isLost(err error) bool {
	r, ok := errors.AsType[*refusedError](err)
	return ok && (r.code == issuer.CodeLeaseLost || r.code == issuer.CodeUnknown)
}

// run runs the command under the lease, which it renews and gives back. The error has the exit status.
func (h *holder) run(ctx context.Context) error {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(s) { // by nohup, for example
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	renewing, cancel := context.WithCancel(ctx)
	answers := make(chan renewal)
	go h.renew(renewing, h.lease, answers)
	err := h.supervise(answers, signals)
	cancel()
	for range answers { // until the requests have ended
	}
	lastUsed := h.lease.After
	if h.ended != nil {
		if failed := signalGroup(h.command.Process, syscall.SIGKILL); failed != nil { // to what the command left
			return fmt.Errorf("end the processes of group %d by hand, it stays %v: %w",
				h.command.Process.Pid, h.lease, failed)
		}
		lastUsed = h.now() + leaseEdge.Milliseconds()
	}
	lastUsed = max(min(lastUsed, h.lease.Until), 1) // until may not be above after yet
	path := fmt.Sprintf("/%d", h.lease.WorkerID)
	_, failed := h.request(ctx, http.MethodDelete, path, time.Minute,
		map[string]any{"secret": h.lease.Secret, "lastUsed": strconv.FormatInt(lastUsed, 10)})
	if failed != nil && !isLost(failed) { // it may have ended by this request, whose answer was lost
		h.say("%s: not released, it stays %v", model.Message(failed), h.lease)
	}
	return err
}

// supervise starts the command when its time has begun and ends it when its time is over.
func (h *holder) supervise(answers <-chan renewal, signals <-chan os.Signal) error {
	runtime.LockOSThread() // for ever: Linux ends the command with the thread that started it
	tick := time.NewTicker(leaseTick)
	defer tick.Stop()
	isFailing := false // the last renewal failed, which is told once
	for {
		select {
		case <-h.ended:
			state := h.command.ProcessState
			if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
				return &exitError{status: 128 + int(s.Signal())}
			}
			return &exitError{status: state.ExitCode()}
		case s := <-signals:
			n, _ := s.(syscall.Signal)
			if h.ended == nil {
				return &exitError{status: 128 + int(n)}
			}
			_ = signalGroup(h.command.Process, n)
		case next := <-answers:
			switch {
			case next.err == nil:
				h.lease, isFailing = next.leased, false
			case isLost(next.err) && h.ended == nil:
				return next.err
			case isLost(next.err):
				answers = nil // no more will come
				h.stop("its lease was lost, " + model.Message(next.err))
			case !isFailing:
				isFailing = true
				h.say("%s: not renewed, trying again: %v", model.Message(next.err), h.lease)
			}
		case <-tick.C:
			if err := h.compareClock(); err != nil {
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

// compareClock starts the command when the clock is in the times of the lease, and ends it when the lease, or the clock
// of this machine, leaves it no more time.
func (h *holder) compareClock() error {
	l, isRunning := h.lease, h.ended != nil
	if !isRunning {
		h.began, h.ahead = time.Now(), 0
	}
	isEarly := time.Now().UnixMilli() <= l.After+leaseEdge.Milliseconds() // within the times of earlier holders
	left := time.Duration(l.Until-h.now())*time.Millisecond - leaseEdge   // for the command to use the worker ID
	switch {
	case !isRunning && !isEarly && left > l.grace():
		return h.start()
	case !isRunning && h.began.After(h.fits):
		return fmt.Errorf("set the clock of this machine: it is not within the times of %v", l)
	case !isRunning:
	case left <= 2*leaseTick || !h.killAt.IsZero() && !time.Now().Before(h.killAt):
		h.stop("its lease ends")
		_ = signalGroup(h.command.Process, syscall.SIGKILL)
	case left <= l.grace():
		h.stop("its lease was not renewed in time")
	case isEarly:
		h.stop("the clock was set back to the times of earlier holders")
	}
	return nil
}

// start starts the command with the lease in its environment.
func (h *holder) start() error {
	l := h.lease
	h.command.Env = append(os.Environ(),
		fmt.Sprint("SHARDID_WORKER_ID=", l.WorkerID), fmt.Sprint("SHARDID_EPOCH=", l.Epoch),
		fmt.Sprint("SHARDID_WORKER_BITS=", l.WorkerBits), fmt.Sprint("SHARDID_SEQ_BITS=", l.SeqBits),
		fmt.Sprint("SHARDID_SHARD_BITS=", l.ShardBits))
	if err := h.command.Start(); err != nil {
		return &exitError{127, err}
	}
	h.ended = make(chan struct{})
	go func() {
		_ = h.command.Wait() // ProcessState says all
		close(h.ended)
	}()
	return nil
}

// stop asks the command to end, once, and says why.
func (h *holder) stop(why string) {
	if !h.killAt.IsZero() {
		return
	}
	h.killAt = time.Now().Add(h.lease.grace())
	h.say("ending the command: %s: %v", why, h.lease)
	if err := signalGroup(h.command.Process, syscall.SIGTERM); err != nil {
		h.say("end process %d by hand, it got no signal: %v", h.command.Process.Pid, err)
	}
}

// signalGroup gives a signal to a command and to what it started. One that has ended needs none.
func signalGroup(p *os.Process, s syscall.Signal) error {
	if err := syscall.Kill(-p.Pid, s); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// say tells people what continues, the same once; a command's own output is on the same files.
func (h *holder) say(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); line != h.said {
		h.said = line
		fmt.Fprintln(os.Stderr, "shardid:", line)
	}
}
