package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"millrace/events"
	"millrace/internal/files"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/value"
)

// spools is where attempts that go on without a connection keep what cannot be stored: one file per
// attempt, in a folder per session, in a folder per node. A session locks its folder as long as its
// process lives; a folder without a lock was left behind.
type spools struct {
	base    string // of all nodes
	node    string // whose folder lies there
	session string
	limit   int64

	mu   sync.Mutex
	lock *flock.Flock // guarded by mu; nil until something must be kept
	size int64        // guarded by mu; bytes of all the session's files that count
}

// lockName is the file in a session's folder that its process locks.
const lockName = "lock"

// defaultSpool is the spool directory of a worker that was given none, or "" if its user has no
// cache directory. A shared directory will not do: what lies there counts as reports.
func defaultSpool() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "millrace", "spool")
}

func newSpools(dir string, id node.ID, session string, limit int64) *spools {
	return &spools{base: dir, node: string(id), session: session, limit: limit}
}

// own makes folders below the base, and returns the last one. Neither they nor the base may belong
// to another user.
func (s *spools) own(folders ...string) (string, error) {
	return files.PrivateDir(filepath.Dir(s.base), append([]string{filepath.Base(s.base), s.node}, folders...)...)
}

// folder makes the session's folder and locks it, once.
func (s *spools) folder() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		return filepath.Dir(s.lock.Path()), nil
	}
	dir, err := s.own(s.session)
	if err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err == nil && !ok {
		err = errors.New("another process has locked it")
	}
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	s.lock = lock
	return dir, nil
}

// close leaves the rest to the next process, and removes the folder if it is empty.
func (s *spools) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		dropFolder(filepath.Dir(s.lock.Path()), s.lock)
		s.lock = nil
	}
}

// dropFolder removes a session's folder if it holds only its lock. It releases the lock in any
// case.
func dropFolder(dir string, lock *flock.Flock) {
	if files, err := os.ReadDir(dir); err == nil && len(files) <= 1 {
		_ = os.Remove(lock.Path())
		_ = os.Remove(dir)
		_ = os.Remove(filepath.Dir(dir)) // fails, as it should, if another session has files there
	}
	_ = lock.Unlock() // the end of the process would release it, too
}

// take reserves space; false if there is not enough left.
func (s *spools) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size+n > s.limit {
		return false
	}
	s.size += n
	return true
}

func (s *spools) give(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size -= n
}

// left returns the folders of sessions whose process has ended, each locked. The caller passes each
// lock to [dropFolder].
func (s *spools) left() (locks []*flock.Flock, err error) {
	if _, err := os.Lstat(filepath.Join(s.base, s.node)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	root, err := s.own()
	if err != nil {
		return nil, err
	}
	folders, err := os.ReadDir(root)
	for _, f := range folders {
		if !f.IsDir() || f.Name() == s.session {
			continue
		}
		lock := flock.New(filepath.Join(root, f.Name(), lockName), flock.SetPermissions(0o600))
		if ok, lockErr := lock.TryLock(); ok {
			locks = append(locks, lock)
		} else {
			err = errors.Join(err, lockErr) // nil if its process lives
		}
	}
	return locks, err
}

// spool is the file of one attempt. Its first line says how much of it is handed over, in 20
// digits; then follows a line of JSON for each [entry], the task first.
type spool struct {
	owner *spools // nil for one that was left behind
	file  *os.File

	mu      sync.Mutex
	first   int64   // guarded by mu; where the first entry after the task begins
	handed  int64   // guarded by mu; everything before is handed over
	end     int64   // guarded by mu; where the next entry goes
	taken   int64   // guarded by mu; how much of it counts against the limit
	dropped dropped // guarded by mu; what found no space lately
	tail    int64   // guarded by mu; length of the entry that counts them, from end on
}

// spoolVersion is the version of the file format. A file without a version has version 1.
const spoolVersion = 1

// entry is a line of a spool. One of its fields is set; the first entry of a file of a version
// after 1 also has V.
type entry struct {
	V       int             `json:"v,omitempty"`
	Task    *task.Task      `json:"task,omitempty"`
	Lines   *output.Lines   `json:"lines,omitempty"`
	Records *output.Records `json:"records,omitempty"`
	Word    string          `json:"word,omitempty"` // of the records
	Dropped *dropped        `json:"dropped,omitempty"`
	Report  *report         `json:"report,omitempty"`
}

// dropped counts what found no space.
type dropped struct {
	Lines   int `json:"lines"`
	Records int `json:"records"`
	// Last is the number of the last dropped line; the remark about the loss takes its place.
	Last int       `json:"last"`
	At   time.Time `json:"at"`
}

// report is a command in a form that can be written to the file.
type report struct {
	Finish  *task.Finish  `json:"finish,omitempty"`
	Fail    *task.Fail    `json:"fail,omitempty"`
	Stopped *task.Stopped `json:"stopped,omitempty"`
	Release *task.Release `json:"release,omitempty"`
	Lose    *task.Lose    `json:"lose,omitempty"`
	Suspend *task.Suspend `json:"suspend,omitempty"`
}

func reportOf(c task.Command) *report {
	switch c := c.(type) {
	case task.Finish:
		return &report{Finish: &c}
	case task.Fail:
		return &report{Fail: &c}
	case task.Stopped:
		return &report{Stopped: &c}
	case task.Release:
		return &report{Release: &c}
	case task.Lose:
		return &report{Lose: &c}
	case task.Suspend:
		return &report{Suspend: &c}
	}
	return nil
}

func (r *report) command() task.Command {
	switch {
	case r.Finish != nil:
		return *r.Finish
	case r.Fail != nil:
		return *r.Fail
	case r.Stopped != nil:
		return *r.Stopped
	case r.Release != nil:
		return *r.Release
	case r.Lose != nil:
		return *r.Lose
	case r.Suspend != nil:
		return *r.Suspend
	}
	return nil
}

const handedDigits = 20

// create makes the file of an attempt.
func (s *spools) create(t *task.Task) (*spool, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, string(t.ID)+"."+strconv.FormatUint(t.Epoch, 10))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	p := &spool{owner: s, file: f, end: handedDigits + 1}
	if _, err = p.add(entry{Task: t}, false); err == nil {
		p.first = p.end
		err = p.mark(p.end)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return p, nil
}

// openSpool opens a file that was left behind. It ignores the end of a line that was not written in
// full.
func openSpool(name string) (*spool, task.Task, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, task.Task{}, err
	}
	t, p, err := readSpool(f)
	if err != nil {
		_ = f.Close()
		return nil, t, fmt.Errorf("read %s: %w", name, err)
	}
	return p, t, nil
}

func readSpool(f *os.File) (task.Task, *spool, error) {
	info, err := f.Stat()
	if err != nil {
		return task.Task{}, nil, err
	}
	r := bufio.NewReader(f)
	digits, err := r.ReadString('\n')
	if err != nil {
		return task.Task{}, nil, err
	}
	handed, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return task.Task{}, nil, err
	}
	p := &spool{file: f, handed: handed, end: info.Size()}
	line, err := r.ReadBytes('\n')
	if err != nil {
		return task.Task{}, nil, err
	}
	var e entry
	err = json.Unmarshal(line, &e)
	if e.V > spoolVersion {
		return task.Task{}, nil, fmt.Errorf("it is of version %d, and this program reads up to %d: use a newer millrace", e.V, spoolVersion)
	}
	if err != nil {
		return task.Task{}, nil, err
	}
	if e.Task == nil {
		return task.Task{}, nil, errors.New("it does not begin with a task")
	}
	p.first = int64(len(digits) + len(line))
	p.handed = max(p.handed, p.first)
	return *e.Task, p, nil
}

// add writes an entry at the end. It returns false if a bounded entry finds no space; the count of
// dropped entries is then the last thing in the file.
func (p *spool) add(e entry, bounded bool) (bool, error) {
	line, err := value.JSON(e)
	if err != nil {
		return false, err
	}
	line = append(line, '\n')
	p.mu.Lock()
	defer p.mu.Unlock()
	if bounded && (p.tail > 0 || !p.owner.take(int64(len(line)))) {
		return false, nil
	}
	if bounded {
		p.taken += int64(len(line))
	}
	at := p.end + p.tail
	if _, err := p.file.WriteAt(line, at); err != nil {
		return false, err
	}
	p.end, p.tail, p.dropped = at+int64(len(line)), 0, dropped{}
	return true, nil
}

// drop counts what finds no space. It overwrites one entry each time, so that the count survives
// the end of the process.
func (p *spool) drop(lines []output.Line, records int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.dropped
	d.Lines, d.Records = d.Lines+len(lines), d.Records+records
	if n := len(lines); n > 0 {
		d.Last, d.At = lines[n-1].N, lines[n-1].At
	}
	p.dropped = d
	line, err := value.JSON(entry{Dropped: &d})
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if pad := p.tail - int64(len(line)); pad > 0 { // a time may have become shorter
		line = append(bytes.Repeat([]byte{' '}, int(pad)), line...)
	}
	p.tail = int64(len(line))
	_, err = p.file.WriteAt(line, p.end)
	return err
}

// next returns the next entry to hand over, and where the one after it begins; [io.EOF] if there is
// none.
func (p *spool) next() (entry, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handed == p.end && p.tail > 0 {
		// Count lines that are dropped from now on anew.
		p.end, p.tail, p.dropped = p.end+p.tail, 0, dropped{}
	}
	var e entry
	line, err := bufio.NewReader(io.NewSectionReader(p.file, p.handed, p.end-p.handed)).ReadBytes('\n')
	if err != nil {
		return e, 0, err // a torn line also ends the file
	}
	after := p.handed + int64(len(line))
	if err := json.Unmarshal(line, &e); err != nil {
		return e, after, fmt.Errorf("%s at byte %d: %w", p.file.Name(), p.handed, value.Plainly(err))
	}
	return e, after, nil
}

// mark records that everything before a place is handed over.
func (p *spool) mark(to int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handed = to
	_, err := fmt.Fprintf(io.NewOffsetWriter(p.file, 0), "%0*d\n", handedDigits, to)
	return err
}

// empty starts the file anew if all of it is handed over.
func (p *spool) empty() bool {
	p.mu.Lock()
	if p.handed != p.end || p.tail > 0 {
		p.mu.Unlock()
		return false
	}
	p.owner.give(p.taken)
	p.taken, p.end = 0, p.first
	p.mu.Unlock()
	if p.mark(p.first) == nil { // mark first: nothing may be handed over twice
		_ = p.file.Truncate(p.first)
	}
	return true
}

// sync writes the file through to the disk.
func (p *spool) sync() error { return p.file.Sync() }

// close closes the file, and removes it if there is nothing left to do with it.
func (p *spool) close(remove bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owner != nil {
		p.owner.give(p.taken)
		p.taken = 0
	}
	err := p.file.Close()
	if remove {
		err = errors.Join(err, os.Remove(p.file.Name()))
	}
	return err
}

// lines returns the remark that takes the place of dropped lines.
func (d *dropped) lines(t *task.Task) output.Lines {
	text := fmt.Sprintf("%d lines and %d batches of records were dropped: the spool was full while the server could not be reached", d.Lines, d.Records)
	return output.Lines{
		Task:    t.ID,
		Attempt: t.Attempt,
		Epoch:   t.Epoch,
		Lines:   []output.Line{{N: d.Last, At: d.At, Stream: output.System, Text: text}},
	}
}

// nobody is the lease of a report without an offer. The worker that gets the offer finds in the log
// that the task is done.
type nobody struct{ events.Lease }

func (nobody) Ack() error { return nil }
