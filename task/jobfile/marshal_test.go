package jobfile_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"millrace/internal/testkit"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/param"
)

func TestMarshalReadsBack(t *testing.T) {
	for name, data := range samples(t, valid) {
		t.Run(name, func(t *testing.T) {
			jobs, err := jobfile.Parse(name, data)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range jobs {
				written, err := jobfile.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				got, err := jobfile.Parse(want.Name, written)
				if err != nil {
					t.Fatalf("%v in\n%s", err, written)
				}
				if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
					t.Errorf("got %+v\nwant %+v\nfrom\n%s", got, want, written)
				}
			}
		})
	}
}

// TestMarshalForm pins the form for people: fields in the order of the manual,
// quotes only where they are needed, text of several lines as a block.
func TestMarshalForm(t *testing.T) {
	data, err := os.ReadFile("testdata/marshal.json")
	if err != nil {
		t.Fatal(err)
	}
	var job job.Job
	if err := json.Unmarshal(data, &job); err != nil {
		t.Fatal(err)
	}
	got, err := jobfile.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Result(t, "testdata/marshal.yaml", got)
}

func TestMarshalRefusesWhatAFileCannotHold(t *testing.T) {
	shell := job.Spec{Run: &job.Run{Shell: "x"}}
	for _, test := range []struct {
		given string
		job   job.Job
		want  string
	}{
		{"no name", job.Job{Spec: shell}, "job name"},
		{"nothing to run", job.Job{Name: "a"}, "nothing to run"},
		{"params that are no JSON", job.Job{Name: "a", Spec: shell, Params: param.Params{Defaults: map[string]json.RawMessage{"p": json.RawMessage("{")}}}, "write job a"},
		{"params too deep", job.Job{Name: "a", Spec: shell, Params: param.Params{Defaults: map[string]json.RawMessage{
			"p": json.RawMessage(strings.Repeat("[", 99) + strings.Repeat("]", 99))}}}, "nest deeper"},
	} {
		t.Run(test.given, func(t *testing.T) {
			got, err := jobfile.Marshal(test.job)
			if err == nil || got != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, error %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

// FuzzMarshal puts text into every kind of field and expects it back.
func FuzzMarshal(f *testing.F) {
	for _, s := range []string{
		"", " ", "a", "yes", "null", "~", "1.10", "007", "0x1f", "1e3", "-", "- a", "? a", "a: b", "a #b", "#", "a:", ":a", "[", "{a}", "*a", "&a", "!a", "%a", "@a", "`",
		"'", `"`, `\`, "it's", "a\tb", "\ta", "a\n", "a\nb", "a\nb\n", "a\n\nb\n", "a\n\n", "\na", " a\nb", "a \nb", "a\n  b\n c", "a\n---\nb", "---", "...", "a\r\nb", "\x00", "\x1b[0m",
		"é", "\u2028", "\ufeff", "\u0085", "😀", "\U000e0001", "<<", "$HOME/bin", "https://a.example/?b=c#d", "echo \"$A\" | wc -l", "a, b", "=", "|", ">", "2026-01-31", "12:30", "<&>",
	} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		// JSON, in which jobs are stored, holds only valid text.
		a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
		given, err := json.Marshal(map[string]any{"k" + a: []any{b, map[string]string{b: a}}, "l": a})
		if err != nil {
			t.Fatal(err)
		}
		want := job.Job{
			Name: "a", Title: a, Description: b, Owner: a, Group: b,
			Labels: map[string]string{"l" + a: b},
			Params: param.Params{Defaults: map[string]json.RawMessage{"p": given, a: json.RawMessage("1E5")}},
			Spec: job.Spec{Run: &job.Run{
				Argv: []string{"x" + a, b, a}, Dir: b,
				Env: map[string]string{"E" + a: b},
			}},
		}
		if len(a) > 1000 || len(b) > 1000 || want.Validate() != nil {
			return // a file cannot hold this
		}
		written, err := jobfile.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := jobfile.Parse("f", written)
		if err != nil {
			t.Fatalf("%v in\n%s", err, written)
		}
		if !reflect.DeepEqual(got[0], want) {
			t.Errorf("got %+v\nwant %+v\nfrom\n%s", got[0], want, written)
		}
	})
}
