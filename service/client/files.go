package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events/jet/definitions"
	"millrace/events/jet/outputs"
	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// FilesPush says what to push.
type FilesPush struct {
	// Dir is the folder.
	Dir string
	// Name, if set, will point to the version.
	Name string
	// Exclude are patterns in the form of a .gitignore, beside those in the folder's own
	// .millraceignore.
	Exclude []string
	// Each, if not nil, is called with how many bytes are stored, of how many.
	Each func(done, of int64)
}

// FilesPushed is the result of a push.
type FilesPushed struct {
	// Name points to the version. Digest names the version.
	Name   string       `json:"name,omitempty"`
	Digest files.Digest `json:"digest"`
	// Files counts the files of the version, and Bytes their bytes.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Sent is how many bytes were sent; the store already had the rest.
	Sent int64 `json:"sent"`
	// Renamed tells whether the name pointed elsewhere before.
	Renamed bool `json:"renamed,omitempty"`
	// Notes say what was left out, and what may cause trouble elsewhere.
	Notes []string `json:"notes,omitempty"`
}

// PushFiles stores a folder as a version of a bundle. It sends only contents that the store lacks.
// The error names what cannot be part of a bundle, or wraps [ErrInvalid] or [files.ErrFull].
func (c *Client) PushFiles(ctx context.Context, p FilesPush) (FilesPushed, error) {
	done := FilesPushed{Name: p.Name}
	if p.Name != "" {
		if err := files.ValidBundleName(p.Name); err != nil {
			return done, fmt.Errorf("push: %w", Wrong(err))
		}
	}
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return done, fmt.Errorf("push: %w", err)
	}
	defer root.Close()
	ignore, err := files.ReadIgnore(root, p.Exclude...)
	if err != nil {
		return done, fmt.Errorf("push %s: %w", p.Dir, Wrong(err))
	}
	t, err := files.Scan(ctx, root, files.Options{Ignore: ignore})
	if err != nil {
		return done, fmt.Errorf("push %s: %w", p.Dir, err)
	}
	done, err = c.pushTree(ctx, root, t, &p)
	if err != nil {
		err = fmt.Errorf("push %s: %w", p.Dir, err)
	}
	return done, err
}

// FileEdit is a change of one file in a bundle.
type FileEdit struct {
	// Name is the bundle's, and Seen its version that the change was made for.
	Name string
	Seen files.Digest
	files.Edit
}

// MaxEdited is how many bytes a text may have that takes the place of a file.
const MaxEdited = 256 << 10

// EditFile stores a version of a bundle that differs in one file from m, the version that was seen. The
// error wraps [definitions.ErrChanged] if the name points to another one by now, [ErrInvalid], or an
// error of [files.Tree.Store].
func (c *Client) EditFile(ctx context.Context, m *files.Manifest, e FileEdit) error {
	if len(e.Content) > MaxEdited {
		return Wrongf("%.200q: the text has %d bytes, and at most %d can be edited: push the file", cmp.Or(e.To, e.Path), len(e.Content), MaxEdited)
	}
	t, err := files.Edited(m, e.Edit)
	if err != nil {
		return Wrong(err)
	}
	v, err := t.Store(ctx, c.store, c.rec.Actor, c.Now())
	if err != nil {
		return fmt.Errorf("edit %s: %w", e.Name, err)
	}
	_, err = c.store.NameVersion(ctx, namedBy(c, e.Name, v), e.Seen)
	return err
}

// namedBy is a version as a name of this caller points to it from now on.
func namedBy(c *Client, name string, v files.Version) definitions.NamedVersion {
	return definitions.NamedVersion{Name: name, Digest: v.Digest, Files: v.Files, Bytes: v.Bytes, At: c.Now().UTC(), By: c.rec.Actor}
}

// pushTree stores the files found below root.
func (c *Client) pushTree(ctx context.Context, root *os.Root, t *files.Tree, p *FilesPush) (FilesPushed, error) {
	done := FilesPushed{Name: p.Name}
	done.Notes = t.Notes
	for _, pair := range t.Manifest.Collisions() {
		done.Notes = append(done.Notes, fmt.Sprintf("%q and %q are one file on nodes whose file system ignores case", pair[0], pair[1]))
	}
	pushed, err := files.Push(ctx, c.store, root, t, c.rec.Actor, c.Now(), p.Each)
	if err != nil {
		return done, err
	}
	v := pushed.Version
	done.Digest, done.Files, done.Bytes, done.Sent = v.Digest, v.Files, v.Bytes, pushed.Bytes
	if p.Name != "" {
		done.Renamed, err = c.store.NameVersion(ctx, namedBy(c, p.Name, v))
	}
	return done, err
}

// ErrNoVersion: no version of a bundle has this digest, or it was removed.
var ErrNoVersion = files.ErrNoVersion

// FilesVersion finds the version that a reference names: NAME, NAME@DIGEST or DIGEST, where eight
// characters of a digest suffice. The error wraps [ErrInvalid], [definitions.ErrNoBundle] or
// [files.ErrNoVersion].
func (c *Client) FilesVersion(ctx context.Context, reference string) (files.Ref, files.Version, error) {
	if files.IsFolder(reference) {
		return files.Ref{}, files.Version{}, Wrongf("files: %q is a folder of one machine: push it with `millrace files push %s --name NAME` and use the name, or let `millrace job apply` or `run --files` do it", reference, reference)
	}
	ref, err := files.ParseRef(reference)
	if err != nil {
		return ref, files.Version{}, Wrongf("files: %w", err)
	}
	if c.role != "" {
		v, _, _, err := c.versionAsked(ctx, reference, "")
		ref.Digest = v.Digest
		return ref, v, toldOf(err, "files "+reference, files.ErrNoVersion)
	}
	switch {
	case ref.Pinned():
	case ref.Digest == "":
		named, err := c.store.Named(ctx, ref.Name)
		if err != nil {
			return ref, files.Version{}, err
		}
		ref.Digest = named.Digest
	default:
		found, err := c.store.Versions(ctx, string(ref.Digest))
		switch {
		case err != nil:
			return ref, files.Version{}, err
		case len(found) == 0:
			return ref, files.Version{}, fmt.Errorf("%w: %s", files.ErrNoVersion, ref)
		case len(found) > 1:
			return ref, files.Version{}, Wrongf("files: %d versions begin with %s: write more of the digest", len(found), ref.Digest)
		}
		ref.Digest = found[0]
	}
	v, err := c.store.Version(ctx, ref.Digest)
	if err != nil {
		return ref, v, fmt.Errorf("files %s: %w", ref, err)
	}
	return ref, v, nil
}

// Bundles returns all names with their latest versions, or the versions of one name. The error
// wraps [definitions.ErrNoBundle].
func (c *Client) Bundles(ctx context.Context, name string) (all []definitions.NamedVersion, err error) {
	if c.role != "" {
		return c.bundlesAsked(ctx, name)
	}
	if name != "" {
		return c.store.NameHistory(ctx, name)
	}
	known, err := c.store.BundleNames(ctx)
	for _, name := range known {
		n, err := c.store.Named(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, err
}

// FilesManifest reads the list of a version's files.
func (c *Client) FilesManifest(ctx context.Context, v files.Version) (*files.Manifest, error) {
	if c.role != "" {
		return c.manifestAsked(ctx, v.Digest)
	}
	return files.ManifestOf(ctx, c.store, v)
}

// FilesContent writes a file of a version to w, chunk by chunk.
func (c *Client) FilesContent(ctx context.Context, e *files.Entry, w io.Writer) error {
	if err := c.May(""); err != nil { // the service passes contents on over HTTP alone
		return err
	}
	for _, d := range e.Chunks {
		b, err := c.store.Get(ctx, d)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// PullFiles writes a version to a folder, and makes the folder if necessary. It keeps what is
// already there of the version, and leaves other files alone.
func (c *Client) PullFiles(ctx context.Context, m *files.Manifest, dir string, each func(done, of int64)) (files.Fetched, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return files.Fetched{}, fmt.Errorf("pull: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return files.Fetched{}, fmt.Errorf("pull: %w", err)
	}
	defer root.Close()
	done, err := files.Fetch(ctx, root, m, files.Writing{Source: c.store, Each: each})
	if err != nil {
		return done, fmt.Errorf("pull to %s: %w", filepath.Clean(dir), err)
	}
	return done, nil
}

// FilesProblem is a stored file with an error.
type FilesProblem struct {
	// Path is the file's. Error says what is wrong.
	Path  string `json:"path"`
	Error string `json:"error"`
}

// VerifyFiles reads all of a version from the store and checks it against its digests. It returns
// the problems, and how many bytes were read.
func (c *Client) VerifyFiles(ctx context.Context, m *files.Manifest) ([]FilesProblem, int64, error) {
	problems := make([]*FilesProblem, len(m.Entries))
	read := make([]int64, len(m.Entries))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range m.Entries {
		e := &m.Entries[i]
		g.Go(func() error {
			for _, d := range e.Chunks {
				b, err := c.store.Get(ctx, d)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					problems[i] = &FilesProblem{e.Path, err.Error()}
					return nil
				}
				read[i] += int64(len(b))
			}
			return nil
		})
	}
	err := g.Wait()
	var all []FilesProblem
	var total int64
	for i := range problems {
		total += read[i]
		if problems[i] != nil {
			all = append(all, *problems[i])
		}
	}
	return all, total, err
}

// FilesSweep says what gc keeps.
type FilesSweep struct {
	// OlderThan spares what was stored within that time. Default and minimum 1h.
	OlderThan value.Duration `json:"older_than,omitempty"`
	// Versions is how many of the latest versions of each name are kept. Default: as many as names
	// remember, 64.
	Versions int `json:"keep,omitempty"`
	// Artifacts is how long artifacts are kept. Default 30 days.
	Artifacts value.Duration `json:"artifacts,omitempty"`
	// DryRun only reports what would be removed.
	DryRun bool `json:"dry_run,omitempty"`
}

// Defaults of a [FilesSweep].
const (
	DefaultSweepAge     = value.Duration(time.Hour)
	DefaultArtifactsAge = 30 * 24 * value.Duration(time.Hour)
)

// FilesSwept is what gc removed, or would remove.
type FilesSwept struct {
	outputs.Swept
	// Artifacts counts the expired sets of artifacts.
	Artifacts int `json:"artifacts"`
}

// SweepFiles removes versions and contents that no name, no job, no unfinished task and no artifact
// needs. It may run beside pushes and submissions. List lists tasks, as [Client.List] does. If ctx
// ends early, what was done stays done, and is returned with the error. The error wraps that of
// list, or [outputs.ErrSweeping].
func (c *Client) SweepFiles(ctx context.Context, o FilesSweep, list func(context.Context, ListRequest) (ListPage, error)) (FilesSwept, error) {
	if o.OlderThan == 0 {
		o.OlderThan = DefaultSweepAge
	}
	if o.Artifacts == 0 {
		o.Artifacts = DefaultArtifactsAge
	}
	var done FilesSwept
	switch {
	case o.Versions < 0:
		return done, Wrongf("keep is %d, want 1 or more, or 0 for all that names remember", o.Versions)
	case o.Artifacts < 0:
		return done, Wrongf("artifacts is %v, want more than 0", o.Artifacts)
	case o.OlderThan < DefaultSweepAge:
		return done, Wrongf("gc spares what is younger than %v, for it may belong to a push under way", DefaultSweepAge)
	}
	now := c.Now()
	old, _, err := c.artifactsBefore(ctx, now.Add(-o.Artifacts.Std()))
	if err != nil {
		return done, err
	}
	done.Artifacts = len(old)
	if !o.DryRun {
		for _, l := range old {
			if err := c.store.ForgetArtifacts(ctx, l); err != nil {
				return done, err
			}
		}
	}
	done.Swept, err = c.store.SweepFiles(ctx, now.Add(-o.OlderThan.Std()), o.DryRun, func(ctx context.Context) (map[files.Digest]bool, error) {
		_, left, err := c.artifactsBefore(ctx, now.Add(-o.Artifacts.Std()))
		if err != nil {
			return nil, err
		}
		wanted := map[files.Digest]bool{}
		for _, l := range left {
			wanted[files.Digest(l.Digest)] = true
		}
		delete(wanted, "")
		return wanted, errors.Join(c.wantedByName(ctx, o.Versions, wanted), c.wantedByJobs(ctx, wanted), c.wantedByTasks(ctx, list, wanted))
	})
	return done, err
}

// artifactsBefore divides the artifacts of all tasks by age.
func (c *Client) artifactsBefore(ctx context.Context, t time.Time) (old, young []task.Left, err error) {
	all, err := c.store.Artifacts(ctx, "")
	for _, l := range all {
		if l.At.Before(t) {
			old = append(old, l)
		} else {
			young = append(young, l)
		}
	}
	return old, young, err
}

// RemoveBundle removes the name of a bundle; its versions stay until gc finds them unneeded. The
// error wraps [definitions.ErrNoBundle] if there is none.
func (c *Client) RemoveBundle(ctx context.Context, name string) error {
	return c.store.RemoveBundle(ctx, name, c.rec.Actor)
}

func (c *Client) wantedByName(ctx context.Context, versions int, wanted map[files.Digest]bool) error {
	names, err := c.store.BundleNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		history, err := c.store.NameHistory(ctx, name)
		if errors.Is(err, definitions.ErrNoBundle) {
			continue // it was just removed
		}
		if err != nil {
			return err
		}
		for i, n := range history {
			if versions == 0 || i < versions {
				wanted[n.Digest] = true
			}
		}
	}
	return nil
}

func (c *Client) wantedByJobs(ctx context.Context, wanted map[files.Digest]bool) error {
	jobs, err := c.store.Jobs(ctx)
	if err != nil {
		return fmt.Errorf("which files jobs need: %w", err)
	}
	for _, j := range jobs {
		want(&j.Spec, wanted)
	}
	return nil
}

// wantedByTasks asks the read model, as it is now: a task that is submitted later has protected its
// version.
func (c *Client) wantedByTasks(ctx context.Context, list func(context.Context, ListRequest) (ListPage, error), wanted map[files.Digest]bool) error {
	last, err := c.store.Last(ctx)
	if err != nil {
		return err
	}
	r := ListRequest{Filter: view.Filter{Limit: 1000, OldestFirst: true}, AtLeast: last}
	for _, s := range task.States() {
		if !s.Terminal() {
			r.States = append(r.States, s)
		}
	}
	for {
		page, err := list(ctx, r)
		if err != nil {
			return fmt.Errorf("which files tasks need: %w", err)
		}
		for i := range page.Tasks {
			want(page.Tasks[i].Spec, wanted)
		}
		if page.Next == "" {
			return nil
		}
		r.Cursor = page.Next
	}
}

func want(spec *job.Spec, wanted map[files.Digest]bool) {
	for _, f := range spec.AllFiles() {
		if ref, err := files.ParseRef(f.Bundle); err == nil && ref.Pinned() {
			wanted[ref.Digest] = true
		}
	}
}

// StepArtifacts are the artifacts of an attempt, with the step that left them.
type StepArtifacts struct {
	// Step is its path below the task that was asked for; "" for that task itself.
	Step string `json:"step,omitempty"`
	task.Left
	// Current tells whether the attempt is the task's current or last one.
	Current bool `json:"-"`
}

// Artifacts lists the artifacts of the attempts of a task, and of all its children, their children and
// so on, in their order. There are none if there is no such task.
func (c *Client) Artifacts(ctx context.Context, id task.ID) (all []StepArtifacts, err error) {
	if c.role != "" {
		return c.artifactsAsked(ctx, id)
	}
	members, err := c.Members(ctx, id)
	if errors.Is(err, task.ErrUnknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	left := make([][]task.Left, len(members))
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(16)
	for i := range members {
		reading.Go(func() (err error) {
			left[i], err = c.store.Artifacts(ctx, members[i].Task.ID)
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	for i, m := range members {
		for _, l := range left[i] {
			all = append(all, StepArtifacts{m.Step, l, l.Epoch == m.Task.Epoch})
		}
	}
	return all, nil
}
