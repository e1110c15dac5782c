package job

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"millrace/task/param"
)

func TestTriggers(t *testing.T) {
	for name, c := range map[string]struct {
		on   Handlers
		want string
	}{
		"another job":           {Handlers{Job: "extract"}, ""},
		"certain ends":          {Handlers{Job: "extract", Ends: []string{"error", "abnormal"}}, ""},
		"itself":                {Handlers{Job: "load"}, "on.job is the job itself, which would never come to an end"},
		"no job":                {Handlers{Ends: []string{"error"}}, "on.ends says which ends of another job count; set on.job"},
		"a long condition":      {Handlers{Job: "extract", When: strings.Repeat("x", 1001)}, "on.when has 1001 bytes, want at most 1000"},
		"another state":         {Handlers{Job: "extract", Ends: []string{"running"}}, `on.ends: "running" is none of finished, error, cancelled, abnormal`},
		"messages":              {Handlers{Subject: "orders.*.>"}, ""},
		"a stream":              {Handlers{Stream: "ORDERS"}, ""},
		"some of a stream":      {Handlers{Stream: "ORDERS", Subject: "*.created"}, ""},
		"messages and a job":    {Handlers{Job: "extract", Subject: "orders"}, ""},
		"an empty word":         {Handlers{Subject: "orders..x"}, `on.subject is "orders..x", want words with dots between them, of which * is any and a last > is all that follow`},
		"a space":               {Handlers{Subject: "or ders"}, `on.subject is "or ders", want words with dots between them, of which * is any and a last > is all that follow`},
		"all in the middle":     {Handlers{Subject: "a.>.b"}, `on.subject is "a.>.b", want words with dots between them, of which * is any and a last > is all that follow`},
		"everything":            {Handlers{Subject: ">"}, `on.subject is ">", which takes what is not meant for jobs; begin it with a word, or set stream`},
		"Millrace's own":        {Handlers{Subject: "mr.queue.>"}, `on.subject is "mr.queue.>", and mr is for Millrace or NATS itself; choose another one`},
		"the server's":          {Handlers{Subject: "$JS.EVENT.>", Stream: "S"}, `on.subject is "$JS.EVENT.>", and $JS is for Millrace or NATS itself; choose another one`},
		"answers":               {Handlers{Subject: "_INBOX_me.>"}, `on.subject is "_INBOX_me.>", and _INBOX_me is for Millrace or NATS itself; choose another one`},
		"no stream":             {Handlers{Stream: "a.b"}, `on.stream is "a.b", which is no name of a stream`},
		"the log":               {Handlers{Stream: "MR_LOG"}, "on.stream is MR_LOG, which is Millrace's own; for its events there are job and notify"},
		"copies of definitions": {Handlers{Stream: "KV_MR_DEFS"}, "on.stream is KV_MR_DEFS, which is Millrace's own; for its events there are job and notify"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := c.on.validateTriggers("load"); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	every := Handlers{Job: "extract"}
	if !every.Counts("finished") || every.Counts("error") {
		t.Error("without ends only those that finish count")
	}
}

func TestCircle(t *testing.T) {
	after := map[string]string{"a": "b", "b": "c", "c": "b", "d": "e", "e": "", "f": "f"}
	lost := errors.New("lost")
	for name, want := range map[string][]string{"a": nil, "b": {"b", "c", "b"}, "c": {"c", "b", "c"}, "d": nil, "e": nil, "f": {"f", "f"}, "g": nil} {
		got, err := Circle(name, func(name string) (string, error) { return after[name], nil })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s follows itself by %v (%v), want %v", name, got, err, want)
		}
	}
	if _, err := Circle("a", func(string) (string, error) { return "", lost }); !errors.Is(err, lost) {
		t.Errorf("a job that cannot be read: %v", err)
	}
}

// A trigger that gives a parameter no value would make no task, ever. What an earlier version has stored stays.
func TestUngiven(t *testing.T) {
	for name, c := range map[string]struct {
		on    Handlers
		param param.Param
		want  string
	}{
		"of the end":      {Handlers{Job: "extract"}, param.Param{Name: "state"}, ""},
		"all of the end":  {Handlers{Job: "extract"}, param.Param{Name: "payload"}, ""},
		"optional":        {Handlers{Job: "extract"}, param.Param{Name: "customer", Optional: true}, ""},
		"with a default":  {Handlers{Job: "extract"}, param.Param{Name: "customer", Default: []byte("1")}, ""},
		"of a message":    {Handlers{Subject: "orders"}, param.Param{Name: "customer"}, ""},
		"not of an end":   {Handlers{Job: "extract"}, param.Param{Name: "customer"}, "params[0].default is missing: the ends of job extract give it no other value"},
		"of the file":     {Handlers{File: "/in/*"}, param.Param{Name: "size"}, ""},
		"not of the file": {Handlers{File: "/in/*"}, param.Param{Name: "state"}, "params[0].default is missing: the files of the job give it no other value"},
	} {
		j := Job{Name: "load", Spec: Spec{Handler: "h", On: &c.on}}
		j.Params.Declared = []param.Param{c.param}
		got := ""
		if err := j.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if err := j.ValidateStored(); err != nil {
			t.Errorf("%s, stored: %v", name, err)
		}
	}
}
