package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/files"
	"millrace/jet/wire"
	"millrace/task"
	"millrace/task/definition"
)

// ErrNoBundle means that nothing was pushed under a name.
var ErrNoBundle = task.NoTask(errors.New("no bundle has this name"))

// ErrBadBundle means that what the log has under a bundle's name points nowhere; somebody has published it by other means.
var ErrBadBundle = errors.New("the stored name is not valid: push the bundle anew")

// nameHistory is how many versions a name keeps: older ones count as needed by nothing.
const nameHistory = 64

// bundleOf reads to what a name points.
func bundleOf(name string, text []byte) (n NamedVersion, err error) {
	if err = json.Unmarshal(text, &n); err == nil && n.Name != name {
		err = fmt.Errorf("it calls itself %q", n.Name)
	}
	if err == nil {
		err = files.ValidBundleName(name)
	}
	return n, err
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

// NameVersion points a name to a version. It tells whether it pointed elsewhere before.
func (s *Store) NameVersion(ctx context.Context, n NamedVersion) (changed bool, err error) {
	if err := files.ValidBundleName(n.Name); err != nil {
		return false, err
	}
	text, err := json.Marshal(n)
	if err != nil {
		return false, err
	}
	_, changed, err = s.amend(ctx, definition.DefOf(definition.DefBundle, n.Name), n.By, true, func(was *defined, _ time.Time) (definition.DefinitionEvent, error) {
		if now, err := namedVersion(was, nil); err == nil && now.Digest == n.Digest {
			return nil, nil
		}
		next, err := was.Next(text)
		return definition.DefinitionApplied{Edition: next}, err
	})
	if err != nil {
		return false, fmt.Errorf("name version %s: %w", n.Digest.Short(), err)
	}
	return changed, nil
}

// Named returns the latest version of a name. The error wraps [ErrNoBundle] if there is none.
func (s *Store) Named(ctx context.Context, name string) (NamedVersion, error) {
	d, _, err := s.latest(ctx, definition.DefOf(definition.DefBundle, name))
	return namedVersion(&d, err)
}

func namedVersion(d *defined, err error) (NamedVersion, error) {
	if err != nil {
		return NamedVersion{}, fmt.Errorf("read bundle %s: %w", d.Name(), err)
	}
	if err := d.readable(); err != nil {
		return NamedVersion{}, err
	}
	return bundleOf(d.Name(), d.Text)
}

// NameHistory lists what a name pointed to since it was last removed, the latest first, at most 64 versions. The error
// wraps [ErrNoBundle] if there is none.
func (s *Store) NameHistory(ctx context.Context, name string) ([]NamedVersion, error) {
	def := definition.DefOf(definition.DefBundle, name)
	records, err := s.DefinitionFacts(ctx, def)
	if err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", name, err)
	}
	var all []NamedVersion
	for i := range slices.Backward(records) {
		d := defined{Def: def, Definition: events.FoldDefinition(records[i : i+1])}
		if d.Head == 0 {
			continue // it cannot be read
		}
		if !d.Exists() || len(all) == nameHistory {
			break
		}
		if n, err := namedVersion(&d, nil); err == nil { // else it is somebody else's
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, absent(def)
	}
	return all, nil
}

// BundleNames lists all names.
func (s *Store) BundleNames(ctx context.Context) ([]string, error) {
	found, err := s.definitions(ctx, definition.DefBundle)
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

// RemoveBundle removes a name on behalf of actor; its versions stay until gc finds that nothing needs them. The error wraps
// [ErrNoBundle] if there is none.
func (s *Store) RemoveBundle(ctx context.Context, name, actor string) error {
	return s.remove(ctx, definition.DefOf(definition.DefBundle, name), actor)
}

// leftSubject is where lies what an attempt has left.
func leftSubject(id task.ID, epoch uint64) string {
	return leftPrefix + string(id) + "." + strconv.FormatUint(epoch, 10)
}

// KeepArtifacts records what an attempt has left.
func (s *Store) KeepArtifacts(ctx context.Context, a task.Left) error {
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := s.putFile(ctx, &nats.Msg{Subject: leftSubject(a.Task, a.Epoch), Data: body}); err != nil {
		return fmt.Errorf("record the artifacts of task %s: %w", a.Task, err)
	}
	return nil
}

// Artifacts lists what the attempts of a task have left, in order; those of all tasks if id is "".
func (s *Store) Artifacts(ctx context.Context, id task.ID) ([]task.Left, error) {
	filter := leftPrefix + "*.*"
	if id != "" {
		filter = leftPrefix + string(id) + ".*"
	}
	stream, err := s.JS.Stream(ctx, wire.FilesStream)
	if err != nil {
		return nil, filesTrouble(err)
	}
	var all []task.Left
	err = s.lastOfAll(ctx, stream, filter, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
		var a task.Left
		if json.Unmarshal(m.Data(), &a) == nil { // else it is somebody else's
			all = append(all, a)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read artifacts: %w", err)
	}
	slices.SortFunc(all, func(a, b task.Left) int { return int(int64(a.Epoch) - int64(b.Epoch)) })
	return all, nil
}

// ForgetArtifacts removes what [Store.KeepArtifacts] recorded; the contents stay until gc.
func (s *Store) ForgetArtifacts(ctx context.Context, a task.Left) error {
	m, found, err := s.LeaderGetFrom(ctx, wire.FilesStream, map[string]any{"last_by_subj": leftSubject(a.Task, a.Epoch)})
	if err != nil || !found {
		return filesTrouble(err)
	}
	return s.removeFile(ctx, m.Seq)
}
