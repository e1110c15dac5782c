package value

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// KindHandler is what [ValidName] calls a handler.
const KindHandler = "handler"

// ValidName refuses a name that cannot be one token of a subject. It accepts 1 to 64 letters a to z,
// digits, _ or -, not beginning with -. What names the kind of thing, for the error: queue, job or
// node. The name of a handler is no token of a subject: it may also have . and : in it, as in
// email:deliver and sort.strings.
func ValidName(what, s string) error {
	if isName(s) {
		return nil
	}
	more, first, hint := "", "'-'", ""
	switch what {
	case KindHandler:
		if s != "" && !strings.ContainsAny(s[:1], ".:") && isName(strings.NewReplacer(".", "_", ":", "_").Replace(s)) {
			return nil
		}
		more, first = ", '.', ':'", "'-', '.' or ':'"
	case "job":
		if strings.ContainsFunc(s, func(c rune) bool { return c == ' ' || c > unicode.MaxASCII }) {
			hint = "; the title may be any text"
		}
	}
	return fmt.Errorf("%s name %q: want 1 to 64 letters a to z or A to Z, digits%s, '_' or '-', not beginning with %s%s", what, s, more, first, hint)
}

// isName is written by hand because it runs for each offer that is read or written.
func isName(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// Digest is the SHA-256 of some bytes, in 64 lower-case hexadecimal digits.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Mark stands for a unique key where only plain characters are allowed. It has 32 of them.
func Mark(key string) string {
	return Digest([]byte(key))[:32]
}

// A spec may name a window: the calendar in whose hours its tasks start. It is a condition and
// gives tasks no order. Each task waits for a timer until its window opens, like a task with a due
// time, so only the NATS server has to be up. Package schedule has the calendars and the rule for
// tasks.

// ValidWindow refuses an invalid name of a calendar.
func ValidWindow(field, name string) error {
	return Under(field+": ", ValidName("calendar", name))
}

// ReadNamed decodes the stored text of a thing and checks it, its name first.
func ReadNamed[T any](name string, text []byte, nameOf func(*T) string, check func(*T) error) (is T, err error) {
	if err = json.Unmarshal(text, &is); err != nil {
		return is, err
	}
	if own := nameOf(&is); own != name {
		return is, fmt.Errorf("it calls itself %q", own)
	}
	return is, check(&is)
}
