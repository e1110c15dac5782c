package limit

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKey is the largest length of an expanded key, in bytes.
const MaxKey = 256

// ValidKey refuses a key that can be expanded for no task.
func ValidKey(field, key string) error {
	if len(key) > MaxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%s is %.40q, want up to %d bytes of text without control characters", field, key, MaxKey)
	}
	for rest := key; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			return nil
		}
		name, tail, closed := strings.Cut(after, "}")
		kind, of, _ := strings.Cut(name, ".")
		if !closed || name != "queue" && (of == "" || kind != "params" && kind != "labels") {
			return fmt.Errorf("%s is %q, want text with {params.NAME}, {labels.NAME} or {queue} in it", field, key)
		}
		rest = tail
	}
}
