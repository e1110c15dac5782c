package files

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Ref names a version: by a name, which means its latest version, by a digest, or by both, where
// the name is only for readers.
type Ref struct {
	Name string
	// Digest is a whole digest, or the beginning of one.
	Digest Digest
}

var bundleName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`) })

// minPrefix is how many characters of a digest suffice to look it up.
const minPrefix = 8

// ParseRef parses NAME, DIGEST or NAME@DIGEST. Eight characters from the beginning of a digest
// suffice; a text of that many hexadecimal digits is never a name.
func ParseRef(s string) (Ref, error) {
	name, digest, pinned := strings.Cut(s, "@")
	switch {
	case !pinned && len(s) >= minPrefix && len(s) <= 64 && hexadecimal(s):
		return Ref{Digest: Digest(s)}, nil
	case !pinned:
		return Ref{Name: s}, ValidBundleName(s)
	case len(digest) < minPrefix || len(digest) > 64 || !hexadecimal(digest):
		return Ref{}, fmt.Errorf("%q is no version: write NAME, or NAME@ and %d or more characters of a digest", excerpt(s), minPrefix)
	}
	return Ref{Name: name, Digest: Digest(digest)}, ValidBundleName(name)
}

// ValidBundleName refuses texts that cannot be the name of a bundle.
func ValidBundleName(name string) error {
	switch {
	case !bundleName().MatchString(name):
		return fmt.Errorf("%q is no name of a bundle: want 1 to 64 letters a to z or A to Z, digits, '_' or '-'", excerpt(name))
	case len(name) >= minPrefix && hexadecimal(name):
		return fmt.Errorf("%q is no name of a bundle: it would be taken for a digest", name)
	}
	return nil
}

func (r Ref) String() string {
	switch {
	case r.Digest == "":
		return r.Name
	case r.Name == "":
		return string(r.Digest)
	}
	return r.Name + "@" + string(r.Digest)
}

// Pinned tells whether it always names the same version.
func (r Ref) Pinned() bool { return r.Digest.Valid() }

// IsFolder tells whether a bundle in a job file is a folder to be pushed: it begins with a dot or a
// slash.
func IsFolder(s string) bool {
	return strings.HasPrefix(s, "/") || s == "." || s == ".." || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}
