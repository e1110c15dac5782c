package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/internal/files"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/value"
)

// ErrNoBundle: no version was pushed under this name.
var ErrNoBundle = birth.NoTask(errors.New("no bundle has this name"))

// ErrBadBundle: the log's latest fact about a bundle's name is not valid; it was published by other
// means.
var ErrBadBundle = errors.New("the stored name is not valid: push the bundle anew")

// nameHistory is how many versions a name keeps: gc treats older ones as unneeded.
const nameHistory = 64

// bundleOf decodes the version that a name points to.
func bundleOf(name string, text []byte) (NamedVersion, error) {
	return value.ReadNamed(name, text, func(n *NamedVersion) string { return n.Name }, func(*NamedVersion) error { return files.ValidBundleName(name) })
}

// NamedVersion is a version that a name pointed to, and since when.
type NamedVersion struct {
	// Name is the bundle's. Digest names the version.
	Name   string       `json:"name"`
	Digest files.Digest `json:"digest"`
	// Files counts the files of the version, and Bytes their bytes.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// At is when the name began to point to it, and By who did that.
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

// NameVersion points a name to a version. It tells whether that changed anything. seen is the version
// that this one follows; any if omitted. The error wraps [ErrChanged] if the name points to another
// one, and [ErrNoBundle] if it was removed.
func (s *Registry) NameVersion(ctx context.Context, n NamedVersion, seen ...files.Digest) (changed bool, err error) {
	if err := files.ValidBundleName(n.Name); err != nil {
		return false, err
	}
	text, err := json.Marshal(n)
	if err != nil {
		return false, err
	}
	_, changed, err = s.amend(ctx, task.Named(task.DefBundle, n.Name), n.By, true, func(was *defined, _ time.Time) (task.DefinitionEvent, error) {
		switch now, err := namedVersion(was, nil); {
		case err == nil && now.Digest == n.Digest:
			return nil, nil
		case len(seen) == 0:
		case err != nil:
			return nil, err
		case now.Digest != seen[0]:
			return nil, fmt.Errorf("%w: %s, at %s, to %s", ErrChanged, now.By, now.At.Format(time.RFC3339), now.Digest.Short())
		}
		next, err := was.Next(text)
		return task.DefinitionApplied{Edition: next}, err
	})
	if err != nil {
		return false, fmt.Errorf("name version %s: %w", n.Digest.Short(), err)
	}
	return changed, nil
}

// Named returns the latest version of a name. The error wraps [ErrNoBundle] if there is none.
func (s *Registry) Named(ctx context.Context, name string) (NamedVersion, error) {
	d, _, err := s.latest(ctx, task.Named(task.DefBundle, name))
	return namedVersion(&d, err)
}

func namedVersion(d *defined, err error) (NamedVersion, error) {
	if err := d.readable(err); err != nil {
		return NamedVersion{}, err
	}
	return bundleOf(d.Name(), d.Text)
}

// NameHistory lists the versions that a name pointed to since it was last removed, the latest
// first, at most 64. The error wraps [ErrNoBundle] if there is none.
func (s *Registry) NameHistory(ctx context.Context, name string) ([]NamedVersion, error) {
	def := task.Named(task.DefBundle, name)
	records, err := s.DefinitionFacts(ctx, def)
	if err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", name, err)
	}
	return VersionsIn(name, records)
}

// VersionsIn is [Registry.NameHistory] by the facts about a name, in order.
func VersionsIn(name string, records []events.Record) (all []NamedVersion, err error) {
	def := task.Named(task.DefBundle, name)
	records = events.Recall(records)
	for i := range slices.Backward(records) {
		d := defined{Def: def, Definition: events.FoldDefinition(records[i : i+1])}
		if d.Head == 0 {
			continue // unreadable
		}
		if !d.Exists() || len(all) == nameHistory {
			break
		}
		if n, err := namedVersion(&d, nil); err == nil { // else it is a foreign message
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, absent(def)
	}
	return all, nil
}

// BundleNames lists all names.
func (s *Registry) BundleNames(ctx context.Context) ([]string, error) {
	found, err := s.definitions(ctx, task.DefBundle)
	if err != nil {
		return nil, err
	}
	var all []string
	for i := range found {
		if found[i].Exists() {
			all = append(all, found[i].Name())
		}
	}
	return all, nil
}

// RemoveBundle removes a name on behalf of actor; its versions stay until gc finds them unneeded.
// The error wraps [ErrNoBundle] if there is none.
func (s *Registry) RemoveBundle(ctx context.Context, name, actor string) error {
	return s.remove(ctx, task.Named(task.DefBundle, name), actor)
}
