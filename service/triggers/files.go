package triggers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/submit"
	"millrace/service/answers"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/condition"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/schedule"
)

// Files makes the tasks that follow from files that appear on a node. It looks into folders again and again:
// so it also finds what came while the worker was away, or from another machine.
type Files struct {
	// Folders are those into which jobs may have it look; all below them belongs to them.
	Folders []string
	// Node is where the tasks run.
	Node node.ID
	// Jobs returns the jobs at present.
	Jobs func(context.Context) ([]definitions.StoredJob, error)
	// Maker makes the tasks.
	Maker *submit.Maker
	// Every is the interval of looks. Default 2s.
	Every time.Duration
	Log   *slog.Logger

	seen map[string]*finding // by job and path
	said map[string]bool     // jobs that look for files outside of the folders
}

// file is a version of a file.
type file struct {
	path              string
	size              int64
	modified, changed time.Time
	number            uint64 // of the file on its disk; 0 if that numbers none
}

func (f *file) same(other *file) bool {
	return f.size == other.size && f.modified.Equal(other.modified) && f.number == other.number
}

// finding is what was seen of a file.
type finding struct {
	file
	since time.Time // since when it is as it is
	done  bool
	look  int
}

// Run looks until ctx ends.
func (f *Files) Run(ctx context.Context) error {
	f.seen, f.said = map[string]*finding{}, map[string]bool{}
	look := 0
	answers.Again(ctx, cmp.Or(f.Every, 2*time.Second), f.Log, "files of jobs cannot be looked for; trying again", func(ctx context.Context) error {
		jobs, err := f.Jobs(ctx)
		if err != nil && !errors.Is(err, definitions.ErrBadJob) {
			return err
		}
		look++
		var faults []error
		for i := range jobs {
			if j := &jobs[i].Job; j.On.Finds() {
				faults = append(faults, f.look(ctx, j, look))
			}
		}
		if err := errors.Join(faults...); err != nil {
			return err
		}
		for name, is := range f.seen {
			if is.look != look { // it is gone
				delete(f.seen, name)
			}
		}
		return nil
	})
	return nil
}

// look makes the tasks of a job that follow from files.
func (f *Files) look(ctx context.Context, j *job.Job, look int) error {
	within := slices.ContainsFunc(f.Folders, func(folder string) bool {
		return strings.HasPrefix(j.On.File, strings.TrimSuffix(folder, "/")+"/")
	})
	if !within {
		if !f.said[j.Name] {
			f.Log.Debug("this worker does not look for the files of a job; --watch says where it may", "job", j.Name, "file", j.On.File)
		}
		f.said[j.Name] = true
		return nil
	}
	paths, err := filepath.Glob(filepath.FromSlash(j.On.File))
	if err != nil {
		return err
	}
	var faults []error
	for _, at := range paths {
		if job.Unfinished(filepath.Base(at)) {
			continue
		}
		is, err := versionOf(at)
		if errors.Is(err, fs.ErrNotExist) || err == nil && is == nil {
			continue // it is gone again, or is no file
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		name := j.Name + "\x00" + at
		was := f.seen[name]
		if was == nil || !was.same(is) {
			was = &finding{file: *is, since: f.Maker.Rec.Now()}
			f.seen[name] = was
		}
		if was.look = look; !was.done && f.Maker.Rec.Now().Sub(was.since) >= j.On.Calm() {
			err := f.make(ctx, j, &was.file)
			was.done = err == nil
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// make makes the task of a job that follows from a file. No error: there is no more to do.
func (f *Files) make(ctx context.Context, j *job.Job, is *file) error {
	made, err := found(j, is, f.Node)
	_, err = submitted(ctx, f.Maker, made, err)
	if errors.Is(err, events.ErrForgotten) && is.changed.After(is.modified) { // it has come later than it was written
		then := *is
		then.modified, then.changed = is.changed, is.changed
		return f.make(ctx, j, &then)
	}
	if settled(f.Log, err, "a file", "job", j.Name, "file", is.path) {
		return nil
	}
	return err
}

// versionOf looks at a file; nil for what is none.
func versionOf(at string) (*file, error) {
	var is unix.Stat_t
	if err := unix.Lstat(at, &is); err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: at, Err: err}
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, nil
	}
	return &file{at, is.Size, time.Unix(is.Mtim.Unix()).UTC(), time.Unix(is.Ctim.Unix()).UTC(), is.Ino}, nil
}

// found is the submission of a job that follows from a version of a file on a node.
func found(of *job.Job, is *file, on node.ID) (birth.Submission, error) {
	text, err := json.Marshal(struct {
		File     string    `json:"file"`
		Size     int64     `json:"size"`
		Modified time.Time `json:"modified"`
		Node     node.ID   `json:"node"`
	}{is.path, is.size, is.modified, on})
	if err != nil {
		return birth.Submission{}, err
	}
	s, err := condition.Triggered(of, text, condition.Message{})
	s.Nodes = []string{string(on)}
	s.Origin = task.Origin{Trigger: task.TriggerFile, Tick: is.modified, MadeBy: fmt.Sprintf("file %s on node %s, %d bytes of %s, number %d", is.path, on, is.size, is.modified.Format(time.RFC3339Nano), is.number)}
	s.ID = schedule.FollowingID(of.Name, &s.Origin)
	return s, err
}
