package files

import "strings"

// Change is how an entry differs between two versions.
type Change struct {
	// Kind is [Added], [Removed] or [Changed].
	Kind string `json:"kind"`
	// Path is relative to the bundle, with slashes.
	Path string `json:"path"`
	// Before and After are its sizes.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
	// New is how many bytes of it the old version does not have anywhere.
	New int64 `json:"new"`
}

// Kinds of a [Change].
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Diff lists the changes from a to b, in the order of paths.
func Diff(a, b *Manifest) []Change {
	old := a.Chunks()
	fresh := func(e *Entry) (n int64) {
		for i, d := range e.Chunks {
			if _, there := old[d]; !there {
				n += e.ChunkBytes(i)
			}
		}
		return n
	}
	var all []Change
	for i, j := 0, 0; i < len(a.Entries) || j < len(b.Entries); {
		order := 0
		switch {
		case i == len(a.Entries):
			order = 1
		case j == len(b.Entries):
			order = -1
		default:
			order = strings.Compare(a.Entries[i].Path, b.Entries[j].Path)
		}
		switch {
		case order < 0:
			e := &a.Entries[i]
			all = append(all, Change{Kind: Removed, Path: e.Path, Before: e.Size})
			i++
		case order > 0:
			e := &b.Entries[j]
			all = append(all, Change{Kind: Added, Path: e.Path, After: e.Size, New: fresh(e)})
			j++
		default:
			x, y := &a.Entries[i], &b.Entries[j]
			if !x.Same(y) {
				all = append(all, Change{Kind: Changed, Path: x.Path, Before: x.Size, After: y.Size, New: fresh(y)})
			}
			i++
			j++
		}
	}
	return all
}
