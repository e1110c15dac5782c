package jobfile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/internal/testkit"
	"millrace/task/jobfile"
)

// valid and invalid are folders of testdata.
const valid, invalid = "corpus/jobfile/v1", "invalid"

// samples returns the files of a folder of testdata by name.
func samples(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples in testdata/%s (%v)", folder, err)
	}
	all := map[string][]byte{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(f)] = data
	}
	return all
}

// Every valid job file of the past gives the same jobs as ever.
func TestJobfileCorpus(t *testing.T) {
	testkit.Test(t, testkit.Form{Dir: "testdata/corpus/jobfile", Version: 1, Results: true, Again: func(written []byte) ([]byte, error) {
		jobs, err := jobfile.Parse("file", written)
		if err != nil {
			return nil, err
		}
		var got bytes.Buffer
		e := json.NewEncoder(&got)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(jobs)
		return got.Bytes(), err
	}})
}

// TestParseInvalid expects for each file of testdata/invalid exactly the problems in its "# want:"
// lines, in the order of lines.
func TestParseInvalid(t *testing.T) {
	for name, data := range samples(t, invalid) {
		t.Run(name, func(t *testing.T) {
			var want []string
			for l := range strings.Lines(string(data)) {
				if w, ok := strings.CutPrefix(l, "# want: "); ok {
					want = append(want, name+":"+strings.TrimSuffix(w, "\n"))
				}
			}
			jobs, err := jobfile.Parse(name, data)
			if err == nil || jobs != nil {
				t.Fatalf("read %d jobs, error %v; want no jobs and problems", len(jobs), err)
			}
			if got := err.Error(); got != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		})
	}
}

func TestParseRefusesWhatIsNoJobFile(t *testing.T) {
	const ok = "name: a\nrun: x\n"
	nested := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	for _, test := range []struct {
		given string
		data  string
		want  string
	}{
		{"nothing", "", "f:1:1: the file is empty: a job needs at least `name` and `run`"},
		{"comments only", "# a\n---\n# b\n", "f:1:1: the file is empty: a job needs at least `name` and `run`"},
		{"bytes that are no text", "name: a\nrun: x\xff\n", "f:2:7: this is not UTF-8 text"},
		{"a control character", "name: a\x00\n", `f:1:8: the control character U+0000 cannot be in a file; in double quotes it is written "\x00"`},
		{"an open bracket", "name: [a\n", "f:1:7: a list that begins with [ is not closed: write ], or put the text in quotes"},
		{"an error in the second document", ok + "---\nname: b: c\n", "f:4:7: a colon before a space ends the name of a field: put text with one in quotes, or correct the indentation"},
		{"a name twice in a mapping", "name: a\nrun: x\nname: b\n", "f:3:1: field `name` is set twice, first on line 1"},
		{"a name twice further down", ok + "params:\n  p: {q: 1, \"q\": 2}\n", "f:4:13: field `params.p.q` is set twice, first on line 4"},
		{"declarations that are no list", ok + "params: {n: {type: integer, min: 1}, of: {type: car}, to: {enum: [a]}, k: {secret: true}}\n",
			"f:3:10: params.n: this would be the default value, and reads like a declaration: declare parameters in a list, such as params: [{name: n, …}]\n" +
				"f:3:55: params.to: this would be the default value, and reads like a declaration: declare parameters in a list, such as params: [{name: to, …}]\n" +
				"f:3:72: params.k: this would be the default value, and reads like a declaration: declare parameters in a list, such as params: [{name: k, …}]"},
		{"a job twice", ok + "---\n" + ok, "f:4:1: job name \"a\" is used twice in this file, first on line 1"},
		{"content after the end of a document", ok + "...\ngarbage\n", "f:4:1: want a job's fields (several jobs are separated by lines of ---), got text \"garbage\""},
		{"content after an empty document", "---\n---\nnam: 1\n", "f:3:1: unknown field `nam`: did you mean `name`?\nf:3:1: name is missing: a job needs one"},
		{"a step that is not there", "name: a\nsteps:\n- {name: b, run: x}\n- name: c\n  run: x\n  needs: [b, d]\n", `f:6:3: steps[1].needs: there is no step "d"`},
		{"steps in a circle", "name: a\nsteps:\n- {name: b, run: x, needs: c}\n- {name: c, run: x, needs: b}\n", `f:3:21: steps[0].needs: the steps wait for each other: b needs c needs b`},
		{"a misspelt field of a step", "name: a\nsteps:\n- {name: b, run: {shel: x}, retris: 1}\n", "f:3:19: unknown field `steps[0].run.shel`: did you mean `steps[0].run.shell`?\nf:3:29: unknown field `steps[0].retris`: did you mean `steps[0].retry`?"},
		{"an unknown anchor", ok + "title: *t\n", "f:3:8: title: no value before this one has the YAML anchor &t: put text that begins with * in quotes"},
		{"a value that holds itself", ok + "params: &p {a: *p}\n", "f:3:16: params.a: no value before this one has the YAML anchor &p: put text that begins with * in quotes"},
		{"two anchors", ok + "title: &a &b x\n", "f:3:11: a value has two YAML anchors"},
		{"a merge of text", ok + "env: &e x\nparams: {<<: *e}\n", "f:3:1: unknown field `env`: did you mean `run.env`?\nf:4:10: params: << merges mappings only, got text \"x\""},
		{"a tag", ok + "title: !!str 5\n", "f:3:8: the YAML tag !!str is not supported: put text that begins with ! in quotes"},
		{"a complex key", ok + "? [a]\n: b\n", "f:3:1: the YAML key indicator ? is not supported: put a key that begins with it in quotes"},
		{"a tab that would be dropped", ok + "title: a\tb\n", "f:3:8: text with a tab in it has to be in quotes"},
		{"text beside a block's sign", ok + "title: | a", "f:3:8: after | the text begins on the next line"},
		{"a pair that would be a mapping", "name: a\nrun: {argv: [x, 80:80]}\n", "f:2:19: write a space after this colon, or put the text in quotes"},
		{"a field without its space", ok + "labels: {a:b}\n", "f:3:11: write a space after this colon, or put the text in quotes"},
		{"a list item without a value", ok + "params:\n  list:\n  -\n  next: 1\n", "f:5:3: the list item is empty: write ~ for nothing"},
		{"a list item at the end", ok + "params:\n  list:\n  - # nothing", "f:5:3: the list item is empty: write ~ for nothing"},
		{"a directive", "%YAML 1.2\n---\n" + ok, "f:1:1: YAML directives are not supported: put text that begins with % in quotes"},
		{"deep brackets", ok + "params: {p: " + nested + "}\n", "f:3:76: lists and mappings nest deeper than 64 levels"},
		{"deep dashes", ok + "params:\n  p:\n    " + strings.Repeat("- ", 65) + "x\n", "f:5:133: lists and mappings nest deeper than 64 levels"},
		{"a number JSON has not", ok + "params: {a: .inf, b: .NaN, c: -.INF}\n", "f:3:10: params.a: JSON has no number .inf: put it in quotes for text\n" +
			"f:3:19: params.b: JSON has no number .NaN: put it in quotes for text\n" + "f:3:28: params.c: JSON has no number -.INF: put it in quotes for text"},
		{"a number that reads in two ways", ok + "params: {zip: [01234]}\n", "f:3:16: params.zip[0]: the number 01234 begins with 0: put it in quotes for text, or drop the 0"},
		{"numbers no setting can have", ok + "retry: {max: 1e400, jitter: 007}\n", "f:3:9: retry.max: want a whole number up to 2147483647, got the number 1e400\n" +
			"f:3:21: retry.jitter: the number 007 begins with 0: put it in quotes for text, or drop the 0"},
		{"a number beyond 64 bits", ok + "params: {x: 0x10000000000000000}\n", "f:3:10: params.x: the number 0x10000000000000000 is too large: put it in quotes for text"},
	} {
		t.Run(test.given, func(t *testing.T) {
			_, err := jobfile.Parse("f", []byte(test.data))
			if err == nil || err.Error() != test.want {
				t.Errorf("got\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

// TestParseBounds parses files that would take long or use much memory. The refusal must name the
// bound.
func TestParseBounds(t *testing.T) {
	const ok = "name: a\nrun: x\n"
	bomb := ok + "params:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := '1'; i <= '9'; i++ {
		last := "*a" + string(i-1)
		bomb += "  a" + string(i) + ": &a" + string(i) + " [" + strings.Repeat(last+", ", 9) + last + "]\n"
	}
	deep := ok + "params:\n  a: &a " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n  b: " + strings.Repeat("[", 40) + "*a" + strings.Repeat("]", 40) + "\n"
	stairs := ok + "params:\n"
	for i := range 80 {
		stairs += strings.Repeat(" ", i+1) + "a:\n"
	}
	for _, test := range []struct {
		given, data, want string
	}{
		{"a large file", strings.Repeat("#", 1<<20+1), "the file has 1048577 bytes, want 1048576 at most"},
		{"an alias bomb", bomb, "larger than 1048576 bytes"},
		{"depth by aliases", deep, "nest deeper than 64 levels"},
		{"depth by indentation", stairs, "nest deeper than 64 levels"},
		{"depth by brackets", ok + "params: " + strings.Repeat("[", 1<<19), "nest deeper than 64 levels"},
		{"many fields", ok + strings.Repeat("a: b\n", 1<<17), "more than 4000 fields"},
		{"a long name", ok + strings.Repeat("k", 2000) + ": b\n", "has a name of 2000 bytes, want 1024 at most"},
		{"many anchors", ok + "title: " + strings.Repeat("&a ", 1<<18), "two YAML anchors"},
		{"many fields without a value", ok + "labels: {" + strings.Repeat("k, ", 1<<17) + "}\n", "more than 4000 fields"},
		{"many problems", ok + strings.Repeat("k:\n", 500), "400 more problems are not shown"},
	} {
		t.Run(test.given, func(t *testing.T) {
			_, err := jobfile.Parse("f", []byte(test.data))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %.300v\nwant %s", err, test.want)
			}
		})
	}
}

func TestParseFindsPositionsAfterAnyConstruct(t *testing.T) {
	const given = "\ufeff# comment\r\n" +
		"name: \"a\\\n  b\"\r\n" + // 2: quoted over two lines
		"title: plain\r\n  over two\r\n" + // 4
		"description: |+\r\n  é\r\n\r\n" + // 6
		"owner: >-\r\n  a\r\n\r\n  b # no comment\r\n" + // 9
		"labels: {\r\n  'é': [],\r\n  b: []\r\n}\r\n" + // 13
		"run: [a,\r\n  [b]]\r\n" + // 17
		"nope: 1\r\n" // 19
	_, err := jobfile.Parse("f", []byte(given))
	var problems jobfile.Errors
	if !errors.As(err, &problems) {
		t.Fatalf("got %v, want problems", err)
	}
	type at struct {
		path         string
		line, column int
	}
	var got []at
	for _, p := range problems {
		got = append(got, at{p.Path, p.Line, p.Column})
	}
	want := []at{{"labels.é", 14, 3}, {"labels.b", 15, 3}, {"run[1]", 18, 3}, {"nope", 19, 1}}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v\n%v", got, want, err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
}

func TestErrorsUnwrap(t *testing.T) {
	_, err := jobfile.Parse("hello.yaml", []byte("name: a\nrun: x\ntimout: 1s\n"))
	var p jobfile.Problem
	if !errors.As(err, &p) {
		t.Fatalf("got %v, want a Problem in it", err)
	}
	if want := "hello.yaml:3:1: unknown field `timout`: did you mean `timeout`?"; p.Error() != want {
		t.Errorf("got %s, want %s", p, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, folder := range []string{valid, invalid} {
		for _, data := range samples(f, folder) {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		jobs, err := jobfile.Parse("f", data)
		if (len(jobs) > 0) == (err != nil) {
			t.Fatalf("%d jobs and error %v", len(jobs), err)
		}
		lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + 1
		var problems jobfile.Errors
		if err != nil && !errors.As(err, &problems) {
			t.Fatalf("the error is a %T", err)
		}
		for _, p := range problems {
			if p.Message == "" || p.Line < 0 || p.Line > lines {
				t.Errorf("%+v in a file of %d lines", p, lines)
			}
		}
		for _, j := range jobs {
			if err := j.Validate(); err != nil {
				t.Errorf("read an invalid job: %v", err)
			}
			if _, err := jobfile.Marshal(j); err != nil {
				t.Errorf("cannot write what was read: %v", err)
			}
		}
	})
}

// A file of which one job is wanted has no other, and its job has the wanted name.
func TestParseOne(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"", "name: a\nrun: x\n", ""},
		{"a", "name: a\nrun: x\n---\n", ""},
		{"b", "run: x\nname: a\n", "2:1: name is that of another job: to rename b, store it as a new job and remove the old one"},
		{"a", "name: a\nrun: x\n---\nname: b\nrun: x\n", "4:1: another job begins here: want one job"},
		{"a", "run: x\nrun: y\n", "1:1: name is missing: a job needs one\n2:1: field `run` is set twice, first on line 1"},
		{"a", "", "1:1: the file is empty"},
	} {
		is, err := jobfile.ParseOne(c.name, []byte(c.text))
		if c.want == "" && (err != nil || is.Name != "a") || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%q: job %q, %v, want %q", c.text, is.Name, err, c.want)
		}
	}
}
