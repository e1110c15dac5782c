package testkit

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var add = flag.Bool("corpus", false, "add to the corpora what is written today and is not there yet; nothing that is there changes")

// Form is a form that one version writes and another one reads.
type Form struct {
	// Dir is the folder that holds v1, v2 and so on.
	Dir string
	// Version is the version written today.
	Version int
	// Today is today's output, by names of files. Nil if people write the form, not Millrace.
	Today map[string][]byte
	// Again reads what any version wrote and writes what it has read.
	Again func(written []byte) ([]byte, error)
	// Results says that Again returns something other than the form. Its output for a file is then
	// stored beside the file, as for every file of an older version.
	Results bool
	// Unknown is what happens to a field that a reader does not know.
	Unknown Fate
	// Next turns written data into what a later version, with the given number, may write. Reading
	// must refuse it and name both versions. Nil if readers cannot tell.
	Next func(written []byte, version int) []byte
}

// Fate is what happens to a field that a reader does not know.
type Fate uint8

// The fates. None is for forms without fields.
const (
	None    Fate = iota
	Dropped      // it is ignored
	Kept         // it is written again with the rest
	Refused      // the whole is refused
)

// suffix names the file with what was read from another file.
const suffix = ".read"

// Test tests a form, and adds to its corpus with the flag -corpus.
func Test(t *testing.T, f Form) {
	t.Helper()
	if *add {
		if err := f.add(); err != nil {
			t.Fatal(err)
		}
	}
	problems, err := f.problems()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// Latest returns the file that was added last under a name, for the present version.
func Latest(dir string, version int, name string) ([]byte, error) {
	f := Form{Dir: dir, Version: version}
	var last []byte
	for n := 1; ; n++ {
		text, err := os.ReadFile(filepath.Join(f.folder(version), numbered(name, n)))
		if errors.Is(err, fs.ErrNotExist) && n > 1 {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		last = text
	}
}

func (f *Form) folder(version int) string {
	return filepath.Join(f.Dir, "v"+strconv.Itoa(version))
}

// numbered is the name of the n-th file added under a name.
func numbered(name string, n int) string {
	if n == 1 {
		return name
	}
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + "." + strconv.Itoa(n) + ext
}

// files returns the files of a version by name, without what was read from them.
func (f *Form) files(version int) (map[string][]byte, error) {
	all := map[string][]byte{}
	entries, err := os.ReadDir(f.folder(version))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(f.folder(version), e.Name()))
		if err != nil {
			return nil, err
		}
		all[e.Name()] = text
	}
	return all, nil
}

// add adds what is missing: files of today's version, and what is read from any.
func (f *Form) add() error {
	for version := 1; version <= f.Version; version++ {
		if version == f.Version {
			if err := f.addToday(); err != nil {
				return err
			}
		}
		if version == f.Version && !f.Results {
			continue
		}
		files, err := f.files(version)
		if err != nil {
			return err
		}
		for name, written := range files {
			again, err := f.Again(written)
			if err == nil {
				err = create(filepath.Join(f.folder(version), name+suffix), again)
			}
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (f *Form) addToday() error {
	if err := os.MkdirAll(f.folder(f.Version), 0o755); err != nil {
		return err
	}
	files, err := f.files(f.Version)
	if err != nil {
		return err
	}
	for name, text := range f.Today {
		if f.has(files, name, text) {
			continue
		}
		n := 1
		for files[numbered(name, n)] != nil {
			n++
		}
		if err := create(filepath.Join(f.folder(f.Version), numbered(name, n)), text); err != nil {
			return err
		}
	}
	return nil
}

// create creates a file, which must not exist.
func create(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// has tells whether a text was added under a name.
func (f *Form) has(files map[string][]byte, name string, text []byte) bool {
	for n := 1; ; n++ {
		have, ok := files[numbered(name, n)]
		if !ok {
			return false
		}
		if bytes.Equal(have, text) {
			return true
		}
	}
}

// problems returns the faults of the form, in words.
func (f *Form) problems() (all []string, err error) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if _, err := os.Stat(f.folder(f.Version + 1)); err == nil {
		say("%s is there, but version %d is written", f.folder(f.Version+1), f.Version)
	}
	for version := 1; version <= f.Version; version++ {
		files, err := f.files(version)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			say("%s is empty. Files of a version stay for good; those of a new one are made by: go test -corpus", f.folder(version))
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			for _, p := range f.problemsOf(version, name, files[name]) {
				say("%s: %s", filepath.Join(f.folder(version), name), p)
			}
		}
		if version == f.Version {
			f.today(files, say)
		}
	}
	return all, nil
}

// today compares today's output with the stored one.
func (f *Form) today(files map[string][]byte, say func(format string, args ...any)) {
	if f.Today == nil {
		return
	}
	added := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(f.Today)) {
		if !f.has(files, name, f.Today[name]) {
			say("no %s in %s is what is written today:\n%s\nIf there is but a field more, or a file more, go test -corpus adds it. %s", name, f.folder(f.Version), f.Today[name], f.advice())
		}
		for n := 1; files[numbered(name, n)] != nil; n++ {
			added[numbered(name, n)] = true
		}
	}
	for name := range files {
		if !added[name] {
			say("nothing is written as %s in %s any more. %s", name, f.folder(f.Version), f.advice())
		}
	}
}

// advice explains how a form gets another version.
func (f *Form) advice() string {
	return fmt.Sprintf("What was written lies in logs and on disks, so it stays readable. If the form itself has to change: leave %s as it is; "+
		"make the version %d in the code; where it is read, turn what version %d wrote into the new form; run go test -corpus, "+
		"which makes %s and notes what is read of the older ones; say so in docs/forms.md.",
		f.folder(f.Version), f.Version+1, f.Version, f.folder(f.Version+1))
}

// problemsOf returns the faults of one file.
func (f *Form) problemsOf(version int, name string, written []byte) (all []string) {
	again, err := f.Again(bytes.Clone(written))
	if err != nil {
		return []string{fmt.Sprintf("it cannot be read any more: %v\n%s", err, f.advice())}
	}
	want, what := written, "written again"
	if f.Results || version < f.Version {
		if want, err = os.ReadFile(filepath.Join(f.folder(version), name+suffix)); err != nil {
			return []string{fmt.Sprintf("%v: go test -corpus notes what is read of it", err)}
		}
		what = "what is read of it"
	}
	if !bytes.Equal(again, want) {
		all = append(all, fmt.Sprintf("%s: %s\n%s", what, difference(again, want), f.advice()))
	}
	all = append(all, f.unknown(written, again)...)
	if f.Next != nil && version == f.Version {
		all = append(all, f.refusesNext(written)...)
	}
	return all
}

// unheard is a field that no version has.
const unheard = `"a_field_to_come":{"a":[1]}`

// later returns the text with another field at the end of each of its objects, one a line.
func later(written []byte) []byte {
	var b []byte
	for line := range bytes.Lines(written) {
		end := bytes.LastIndexByte(line, '}')
		if end < 0 {
			b = append(b, line...)
			continue
		}
		b = append(b, line[:end]...)
		if line[end-1] != '{' {
			b = append(b, ',')
		}
		b = append(b, unheard...)
		b = append(b, line[end:]...)
	}
	return b
}

func (f *Form) unknown(written, again []byte) []string {
	if f.Unknown == None {
		return nil
	}
	given := later(written)
	got, err := f.Again(bytes.Clone(given))
	switch {
	case f.Unknown == Refused && err == nil:
		return []string{fmt.Sprintf("an unknown field is to be refused, and came to\n%s", got)}
	case f.Unknown == Refused:
	case err != nil:
		return []string{fmt.Sprintf("with an unknown field it cannot be read: %v", err)}
	case f.Unknown == Kept && !bytes.Equal(got, given):
		return []string{fmt.Sprintf("an unknown field is to be kept: %s", difference(got, given))}
	case f.Unknown == Dropped && !bytes.Equal(got, again):
		return []string{fmt.Sprintf("an unknown field is to be passed over: %s", difference(got, again))}
	}
	return nil
}

// refusesNext checks that the next version's output is refused with both versions in the error.
func (f *Form) refusesNext(written []byte) []string {
	given := f.Next(bytes.Clone(written), f.Version+1)
	_, err := f.Again(bytes.Clone(given))
	if err == nil {
		return []string{fmt.Sprintf("it is not refused though it is of version %d", f.Version+1)}
	}
	for _, v := range []int{f.Version + 1, f.Version} {
		if !strings.Contains(err.Error(), strconv.Itoa(v)) {
			return []string{fmt.Sprintf("the refusal does not name version %d: %v", v, err)}
		}
	}
	return nil
}

// Result compares the results of a corpus with those stored in a file. The flag -corpus stores them
// if there is no such file. To change its content, first remove it by hand and examine the changes.
func Result(t *testing.T, path string, got []byte) {
	t.Helper()
	if *add {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = create(path, got)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -corpus notes it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("of the corpus something else follows than was noted in %s: %s\nOld logs must come to what they came to. If it is meant (a field was added, say), remove that file, "+
			"run go test -corpus, and read what has changed.", path, difference(got, want))
	}
}

// difference shows the first line in which two texts differ.
func difference(got, want []byte) string {
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		a, b := "(nothing)", "(nothing)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d is now\n%s\nwas\n%s", i+1, a, b)
		}
	}
	return ""
}
