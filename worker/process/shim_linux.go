package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"millrace/internal/files"
	"millrace/ipc"
	"millrace/task/value"
	"millrace/worker/process/child"
)

// Files in the folder of an attempt that outlives its worker.
const (
	noteFile   = "note"   // for the next worker
	lockFile   = "lock"   // locked as long as the shim lives
	ringFile   = "ring"   // the output of the process
	pidFile    = "pid"    // the process's identity
	resultFile = "result" // how it ended
	toldFile   = "told"   // how much of the output is stored, and what must be remembered
	errorFile  = "errors" // the shim's own errors
	socketFile = "socket"
)

// shimOrder tells a shim what to run. It comes on its standard input, for it holds secrets.
type shimOrder struct {
	Folder     string
	Command    child.Command
	Credential *syscall.Credential
	Secrets    []string
	Guard      []string
	Elevate    bool              // as in [child.Config]
	Confine    child.Confinement // the same
	Ring       int64
	Hold       holdOrder
}

// holdOrder says when the process must be stopped, unless another order comes before, in
// nanoseconds of the monotonic clock, and the longest grace that it then has.
type holdOrder struct {
	Until int64         `json:"until"`
	Grace time.Duration `json:"grace"`
}

// shimBorn is the shim's answer on its standard output, sent once.
type shimBorn struct {
	PID    int           `json:"pid,omitempty"`
	Limits string        `json:"limits,omitempty"`
	Failed *child.Result `json:"failed,omitempty"`
	// Code says why it was not started, if somebody had it stopped before.
	Code string `json:"code,omitempty"`
}

// toShim is a message from a worker to a shim.
type toShim struct {
	Hold *holdOrder   `json:"hold,omitempty"`
	Stop *stopOrder   `json:"stop,omitempty"`
	Send *messageForm `json:"send,omitempty"`
	// Told is the place up to which the ring may be overwritten.
	Told int64 `json:"told,omitempty"`
}

// stopOrder says that the process must end, and why: in a code for the next worker and in words for
// the process.
type stopOrder struct {
	Code  string        `json:"code"`
	Words string        `json:"words"`
	Grace time.Duration `json:"grace"`
}

func (s stopOrder) Error() string { return s.Words }

// codeLease is the code when the shim itself stops the process.
const codeLease = "lease"

// fromShim is a message from a shim to the worker that attends it.
type fromShim struct {
	// Hello comes first, unless another worker attends the process already.
	Hello *shimHello `json:"hello,omitempty"`
	Busy  bool       `json:"busy,omitempty"`
	// More means that there is more in the ring.
	More bool `json:"more,omitempty"`
	// Ended means that everything is in the ring and the result in its file.
	Ended bool `json:"ended,omitempty"`
}

type shimHello struct {
	PID    int           `json:"pid"`
	Limits string        `json:"limits,omitempty"`
	Until  int64         `json:"until"`
	Alone  time.Duration `json:"alone"`
}

// shimResult is how the process ended.
type shimResult struct {
	child.Result
	// Code is why it was stopped, and Ended when it had ended, by the monotonic clock.
	Code  string `json:"code,omitempty"`
	Ended int64  `json:"ended"`
}

// processID identifies a process for good: the kernel may reuse a number alone.
type processID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// keptProcess is a process and its shim.
type keptProcess struct {
	processID
	Shim processID `json:"shim"`
}

// monotonic reads the clock that all processes of this machine share and that is never set.
func monotonic() int64 { return monotonicBase.at + int64(time.Since(monotonicBase.here)) }

// monotonicBase relates that clock to this process's: Go uses the same one, but does not show it.
var monotonicBase = func() (b struct {
	at   int64
	here time.Time
}) {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	b.at, b.here = t.Nano(), time.Now()
	return b
}()

// monotonicOf converts a time of this process to that clock, and timeOf back.
func monotonicOf(t time.Time) int64 { return monotonic() + int64(time.Until(t)) }
func timeOf(m int64) time.Time      { return time.Now().Add(time.Duration(m - monotonic())) }

// shim runs one process while workers come and go.
type shim struct {
	order  shimOrder
	out    *shimWriter
	cancel context.CancelCauseFunc
	born   chan child.Process // gets the process when it has started

	mu      sync.Mutex
	conn    net.Conn      // guarded by mu; of the worker that attends the process
	alone   int64         // guarded by mu; since when no worker attends it
	hold    holdOrder     // guarded by mu
	timer   *time.Timer   // guarded by mu
	expired bool          // guarded by mu; the hold has passed
	process child.Process // guarded by mu
	pid     int           // set before born
	ended   bool          // guarded by mu; the result is in its file

	once sync.Once
	quit chan struct{} // closed when a worker that attended the process has read the result
}

// ShimMain is the whole life of a shim; the program's hidden shim command calls it with its
// standard input and output. It reads from in what to run, starts it, reports on out, and stays
// until the process has ended and its result is on the disk, even if the worker that started it is
// gone. It stops the process if no worker confirms in time that the lease still holds.
func ShimMain(in io.Reader, out io.Writer) error {
	syscall.CloseOnExec(3) // the lock, which is ours alone
	ignored := make(chan os.Signal, 1)
	// Not [signal.Ignore], which the process would inherit.
	signal.Notify(ignored, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	defer signal.Stop(ignored)
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 2))
	s := &shim{born: make(chan child.Process, 1), quit: make(chan struct{}), alone: monotonic()}
	if err := json.NewDecoder(in).Decode(&s.order); err != nil {
		return fmt.Errorf("shim: this command is started by a worker, not by hand: %w", value.Plainly(err))
	}
	if err := s.main(out); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	return nil
}

func (s *shim) main(out io.Writer) error {
	ring, err := openRing(s.path(ringFile), s.order.Ring, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer ring.close()
	listener, err := listenIn(s.order.Folder)
	if err != nil {
		return err
	}
	defer listener.Close()
	r, err := child.NewRunner(child.Config{
		Guard:   s.order.Guard,
		Orphans: true,
		Elevate: s.order.Elevate,
		Confine: s.order.Confine,
		Groups:  s.order.Command.Resources.CPU > 0 || s.order.Command.Resources.Memory > 0 || s.order.Command.Resources.PIDs > 0,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.cancel, s.out = cancel, newShimWriter(ring)
	c := s.order.Command
	c.Credential, c.Started = s.order.Credential, s.started
	c.Limit = func(cause error) time.Duration {
		if order, ok := errors.AsType[stopOrder](cause); ok {
			return order.Grace
		}
		return math.MaxInt64
	}
	s.holdUntil(s.order.Hold)
	ran := make(chan child.Result, 1)
	go func() { ran <- r.Run(ctx, c, &shimSink{out: s.out, redact: newRedactor(s.order.Secrets)}) }()
	select {
	case res := <-ran: // it was never started, or has ended already
		select {
		case p := <-s.born:
			s.report(out, p)
		default:
			return s.tell(out, shimBorn{Failed: &res, Code: stopCode(ctx, &res)})
		}
		ran <- res
	case p := <-s.born:
		s.report(out, p)
	}
	go s.accept(listener)
	res := <-ran
	s.out.close()
	return s.finish(ctx, res)
}

func (s *shim) path(name string) string { return filepath.Join(s.order.Folder, name) }

// started records the process's identity before any of its output is read.
func (s *shim) started(p child.Process) {
	if c, ok := p.(*child.Running); ok {
		s.pid = c.PID
		start, _ := child.StartOf(c.PID) // of a child that was not waited for
		own, _ := child.StartOf(os.Getpid())
		text, _ := value.JSON(keptProcess{processID{c.PID, start}, processID{os.Getpid(), own}})
		_ = files.Write(s.path(pidFile), text) // without it only the signal at our own end is left
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	s.born <- p
}

func (s *shim) report(out io.Writer, p child.Process) {
	_ = s.tell(out, shimBorn{PID: s.pid, Limits: p.Limits()}) // the reader may be gone
}

func (s *shim) tell(out io.Writer, b shimBorn) error {
	err := json.NewEncoder(out).Encode(b)
	if c, ok := out.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

// stopCode is the code of the order by which a process was stopped; "" if there was none.
func stopCode(ctx context.Context, res *child.Result) string {
	if order, ok := errors.AsType[stopOrder](context.Cause(ctx)); ok && res.Stopped {
		return order.Code
	}
	return ""
}

// finish writes down how the process ended, and waits until the worker that attends it, if there is
// one, has read that.
func (s *shim) finish(ctx context.Context, res child.Result) error {
	r := shimResult{Result: res, Ended: monotonic(), Code: stopCode(ctx, &res)}
	text, err := value.JSON(r)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		if err = errors.Join(s.out.ring.file.Sync(), files.Write(s.path(resultFile), text)); err == nil || try == 20 {
			break
		}
		time.Sleep(time.Second) // a full disk may have room again
	}
	s.mu.Lock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	alone := s.conn == nil
	s.mu.Unlock()
	s.out.wake()
	if !alone {
		<-s.quit
	}
	return err
}

// holdUntil moves the time at which the process is stopped.
func (s *shim) holdUntil(h holdOrder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = h
	left := time.Duration(h.Until - monotonic())
	if s.timer == nil {
		s.timer = time.AfterFunc(left, s.expire)
		return
	}
	s.timer.Reset(left)
}

// expire stops the process if no worker has confirmed meanwhile that its lease still holds.
func (s *shim) expire() {
	s.mu.Lock()
	over, grace, alone := monotonic() >= s.hold.Until && !s.ended, s.hold.Grace, s.conn == nil
	s.expired = s.expired || over
	s.mu.Unlock()
	if !over {
		return
	}
	if alone {
		s.out.giveUp() // no worker makes room
	}
	s.cancel(stopOrder{Code: codeLease, Words: "the lease could not be confirmed in time", Grace: grace})
}

// accept lets one worker at a time attend the process.
func (s *shim) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go s.attend(conn)
	}
}

func (s *shim) attend(conn net.Conn) {
	defer conn.Close()
	e := json.NewEncoder(conn)
	s.mu.Lock()
	if s.conn != nil {
		s.mu.Unlock()
		_ = e.Encode(fromShim{Busy: true})
		return
	}
	s.conn = conn
	hello := shimHello{PID: s.pid, Limits: s.process.Limits(), Until: s.hold.Until, Alone: time.Duration(monotonic() - s.alone)}
	s.mu.Unlock()
	var saying sync.WaitGroup
	if e.Encode(fromShim{Hello: &hello}) == nil {
		gone := make(chan struct{})
		saying.Go(func() { s.say(e, gone) })
		s.listen(conn)
		close(gone)
		s.out.wake()
	}
	conn.Close()
	saying.Wait()
	s.mu.Lock()
	s.conn, s.alone = nil, monotonic()
	ended, expired := s.ended, s.expired
	s.mu.Unlock()
	if expired {
		s.out.giveUp() // no worker makes room
	}
	if ended {
		s.once.Do(func() { close(s.quit) })
	}
}

// say tells a worker whenever there is more for it, until the worker is gone.
func (s *shim) say(e *json.Encoder, gone <-chan struct{}) {
	for seen := int64(-1); ; {
		written := s.out.waitMore(seen, func() bool {
			select {
			case <-gone:
				return true
			default:
				return s.hasEnded()
			}
		})
		select {
		case <-gone:
			return
		default:
		}
		if s.hasEnded() {
			_ = e.Encode(fromShim{Ended: true})
			return
		}
		seen = written
		if e.Encode(fromShim{More: true}) != nil {
			return
		}
	}
}

func (s *shim) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// listen obeys a worker until it is gone.
func (s *shim) listen(conn net.Conn) {
	d := json.NewDecoder(conn)
	for {
		var m toShim
		if d.Decode(&m) != nil {
			return
		}
		switch {
		case m.Hold != nil:
			s.holdUntil(*m.Hold)
		case m.Stop != nil:
			s.cancel(*m.Stop)
		case m.Send != nil:
			s.process.Send(ipc.Message(*m.Send))
		case m.Told > 0:
			s.out.free(m.Told)
		}
	}
}

// listenIn listens in a folder whose path may be longer than a socket address can be.
func listenIn(folder string) (net.Listener, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	_ = os.Remove(filepath.Join(folder, socketFile))
	l, err := net.Listen("unix", shortPath(dir))
	if err != nil {
		return nil, err
	}
	// By then the descriptor in the path belongs to another file.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l, os.Chmod(filepath.Join(folder, socketFile), 0o600)
}

// dialIn is the other end of listenIn.
func dialIn(folder string) (net.Conn, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.DialTimeout("unix", shortPath(dir), time.Second)
}

func shortPath(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketFile)
}

// shimSink writes down the output of the process, without its secrets.
type shimSink struct {
	out    *shimWriter
	redact *redactor
	replacing
}

func (s *shimSink) Line(stream child.Stream, line ipc.Line) {
	if line.Replaced && s.first() {
		s.out.put(frame{kind: frameReplaced})
	}
	kind := frameStdout
	if stream == child.Stderr {
		kind = frameStderr
	}
	s.out.put(frame{kind: kind, partial: line.Partial, body: s.redact.lines(line).Text})
}

func (s *shimSink) Message(m ipc.Message) {
	kind := frameMessage
	payload, ok := s.redact.payload(m.Payload)
	if !ok {
		kind, payload = frameRefused, nil
	}
	m.Payload = payload
	s.out.put(frame{kind: kind, body: messageBody(m)})
}

// Withheld implements [child.Sink].
func (s *shimSink) Withheld(typ string) { s.out.put(frame{kind: frameWithheld, body: []byte(typ)}) }

func messageBody(m ipc.Message) []byte {
	body, _ := value.JSON(messageForm(m)) // always valid JSON and text
	return body
}

func parseMessage(body []byte) (m ipc.Message, err error) {
	var f messageForm
	err = json.Unmarshal(body, &f)
	return ipc.Message(f), err
}

type messageForm struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Bare    bool            `json:"bare,omitempty"`
	Excess  string          `json:"excess,omitempty"`
}

// droppedWords says how much is missing here.
func droppedWords(n int, bytes int64, why string) string {
	return fmt.Sprintf("%d lines and messages (%d bytes) were dropped here: %s", n, bytes, why)
}
