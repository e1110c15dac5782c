package definition

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

// Def names a definition by its kind and its own name, such as job.hello: in facts, in subjects, and as the key of its copy.
type Def string

// Kinds of definitions.
const (
	DefJob      = "job"
	DefSchedule = "schedule"
	DefBundle   = "bundle"
	DefCalendar = "calendar"
	DefToken    = "token"
)

// Named is the definition of a kind with this name of its own.
func Named(kind, name string) Def { return Def(kind + "." + name) }

// Kind is what it defines.
func (d Def) Kind() string { kind, _, _ := strings.Cut(string(d), "."); return kind }

// Validate refuses a name that no definition can have.
func (d Def) Validate() error { return value.ValidName(d.Kind(), d.Name()) }

// Name is its own name, without the kind.
func (d Def) Name() string { _, name, _ := strings.Cut(string(d), "."); return name }

// MaxDefinition is how many bytes the text of a definition may have: what fits into a fact beside
// who changed it, when and why.
const MaxDefinition = 500 << 10

// ErrLongDefinition refuses a definition of more than [MaxDefinition] bytes.
var ErrLongDefinition = fmt.Errorf("the definition is longer than %d kB", MaxDefinition>>10)

// Edition is what a definition is from one change of it to the next. The fact of each change
// holds all of it, so that the latest one alone tells what there is now, and any other what there was.
type Edition struct {
	// Revision counts the changes of this definition from 1 on, its removals included. Tasks and ticks name it.
	Revision uint64 `json:"revision,omitzero"`
	// Digest is "sha256:" and the hash of Text; "" if whoever wrote the fact has not said it.
	Digest string `json:"digest,omitzero"`
	// Text is the definition as JSON; nil if it was removed.
	Text json.RawMessage `json:"definition,omitzero"`
}

// DefinitionEvent is a fact by which a definition becomes another one. The set is closed.
type DefinitionEvent interface{ edition() Edition }

// DefinitionApplied says that a definition was stored under its name: from a bundle's name on, to which version it points.
type DefinitionApplied struct{ Edition }

// DefinitionRemoved says that nothing has the name any more. What was made of it stays: tasks, and the versions of
// a bundle until gc finds that nothing needs them.
type DefinitionRemoved struct {
	// Revision is that of the removal.
	Revision uint64 `json:"revision,omitzero"`
}

func (e Edition) edition() Edition           { return e }
func (e DefinitionRemoved) edition() Edition { return Edition{Revision: e.Revision} }

// Definition is what is defined under a name as the facts about it have it. The zero value is one of which there is none.
type Definition struct {
	// Edition is the present one.
	Edition
	// Head is the sequence of its fact, 0 if there is none: where the next one follows.
	Head uint64
	// Changed and Actor are when and by whom it was changed last.
	Changed time.Time
	Actor   string
}

// EvolveDefinition is the definition after a fact of sequence seq, which actor has written at a time.
func EvolveDefinition(_ Definition, seq uint64, at time.Time, actor string, e DefinitionEvent) Definition {
	return Definition{Edition: e.edition(), Head: seq, Changed: at, Actor: actor}
}

// Exists tells whether there is a definition, and it was not removed.
func (d *Definition) Exists() bool { return len(d.Text) > 0 }

// Unseen is [value.Unseen] for a change of the definition.
func (d *Definition) Unseen(seen []uint64) error {
	is := value.Overtaken{By: d.Actor, At: d.Changed}
	if d.Exists() {
		is.Is = d.Revision
	}
	return value.Unseen(seen, is)
}

// Says tells whether the present text is this one.
func (d *Definition) Says(text []byte) bool { return d.Exists() && bytes.Equal(d.Text, text) }

// Next is the edition by which the definition becomes another text, or is removed if that is nil. The error
// wraps [ErrLongDefinition] if the text is too long.
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

// Follows says what is wrong with a change after this definition, nil if nothing: revisions are counted one by
// one, a text is what its digest says, and what is not there cannot be removed.
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
