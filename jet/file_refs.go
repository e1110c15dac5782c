package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/files"
	"millrace/task"
)

// ErrNoBundle means that nothing was pushed under a name.
var ErrNoBundle = errors.New("no bundle has this name")

// Keys of the bucket of references.
const (
	nameKey     = "name."     // name.<name>
	artifactKey = "artifact." // artifact.<task>.<epoch>
)

// nameHistory is how many versions a name remembers, the most that a bucket can.
const nameHistory = 64

func (l Layout) fileRefs() jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{
		Bucket: FileRefs, Description: "Millrace: names of bundles with their versions, and artifacts of tasks", History: nameHistory,
		Storage: jetstream.FileStorage, Replicas: l.Replicas, Metadata: l.metadata(),
	}
}

// NamedVersion is what a name pointed to from a time on.
type NamedVersion struct {
	Name   string       `json:"name"`
	Digest files.Digest `json:"digest"`
	Files  int          `json:"files"`
	Bytes  int64        `json:"bytes"`
	At     time.Time    `json:"at"`
	By     string       `json:"by,omitempty"`
}

func (s *Store) refs(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := s.js.KeyValue(ctx, FileRefs)
	return kv, filesTrouble(err)
}

// NameVersion points a name to a version. It tells whether it pointed elsewhere before.
func (s *Store) NameVersion(ctx context.Context, n NamedVersion) (changed bool, err error) {
	if err := files.ValidBundleName(n.Name); err != nil {
		return false, err
	}
	now, err := s.Named(ctx, n.Name)
	switch {
	case err == nil && now.Digest == n.Digest:
		return false, nil
	case err != nil && !errors.Is(err, ErrNoBundle):
		return false, err
	}
	kv, err := s.refs(ctx)
	if err != nil {
		return false, err
	}
	body, err := json.Marshal(n)
	if err != nil {
		return false, err
	}
	if _, err := kv.Put(ctx, nameKey+n.Name, body); err != nil {
		return false, fmt.Errorf("name version %s: %w", n.Digest.Short(), err)
	}
	return true, nil
}

// Named returns the latest version of a name. The error wraps [ErrNoBundle] if there is none.
func (s *Store) Named(ctx context.Context, name string) (NamedVersion, error) {
	var n NamedVersion
	kv, err := s.refs(ctx)
	if err != nil {
		return n, err
	}
	e, err := kv.Get(ctx, nameKey+name)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return n, &Absent{ErrNoBundle, name}
	case err != nil:
		return n, fmt.Errorf("read bundle %s: %w", name, err)
	}
	return n, json.Unmarshal(e.Value(), &n)
}

// NameHistory lists what a name pointed to, the latest first; nothing if it was removed.
func (s *Store) NameHistory(ctx context.Context, name string) ([]NamedVersion, error) {
	kv, err := s.refs(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := kv.History(ctx, nameKey+name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, &Absent{ErrNoBundle, name}
	}
	if err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", name, err)
	}
	var all []NamedVersion
	for _, e := range slices.Backward(entries) {
		if e.Operation() != jetstream.KeyValuePut {
			break
		}
		var n NamedVersion
		if json.Unmarshal(e.Value(), &n) == nil { // else it is somebody else's
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, &Absent{ErrNoBundle, name}
	}
	return all, nil
}

// BundleNames lists all names.
func (s *Store) BundleNames(ctx context.Context) ([]string, error) {
	return s.refKeys(ctx, nameKey)
}

func (s *Store) refKeys(ctx context.Context, prefix string) ([]string, error) {
	kv, err := s.refs(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := kv.ListKeysFiltered(ctx, prefix+">")
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", FileRefs, err)
	}
	var all []string
	for key := range keys.Keys() {
		all = append(all, strings.TrimPrefix(key, prefix))
	}
	slices.Sort(all)
	return all, ctx.Err() // what was cut short would look like all
}

// RemoveBundle removes a name; its versions stay until gc finds that nothing needs them.
func (s *Store) RemoveBundle(ctx context.Context, name string) error {
	if _, err := s.Named(ctx, name); err != nil {
		return err
	}
	kv, err := s.refs(ctx)
	if err != nil {
		return err
	}
	return kv.Delete(ctx, nameKey+name)
}

// KeepArtifacts records what an attempt has left.
func (s *Store) KeepArtifacts(ctx context.Context, a task.Left) error {
	kv, err := s.refs(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if _, err := kv.Put(ctx, artifactKey+string(a.Task)+"."+strconv.FormatUint(a.Epoch, 10), body); err != nil {
		return fmt.Errorf("record the artifacts of task %s: %w", a.Task, err)
	}
	return nil
}

// Artifacts lists what the attempts of a task have left, in order; those of all tasks if id is "".
func (s *Store) Artifacts(ctx context.Context, id task.ID) ([]task.Left, error) {
	prefix := artifactKey
	if id != "" {
		prefix += string(id) + "."
	}
	keys, err := s.refKeys(ctx, prefix)
	if err != nil {
		return nil, err
	}
	kv, err := s.refs(ctx)
	if err != nil {
		return nil, err
	}
	var all []task.Left
	for _, key := range keys {
		e, err := kv.Get(ctx, prefix+key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue // gc was faster
		}
		if err != nil {
			return nil, fmt.Errorf("read artifacts: %w", err)
		}
		var a task.Left
		if json.Unmarshal(e.Value(), &a) == nil { // else it is somebody else's
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b task.Left) int { return int(int64(a.Epoch) - int64(b.Epoch)) })
	return all, nil
}

// ForgetArtifacts removes what [Store.KeepArtifacts] recorded; the contents stay until gc.
func (s *Store) ForgetArtifacts(ctx context.Context, a task.Left) error {
	kv, err := s.refs(ctx)
	if err != nil {
		return err
	}
	return kv.Purge(ctx, artifactKey+string(a.Task)+"."+strconv.FormatUint(a.Epoch, 10))
}
