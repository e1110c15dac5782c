package child

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/text/encoding"

	"millrace/ipc"
	"millrace/task/value"
)

const (
	// leftoverGrace bounds how long processes that a command leaves behind may take to end when
	// asked.
	leftoverGrace = time.Second
	// killBound is how long Run waits for a killed group to be gone. The kernel needs milliseconds,
	// unless a process hangs in it.
	killBound = 5 * time.Second
	// maxReason keeps a CANCEL short.
	maxReason = 1 << 10
)

// aLongTimeAgo is a deadline that has passed.
var aLongTimeAgo = time.Unix(1, 0)

// Running is one process and its group.
//
// The kernel may reuse the number of a process or group as soon as it is free, and a signal would
// then hit a stranger. The number of the group cannot become free before its leader, our child, has
// been reaped and the last member has ended. So signals by number are sent only under mu and before
// the leader is reaped; after that, only through the descriptor of the leader, which stands for
// this group and no other (see signalGroup).
type Running struct {
	PID, pidfd     int      // pidfd is -1 where there is none
	pidfile        *os.File // owns pidfd once the process is waited for
	in             stdin
	lim            *limits
	orphans        *orphans // nil if orphans are not looked after
	mark           string   // by which its orphans are known
	stdout, stderr *output
	gate           ipc.Gate
	encoding       encoding.Encoding // of the output; nil for UTF-8
	grace          time.Duration
	limit          func(cause error) time.Duration // nil for none
	log            *slog.Logger
	contained      bool // it is the client of a container

	mu      sync.Mutex // guards what follows; nothing blocks under it
	reaped  bool
	stopped bool
	ending  time.Time // when it was asked to end, or ended by itself
	killAt  time.Time // set with stopped
	killer  *time.Timer
}

// run follows the process to its end.
func (p *Running) run(ctx context.Context, program string, s Sink) Result {
	var readers sync.WaitGroup
	readers.Go(func() { p.read(p.stdout, Stdout, s) })
	readers.Go(func() { p.read(p.stderr, Stderr, s) })
	unhook := context.AfterFunc(ctx, func() { p.stop(context.Cause(ctx)) })

	status, usage, err := p.wait()
	unhook() // if stop has begun, it finds the process reaped
	if p.killer != nil {
		p.killer.Stop()
	}
	if p.ending.IsZero() {
		p.ending = time.Now()
	}
	survivors := p.clear()
	if p.orphans != nil {
		p.orphans.gone(p.PID)
		if !p.contained { // the monitor of a container ends by itself, and tidies up before
			survivors += p.orphans.clear(p.mark, p.leftBy())
		}
	}
	unread := p.in.close()
	p.pidfile.Close()
	p.stdout.finish()
	p.stderr.finish()
	readers.Wait()
	if err != nil {
		return refused("the end of " + program + " could not be waited for: " + err.Error())
	}
	r := ended(ctx, program, status, usage, p.stopped)
	r.Survivors, r.Unread, r.Stop = survivors, unread, time.Since(p.ending)
	return r
}

// leftBy is when processes that it has left behind are killed.
func (p *Running) leftBy() time.Time {
	if p.stopped {
		return p.killAt // they could have ended with it
	}
	return p.ending.Add(min(leftoverGrace, p.grace))
}

// Send implements [Process].
func (p *Running) Send(m ipc.Message) { p.in.send(m, false) }

// Told tells whether all that the process has written to its standard error so far has been passed
// on. It needs [Command.Watched].
func (p *Running) Told() bool { return p.stderr.passedOn() }

// Limits implements [Process].
func (p *Running) Limits() string { return p.lim.text() }

func (p *Running) read(o *output, stream Stream, s Sink) {
	if err := o.deliver(stream, p.gate, p.encoding, s); err != nil {
		p.log.Error("output of a process is lost: its pipe cannot be read", "error", err, "pid", p.PID, "stream", stream.String())
	}
}

// stop asks the group to end, and arranges for it to be killed later. It does not block.
func (p *Running) stop(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || p.hasEnded() {
		return
	}
	p.stopped, p.ending = true, time.Now()
	if p.limit != nil {
		p.grace = min(p.grace, p.limit(cause))
	}
	p.killAt = p.ending.Add(p.grace)
	if p.grace <= 0 {
		p.signalGroup(syscall.SIGKILL)
		return
	}
	p.tellCancel(cause)
	p.terminate()
	p.killer = time.AfterFunc(p.grace, p.kill)
}

func (p *Running) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.signalGroup(syscall.SIGKILL)
	}
}

// terminate asks the group to end. It wakes suspended members, which could not end otherwise.
func (p *Running) terminate() {
	p.signalGroup(syscall.SIGTERM)
	p.signalGroup(syscall.SIGCONT)
}

// tellCancel writes the message to the process, if its input is open.
func (p *Running) tellCancel(cause error) {
	p.in.send(ipc.Cancel(value.Cut(cause.Error(), maxReason), p.killAt), true)
}

// clear returns when no member of the group is alive, or the number of members that it could not
// end. The leader has been reaped.
func (p *Running) clear() (survivors int) {
	if errors.Is(p.signalGroup(0), syscall.ESRCH) {
		return 0 // nearly always
	}
	deadline := p.killAt // if it was stopped, they have been asked already
	if !p.stopped {
		p.terminate()
		deadline = time.Now().Add(min(leftoverGrace, p.grace))
	}
	killed := false
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		p.reapAdopted()
		if errors.Is(p.signalGroup(0), syscall.ESRCH) {
			return 0
		}
		// Zombies count as members for the kernel, but they run no more.
		if survivors = living(p.PID); survivors == 0 {
			return 0
		}
		if now := time.Now(); !now.Before(deadline) {
			if killed {
				p.log.Error("processes survive SIGKILL: the kernel cannot end them now", "group", p.PID, "survivors", survivors)
				return survivors
			}
			p.signalGroup(syscall.SIGKILL)
			killed, deadline = true, now.Add(killBound)
			pause = time.Millisecond
		}
		time.Sleep(pause)
	}
}

// reapAdopted reaps members of the group whose parent has died, if this program acts as init, as
// the first process of a container does.
func (p *Running) reapAdopted() {
	for {
		if pid, err := syscall.Wait4(-p.PID, nil, syscall.WNOHANG, nil); pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
