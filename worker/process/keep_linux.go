package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"millrace/ipc"
	"millrace/task"
	"millrace/worker"
)

var _ worker.Keeper = (*Tasks)(nil)

// Keeps implements [worker.Keeper].
func (t *Tasks) Keeps(k *task.Task) bool {
	return len(t.Shim) > 0 && t.Folder != "" && k.Spec.Adopts()
}

// keepNote is what a worker writes down of an attempt that outlives it.
type keepNote struct {
	worker.Note
	// Received and Began are by the monotonic clock of the boot.
	Received int64  `json:"received"`
	Began    int64  `json:"began"`
	Boot     string `json:"boot"`
	Dir      string `json:"dir"`
	// Fresh is to be removed at the end.
	Fresh string `json:"fresh,omitempty"`
	// Ring is the size of the ring.
	Ring int64 `json:"ring"`
}

// keepMemo is what is to be remembered of what was said up to a place.
type keepMemo struct {
	At      int64             `json:"at"`
	Started int64             `json:"started"`
	Output  worker.OutputMemo `json:"output"`
	Session sessionMemo       `json:"session"`
}

// sessionMemo is what a [session] has to remember.
type sessionMemo struct {
	Failure  *ipc.Failure    `json:"failure,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Dropped  string          `json:"dropped,omitempty"`
	Children int             `json:"children,omitempty"`
	Warned   bool            `json:"warned,omitempty"`
}

func (s *session) memo() sessionMemo {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := sessionMemo{Failure: s.failure, Result: s.result, Children: s.children, Warned: s.warned}
	if s.dropped != nil {
		m.Dropped = s.dropped.Error()
	}
	return m
}

func (s *session) remember(m sessionMemo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure, s.result, s.children, s.warned = m.Failure, m.Result, m.Children, m.Warned
	if m.Dropped != "" {
		s.dropped = errors.New(m.Dropped)
	}
}

// keeping is the worker's side of a process that outlives it.
type keeping struct {
	folder string
	note   keepNote
	memo   keepMemo
	lock   *os.File // nil while the shim has it
	ring   *ring
	limits string
	pid    int
	hello  shimHello

	mu      sync.Mutex
	conn    net.Conn // guarded by mu; nil without a shim
	says    *json.Decoder
	marking bool // guarded by mu; a memo waits until all before it is stored
}

// Send implements [Process].
func (k *keeping) Send(m ipc.Message) {
	form := messageForm(m)
	k.tell(toShim{Send: &form})
}

// Limits implements [Process].
func (k *keeping) Limits() string { return k.limits }

// tellPatience is how long a shim may take to listen.
const tellPatience = 5 * time.Second

// tell says something to the shim. If that is gone, whoever reads from it finds out.
func (k *keeping) tell(m toShim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return
	}
	_ = k.conn.SetWriteDeadline(time.Now().Add(tellPatience))
	if json.NewEncoder(k.conn).Encode(m) != nil {
		_ = k.conn.Close()
	}
}

// Close gives back what this process holds of it.
func (k *keeping) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		_ = k.conn.Close()
	}
	if k.ring != nil {
		_ = k.ring.close()
	}
	if k.lock != nil {
		_ = k.lock.Close()
	}
	k.conn, k.ring, k.lock = nil, nil, nil
	return nil
}

// remove removes all that is left of the attempt on this machine.
func (k *keeping) remove() {
	if k.note.Fresh != "" {
		_ = os.RemoveAll(k.note.Fresh)
	}
	_ = os.RemoveAll(k.folder)
}

func (k *keeping) path(name string) string { return filepath.Join(k.folder, name) }

// folderOf is where the attempts of a node lie.
func (t *Tasks) folderOf() string { return filepath.Join(t.Folder, t.Node+".kept") }

// shimStart bounds the start of a shim.
const shimStart = 10 * time.Second

// runKept runs a command such that it outlives this process.
func (t *Tasks) runKept(ctx context.Context, s *session, c Command, secrets []string, p place) worker.Outcome {
	failed := func(format string, args ...any) worker.Outcome {
		return worker.Outcome{Class: task.ReasonSystem, Message: fmt.Sprintf(format, args...), Stopped: ctx.Err() != nil}
	}
	a := s.attempt
	note, received := a.Note()
	k := &keeping{
		folder: filepath.Join(t.folderOf(), fmt.Sprintf("%s.%d", a.Task.ID, a.Task.Epoch)),
		note:   keepNote{Note: note, Received: monotonicOf(received), Began: monotonicOf(s.began), Boot: bootID(), Dir: p.dir, Fresh: p.fresh, Ring: ringSize},
	}
	defer k.Close()
	if ctx.Err() != nil {
		p.leave()
		return s.outcome(new(notStarted(ctx)))
	}
	if err := os.MkdirAll(k.folder, 0o700); err != nil {
		p.leave()
		return failed("no place to keep what the task says: %v; choose another folder with --spool", err)
	}
	born, err := t.startShim(ctx, a, k, shimOrder{
		Folder: k.folder, Command: c, Credential: c.credential, Secrets: secrets, Guard: t.ShimGuard, Ring: ringSize,
	})
	if err == nil && born.Failed == nil {
		k.pid, k.limits = born.PID, born.Limits
		err = k.attend(ctx)
	}
	if err != nil || born.Failed != nil {
		k.kill()
		p.leave()
		k.remove()
		if err != nil {
			return failed("the process cannot be kept beside the worker: %v", err)
		}
		return s.outcome(born.Failed)
	}
	k.memo.Started = monotonic()
	s.redact = nil // the shim has done that
	return t.converse(ctx, s, k, false, p)
}

// startShim starts the shim of an attempt, which starts the process.
func (t *Tasks) startShim(ctx context.Context, a *worker.Attempt, k *keeping, o shimOrder) (born shimBorn, err error) {
	lock, err := lockFolder(k.folder)
	if err != nil {
		return born, err
	}
	defer lock.Close() // the shim's copy of it counts
	text, err := json.Marshal(k.note)
	if err != nil {
		return born, err
	}
	if err := writeWhole(k.path(noteFile), text); err != nil {
		return born, err
	}
	a.OnHold(func(until time.Time) { o.Hold = holdOrder{monotonicOf(until), a.HoldGrace()} })
	a.OnHold(nil)
	order, err := json.Marshal(o)
	if err != nil {
		return born, err
	}
	complaints, err := os.OpenFile(k.path(errorFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return born, err
	}
	defer complaints.Close()
	cmd := exec.Command(t.Shim[0], t.Shim[1:]...)
	for _, e := range os.Environ() { // so that the guard of this worker spares it
		if !strings.HasPrefix(e, MarkerVar+"=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = bytes.NewReader(order), complaints, []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of terminals
	out, err := cmd.StdoutPipe()
	if err != nil {
		return born, err
	}
	if err := t.Runner.startBeside(cmd); err != nil {
		return born, err
	}
	defer func() { // by now it has said all that it says on that pipe
		go func() {
			_ = cmd.Wait()
			t.Runner.gone(cmd.Process.Pid)
		}()
	}()
	if f, ok := out.(*os.File); ok {
		_ = f.SetReadDeadline(time.Now().Add(shimStart))
	}
	if err := json.NewDecoder(out).Decode(&born); err != nil {
		_ = cmd.Process.Kill()
		said, _ := os.ReadFile(k.path(errorFile))
		return born, fmt.Errorf("its shim does not report: %w%s", err, strings.TrimRight(" "+string(said), " \n"))
	}
	return born, nil
}

// startBeside starts a process of this program's own, which nobody is to take for an orphan.
func (r *Runner) startBeside(cmd *exec.Cmd) error {
	if r.orphans == nil {
		return cmd.Start()
	}
	r.orphans.births.RLock()
	defer r.orphans.births.RUnlock()
	err := cmd.Start()
	if err == nil {
		r.orphans.born(cmd.Process.Pid)
	}
	return err
}

func (r *Runner) gone(pid int) {
	if r.orphans != nil {
		r.orphans.gone(pid)
	}
}

// lockFolder opens the lock of an attempt's folder and takes it.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- in a folder of our own
	if err != nil {
		return nil, err
	}
	if err := ignoringEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// errBusy says that another worker attends the process.
var errBusy = errors.New("another worker attends it")

// attend begins to listen to the shim, or takes its place if that is gone. It waits while
// another worker, whose node this has become, still attends the process.
func (k *keeping) attend(ctx context.Context) error {
	for {
		err := k.tryAttend()
		if err == nil {
			break
		}
		if cause := context.Cause(ctx); errors.Is(cause, worker.ErrLeft) {
			return cause
		}
		time.Sleep(attendAgain)
	}
	var err error
	if k.ring == nil {
		k.ring, err = openRing(k.path(ringFile), k.note.Ring, os.O_RDONLY)
	}
	return err
}

const attendAgain = 20 * time.Millisecond

// tryAttend is attend once; a shim that is gone is no error.
func (k *keeping) tryAttend() error {
	if k.conn != nil || k.lock != nil {
		return nil
	}
	conn, err := dialIn(k.folder)
	if err != nil {
		lock, lockErr := lockFolder(k.folder)
		if lockErr == nil { // it is gone
			k.lock = lock
			return nil
		}
		return errors.Join(err, lockErr)
	}
	d := json.NewDecoder(conn)
	_ = conn.SetReadDeadline(time.Now().Add(tellPatience))
	var m fromShim
	if err = d.Decode(&m); err == nil && m.Hello == nil {
		err = errBusy
	}
	if err != nil {
		conn.Close()
		return err
	}
	_ = conn.SetReadDeadline(time.Time{})
	k.conn, k.says, k.pid, k.limits = conn, d, m.Hello.PID, m.Hello.Limits
	k.hello = *m.Hello
	return nil
}

// keptFor is how long what a process has said waits for a worker that goes on with it, or reports it.
const keptFor = 7 * 24 * time.Hour

// leftPatience is how long shims may take to answer the worker that comes back, all together.
const leftPatience = 500 * time.Millisecond

// Left implements [worker.Keeper].
func (t *Tasks) Left() ([]*worker.Left, error) {
	folders, err := os.ReadDir(t.folderOf())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var all []*worker.Left
	until := time.Now().Add(leftPatience)
	for _, f := range folders {
		k := &keeping{folder: filepath.Join(t.folderOf(), f.Name())}
		l, readErr := k.find(until)
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", k.folder, readErr))
			continue
		}
		if l != nil {
			all = append(all, l)
		}
	}
	return all, err
}

// find reads what an earlier process has written down, and waits for its shim until a time at
// most. It returns nil if it has not come to that.
func (k *keeping) find(until time.Time) (*worker.Left, error) {
	text, err := os.ReadFile(k.path(noteFile))
	if isMissing(err) {
		if lock, err := lockFolder(k.folder); err == nil { // nothing was started
			lock.Close()
			_ = os.RemoveAll(k.folder)
		}
		return nil, nil
	}
	if info, statErr := os.Stat(k.path(noteFile)); statErr == nil && time.Since(info.ModTime()) > keptFor {
		if lock, err := lockFolder(k.folder); err == nil { // nobody has wanted to know
			lock.Close()
			_ = json.Unmarshal(text, &k.note)
			k.remove()
			return nil, nil
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &k.note)
	}
	if err != nil {
		return nil, err
	}
	for ; ; time.Sleep(attendAgain) {
		if err = k.tryAttend(); err == nil || errors.Is(err, errBusy) || time.Now().After(until) {
			break // who still attends it leaves it soon
		}
	}
	l := &worker.Left{Note: k.note.Note, Received: time.Now(), PID: k.pid, Handle: k}
	if k.note.Boot == bootID() {
		l.Received = timeOf(k.note.Received)
	}
	if k.conn != nil {
		l.Until, l.Gap = timeOf(k.hello.Until), k.hello.Alone
	} else if id, err := k.process(); err == nil {
		l.PID = id.PID
	}
	return l, nil
}

func (k *keeping) process() (id keptProcess, err error) {
	text, err := os.ReadFile(k.path(pidFile))
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	return id, err
}

// goOn goes on with an attempt that an earlier process has left.
func (t *Tasks) goOn(ctx context.Context, a *worker.Attempt) worker.Outcome {
	k := a.Left().Handle.(*keeping)
	defer k.Close()
	// What is to be stopped as well: its shim does that, and has something to say.
	err := k.attend(ctx)
	if errors.Is(err, worker.ErrLeft) {
		return worker.Outcome{Left: true}
	}
	if err != nil {
		return worker.Outcome{Class: task.ReasonSystem, Message: "what it has said cannot be read: " + err.Error(), Stopped: ctx.Err() != nil}
	}
	if text, err := os.ReadFile(k.path(toldFile)); err == nil {
		_ = json.Unmarshal(text, &k.memo) // else all that is there is read again
	}
	s := &session{tasks: t, attempt: a, out: a.Output, began: timeOf(k.note.Began), started: timeOf(k.memo.Started)}
	if k.note.Boot != bootID() || k.memo.Started == 0 {
		s.started = time.Time{}
	}
	s.remember(k.memo.Session)
	p := place{dir: k.note.Dir, fresh: k.note.Fresh, leave: func() {}}
	return t.converse(ctx, s, k, true, p)
}

// resumeAgain is how long after a look in vain at what is stored the next one comes.
const resumeAgain = 500 * time.Millisecond

// converse sees a process that outlives this one to its end, or leaves it.
func (t *Tasks) converse(ctx context.Context, s *session, k *keeping, again bool, p place) worker.Outcome {
	a := s.attempt
	// What the process asks for is done to the end, also if the worker leaves meanwhile.
	doing, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	s.ctx = doing
	leaving := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, worker.ErrLeft) {
			close(leaving)
			return
		}
		k.tell(toShim{Stop: &stopOrder{Code: codeOf(cause), Words: cause.Error(), Grace: a.Grace(cause)}})
		stop(cause)
	})
	defer unhook()
	a.OnHold(func(until time.Time) { k.tell(toShim{Hold: &holdOrder{monotonicOf(until), a.HoldGrace()}}) })
	defer a.OnHold(nil)
	for again {
		err := a.Resume(context.WithoutCancel(ctx), k.memo.Output)
		if err == nil {
			break
		}
		select {
		case <-leaving:
			return worker.Outcome{Left: true}
		case <-time.After(resumeAgain):
		}
	}
	if s.process = k; !again {
		s.greet()
	}
	s.watch()
	ended := k.listen(s, leaving)
	s.close()
	if !ended {
		s.out.Leave()
		k.mark(k.memo)
		return worker.Outcome{Left: true}
	}
	r := k.result()
	if cause := causeOf(r.Code); cause != nil {
		a.Stop(cause) // whoever asked for it
	}
	if k.note.Boot == bootID() && r.Ended > 0 {
		s.ended = timeOf(r.Ended)
	}
	if r.Unread > 0 {
		s.out.Line(task.System, fmt.Sprintf("%d messages to the process were dropped: it did not read its standard input", r.Unread))
	}
	a.OnReported(func() { k.remove(); p.leave() })
	return t.keep(ctx, a, p, s.outcome(&r.Result))
}

// listen hands on what the process says until it has ended, and tells whether it has;
// else the worker leaves it.
func (k *keeping) listen(s *session, leaving <-chan struct{}) bool {
	more, over := k.hear()
	read := &ringReader{ring: k.ring, at: k.memo.At}
	last, marked := time.Now(), read.at
	ended := false
	for {
		select {
		case <-leaving:
			k.memo = k.now(s, read.at)
			return false
		default:
		}
		f, err := read.next()
		if err == nil {
			s.out.Reading(read.at, time.Duration(monotonic()-f.said))
			s.take(f, read.at)
			if read.at-marked > k.note.Ring/16 || time.Since(last) > markEvery {
				k.markLater(s, k.now(s, read.at))
				last, marked = time.Now(), read.at
			}
			continue
		}
		if ended {
			k.memo = k.now(s, read.at)
			return true
		}
		var soon <-chan time.Time
		if read.at > marked {
			soon = time.After(markEvery)
		}
		select {
		case <-leaving:
		case <-more:
		case <-over:
			ended = true // all of it is there to be read now
		case <-soon:
			k.markLater(s, k.now(s, read.at))
			last, marked = time.Now(), read.at
		}
	}
}

// markEvery is how often it is written down what of the output is stored, while there is any.
const markEvery = time.Second

// hear tells when there is more to be read, and when there will be no more.
func (k *keeping) hear() (more <-chan struct{}, over <-chan struct{}) {
	some, none := make(chan struct{}, 1), make(chan struct{})
	if k.conn == nil {
		close(none)
		return some, none
	}
	go func() {
		defer close(none)
		for {
			var m fromShim
			if k.says.Decode(&m) != nil || m.Ended {
				return
			}
			select {
			case some <- struct{}{}:
			default:
			}
		}
	}()
	return some, none
}

// take hands on what lies in one frame, which ends at a place.
func (s *session) take(f frame, end int64) {
	switch f.kind {
	case frameStdout:
		s.lines(Stdout, f, end)
	case frameStderr:
		s.lines(Stderr, f, end)
	case frameDropped:
		s.out.Line(task.System, string(f.body))
	case frameMessage:
		if m, err := parseMessage(f.body); err == nil {
			s.Message(m)
		}
	case frameRefused:
		if m, err := parseMessage(f.body); err == nil {
			s.refuse(m)
		}
	}
}

// lines hands on the lines of a frame. Each has a place of its own, where it ends.
func (s *session) lines(stream Stream, f frame, end int64) {
	for rest, more := f.body, true; more; {
		var text []byte
		text, rest, more = bytes.Cut(rest, []byte{'\n'})
		at := end
		if more {
			at -= int64(len(rest)) + 1
		}
		s.out.ReadingTo(at)
		s.Line(stream, ipc.Line{Text: text, Partial: f.partial})
	}
}

// now is what is to be remembered of all that was read.
func (k *keeping) now(s *session, at int64) keepMemo {
	return keepMemo{At: at, Started: k.memo.Started, Output: s.out.Memo(), Session: s.memo()}
}

// markLater marks a memo when all before it is stored.
func (k *keeping) markLater(s *session, m keepMemo) {
	k.mu.Lock()
	busy := k.marking
	k.marking = true
	k.mu.Unlock()
	if busy {
		return
	}
	s.out.Then(func(err error) {
		if err == nil {
			k.mark(m)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.marking = false
	})
}

// mark notes that all before a memo's place is stored, and that there is room again.
func (k *keeping) mark(m keepMemo) {
	text, err := json.Marshal(m)
	if err == nil {
		err = writeQuickly(k.path(toldFile), text)
	}
	if err == nil {
		k.tell(toShim{Told: m.At})
	}
}

// writeQuickly writes a file that is there whole or not at all, as long as the machine lives.
func writeQuickly(name string, text []byte) error {
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// result is how the process ended. If its shim could not write that down, it was killed,
// and what is left of the process is as well.
func (k *keeping) result() (r shimResult) {
	text, err := os.ReadFile(k.path(resultFile))
	if err == nil && json.Unmarshal(text, &r) == nil {
		return r
	}
	r = shimResult{Result: Result{Class: task.ReasonKilled, Message: "the process that kept it beside the worker was killed, and it as well; ask who did it, or whether memory ran out"}}
	k.kill()
	return r
}

// kill kills the shim and the group of its process, by force.
func (k *keeping) kill() {
	id, err := k.process()
	if err != nil || k.note.Boot != bootID() {
		return
	}
	if id.Shim.same() {
		_ = syscall.Kill(id.Shim.PID, syscall.SIGKILL) // its guard does the rest
	}
	if id.same() {
		_ = syscall.Kill(-id.PID, syscall.SIGKILL)
	}
}

// same tells whether the process is still the one that was meant.
func (p processID) same() bool {
	start, err := startOf(p.PID)
	return err == nil && start == p.Start
}

// startOf is when a process started, in ticks since the machine did.
func startOf(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, errStat
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// bootID names the time since the machine was started.
var bootID = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it all is of one boot
	return strings.TrimSpace(string(text))
})

// causes are why an attempt is stopped, in codes that outlive the worker.
var causes = map[string]error{
	"cancelled": worker.ErrCancelled, "timeout": worker.ErrTimeout, "idle": worker.ErrIdle, "heartbeat": worker.ErrHeartbeat,
	"shutdown": worker.ErrShutdown, "drained": worker.ErrDrained, "succeeded": worker.ErrSucceeded, "hurry": worker.ErrHurry,
	codeLease: worker.ErrLeaseLost, "fenced": worker.ErrFenced, "crowded": worker.ErrCrowded,
}

func codeOf(cause error) string {
	for code, err := range causes {
		if errors.Is(cause, err) {
			return code
		}
	}
	return "stopped"
}

func causeOf(code string) error { return causes[code] }
