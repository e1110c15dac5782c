package task

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID identifies a task: a ULID in its text form of 26 characters, upper case.
type ID string

// ParseID accepts a ULID in upper or lower case. An ID becomes one token of a subject, so it
// refuses anything else.
func ParseID(s string) (ID, error) {
	u := strings.ToUpper(s)
	if _, err := ulid.ParseStrict(u); err != nil {
		return "", fmt.Errorf("%q is no task id: want a ULID of 26 characters, for example 01JD6Z8V3M0QK4T7W2X9Y5ABCD", s)
	}
	return ID(u), nil
}

// Time is when the id was drawn, or for a derived one when that was from which it follows; zero if
// the id is no ULID.
func (id ID) Time() time.Time {
	u, err := ulid.ParseStrict(string(id))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time())
}

// A derived id (that of a tick, from its schedule; that of a child, from its parent) has a mark
// behind its time. The mark shows without a secret that only Millrace makes the task with this id,
// and submissions from outside may not use it. The mark has 30 bits: one in 2^30 (10^9) ids drawn
// by other programs bears it by chance. The remaining 50 bits are a hash, within one millisecond.
const (
	derivedMark = "MADEBY"
	derivedAt   = 10 // characters: the time of a ULID
)

// crockford is the alphabet of ULIDs.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// DerivedID returns the id that follows from a text, in the millisecond of another id. It is always
// the same, so asking for it twice makes one task.
func DerivedID(at ID, text string) ID {
	sum := sha256.Sum256([]byte(text))
	hash := crockford.EncodeToString(sum[:10])
	return at[:min(derivedAt, len(at))] + derivedMark + ID(hash[:len(hash)-len(derivedMark)])
}

// Derived tells whether the id has the form of [DerivedID].
func (id ID) Derived() bool {
	return len(id) > derivedAt && strings.HasPrefix(string(id[derivedAt:]), derivedMark)
}

// DerivedRange returns the bounds of all ids that [DerivedID] gives in the millisecond of another
// id: from inclusive, to exclusive.
func DerivedRange(at ID) (from, to ID) {
	from = at[:min(derivedAt, len(at))] + derivedMark
	return from, from + "~"
}

// Bounds of a part of an ID that may name a task.
const (
	// MinPart is how many characters from the beginning or the end of an ID may name a task.
	MinPart = 6
	// shortID is how many characters are shown: among a million tasks one in 34,000 shares its last
	// seven with another.
	shortID = 7
	wholeID = 26
)

// Part returns s in upper case and whether it can be part of an ID: 6 to 26 characters of a ULID.
func Part(s string) (string, bool) {
	const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	s = strings.ToUpper(s)
	return s, len(s) >= MinPart && len(s) <= wholeID && strings.Trim(s, letters) == ""
}

// Short is the displayed end of an ID.
func (id ID) Short() string { return id.last(shortID) }

func (id ID) last(n int) string { return string(id[max(len(id)-n, 0):]) }

// Shorten returns a function that shortens IDs shown together to their last seven characters, or to
// as many as keep them apart.
func Shorten(ids []ID) func(ID) string {
	n := shortID
	for ; n < wholeID && shared(ids, n); n++ {
	}
	return func(id ID) string { return id.last(n) }
}

// shared tells whether two of the IDs have the same last n characters.
func shared(ids []ID, n int) bool {
	seen := make(map[string]ID, len(ids))
	for _, id := range ids {
		end := id.last(n)
		if other, ok := seen[end]; ok && other != id {
			return true
		}
		seen[end] = id
	}
	return false
}
