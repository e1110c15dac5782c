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
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"millrace/internal/files"
	"millrace/ipc"
	"millrace/task"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

var _ worker.Keeper = (*Tasks)(nil)

// Keeps implements [worker.Keeper].
func (t *Tasks) Keeps(k *task.Task) bool {
	return len(t.Shim) > 0 && t.Folder != "" && k.Spec.Adopts()
}

// keepVersion is the version of the files of an attempt that outlives its worker, and of the
// messages between worker and shim. A note without a version has version 1.
const keepVersion = 1

// keepNote is what a worker writes down about an attempt that outlives it.
type keepNote struct {
	V int `json:"v,omitempty"` // absent for 1
	worker.Note
	// Received and Began are readings of the boot's monotonic clock.
	Received int64  `json:"received"`
	Began    int64  `json:"began"`
	Boot     string `json:"boot"`
	Dir      string `json:"dir"`
	// Fresh is the directory to remove at the end.
	Fresh string `json:"fresh,omitempty"`
	// Ring is the size of the ring, in bytes.
	Ring int64 `json:"ring"`
}

// keeping is the worker's side of a process that outlives it.
type keeping struct {
	folder string
	work   string // parent of working directories
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

// Send implements [child.Process].
func (k *keeping) Send(m ipc.Message) {
	form := messageForm(m)
	k.tell(toShim{Send: &form})
}

// Limits implements [child.Process].
func (k *keeping) Limits() string { return k.limits }

// tellPatience is how long a shim may take to read a message.
const tellPatience = 5 * time.Second

// tell sends a message to the shim. If the shim is gone, its reader finds out.
func (k *keeping) tell(m toShim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return
	}
	_ = k.conn.SetWriteDeadline(time.Now().Add(tellPatience))
	line, err := value.JSON(m)
	if err == nil {
		_, err = k.conn.Write(append(line, '\n'))
	}
	if err != nil {
		_ = k.conn.Close()
	}
}

// Close releases what this process holds of the attempt.
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

// remove removes everything of the attempt from this machine.
func (k *keeping) remove() {
	if isKeptDir(k.note.Fresh, k.work) {
		_ = os.RemoveAll(k.note.Fresh)
	}
	_ = os.RemoveAll(k.folder)
}

func (k *keeping) path(name string) string { return filepath.Join(k.folder, name) }

// folderOf returns the folder of a node's attempts.
func (t *Tasks) folderOf() string { return filepath.Join(t.Folder, t.Node+".kept") }

// ownFolder makes that folder, and folders in it. None of them may belong to another user, for the
// worker trusts what lies there.
func (t *Tasks) ownFolder(folders ...string) (string, error) {
	return files.PrivateDir(filepath.Dir(t.Folder), append([]string{filepath.Base(t.Folder), t.Node + ".kept"}, folders...)...)
}

// shimStart bounds the start of a shim.
const shimStart = 10 * time.Second

// runKept runs a command so that it outlives this process.
func (t *Tasks) runKept(ctx context.Context, s *session, c child.Command, secrets []string, p place) worker.Outcome {
	failed := func(format string, args ...any) worker.Outcome {
		return worker.Outcome{Class: value.System, Message: fmt.Sprintf(format, args...), Stopped: ctx.Err() != nil}
	}
	a := s.attempt
	note, received := a.Note()
	name := fmt.Sprintf("%s.%d", a.Task.ID, a.Task.Epoch)
	k := &keeping{
		folder: filepath.Join(t.folderOf(), name), work: t.work(),
		note: keepNote{
			Note:     note,
			Received: monotonicOf(received),
			Began:    monotonicOf(s.began),
			Boot:     bootID(),
			Dir:      p.dir,
			Fresh:    p.fresh,
			Ring:     ringSize,
		},
	}
	defer k.Close()
	if ctx.Err() != nil {
		p.leave()
		return s.outcome(new(child.NotStarted(ctx)))
	}
	if _, err := t.ownFolder(name); err != nil {
		p.leave()
		return failed("no place to keep what the task says: %v; choose another folder with --spool", err)
	}
	born, err := t.startShim(ctx, a, k, shimOrder{
		Folder:     k.folder,
		Command:    c,
		Credential: c.Credential,
		Secrets:    secrets,
		Guard:      t.ShimGuard,
		Ring:       ringSize,
		Elevate:    t.Runner.Elevates(),
		Confine:    t.Runner.Confines(),
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
		if cause := causeOf(born.Code); cause != nil {
			a.Stop(cause) // before it was started, so its task is given back
		}
		return s.outcome(born.Failed)
	}
	k.memo.Started = monotonic()
	s.redact = nil // the shim has redacted already
	return t.converse(ctx, s, k, false, p)
}

// startShim starts the shim of an attempt; the shim starts the process.
func (t *Tasks) startShim(ctx context.Context, a *worker.Attempt, k *keeping, o shimOrder) (born shimBorn, err error) {
	lock, err := lockFolder(k.folder)
	if err != nil {
		return born, err
	}
	defer lock.Close() // the shim's copy keeps the lock
	text, err := json.Marshal(k.note)
	if err != nil {
		return born, err
	}
	if err := files.Write(k.path(noteFile), text); err != nil {
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
	cmd.Env = child.HelpersEnv() // without this worker's mark, so that its guard spares the shim
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = bytes.NewReader(order), complaints, []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of terminals
	out, err := cmd.StdoutPipe()
	if err != nil {
		return born, err
	}
	if err := t.Runner.StartBeside(cmd); err != nil {
		return born, err
	}
	defer func() { // by now the shim has written everything to that pipe
		go func() {
			_ = cmd.Wait()
			t.Runner.Gone(cmd.Process.Pid)
		}()
	}()
	if f, ok := out.(*os.File); ok {
		_ = f.SetReadDeadline(time.Now().Add(shimStart))
	}
	if err := json.NewDecoder(out).Decode(&born); err != nil {
		_ = cmd.Process.Kill()
		said, _ := os.ReadFile(k.path(errorFile))
		return born, fmt.Errorf("its shim does not report: %w%s", value.Plainly(err), strings.TrimRight(" "+string(said), " \n"))
	}
	return born, nil
}

// lockFolder opens the lock file of an attempt's folder and takes the lock.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := child.IgnoringEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// errBusy: another worker attends the process.
var errBusy = errors.New("another worker attends it")

// attend begins to listen to the shim, or takes its place if the shim is gone. It waits while a
// worker that lost the node to this one still attends the process.
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

// tryAttend tries attend once; a dead shim is no error.
func (k *keeping) tryAttend() error {
	if k.conn != nil || k.lock != nil {
		return nil
	}
	conn, err := dialIn(k.folder)
	if err != nil {
		lock, lockErr := lockFolder(k.folder)
		if lockErr == nil { // the shim is gone
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

// causes are the reasons to stop an attempt, by codes that outlive the worker.
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
