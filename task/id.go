package task

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"
)

// ID names a task: a ULID in its text form of 26 characters, upper case.
type ID string

// ParseID accepts a ULID in either case. An ID is one token of a subject, so
// nothing else may pass.
func ParseID(s string) (ID, error) {
	u := strings.ToUpper(s)
	if _, err := ulid.ParseStrict(u); err != nil {
		return "", fmt.Errorf("%q is no task id: want a ULID of 26 characters, for example 01JD6Z8V3M0QK4T7W2X9Y5ABCD", s)
	}
	return ID(u), nil
}

// An id that follows from something else (the id of a tick from its schedule, that of a child from
// its parent) bears a mark behind its time. So everybody can tell without a secret that Millrace
// itself makes the task of this id, and no submission from outside gets in its way. The mark has
// 30 bits: of a milliard ids that other programs draw one bears it by chance. Fifty bits of the
// hash are left, within one millisecond.
const (
	derivedMark = "MADEBY"
	derivedAt   = 10 // characters: the time of a ULID
)

// crockford is the alphabet of ULIDs.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// DerivedID is the id that follows from a text, in the millisecond of another id: always the same,
// so that to ask for it twice makes one task.
func DerivedID(at ID, text string) ID {
	sum := sha256.Sum256([]byte(text))
	hash := crockford.EncodeToString(sum[:10])
	return at[:min(derivedAt, len(at))] + derivedMark + ID(hash[:len(hash)-len(derivedMark)])
}

// Derived tells whether the id is of the form that [DerivedID] gives it.
func (id ID) Derived() bool {
	return len(id) > derivedAt && strings.HasPrefix(string(id[derivedAt:]), derivedMark)
}

// DerivedRange are the bounds between which the ids lie that [DerivedID] gives in the millisecond of
// another: the first is in, the second is not.
func DerivedRange(at ID) (from, to ID) {
	from = at[:min(derivedAt, len(at))] + derivedMark
	return from, from + "~"
}
