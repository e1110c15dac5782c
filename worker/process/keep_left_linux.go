package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

// keptFor is how long the output of a process waits for a worker that resumes or reports it.
const keptFor = 7 * 24 * time.Hour

// leftPatience bounds how long all shims together may take to answer a worker that comes back.
const leftPatience = 500 * time.Millisecond

// Left implements [worker.Keeper].
func (t *Tasks) Left() ([]*worker.Orphan, error) {
	if _, err := os.Lstat(t.folderOf()); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	own, err := t.ownFolder()
	if err != nil {
		return nil, err
	}
	folders, err := os.ReadDir(own)
	var all []*worker.Orphan
	until := time.Now().Add(leftPatience)
	for _, f := range folders {
		k := &keeping{folder: filepath.Join(own, f.Name()), work: t.work()}
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

// find reads the note of an earlier process, and waits for its shim until a time at most. It
// returns nil if that process had started nothing.
func (k *keeping) find(until time.Time) (*worker.Orphan, error) {
	text, err := os.ReadFile(k.path(noteFile))
	if isMissing(err) {
		if lock, err := lockFolder(k.folder); err == nil { // nothing was started
			lock.Close()
			_ = os.RemoveAll(k.folder)
		}
		return nil, nil
	}
	if info, statErr := os.Stat(k.path(noteFile)); statErr == nil && time.Since(info.ModTime()) > keptFor {
		if lock, err := lockFolder(k.folder); err == nil { // its note was never asked for
			lock.Close()
			_ = json.Unmarshal(text, &k.note)
			k.remove()
			return nil, nil
		}
	}
	if err == nil {
		k.note, err = readNote(text)
	}
	if err != nil {
		return nil, err
	}
	for ; ; time.Sleep(attendAgain) {
		if err = k.tryAttend(); err == nil || errors.Is(err, errBusy) || time.Now().After(until) {
			break // the worker that still attends it leaves it soon
		}
	}
	l := &worker.Orphan{Note: k.note.Note, Received: time.Now(), PID: k.pid, Handle: k}
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

// readNote reads a note by a worker of any version.
func readNote(text []byte) (n keepNote, err error) {
	err = json.Unmarshal(text, &n)
	if n.V > keepVersion {
		err = fmt.Errorf("it is of version %d, and this program reads up to %d: use a newer millrace", n.V, keepVersion)
	}
	return n, err
}

func (k *keeping) process() (id keptProcess, err error) {
	text, err := os.ReadFile(k.path(pidFile))
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	return id, err
}

// goOn resumes an attempt that an earlier process has left.
func (t *Tasks) goOn(ctx context.Context, a *worker.Attempt) worker.Outcome {
	k := a.Left().Handle.(*keeping)
	defer k.Close()
	// Also one that must stop: its shim stops it, and reports.
	err := k.attend(ctx)
	if errors.Is(err, worker.ErrLeft) {
		return worker.Outcome{Left: true}
	}
	if err != nil {
		return worker.Outcome{Class: value.System, Message: "what it has said cannot be read: " + err.Error(), Stopped: ctx.Err() != nil}
	}
	if text, err := os.ReadFile(k.path(toldFile)); err == nil {
		_ = json.Unmarshal(text, &k.memo) // else everything there is read again
	}
	s := &session{tasks: t, attempt: a, out: a.Output, began: timeOf(k.note.Began), started: timeOf(k.memo.Started), foreign: replacing{encoding: a.Task.Spec.Run.Encoding}, sessionMemo: k.memo.Session}
	if k.note.Boot != bootID() || k.memo.Started == 0 {
		s.started = time.Time{}
	}
	p := place{dir: k.note.Dir, fresh: k.note.Fresh, leave: func() {}}
	return t.converse(ctx, s, k, true, p)
}

// kill kills the shim and the group of its process.
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

// same tells whether the number still belongs to the same process.
func (p processID) same() bool {
	start, err := child.StartOf(p.PID)
	return err == nil && start == p.Start
}

// bootID identifies the current boot of the machine.
var bootID = sync.OnceValue(func() string {
	// Without it everything counts as the same boot.
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
})
