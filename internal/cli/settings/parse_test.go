package settings

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/term"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

func TestParseParams(t *testing.T) {
	file := filepath.Join(t.TempDir(), "params.json")
	if err := os.WriteFile(file, []byte(`{"a":1,"b":[true]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		whole string
		each  []string
		want  string // as an ad-hoc task has them
	}{
		"none":            {"", nil, `null`},
		"values":          {"", []string{"n=3", "f=1.50", "t=true", "o={\"x\":null}", "s=World", "q=\"3\"", "e=", "eq=a=b", "z=null"}, `{"n":3,"f":1.50,"t":true,"o":{"x":null},"s":"World","q":"3","e":"","eq":"a=b","z":null}`},
		"not quite JSON":  {"", []string{"a={x}", "b=01", "c=NaN", "d=\xff"}, `{"a":"{x}","b":"01","c":"NaN","d":"\ufffd"}`},
		"whole, then one": {`{"a":1,"b":2}`, []string{"b=3"}, `{"a":1,"b":3}`},
		"file":            {"@" + file, nil, `{"a":1,"b":[true]}`},
		"stdin":           {"-", nil, `{"in":1}`},
		"lines":           {"# of the crawl\nn=3\nname='World of \"x\"' # 1\n\nlist=[1,2]\nempty=\nhash=$2y$10$f\\n\r\nq=\"3\"\n", []string{"n=4"}, `{"n":4,"name":"'World of \"x\"' # 1","list":[1,2],"empty":"","hash":"$2y$10$f\\n","q":"3"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := birth.Submission{Spec: &job.Spec{Handler: "h"}}
			var err error
			if s.Params, s.Texts, err = Params(c.whole, c.each, strings.NewReader(`{"in":1}`)); err != nil {
				t.Fatal(err)
			}
			birth, err := birth.Of(s, nil, 0, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(birth.Params)
			var a, b any
			if json.Unmarshal(text, &a) != nil || json.Unmarshal([]byte(c.want), &b) != nil {
				t.Fatal("not JSON")
			}
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			if string(x) != string(y) {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
	for _, c := range [][]string{{"[]"}, {"null"}, {"{"}, {"{a=1}"}, {"just words"}, {"# nothing"}, {"=x"}, {"n=\xff"}, {"export n=1"}, {"a: 1"}, {"@/none/such"}, {"", "novalue"}, {"", "=x"},
		{"", "a=1", "a=2"}, {"", "a=1", "b=", "a=1"}, {"a=1\nb=2\na=3\n"}, {`{"a":1,"a":1}`}} {
		if values, texts, err := Params(c[0], c[1:], strings.NewReader("")); err == nil {
			t.Errorf("Params(%q) = %s, %s, want an error", c, values, texts)
		}
	}
}

// A number of 0 is refused where it would silently mean the default, and a duration has one grammar.
func TestNumberFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--burst=3 --for=1d12h": "", "--burst=0": `"0" is too small: want 1 or more`, "--burst=x": "whole number", "--for=1x": "is no duration", "--for=-1d": "negative",
		"--text=": "--text has an empty value", "--params=": "", "--list=": "--list has an empty value", "--list=a --list=": "--list has an empty value", "--slice=": "--slice has an empty value",
	} {
		burst, long := 1, time.Hour
		c := &cobra.Command{Use: "x", PersistentPreRunE: NoBlanks, RunE: func(*cobra.Command, []string) error { return nil }, SilenceUsage: true, SilenceErrors: true}
		c.SetFlagErrorFunc(FlagError)
		Count(c.Flags(), &burst, "burst", "", "")
		Period(c.Flags(), &long, "for", "")
		for _, name := range []string{"text", "params"} {
			c.Flags().String(name, "", "")
		}
		c.Flags().StringArray("list", nil, "")
		c.Flags().StringSlice("slice", nil, "")
		c.SetArgs(strings.Fields(args))
		err := c.Execute()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || term.FaultOf(err).Code != term.ExitUsage) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		if want == "" && args == "--burst=3 --for=1d12h" && (burst != 3 || long != 36*time.Hour) {
			t.Errorf("%s: %d, %v", args, burst, long)
		}
	}
	if r, err := ParseRate("5/0s"); err == nil {
		t.Errorf("5/0s is a rate: %+v", r)
	}
}

// A name has one value: a second one would replace the first without a word.
func TestNamesOnce(t *testing.T) {
	for want, err := range map[string]error{
		"--env A is there twice":       second(Pairs("env", []string{"A=1", "B=1", "A=2"})),
		"--label zone is there twice":  second(Labels([]string{"zone=eu", "gpu=a", "zone=us"})),
		`queue "crawl" is there twice`: third(Weights([]string{"crawl=3", "default", "crawl=5"})),
		"--param a is there twice":     third(Params("", []string{"a=1", "a=2"}, nil)),
		"--params: a is there twice":   third(Params("a=1\na=2", nil, nil)),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

func TestParseStates(t *testing.T) {
	got, err := States([]string{"error, abnormal", "pending"})
	if want := []task.State{task.Error, task.Abnormal, task.Pending}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, name := range []string{"active", "ended"} {
		got, err := States([]string{name})
		if err != nil || len(got) == 0 {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		for _, s := range got {
			if s.Terminal() != (name == "ended") {
				t.Errorf("%s holds %s", name, s)
			}
		}
	}
	if _, err := States([]string{"unknown"}); err == nil {
		t.Error("a task is never unknown, so nobody can ask for that")
	}
}

// Flags that exclude each other are a usage error, in plain words whatever cobra's are.
func TestTogether(t *testing.T) {
	c := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }, SilenceUsage: true, SilenceErrors: true}
	for _, name := range []string{"at", "watch", "all"} {
		c.Flags().Bool(name, false, "")
	}
	c.MarkFlagsMutuallyExclusive("at", "watch", "all")
	c.SetArgs([]string{"--watch", "--at"})
	err := Together(c.Execute())
	if f := term.FaultOf(err); f == nil || f.Code != term.ExitUsage || f.Error() != "--at and --watch exclude each other" {
		t.Errorf("%v", err)
	}
	other := errors.New("other")
	if Together(nil) != nil || !errors.Is(Together(other), other) {
		t.Error("it is another error now")
	}
}
