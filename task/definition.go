package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/task/value"
)

// Def names a definition by its kind and its own name, such as job.hello: in facts, in subjects,
// and as the key of its copy.
type Def string

// Kinds of definitions.
const (
	DefJob      = "job"
	DefSchedule = "schedule"
	DefBundle   = "bundle"
	DefCalendar = "calendar"
	DefToken    = "token"
)

// Named returns the Def of a kind with a name.
func Named(kind, name string) Def { return Def(kind + "." + name) }

// Kind is the kind of the definition.
func (d Def) Kind() string { kind, _, _ := strings.Cut(string(d), "."); return kind }

// Validate refuses an invalid name of a definition.
func (d Def) Validate() error { return value.ValidName(d.Kind(), d.Name()) }

// Name is its own name, without the kind.
func (d Def) Name() string { _, name, _ := strings.Cut(string(d), "."); return name }

// MaxDefinition is the largest text of a definition, in bytes. It fits into a fact together with
// the author, time and reason of a change.
const MaxDefinition = 500 << 10

// ErrLongDefinition refuses a definition of more than [MaxDefinition] bytes.
var ErrLongDefinition = fmt.Errorf("the definition is longer than %d kB", MaxDefinition>>10)

// Edition is the state of a definition between two changes. The fact of each change holds all of
// it, so the latest one gives the present state, and any other a past one.
type Edition struct {
	// Revision counts the changes of this definition from 1, including removals. Tasks and ticks
	// name it.
	Revision uint64 `json:"revision,omitzero"`
	// Digest is "sha256:" and the hash of Text; "" if the writer of the fact gave none.
	Digest string `json:"digest,omitzero" redact:"keep"`
	// Text is the definition as JSON; nil if it was removed.
	Text json.RawMessage `json:"definition,omitzero" redact:"named"`
}

// DefinitionEvent is a fact that changes a definition. The set is closed.
type DefinitionEvent interface{ edition() Edition }

// DefinitionApplied records that a definition was stored under its name. For a bundle it names the
// version to which the name points from then on.
type DefinitionApplied struct {
	Edition
	// Source is the file from which it was stored, or a name for several of them; "" if none was told.
	Source string `json:"source,omitzero" redact:"hide"`
}

// DefinitionRemoved records that the name has no definition any more. What was made from it stays:
// tasks, and the versions of a bundle until gc finds them unused.
type DefinitionRemoved struct {
	// Revision is the revision of the removal.
	Revision uint64 `json:"revision,omitzero"`
}

// DefinitionCarried is an earlier change of a definition, which the log is about to forget. It lies
// beside the chain, whose last fact stays the definition. The fact has the id, time and actor of the
// original.
type DefinitionCarried struct {
	Edition Edition `json:"edition"`
	// As is the type of the original.
	As     string `json:"as,omitzero" redact:"word"`
	Source string `json:"source,omitzero" redact:"hide"`
	Reason string `json:"reason,omitzero" redact:"hide"`
}

// CarriedEvent is a fact that lies beside the chains and keeps what the log forgets. The set is
// closed, but for [Carried].
type CarriedEvent interface{ isCarriedEvent() }

func (DefinitionCarried) isCarriedEvent() {}

func (e Edition) edition() Edition           { return e }
func (e DefinitionRemoved) edition() Edition { return Edition{Revision: e.Revision} }

// Definition is the sum of the facts about a name's definition. The zero value is no definition.
type Definition struct {
	// Edition is the present state.
	Edition
	// Head is the sequence of its last fact, which the next one must expect; 0 if there is none.
	Head uint64 `json:"head,omitzero"`
	// Changed and Actor are the time and the author of the last change.
	Changed time.Time `json:"changed,omitzero"`
	Actor   string    `json:"actor,omitzero"`
	// Source is the [DefinitionApplied.Source] of that change.
	Source string `json:"source,omitzero"`
}

// EvolveDefinition returns the definition after a fact with sequence seq, which actor wrote.
func EvolveDefinition(_ Definition, seq uint64, at time.Time, actor string, e DefinitionEvent) Definition {
	d := Definition{Edition: e.edition(), Head: seq, Changed: at, Actor: actor}
	if applied, ok := e.(DefinitionApplied); ok {
		d.Source = applied.Source
	}
	return d
}

// Exists tells whether there is a definition that was not removed.
func (d *Definition) Exists() bool { return len(d.Text) > 0 }

// Unseen is [value.Unseen] for a change of the definition.
func (d *Definition) Unseen(seen []uint64) error {
	is := value.Overtaken{By: d.Actor, At: d.Changed}
	if d.Exists() {
		is.Is = d.Revision
	}
	return value.Unseen(seen, is)
}

// Says tells whether text is the present text. An earlier version wrote <, > and & as escapes.
func (d *Definition) Says(text []byte) bool {
	return d.Exists() && bytes.Equal(value.Legible(d.Text), value.Legible(text))
}

// From says from where a definition is stored.
type From struct {
	// Source is the [DefinitionApplied.Source]. A definition with the same text keeps the one that it has, unless
	// Marks is set.
	Source string
	Marks  bool
}

// Comes tells whether the definition needs no change to come from there.
func (d *Definition) Comes(from From) bool { return !from.Marks || d.Source == from.Source }

// Next returns the edition that changes the definition to a text, or removes it if text is nil. The
// error wraps [ErrLongDefinition] if the text is too long.
func (d *Definition) Next(text []byte) (Edition, error) {
	if len(text) > MaxDefinition {
		return Edition{}, fmt.Errorf("%w: it has %d bytes; put what is large into files, and name them", ErrLongDefinition, len(text))
	}
	e := Edition{Revision: d.Revision + 1, Text: text}
	if text != nil {
		e.Digest = DigestOf(text)
	}
	return e, nil
}

// Follows returns an error if a change cannot follow this definition: revisions must count up by
// one, a digest must match its text, and only an existing definition can be removed.
func (d *Definition) Follows(e DefinitionEvent) error {
	next := e.edition()
	switch {
	case next.Revision != d.Revision+1:
		return fmt.Errorf("it has revision %d and follows %d", next.Revision, d.Revision)
	case len(next.Text) == 0 && !d.Exists():
		return errors.New("it removes what is not there")
	case len(next.Text) > 0 && next.Digest != "" && next.Digest != DigestOf(next.Text):
		return fmt.Errorf("its digest is %s and its text has %s", next.Digest, DigestOf(next.Text))
	}
	return nil
}

// DigestOf is the digest of a text.
func DigestOf(text []byte) string {
	hash := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(hash[:])
}

// A bucket holds copies of the definitions, for people who read them with other tools. The log is
// the truth: a copy that differs from it is written anew.

// CopyEvent is a fact about the copies of definitions. The set is closed.
type CopyEvent interface{ isCopyEvent() }

// CopiesRestored records that copies were changed by hand and that Millrace restored them.
type CopiesRestored struct {
	// Copies are the restored ones, at most [MaxRestored].
	Copies []Restored `json:"copies,omitzero"`
	// More is how many others were restored.
	More int `json:"more,omitzero"`
}

func (CopiesRestored) isCopyEvent() {}

// MaxRestored is how many copies a fact names.
const MaxRestored = 20

// Restored is a restored copy.
type Restored struct {
	// Of is the kind of the definition, such as "job", and Name its name.
	Of   string `json:"of" redact:"word"`
	Name string `json:"name" redact:"keep"`
	// Found is the digest of the foreign text; "" if the copy had been removed.
	Found string `json:"found,omitempty" redact:"hide"`
	// Revision is the restored revision; 0 if the name has no definition and the copy was removed.
	Revision uint64 `json:"revision,omitempty"`
}

// Copied is the present content of the place for a definition's copy.
type Copied struct {
	// There says that a copy is there, or was until it was removed.
	There bool
	// Text is the copy; nil if it was removed.
	Text []byte
	// Revision is the revision from which a server made the copy; 0 if a server did not make it.
	Revision uint64
}

// Restores tells whether a copy must be written anew, and whether that is because it was changed by
// hand. A server's copy of an earlier revision is only late, and a missing copy that never existed
// is new. A server's copy of a definition that the log does not know is left alone: it is the
// remainder of a lost log.
func (d *Definition) Restores(c Copied) (anew, byHand bool) {
	switch {
	case d.Exists() && d.Says(c.Text), !d.Exists() && len(c.Text) == 0, d.Revision == 0 && c.Revision > 0:
		return false, false
	}
	late := c.Revision > 0 && c.Revision < d.Revision
	return true, c.There && !late
}

// Gather adds restored copies to the fact.
func (e CopiesRestored) Gather(more ...Restored) CopiesRestored {
	room := max(0, min(MaxRestored-len(e.Copies), len(more)))
	e.Copies = append(e.Copies[:len(e.Copies):len(e.Copies)], more[:room]...)
	e.More += len(more) - room
	return e
}
