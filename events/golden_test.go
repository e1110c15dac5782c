package events

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew; look at what changes, for others read them")

// golden are the examples in testdata, by name.
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

func TestGolden(t *testing.T) {
	for name, fact := range golden() {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".json")
			got, err := Encode(nil, &fact)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v\ngo test -run Golden -update writes it", err)
			}
			if want = bytes.TrimSpace(want); !bytes.Equal(got, want) {
				t.Errorf("the form on the wire has changed. Now\n%s\nwas\n%s", got, want)
			}
			read, err := Decode(want)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(read, fact) {
				t.Errorf("decoded\n%+v\nwant\n%+v", read, fact)
			}
		})
	}
}

// No example is left over from a type that is gone, and no type is without.
func TestGoldenIsComplete(t *testing.T) {
	examples, files := golden(), 0
	entries, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range entries {
		files++
		if _, ok := examples[filepath.Base(path[:len(path)-len(".json")])]; !ok {
			t.Errorf("%s is an example of nothing", path)
		}
	}
	if want := 2 * len(Types); files != want || len(examples) != want {
		t.Errorf("%d files and %d examples for %d types, want two of each", files, len(examples), len(Types))
	}
	for typ := range formByType {
		if _, ok := examples[string(typ)]; !ok {
			t.Errorf("there is no example of %s", typ)
		}
	}
}
