package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// manifestForm is the version of the manifest format. A manifest without a version has version 1.
const manifestForm = 1

// Manifest is a version of a bundle: everything in it, in the order of paths.
type Manifest struct {
	Entries []Entry `json:"entries"`
}

// Entry is a file, a symbolic link or an empty directory. Of the mode only the execute bit is kept;
// owners and times are not.
type Entry struct {
	// Path is relative, with slashes.
	Path string `json:"path"`
	// Size is a file's, in bytes.
	Size int64 `json:"size,omitempty"`
	Exec bool  `json:"exec,omitempty"`
	// Chunks are the contents of a file.
	Chunks []Digest `json:"chunks,omitempty"`
	// Link is the target of a symbolic link; it stays below the bundle's root.
	Link string `json:"link,omitempty"`
	// Dir is set for an empty directory; the others follow from the paths.
	Dir bool `json:"dir,omitempty"`
}

// Bounds of a manifest.
const (
	// MaxEntries is how many entries a bundle may have.
	MaxEntries = 1 << 20
	// MaxManifest is how large an encoded manifest may be, in bytes: enough for some TiB of files.
	MaxManifest = 256 << 20
	// MaxVersion is how large all files of a version may be together, in bytes. A short manifest
	// can name the same contents again and again, so its own size is no bound.
	MaxVersion = 256 << 30
	maxPath    = 4000
	maxName    = 255
)

// Regular tells whether the entry is a file.
func (e *Entry) Regular() bool { return e.Link == "" && !e.Dir }

// Same tells whether two entries are equal but for their paths.
func (e *Entry) Same(o *Entry) bool {
	return e.Size == o.Size && e.Exec == o.Exec && e.Link == o.Link && e.Dir == o.Dir && slices.Equal(e.Chunks, o.Chunks)
}

// ChunkBytes returns the length of a chunk by its number.
func (e *Entry) ChunkBytes(i int) int64 { return min(ChunkSize, e.Size-int64(i)*ChunkSize) }

// Size returns how many bytes the files have together.
func (m *Manifest) Size() int64 {
	var n int64
	for i := range m.Entries {
		n += m.Entries[i].Size
	}
	return n
}

// block is the smallest size of a file on most disks, in bytes, and the unit by which it grows.
const block = 4 << 10

// Footprint returns roughly how many bytes the version takes on a disk, with empty files and
// directories.
func (m *Manifest) Footprint() int64 {
	var n int64
	for i := range m.Entries {
		n += (m.Entries[i].Size/block + 1) * block
	}
	return n
}

// Chunks returns the chunks of all files with their lengths, each once.
func (m *Manifest) Chunks() map[Digest]int64 {
	all := make(map[Digest]int64, len(m.Entries))
	for i := range m.Entries {
		e := &m.Entries[i]
		for n, d := range e.Chunks {
			all[d] = e.ChunkBytes(n)
		}
	}
	return all
}

// Find returns the entry with a path, or nil.
func (m *Manifest) Find(path string) *Entry {
	i, ok := slices.BinarySearchFunc(m.Entries, path, func(e Entry, p string) int { return strings.Compare(e.Path, p) })
	if !ok {
		return nil
	}
	return &m.Entries[i]
}

// Encode sorts a manifest and returns its unique encoding and the digest of that, which is the
// version. The error names the first entry that is not valid.
func Encode(m *Manifest) ([]byte, Digest, error) {
	slices.SortFunc(m.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	if err := m.Validate(); err != nil {
		return nil, "", err
	}
	text, err := spell(m)
	if err != nil {
		return nil, "", err
	}
	if len(text) > MaxManifest {
		return nil, "", fmt.Errorf("the list of files has %d bytes, more than %d: push fewer files", len(text), MaxManifest)
	}
	return text, DigestOf(text), nil
}

func spell(m *Manifest) ([]byte, error) {
	if m.Entries == nil {
		m = &Manifest{Entries: []Entry{}}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Parse decodes what [Encode] wrote and refuses anything else.
func Parse(text []byte) (*Manifest, error) {
	if len(text) > MaxManifest {
		return nil, fmt.Errorf("the list of files has %d bytes, more than %d", len(text), MaxManifest)
	}
	var m struct {
		V int `json:"v"`
		Manifest
	}
	err := json.Unmarshal(text, &m)
	if m.V > manifestForm {
		return nil, fmt.Errorf("the list of files is of version %d, and this program reads up to %d: use a newer millrace", m.V, manifestForm)
	}
	if err != nil {
		return nil, fmt.Errorf("the list of files cannot be read: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	again, err := spell(&m.Manifest)
	if err != nil || !bytes.Equal(again, text) {
		return nil, errors.New("the list of files is not in its one spelling")
	}
	return &m.Manifest, nil
}

// Validate refuses a manifest that cannot be written as it is, or that would reach outside its
// directory.
func (m *Manifest) Validate() error {
	if len(m.Entries) > MaxEntries {
		return fmt.Errorf("%d files, more than %d: push fewer", len(m.Entries), MaxEntries)
	}
	if n := m.Size(); n > MaxVersion {
		return fmt.Errorf("the files have %d bytes together, more than %d: push fewer", n, int64(MaxVersion))
	}
	leaves := make(map[string]bool, len(m.Entries))
	for i := range m.Entries {
		e := &m.Entries[i]
		if i > 0 && m.Entries[i-1].Path >= e.Path {
			return fmt.Errorf("%q is there twice, or not in its place", e.Path)
		}
		if err := e.validate(); err != nil {
			return fmt.Errorf("%q: %w", excerpt(e.Path), err)
		}
		leaves[e.Path] = true
	}
	for i := range m.Entries {
		for dir := path.Dir(m.Entries[i].Path); dir != "."; dir = path.Dir(dir) {
			if leaves[dir] {
				return fmt.Errorf("%q lies below %q, which is no directory", m.Entries[i].Path, dir)
			}
		}
	}
	return nil
}

func (e *Entry) validate() error {
	if err := ValidPath(e.Path); err != nil {
		return err
	}
	kinds := 0
	for _, is := range []bool{e.Link != "", e.Dir, e.Size != 0 || e.Exec || len(e.Chunks) > 0} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return errors.New("it is two things at once: a file, a link or a directory is wanted")
	case e.Link != "":
		return validLink(e.Path, e.Link)
	case e.Size < 0:
		return errors.New("its size is below zero")
	case int64(len(e.Chunks)) != (e.Size+ChunkSize-1)/ChunkSize:
		return fmt.Errorf("it has %d chunks for %d bytes", len(e.Chunks), e.Size)
	}
	for _, d := range e.Chunks {
		if !d.Valid() {
			return fmt.Errorf("%q is no digest", excerpt(string(d)))
		}
	}
	return nil
}

// ValidPath refuses the path of an entry that is not plainly below its root, or that terminals do
// not show as it is.
func ValidPath(p string) error {
	switch {
	case p == "" || p == ".":
		return errors.New("the path is empty")
	case len(p) > maxPath:
		return fmt.Errorf("the path has %d bytes, more than %d", len(p), maxPath)
	case !utf8.ValidString(p):
		return errors.New("the name is not UTF-8: rename it or exclude it")
	case strings.ContainsFunc(p, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return errors.New("the name holds a control character: rename it or exclude it")
	case p[0] == '/':
		return errors.New("the path is absolute")
	}
	for name := range strings.SplitSeq(p, "/") {
		switch {
		case name == "" || name == "." || name == "..":
			return errors.New("the path is not plainly below its root")
		case len(name) > maxName:
			return fmt.Errorf("a name has %d bytes, more than %d", len(name), maxName)
		}
	}
	return nil
}

// validLink refuses a target outside the bundle. ".." may only come first: a name in the target may
// itself be a link, and ".." after that would lead elsewhere than it seems.
func validLink(at, target string) error {
	const advice = ": copy what it points to, or exclude it"
	if target[0] == '/' {
		return errors.New("a link to the absolute path " + excerpt(target) + advice)
	}
	up, down := 0, 0
	for name := range strings.SplitSeq(strings.TrimSuffix(target, "/"), "/") {
		switch {
		case name == "..":
			up++
			if down > 0 {
				return fmt.Errorf("a link to %q, which goes up again after it went down"+advice, excerpt(target))
			}
		case name == ".":
		default:
			if err := ValidPath(name); err != nil {
				return fmt.Errorf("a link to %q: %w", excerpt(target), err)
			}
			down++
		}
	}
	if up > strings.Count(at, "/") {
		return fmt.Errorf("a link to %q, which is outside"+advice, excerpt(target))
	}
	return nil
}

func excerpt(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// Collisions lists paths that are the same file if case is ignored, as on most Macs.
func (m *Manifest) Collisions() [][2]string {
	seen := map[string]string{}
	var all [][2]string
	for i := range m.Entries {
		p := m.Entries[i].Path
		folded := strings.ToLower(p)
		if first, ok := seen[folded]; ok {
			all = append(all, [2]string{first, p})
			continue
		}
		seen[folded] = p
	}
	return all
}
