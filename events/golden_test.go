package events

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"millrace/internal/testkit"
)

// factCorpus holds facts of each type: with every field of a version, and with the fewest.
const factCorpus = "testdata/corpus/fact"

// golden are today's facts of the corpus, by name.
func golden() map[string]Fact {
	all := map[string]Fact{}
	for typ, f := range full() {
		all[string(typ)] = f
	}
	for typ, f := range minimal() {
		all[string(typ)+".min"] = f
	}
	return all
}

// corpusFacts are all facts of the corpus, in the order of the names of their files.
func corpusFacts(t testing.TB) (texts [][]byte) {
	t.Helper()
	files, err := filepath.Glob(factCorpus + "/v*/*.json")
	if err != nil || len(files) < 2*len(Types) {
		t.Fatalf("%d facts of %d types, error %v", len(files), len(Types), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return texts
}

// Every fact ever written can be read, and rewritten unchanged.
func TestFactCorpus(t *testing.T) {
	today := map[string][]byte{}
	for name, fact := range golden() {
		text, err := Encode(nil, &fact)
		if err != nil {
			t.Fatal(err)
		}
		read, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read, fact) {
			t.Errorf("decoded\n%+v\nwant\n%+v", read, fact)
		}
		today[name+".json"] = append(text, '\n')
	}
	if len(today) != 2*len(Types) {
		t.Errorf("%d examples of %d types, want two of each", len(today), len(Types))
	}
	testkit.Test(t, testkit.Form{
		Dir: factCorpus, Version: Version, Today: today, Unknown: testkit.Kept, Next: nextVersion,
		Again: func(written []byte) ([]byte, error) {
			fact, err := Decode(bytes.TrimSpace(written))
			if err != nil {
				return nil, err
			}
			unknown := slices.DeleteFunc(slices.Collect(maps.Keys(fact.Extra)), func(name string) bool { return strings.HasSuffix(name, "_to_come") })
			if fact.Event == nil || len(unknown) > 0 {
				return nil, fmt.Errorf("of %s nobody knows the event %v or the fields %v", fact.Type, fact.Event, unknown)
			}
			text, err := Encode(nil, &fact)
			return append(text, '\n'), err
		},
	})
}

// nextVersion is a fact as a later version may write it.
func nextVersion(text []byte, version int) []byte {
	return bytes.Replace(text, fmt.Appendf(nil, `"v":%d`, Version), fmt.Appendf(nil, `"v":%d`, version), 1)
}
