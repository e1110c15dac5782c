package filecache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"millrace/internal/files"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/worker"
)

// Store is where versions come from and artifacts go.
type Store interface {
	files.Store
	// KeepArtifacts records the artifacts that an attempt has left.
	KeepArtifacts(ctx context.Context, l task.Left) error
}

// DefaultArtifacts is how many bytes of artifacts an attempt may leave.
const DefaultArtifacts = 1 << 30

// Surroundings prepare the files of one worker's attempts, and keep their artifacts.
type Surroundings struct {
	Cache *Cache
	Store Store
	// Node is recorded with each set of artifacts.
	Node string
	// Limit is how many bytes of artifacts an attempt may leave; if it leaves more, they are
	// refused and the attempt fails. Default [DefaultArtifacts].
	Limit int64
	// Now returns the time, as [worker.Config.Now] does. Default [time.Now].
	Now func() time.Time
}

func (s *Surroundings) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// Prepare implements process.Surroundings: it prepares the files of an attempt.
func (s *Surroundings) Prepare(ctx context.Context, a *worker.Attempt, dir string, setup func(context.Context, string) error) (string, func(), error) {
	spec := a.Task.Spec
	u := Use{
		Progress: func(int64, int64) { a.Output.Alive() },
		Fetched:  func(f files.Fetched, took time.Duration) { s.say(a, f, took) },
	}
	bundle, mode := job.Files{}, job.FilesCopy
	if spec.Files != nil {
		bundle = *spec.Files
		ref, err := files.ParseRef(bundle.Bundle)
		if err != nil {
			return "", nil, fmt.Errorf("files: %w", err)
		}
		if !ref.Pinned() {
			return "", nil, fmt.Errorf("files: %q names no version; who submits a task has to write NAME@ and the whole digest, as `millrace run` does", bundle.Bundle)
		}
		if u.Version = ref.Digest; bundle.Mode != "" {
			mode = bundle.Mode
		}
	}
	var failed error
	if len(spec.Setup) > 0 {
		u.Setup = &Setup{Lines: spec.Setup, User: spec.Run.User, Run: func(ctx context.Context, dir string) error {
			failed = setup(ctx, dir)
			return failed
		}}
	}
	into := filepath.Join(dir, filepath.FromSlash(bundle.To))
	held, err := s.put(ctx, u, into, mode)
	if failed != nil {
		return "", nil, failed // the error speaks for itself
	}
	if err != nil {
		return "", nil, s.explain(bundle.Bundle, err)
	}
	if mode == job.FilesShared {
		into = held.Dir
	}
	return into, held.Release, nil
}

func (s *Surroundings) put(ctx context.Context, u Use, into, mode string) (*Held, error) {
	if mode == job.FilesShared {
		u.Shared = true
		return s.Cache.Checkout(ctx, u)
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return nil, err
	}
	how := Copy
	if mode == job.FilesLink {
		how = Link
	}
	return s.Cache.Put(ctx, u, into, how)
}

// telling refuses artifacts if a name, or the target of a link, holds a secret: names appear in
// lists, where they are not redacted.
func telling(m *files.Manifest, clean func(string) string) error {
	for i := range m.Entries {
		if e := &m.Entries[i]; clean(e.Path) != e.Path || clean(e.Link) != e.Link {
			return fmt.Errorf("refused: a secret of the task stands in the name %q", clean(e.Path))
		}
	}
	return nil
}

// say writes a line about what was fetched to the task's output.
func (s *Surroundings) say(a *worker.Attempt, f files.Fetched, took time.Duration) {
	name := "files"
	if a.Task.Spec.Files != nil {
		name += " " + shortBundle(a.Task.Spec.Files.Bundle)
	}
	a.Output.Line(output.System, fmt.Sprintf("%s: fetched %s in %v", name, bytesText(f.Bytes), took.Round(time.Millisecond)))
}

// bytesText formats a number of bytes with its unit.
func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) } // never below zero

// shortBundle is a bundle with its version shortened for display.
func shortBundle(bundle string) string {
	name, digest, _ := strings.Cut(bundle, "@")
	if digest == "" {
		return bundle
	}
	return name + "@" + files.Digest(digest).Short()
}

// explain says which files an attempt could not get, and what to do.
func (s *Surroundings) explain(bundle string, err error) error {
	if bundle == "" {
		return err // a setup without files explains itself
	}
	switch {
	case errors.Is(err, files.ErrNoVersion):
		return fmt.Errorf("files %s: %w: push it again with `millrace files push`", bundle, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("files %s could not be had in time: %w", bundle, err)
	}
	return fmt.Errorf("files %s: %w", bundle, err)
}

// Keep implements process.Surroundings: it stores the artifacts of an attempt.
func (s *Surroundings) Keep(ctx context.Context, a *worker.Attempt, dir string, as func(do func() error) error, clean func(string) string) error {
	limit := s.Limit
	if limit == 0 {
		limit = DefaultArtifacts
	}
	var root *os.Root
	if err := as(func() (err error) {
		root, err = os.OpenRoot(dir)
		return err
	}); err != nil {
		return err
	}
	defer root.Close()
	left := task.Left{Task: a.Task.ID, Attempt: a.Task.Attempt, Epoch: a.Task.Epoch, Node: s.Node, At: s.now().UTC()}
	t, err := files.Scan(ctx, root, files.Options{Only: a.Task.Spec.Artifacts.Paths, MaxBytes: limit, As: as})
	if err == nil {
		err = telling(t.Manifest, clean)
	}
	if err != nil && ctx.Err() == nil {
		if errors.Is(err, files.ErrTooMuch) {
			err = fmt.Errorf("refused: %w; leave less, or raise the worker's --artifacts-limit", err)
		}
		left.Refused = clean(err.Error())
		if kept := s.Store.KeepArtifacts(ctx, left); kept != nil {
			return kept
		}
		return worker.Final(err)
	}
	if err != nil {
		return err
	}
	for _, note := range t.Notes {
		a.Output.Line(output.System, "artifacts: "+clean(note))
	}
	pushed, err := files.Push(ctx, s.Store, root, t, s.Node, left.At, func(int64, int64) { a.Output.Alive() })
	if err != nil {
		return err
	}
	left.Digest, left.Files, left.Bytes = string(t.Digest), pushed.Version.Files, pushed.Version.Bytes
	return s.Store.KeepArtifacts(ctx, left)
}
