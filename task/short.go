package task

import "strings"

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
