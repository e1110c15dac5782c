package task

import (
	"crypto/sha256"
	"strings"
)

// ChildID is the id of the child of a task with this key: always the same, so that
// asking twice makes one. It sorts with its parent's time.
func ChildID(parent ID, key string) ID {
	const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ" // of a ULID
	sum := sha256.Sum256([]byte(string(parent) + "\x00" + key))
	var b strings.Builder
	b.WriteString(string(parent)[:min(10, len(parent))])
	for i := range 16 {
		b.WriteByte(letters[sum[i]&31])
	}
	return ID(b.String())
}
